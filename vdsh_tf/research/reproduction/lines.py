"""Quality against code length: one line per method, one panel per metric."""

from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction.sections import Table

METRICS = {
    "precision_r2": "precision, radius 2",
    "recall_r2": "recall, radius 2",
    "map": "mAP",
}
SHORT = {"map": "mAP", "precision_r2": "P@r2", "recall_r2": "R@r2"}
# Results of methods by code length: {method: {bits: result or None}}.
Curves = dict[str, dict[int, dict | None]]


def read(results, figure: str, tasks) -> Curves:
    """The results of method tasks, by method and code length."""
    found: Curves = {}
    for task in tasks:
        settings = task.settings
        by_bits = found.setdefault(settings["method"], {})
        by_bits[settings["bits"]] = results.get(figure, task.key)
    return found


def values(curves: Curves, name: str, metric: str) -> dict[int, float]:
    """A method's numbers at the code lengths that are finished."""
    by_bits = curves.get(name, {})
    return {b: r[metric] for b, r in sorted(by_bits.items()) if r}


def draw(curves: Curves, title: str, folder: str, name: str) -> str:
    """A plot with a panel for each metric."""
    figure = style.new_figure(13, 4.6)
    panels = figure.subplots(1, len(METRICS))
    for axes, (metric, label) in zip(panels, METRICS.items(), strict=True):
        for method in style.COLORS:
            line = values(curves, method, metric)
            if line:
                axes.plot(line.keys(), line.values(), **style.line(method))
        bits_axis(axes, curves)
        axes.set(ylabel=label, ylim=(0, 1.02))
    figure.suptitle(title)
    style.legend(figure, panels[-1], 6)
    return style.save(figure, folder, name)


def bits_axis(axes, curves: Curves) -> None:
    """Code lengths on a logarithmic axis."""
    bits = sorted({b for by_bits in curves.values() for b in by_bits})
    axes.set_xscale("log", base=2)
    axes.set_xticks(bits, [str(b) for b in bits])
    axes.minorticks_off()
    axes.set_xlabel("code length (bits)")
    axes.grid(alpha=0.3)


def table(
    curves: Curves, caption: str, name: str, note: str, metrics=SHORT
) -> Table:
    """Methods by code lengths, a group of columns for each metric."""
    bits = sorted({b for by_bits in curves.values() for b in by_bits})
    header = ["method", "trained on"]
    header += [f"{SHORT[m]}, {b}" for m in metrics for b in bits]
    header.append(f"training s, {_timed(bits)}")
    rows = []
    for method in style.COLORS:
        if method not in curves:
            continue
        by_bits = curves[method]
        some = next((r for r in by_bits.values() if r), {})
        trained = some.get("trained_on")
        row = [style.TITLES[method], trained and f"{trained:,}"]
        row += [_cell(by_bits, b, metric) for metric in metrics for b in bits]
        seconds = _cell(by_bits, _timed(bits), "train_seconds")
        timed = isinstance(seconds, float)
        rows.append([*row, f"{seconds:.0f}" if timed else seconds])
    return Table(name, caption, header, rows, note)


def _timed(bits):
    return 64 if 64 in bits else bits[-1]


def _cell(by_bits, bits, metric):
    if bits not in by_bits:
        return ""
    result = by_bits[bits]
    return None if result is None else result[metric]
