"""Pictures of a run: convergence, retrieval curves, neighbours."""

import numpy as np

from vdsh_tf import files


def convergence(residual, dual, path: str) -> None:
    """Draws residual and dual of every layer over the epochs.

    Args:
        residual, dual: [epochs, M], 0 where a layer was frozen.
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
            active = values[:, m] > 0
            axes.plot(
                epochs[active],
                values[active, m],
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
    save(figure, path)


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
