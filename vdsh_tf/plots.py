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
    with files.replacing(path) as partial:
        figure.savefig(partial, dpi=130)
