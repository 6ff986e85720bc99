"""Figure 6: every method against code length, on three kinds of input."""

from vdsh_tf.research.reproduction import lines
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import networks
from vdsh_tf.research.reproduction import published
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction.sections import Section
from vdsh_tf.research.reproduction.sections import Table
from vdsh_tf.research.reproduction.sections import Verdict
from vdsh_tf.research.reproduction.sections import judge
from vdsh_tf.research.reproduction.tasks import Figure
from vdsh_tf.research.reproduction.tasks import Task

BITS = (16, 32, 64, 128)
PANELS = ("mnist", "cifar10_gist", "cifar10_cnn")
# Codes of 64 bits that `tsne-codes` maps.
MAPPED = ("vdsh", "sdh")


def bits_of(name: str, data: str, budget: str) -> tuple[int, ...]:
    """Code lengths at which a method runs; empty where it does not."""
    if name in methods.TRIVIAL:
        # A longer code repeats the same bits.
        return (64,)
    slow = name in methods.SUBSET or name in methods.DEEP
    if data == "cifar10_gist" and name in methods.DEEP:
        return ()
    if budget == "full":
        return BITS
    # On CNN features the paper has FastHash alone of these.
    if data == "cifar10_cnn" and name in ("ksh", "bre", "mlh"):
        return ()
    if budget == "smoke":
        return (64,)
    return (32, 64) if slow else BITS


def method_task(data: str, name: str, bits: int, budget: str) -> Task:
    """A point of this figure, which other figures read, too."""
    keep = name in MAPPED and bits == 64
    return methods.task("retrieval", data, name, bits, budget, keep)


def panel_tasks(data: str, budget: str) -> list[Task]:
    """All points of one data set."""
    return [
        method_task(data, name, bits, budget)
        for name in (*methods.ALL, *methods.TRIVIAL)
        for bits in bits_of(name, data, budget)
    ]


def plan(budget: str) -> list[Task]:
    """All points, one data set after another."""
    return [task for data in PANELS for task in panel_tasks(data, budget)]


def show(results, budget: str, folder: str) -> Section:
    """A plot and tables for each data set; then verdicts."""
    plots, tables, panels = [], [], {}
    for data in PANELS:
        curves = lines.read(results, "retrieval", panel_tasks(data, budget))
        panels[data] = curves
        title = sources.TITLES[data]
        file = lines.draw(curves, title, folder, f"retrieval_{data}")
        plots.append((file, f"{title}: quality against code length"))
        tables += panel_tables(curves, data)
    return Section(
        "retrieval: every method against code length",
        "Figure 6: precision and recall within radius 2 and mAP against 16 to "
        "128 bits. On pixels and GIST VDSH is ahead by large margins and "
        "stable over code lengths; on CNN features VDSH and SDH are ahead of "
        "the deep methods, VDSH always first; FastHash has good mAP, but its "
        "precision falls with the length.",
        "100 queries per class, the rest is the database. Layers x width of "
        f"VDSH: {_shapes_text(budget)} (the paper: 48 x 256 on MNIST, 16 x "
        "1,024 on CIFAR-10). CNN features are EfficientNet-Lite0's, reduced "
        "to 128 numbers, instead of vgg-f's 4,096. The deep methods share a "
        "small CNN made for a CPU and get the images themselves.",
        plots,
        tables,
        verdicts(panels),
    )


def panel_tables(curves, data: str) -> list[Table]:
    """All numbers of a data set, VDSH's lead, and published numbers."""
    note = methods.SUBSET_NOTE
    if data != "cifar10_gist":
        note += " DSRH, DSCH and DRSCH learn from the images."
    title = sources.TITLES[data]
    tables = [
        lines.table(curves, title, f"retrieval_{data}", note),
        lead_table(curves, data),
    ]
    if data in published.MAP:
        tables.append(published.table(curves, data))
    return tables


def lead_table(curves, data: str) -> Table:
    """VDSH beside the best shallow method, by code length."""
    rows = []
    for bits in sorted(curves["vdsh"]):
        row = [bits]
        for metric in ("map", "precision_r2"):
            ours, name, best = rival(curves, bits, metric, methods.SHALLOW)
            lead = None if None in (ours, best) else ours - best
            row += [ours, style.TITLES.get(name), best, lead]
        rows.append(row)
    part = ["VDSH", "best shallow", "its", "ahead by"]
    return Table(
        f"ahead_{data}",
        f"{sources.TITLES[data]}: VDSH and the best other",
        ["bits", *[f"{m} {p}" for m in ("mAP", "P@r2") for p in part]],
        rows,
    )


def rival(curves, bits: int, metric: str, names):
    """VDSH's number, and the best of other methods with its name."""
    ours = lines.values(curves, "vdsh", metric).get(bits)
    found = {n: lines.values(curves, n, metric) for n in names}
    others = {n: line[bits] for n, line in found.items() if bits in line}
    best = max(others, key=lambda n: others[n], default=None)
    return ours, best, others.get(best)


