"""One style for all plots: colours, names, legends and files."""

import os

from vdsh_tf import files
from vdsh_tf.evaluation import plots

# One colour per method, everywhere; VDSH is black and thick.
COLORS = {
    "vdsh": "#000000",
    "sdh": "#d62728",
    "fasthash": "#1f77b4",
    "ksh": "#2ca02c",
    "cca_itq": "#ff7f0e",
    "bre": "#9467bd",
    "mlh": "#8c564b",
    "dsrh": "#17becf",
    "dsch": "#e377c2",
    "drsch": "#bcbd22",
    "itq": "#9c9c9c",
    "lsh": "#cccccc",
    "backprop": "#3b5bdb",
    "backprop_he": "#74a9ff",
    "backprop_grown": "#0b2a6f",
    "class_id": "#e7b416",
    "vdsh_class": "#555555",
    "embedding": "#a0d6b4",
    "raw": "#d8c3a5",
}
TITLES = {
    "vdsh": "VDSH",
    "sdh": "SDH",
    "fasthash": "FastHash",
    "ksh": "KSH",
    "cca_itq": "CCA-ITQ",
    "bre": "BRE",
    "mlh": "MLH",
    "dsrh": "DSRH",
    "dsch": "DSCH",
    "drsch": "DRSCH",
    "itq": "ITQ",
    "lsh": "LSH",
    "backprop": "back-propagation",
    "backprop_he": "back-propagation, He start",
    "backprop_grown": "back-propagation, grown depth",
    "class_id": "class, one-hot",
    "vdsh_class": "VDSH, goal class",
    "embedding": "VDSH's embedding, cosine",
    "raw": "raw features, cosine",
}
MARKERS = dict(
    zip(
        COLORS,
        (
            "o",
            "s",
            "^",
            "v",
            "D",
            "P",
            "X",
            "<",
            ">",
            "h",
            "p",
            "d",
            "*",
            "H",
            "8",
            "4",
            "1",
            "2",
            "3",
        ),
        strict=True,
    )
)


def line(name: str) -> dict:
    """Style of a method's line."""
    return {
        "color": COLORS[name],
        "marker": MARKERS[name],
        "label": TITLES[name],
        "linewidth": 2.6 if name == "vdsh" else 1.4,
        "markersize": 6,
        "zorder": 3 if name == "vdsh" else 2,
    }


def new_figure(width: float, height: float):
    """An empty figure, its size in inches."""
    import matplotlib.figure

    return matplotlib.figure.Figure(
        figsize=(width, height), layout="constrained"
    )


def save(figure, folder: str, name: str) -> str:
    """Writes NAME.png and NAME.svg; returns the name of the PNG file.

    A panel in which nothing was drawn, because a budget computes no such
    point, says so.
    """
    os.makedirs(folder, exist_ok=True)
    for axes in figure.axes:
        if not axes.has_data() and not axes.texts:
            mark_missing(axes)
    for ending in ("svg", "png"):
        path = os.path.join(folder, f"{name}.{ending}")
        with files.replacing(path) as partial:
            figure.savefig(partial, dpi=130)
    return f"{name}.png"


def legend(figure, axes, columns: int, **options) -> None:
    """One legend below all panels, with the lines of `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=columns,
            **{"frameon": False, **options},
        )


def mark_missing(axes) -> None:
    """Says in a panel that its points are missing."""
    plots.say_nothing(axes, "no such points\nat this budget")


def class_colors(count: int):
    """Ten or more colours for classes."""
    import matplotlib

    colors = matplotlib.colormaps["tab10" if count <= 10 else "tab20"]
    return [colors(i % colors.N) for i in range(count)]
