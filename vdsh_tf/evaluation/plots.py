"""Pictures of a run: convergence, retrieval curves, neighbours."""

import numpy as np

from vdsh_tf import files


def convergence(residual, progress: dict, path: str, dual=None) -> None:
    """Draws the residual of every layer, and what training achieves.

    Args:
        residual: [epochs, M], 0 where a layer was frozen.
        progress: [epochs] values by name: "objective", "accuracy", "val_map",
            or some of them; NaN where there is none.
        path: PNG file to write.
        dual: [epochs, M], for a panel of its own. Leave it out where it is
            a multiple of the residual, as it is in the online schedule.
    """
    import matplotlib.figure

    residual = np.asarray(residual, dtype=float)
    by_layer = {"residual  |z - f|": residual}
    if dual is not None:
        by_layer["dual  beta |u|"] = np.asarray(dual, dtype=float)
    count = len(by_layer) + 1
    figure = matplotlib.figure.Figure(
        figsize=(4.7 * count, 4), layout="constrained"
    )
    *panels, last = figure.subplots(1, count)
    for axes, (title, values) in zip(panels, by_layer.items(), strict=True):
        scale = _draw_layers(axes, values)
        axes.set(title=title)
        if (values > 0).any():
            axes.set_yscale("log")
        else:
            say_nothing(axes, "zero in every epoch")
    figure.colorbar(scale, ax=panels, label="layer (1 is next to the input)")
    _draw_progress(last, progress)
    for axes in (*panels, last):
        _mark_growth(axes, residual)
        axes.set(xlabel="epoch", xlim=(0.5, len(residual) + 0.5))
        if len(axes.get_xticks()):
            axes.locator_params(axis="x", integer=True)
        axes.grid(alpha=0.3)
    save(figure, path)


def _draw_layers(axes, values):
    """A line per layer; returns the colours for a colour bar."""
    import matplotlib

    colors = matplotlib.colormaps["viridis"]
    epochs = np.arange(1, len(values) + 1)
    layers = values.shape[1]
    for m in range(layers):
        active = values[:, m] > 0
        axes.plot(
            epochs[active],
            values[active, m],
            color=colors(m / max(1, layers - 1)),
            linewidth=1.2,
            marker=_marker(epochs),
        )
    return matplotlib.cm.ScalarMappable(
        matplotlib.colors.Normalize(1, max(2, layers)), colors
    )


def _draw_progress(axes, progress):
    """Objective at the left, and what lies between 0 and 1 at the right."""
    names = {"accuracy": "accuracy", "val_map": "validation mAP"}
    right = axes.twinx()
    lines = []
    for name, values in progress.items():
        values = np.asarray(values, dtype=float)
        epochs = np.arange(1, len(values) + 1)
        known = np.isfinite(values)
        if not known.any():
            continue
        side = right if name in names else axes
        lines += side.plot(
            epochs[known],
            values[known],
            color=f"C{len(lines)}",
            marker=_marker(epochs),
            label=names.get(name, name),
        )
    right.set_ylim(0, 1.02)
    right.set_ylabel("accuracy, mAP")
    axes.set(title="progress", ylabel="objective")
    if not lines:
        right.set_axis_off()
        say_nothing(axes)
        return
    axes.legend(handles=lines, loc="center right")


def _mark_growth(axes, residual):
    """Dotted lines where layers join."""
    active = (residual > 0).sum(axis=1)
    for epoch in np.flatnonzero(np.diff(active)) + 1:
        axes.axvline(epoch + 0.5, color="gray", linestyle=":", linewidth=1)
        axes.annotate(
            f"{active[epoch]} layers ",
            (epoch + 0.5, 0),
            xycoords=("data", "axes fraction"),
            xytext=(-2, 4),
            textcoords="offset points",
            rotation=90,
            fontsize=7,
            color="gray",
            ha="right",
        )


def say_nothing(axes, text: str = "nothing measured") -> None:
    """Says in a panel that there is nothing to draw, instead of empty axes."""
    axes.set(xticks=[], yticks=[])
    axes.text(
        0.5,
        0.5,
        text,
        transform=axes.transAxes,
        ha="center",
        va="center",
        color="gray",
    )


def _marker(epochs):
    return "." if len(epochs) < 30 else None


def retrieval_curves(curves: dict, path: str) -> None:
    """Draws precision over recall, and precision over rank.

    Args:
        curves: from `curves.retrieval_curves`.
        path: PNG file to write.
    """
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    rank, radius = curves["by_rank"], curves["by_radius"]
    left.plot(rank["recall"], rank["precision"], label="by rank")
    left.plot(
        radius["recall"],
        radius["precision"],
        ".--",
        label="by radius (an empty ball counts as 0)",
    )
    left.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02))
    left.legend(loc="lower left")
    right.plot(rank["k"], rank["precision"])
    right.set(xlabel="k", ylabel="precision at k", xscale="log")
    for axes in (left, right):
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
    save(figure, path)


def neighbors(queries, found, image_shape, captions, path: str) -> None:
    """Draws each query at the left of its neighbours.

    Args:
        queries: [n, d], rows that are pictures.
        found: n arrays [k_i, d], nearest first.
        image_shape: (height, width, channels) of a row.
        captions: n lists of k_i texts.
        path: PNG file to write.
    """
    import matplotlib.figure

    columns = 1 + max(1, *(len(rows) for rows in found))
    figure = matplotlib.figure.Figure(
        figsize=(1.1 * columns, 1.3 * len(queries)), layout="constrained"
    )
    grid = figure.subplots(len(queries), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for i, query in enumerate(queries):
        _picture(grid[i, 0], query, image_shape, f"query {i}", "bold")
        for j, (row, text) in enumerate(
            zip(found[i], captions[i], strict=True), start=1
        ):
            _picture(grid[i, j], row, image_shape, text, "normal")
        if not len(found[i]):
            say_nothing(grid[i, 1], "nothing found")
    save(figure, path)


def _picture(axes, row, image_shape, title, weight):
    image = np.asarray(row, dtype=float).reshape(image_shape)
    low, high = image.min(), image.max()
    image = (image - low) / max(high - low, 1e-12)
    if image.shape[-1] == 1:
        image = image[..., 0]
    axes.imshow(image, cmap="gray", vmin=0, vmax=1)
    axes.set_title(title, fontsize=7, fontweight=weight, pad=2)


def save(figure, path: str) -> None:
    """Writes a figure to a PNG file, atomically."""
    with files.replacing(path) as partial:
        figure.savefig(partial, dpi=130)