def verdicts(panels: dict) -> list[Verdict]:
    """Rules on the three data sets."""
    cnn = panels["cifar10_cnn"]
    named = {
        sources.TITLES[data]: panels[data] for data in ("mnist", "cifar10_gist")
    }
    return [
        *[ahead(c, title, methods.SHALLOW) for title, c in named.items()],
        *[margins(c, title) for title, c in named.items()],
        *[stable(c, title) for title, c in named.items()],
        ahead(cnn, sources.TITLES["cifar10_cnn"], methods.ALL[1:]),
        deep_behind(cnn, "vdsh"),
        deep_behind(cnn, "sdh"),
        fasthash_falls(cnn),
    ]


def ahead(curves, title: str, names) -> Verdict:
    """VDSH is first at every length, in mAP and P@r2."""
    text = f"{title}: VDSH is ahead of every other method at every length"
    rule = "Rule: larger mAP and larger P@r2 at every length. "
    lost, missing = [], missing_points(curves, ["vdsh", *names])
    for bits in sorted(curves["vdsh"]):
        for metric in ("map", "precision_r2"):
            ours, name, best = rival(curves, bits, metric, names)
            if None not in (ours, best) and ours <= best:
                lost.append(
                    f"{lines.SHORT[metric]} at {bits} bits: "
                    f"{style.TITLES[name]} {best:.3f}, VDSH {ours:.3f}"
                )
    if missing and not lost:
        return judge(text, None, f"{missing} points are missing.")
    ending = f"Not so for {'; '.join(lost)}." if lost else "So everywhere."
    return judge(text, not lost, rule + ending)


def margins(curves, title: str, margin: float = 0.05) -> Verdict:
    """VDSH's mAP is far above the best shallow method's."""
    text = f"{title}: the margins are large"
    leads = {}
    for bits in sorted(curves["vdsh"]):
        ours, _, best = rival(curves, bits, "map", methods.SHALLOW)
        if None in (ours, best):
            return judge(text, None, f"{bits} bits are needed.")
        leads[bits] = ours - best
    shown = ", ".join(f"{b} bits {v:+.3f}" for b, v in leads.items())
    return judge(
        text,
        min(leads.values()) >= margin,
        f"Rule: mAP at least {margin} above the best shallow method at every "
        f"length. {shown}.",
    )


def stable(curves, title: str) -> Verdict:
    """VDSH's precision varies least over code lengths."""
    text = f"{title}: VDSH is the most stable over code lengths"
    spread = {}
    for name in methods.ALL:
        line = lines.values(curves, name, "precision_r2")
        # A method near chance is stable, too, but says nothing.
        if len(line) >= 3 and max(line.values()) > 0.3:
            spread[name] = max(line.values()) - min(line.values())
    if "vdsh" not in spread or len(spread) < 2:
        return judge(text, None, "VDSH and others at three lengths or more.")
    shown = ", ".join(
        f"{style.TITLES[n]} {v:.3f}"
        for n, v in sorted(spread.items(), key=lambda item: item[1])
    )
    return judge(
        text,
        min(spread, key=lambda n: spread[n]) == "vdsh",
        "Rule: smallest distance from largest to smallest P@r2, of methods "
        f"with three lengths or more that ever exceed .3. {shown}.",
    )


def deep_behind(curves, name: str) -> Verdict:
    """A method on CNN features is ahead of the deep ones."""
    title = style.TITLES[name]
    text = f"{title} on CNN features is ahead of DSRH, DSCH and DRSCH"
    ours = lines.values(curves, name, "map")
    worst = {}
    for deep in methods.DEEP:
        theirs = lines.values(curves, deep, "map")
        common = sorted(set(ours) & set(theirs))
        if not common:
            return judge(text, None, f"{style.TITLES[deep]} is needed.")
        worst[style.TITLES[deep]] = min(ours[b] - theirs[b] for b in common)
    shown = ", ".join(f"{n} {g:+.3f}" for n, g in worst.items())
    return judge(
        text,
        min(worst.values()) > 0,
        "Rule: larger mAP at every common length. Smallest lead: "
        f"{shown}. The deep methods here have a small CNN from scratch.",
    )


def fasthash_falls(curves) -> Verdict:
    """FastHash keeps its mAP and loses its precision with the length."""
    text = "FastHash: good mAP, but precision at radius 2 falls with length"
    mean = lines.values(curves, "fasthash", "map")
    ball = lines.values(curves, "fasthash", "precision_r2")
    if len(mean) < 2:
        return judge(text, None, "FastHash at two lengths is needed.")
    first, last = min(mean), max(mean)
    change = mean[last] - mean[first], ball[last] - ball[first]
    return judge(
        text,
        change[0] > -0.02 and change[1] < -0.1,
        f"Rule: from {first} to {last} bits mAP falls by less than .02 "
        f"({change[0]:+.3f}) and P@r2 by more than .1 ({change[1]:+.3f}).",
    )


def missing_points(curves, names) -> int:
    """Number of missing points of these methods."""
    return sum(r is None for n in names for r in curves.get(n, {}).values())


def _shapes_text(budget):
    return "; ".join(
        f"{sources.TITLES[data]}: "
        f"{networks.shape_text(networks.preset(data, 64, budget))}"
        for data in PANELS
    )


FIGURE = Figure("retrieval", "every method against code length", plan, show)
