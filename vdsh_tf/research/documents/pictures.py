"""Pictures of the documents, from codes of real data."""

import io
from typing import NamedTuple

import numpy as np

from vdsh_tf import files
from vdsh_tf.evaluation import curves
from vdsh_tf.evaluation import plots
from vdsh_tf.research.reproduction import maps
from vdsh_tf.research.reproduction import style

RIGHT, WRONG = "#2b8a3e", "#c92a2a"
COLORS = 48
INK, QUIET = "#1f2937", "#6b7280"
# Curves of two goals of one method share its colour.
LINES = {
    "VDSH, goal class": ("#000000", "-", 2.6),
    "VDSH, goal search": ("#4263eb", "-", 2.6),
    "SDH": (style.COLORS["sdh"], "-", 1.5),
    "CCA-ITQ": (style.COLORS["cca_itq"], "-", 1.5),
    "ITQ": ("#868e96", "-", 1.5),
    "LSH": ("#adb5bd", "--", 1.5),
    "Adam": ("#e8590c", "-", 1.6),
}


class Hit(NamedTuple):
    """An item that a query found.

    Attributes:
        image: [height, width] or [height, width, 3], uint8.
        distance: in bits.
        right: whether it shares the query's label.
    """

    image: np.ndarray
    distance: int
    right: bool


def neighbour_rows(
    rows: list[tuple[np.ndarray, list[Hit]]], ranks, title: str, path: str
) -> None:
    """Draws each query at the left of items that it found.

    Args:
        rows: queries with a hit for each rank.
        ranks: place of each column in the ranking, from 1.
        title: what is shown.
        path: file to write.
    """
    columns = len(ranks) + 1
    figure = style.new_figure(0.57 * columns + 0.3, 0.57 * len(rows) + 0.6)
    grid = figure.subplots(
        len(rows),
        columns,
        squeeze=False,
        gridspec_kw={"width_ratios": [1.12] + [1] * len(ranks)},
    )
    figure.get_layout_engine().set(
        w_pad=0.015, h_pad=0.015, wspace=0.0, hspace=0.0
    )
    for axes, (query, hits) in zip(grid, rows, strict=True):
        _show(axes[0], query, INK, 2.4)
        for place, hit in zip(axes[1:], hits, strict=True):
            color = RIGHT if hit.right else WRONG
            _show(place, hit.image, color, 1.5)
            place.text(
                *(0.05, 0.93, str(hit.distance)),
                transform=place.transAxes,
                fontsize=6,
                color=color,
                va="top",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.7},
            )
    for axes, text in zip(grid[0], ("query", *ranks), strict=True):
        shown = text if isinstance(text, str) else f"{text:,}"
        axes.set_title(shown, fontsize=7.5, color=INK, pad=3)
    figure.suptitle(title, fontsize=8.5, color=QUIET)
    _save(figure, path)


def _show(axes, image, color, line):
    axes.imshow(image, cmap="gray_r" if image.ndim == 2 else None)
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set(color=color, linewidth=line)


def precision_recall(counts: dict, title: str, path: str) -> None:
    """Precision over recall, and over the number of items looked at.

    Args:
        counts: `metrics.Counts` by the name of a method.
        title: of the figure.
        path: file to write.
    """
    figure = style.new_figure(9, 3.7)
    left, right = figure.subplots(1, 2, sharey=True)
    for name, count in counts.items():
        color, dashes, width = LINES[name]
        rank = curves.retrieval_curves(count)["by_rank"]
        look = {"color": color, "linestyle": dashes, "linewidth": width}
        left.plot(rank["recall"], rank["precision"], label=name, **look)
        right.plot(rank["k"], rank["precision"], **look)
    if not counts:
        plots.say_nothing(left)
    left.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    right.set(xlabel="items looked at", xscale="log")
    for axes in (left, right):
        _quiet(axes)
    figure.suptitle(title, fontsize=10, color=INK)
    style.legend(figure, left, 6, fontsize=9)
    _save(figure, path)


def code_map(panels: dict, title: str, path: str) -> None:
    """Items on a plane by t-SNE, coloured by class.

    Args:
        panels: for each title what `maps.describe` returns.
        title: of the figure.
        path: file to write.
    """
    figure = style.new_figure(3.4 * len(panels), 3.9)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, found) in zip(grid, panels.items(), strict=True):
        maps.scatter(axes, found)
        axes.set_title(name, fontsize=9.5, color=INK)
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel(
            f"silhouette {found['silhouette']:.2f}, "
            f"{found['distinct']:,} distinct",
            fontsize=8,
            color=QUIET,
        )
        for side in axes.spines.values():
            side.set(color="#ced4da", linewidth=0.8)
    figure.suptitle(title, fontsize=10, color=INK)
    style.legend(figure, grid[0], 10, markerscale=2.5, fontsize=8)
    _save(figure, path)


def quality_over_time(lines: dict, title: str, path: str) -> None:
    """mAP and recall within radius 2 over training time.

    Args:
        lines: for each method a list of points, `research.benchmarks.quality`
            as dictionaries.
        title: of the figure.
        path: file to write.
    """
    figure = style.new_figure(9, 3.6)
    panels = figure.subplots(1, 2)
    names = {"map": "mAP", "recall_r2": "recall within radius 2"}
    for axes, (key, label) in zip(panels, names.items(), strict=True):
        for name, points in lines.items():
            color, dashes, width = LINES.get(name, (None, "-", 1.5))
            axes.plot(
                [p["seconds"] for p in points],
                [p[key] for p in points],
                color=color,
                linestyle=dashes,
                marker="o",
                markersize=4,
                linewidth=width,
                label=name,
            )
            end = points[-1]
            axes.annotate(
                f"{end[key]:.3f}",
                (end["seconds"], end[key]),
                xytext=(5, 3) if name.startswith("VDSH") else (4, -11),
                textcoords="offset points",
                fontsize=8,
                color=QUIET,
            )
        if not lines:
            plots.say_nothing(axes)
        axes.set(xlabel="seconds of training", ylabel=label)
        axes.margins(x=0.12)
        _quiet(axes)
    figure.suptitle(title, fontsize=10, color=INK)
    style.legend(figure, panels[0], 3, fontsize=9)
    _save(figure, path)


def _quiet(axes):
    axes.grid(alpha=0.25, linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.xaxis.label.set_size(9)
    axes.yaxis.label.set_size(9)


def _save(figure, path):
    """Writes a small file: PNG of few colours, or JPEG for photographs."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120, facecolor="white", format="png")
    image = Image.open(buffer).convert("RGB")
    with files.replacing(path) as partial:
        if path.endswith(".jpg"):
            image.save(partial, quality=75)
            return
        flat = image.quantize(COLORS, dither=Image.Dither.NONE)
        flat.save(partial, optimize=True)
