"""Maps of points in the plane by t-SNE, and the separation of classes."""

import numpy as np

from vdsh_tf.research.reproduction import style

PERPLEXITY = 30


def embed(x: np.ndarray, seed: int) -> np.ndarray:
    """t-SNE: [n, d] -> [n, 2]."""
    from sklearn import manifold

    x = np.asarray(x, np.float64)
    tsne = manifold.TSNE(
        perplexity=min(PERPLEXITY, (len(x) - 1) / 3),
        init="pca",
        random_state=seed,
    )
    return tsne.fit_transform(_with_spread(x))


def describe(x: np.ndarray, y: np.ndarray, seed: int) -> dict:
    """A map with labels, and the separation of classes before mapping.

    Args:
        x: [n, d] features or bits.
        y: [n] labels.
        seed: of t-SNE.

    Returns:
        `map_x`, `map_y`, `label` of each point; `silhouette` of the classes
        in x, and `distinct` rows of x.
    """
    from sklearn import metrics

    plane = np.round(embed(x, seed), 2)
    return {
        "map_x": plane[:, 0].tolist(),
        "map_y": plane[:, 1].tolist(),
        "label": np.asarray(y).tolist(),
        "silhouette": float(metrics.silhouette_score(x, y)),
        "distinct": len(np.unique(np.asarray(x), axis=0)),
    }


def draw(panels: dict[str, dict | None], folder: str, name: str) -> str:
    """Draws maps side by side; a missing one is marked."""
    figure = style.new_figure(3.3 * len(panels), 3.9)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    full = grid[0]
    for axes, (title, result) in zip(grid, panels.items(), strict=True):
        axes.set_title(title, fontsize=11)
        axes.set_xticks([])
        axes.set_yticks([])
        if result is None:
            style.mark_missing(axes)
            continue
        scatter(axes, result)
        full = axes
        axes.set_xlabel(f"silhouette {result['silhouette']:.2f}")
    style.legend(figure, full, 10, title="class", markerscale=2.5)
    return style.save(figure, folder, name)


def scatter(axes, result) -> None:
    """Draws one map."""
    label = np.array(result["label"])
    classes = np.unique(label)
    colors = style.class_colors(len(classes))
    x, y = np.array(result["map_x"]), np.array(result["map_y"])
    for c, color in zip(classes, colors, strict=True):
        axes.scatter(
            x[label == c],
            y[label == c],
            s=7,
            color=color,
            linewidths=0,
            alpha=0.8,
            label=str(c),
        )


def _with_spread(x):
    """Moves equal rows slightly apart: the start by PCA needs variance."""
    rng = np.random.default_rng(0)
    scale = 1e-4 * max(float(x.std()), 1e-12)
    return x + scale * rng.standard_normal(x.shape)
