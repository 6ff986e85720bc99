"""Pictures of a run."""

import numpy as np

from vdsh_tf import files


def convergence(residual, dual, path: str) -> None:
    """Draws residual and dual of every layer over the epochs.

    Args:
        residual, dual: [epochs, M], 0 where a layer slept.
        path: PNG file to write.
    """
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(9, 4), layout="constrained")
    colors = matplotlib.colormaps["viridis"]
    panels = figure.subplots(1, 2)
    titles = ("residual  |z - f|", "dual  beta |u|")
    for axes, title, values in zip(
        panels, titles, (residual, dual), strict=True
    ):
        values = np.asarray(values, dtype=float)
        epochs = np.arange(1, len(values) + 1)
        layers = values.shape[1]
        for m in range(layers):
            awake = values[:, m] > 0
            axes.plot(
                epochs[awake],
                values[awake, m],
                color=colors(m / max(1, layers - 1)),
                linewidth=1.2,
                marker="." if len(epochs) < 30 else None,
            )
        axes.set(title=title, xlabel="epoch", yscale="log")
        axes.grid(alpha=0.3)
    scale = matplotlib.cm.ScalarMappable(
        matplotlib.colors.Normalize(1, max(2, layers)), colors
    )
    figure.colorbar(scale, ax=panels, label="layer (1 is next to the input)")
    _save(figure, path)


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
    _save(figure, path)


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
    _save(figure, path)


def _picture(axes, row, image_shape, title, weight):
    image = np.asarray(row, dtype=float).reshape(image_shape)
    low, high = image.min(), image.max()
    image = (image - low) / max(high - low, 1e-12)
    if image.shape[-1] == 1:
        image = image[..., 0]
    axes.imshow(image, cmap="gray", vmin=0, vmax=1)
    axes.set_title(title, fontsize=7, fontweight=weight, pad=2)


def quality_over_time(groups: dict, path: str) -> None:
    """Draws mAP, P@r2 and R@r2 over training time, one line a method.

    Args:
        groups: for each title, one row of panels, the methods and of each a
            list of `benchmarks.quality.Point`.
        path: PNG file to write.
    """
    import matplotlib.figure

    figure = matplotlib.figure.Figure(
        figsize=(13, 4 * len(groups)), layout="constrained"
    )
    rows = figure.subfigures(len(groups), 1, squeeze=False)[:, 0]
    for row, (title, lines) in zip(rows, groups.items(), strict=True):
        row.suptitle(title)
        panels = row.subplots(1, 3)
        for axes, key, name in zip(
            panels,
            ("map", "precision_r2", "recall_r2"),
            ("mAP", "precision, radius 2", "recall, radius 2"),
            strict=True,
        ):
            _draw_quality(axes, lines, key)
            axes.set(title=name, xlabel="training time (s)")
        handles, labels = panels[0].get_legend_handles_labels()
        row.legend(handles, labels, loc="outside lower center", ncols=2)
    _save(figure, path)


def _draw_quality(axes, lines, key):
    for name, points in lines.items():
        axes.plot(
            [p.seconds for p in points],
            [getattr(p, key) for p in points],
            marker=".",
            label=name,
            linewidth=2.5 if name.startswith("VDSH") else 1.2,
        )
    axes.grid(alpha=0.3)
    top = max(getattr(p, key) for ps in lines.values() for p in ps)
    axes.set_ylim(max(0.0, top - 0.25), min(1.0, top + 0.01))


def cost(result: dict, path: str) -> None:
    """Draws the time of a step against depth and width.

    Args:
        result: for each line its `sizes`, `seconds` and `exponent`.
        path: PNG file to write.
    """
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    for name, line in result.items():
        axes = panels[0] if name.startswith("layers") else panels[1]
        axes.loglog(
            line["sizes"],
            [1e3 * s for s in line["seconds"]],
            marker="o",
            label=f"{name}: exponent {line['exponent']:.2f}",
        )
        axes.set_xticks(line["sizes"], labels=map(str, line["sizes"]))
        axes.minorticks_off()
    for axes, title in zip(panels, ("layers", "units a layer"), strict=True):
        axes.set(xlabel=title, ylabel="ms a step, batch 256")
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    _save(figure, path)


def _save(figure, path):
    with files.replacing(path) as partial:
        figure.savefig(partial, dpi=130)
