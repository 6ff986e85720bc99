"""Figures 7 and 8: how close the codes of a class are to each other."""

from vdsh_tf import codes
from vdsh_tf.research.reproduction import lines
from vdsh_tf.research.reproduction import maps
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import retrieval
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction.sections import Section
from vdsh_tf.research.reproduction.sections import Table
from vdsh_tf.research.reproduction.sections import complete
from vdsh_tf.research.reproduction.sections import judge
from vdsh_tf.research.reproduction.sections import undecided
from vdsh_tf.research.reproduction.tasks import Figure
from vdsh_tf.research.reproduction.tasks import Outcome
from vdsh_tf.research.reproduction.tasks import Task

DATA = ("cifar10_gist", "cifar10_cnn")
METHODS = ("vdsh", "sdh", "fasthash")
RADII = (0, 1, 2)
MAP_BITS = 64


def map_task(data: str, name: str, budget: str) -> Task:
    """The map of the queries' 64-bit codes."""
    source = retrieval.method_task(data, name, MAP_BITS, budget)

    def compute(context):
        found = context.store.arrays(*source.place)
        bits = codes.unpack(found["codes"], MAP_BITS)
        return Outcome(maps.describe(bits, found["labels"], 0))

    return Task(
        "tsne-codes",
        f"{data}-{name}",
        {"codes": source.settings},
        compute,
        cost=5,
        headline=("silhouette",),
    )


def plan_maps(budget: str) -> list[Task]:
    """The codes, then their maps."""
    pairs = [(data, name) for data in DATA for name in retrieval.MAPPED]
    return [
        *[retrieval.method_task(d, n, MAP_BITS, budget) for d, n in pairs],
        *[map_task(d, n, budget) for d, n in pairs],
    ]


def show_maps(results, budget: str, folder: str) -> Section:
    """Four maps, VDSH beside SDH."""
    panels, rows = {}, []
    for data in DATA:
        for name in retrieval.MAPPED:
            result = results.get("tsne-codes", f"{data}-{name}")
            title = f"{style.TITLES[name]}, {sources.TITLES[data]}"
            panels[title] = result
            cells = [None] * 2
            if result:
                cells = [result["silhouette"], result["distinct"]]
            rows.append([title, *cells])
    return Section(
        "tsne-codes: maps of 64-bit codes",
        "Figure 7, t-SNE of the codes of all CIFAR-10 queries: VDSH forms "
        "cleaner clusters than SDH, on GIST and on CNN features, and many of "
        "its codes are equal.",
        "The codes of the 1,000 queries at 64 bits, from `retrieval`. The "
        "silhouette is of the codes, not of the map.",
        [(maps.draw(panels, folder, "tsne-codes"), "t-SNE of 64-bit codes")],
        [
            Table(
                "tsne-codes",
                "Separation of classes by codes",
                ["codes", "silhouette", "distinct codes of queries"],
                rows,
            )
        ],
        [map_verdict(data, results) for data in DATA],
    )


def map_verdict(data: str, results):
    """VDSH's classes are further apart than SDH's."""
    text = f"{sources.TITLES[data]}: VDSH's codes form cleaner clusters"
    ours, other = (
        results.get("tsne-codes", f"{data}-{name}") for name in retrieval.MAPPED
    )
    if ours is None or other is None:
        return judge(text, None, "Both maps are needed.")
    return judge(
        text,
        ours["silhouette"] > other["silhouette"],
        "Rule: larger silhouette of the classes. VDSH "
        f"{ours['silhouette']:.3f}, SDH {other['silhouette']:.3f}; distinct "
        f"codes {ours['distinct']} and {other['distinct']}.",
    )


def radius_tasks(data: str, budget: str) -> list[Task]:
    """Points of `retrieval` that this figure shows."""
    return [
        retrieval.method_task(data, name, bits, budget)
        for name in METHODS
        for bits in retrieval.bits_of(name, data, budget)
    ]


def plan_radius(budget: str) -> list[Task]:
    """No points of its own: those of `retrieval` hold all radii."""
    return [task for data in DATA for task in radius_tasks(data, budget)]


def show_radius(results, budget: str, folder: str) -> Section:
    """Precision and recall against code length, a line for each radius."""
    found = {
        data: lines.read(results, "retrieval", radius_tasks(data, budget))
        for data in DATA
    }
    return Section(
        "radius: precision and recall at radius 0, 1 and 2",
        "Figure 8, CIFAR-10: VDSH does not lose with a smaller radius, SDH "
        "and FastHash vary much and are best at radius 2.",
        "The codes of `retrieval`, at three radii. " + methods.SUBSET_NOTE,
        [
            (
                draw_radius(curves, data, folder),
                f"{sources.TITLES[data]}: radii",
            )
            for data, curves in found.items()
        ],
        [radius_table(curves, data) for data, curves in found.items()],
        [v for d, c in found.items() for v in radius_verdicts(c, d)],
    )


def draw_radius(curves, data: str, folder: str) -> str:
    """One colour per method, one line style per radius."""
    figure = style.new_figure(11, 4.6)
    panels = figure.subplots(1, 2)
    kinds = {0: ":", 1: "--", 2: "-"}
    for axes, metric in zip(panels, ("precision", "recall"), strict=True):
        for name in METHODS:
            for radius in RADII:
                line = lines.values(curves, name, f"{metric}_r{radius}")
                look = style.line(name)
                look["label"] += f", radius {radius}"
                axes.plot(
                    line.keys(), line.values(), **look, linestyle=kinds[radius]
                )
        lines.bits_axis(axes, curves)
        axes.set(ylabel=metric, ylim=(0, 1.02))
    figure.suptitle(sources.TITLES[data])
    style.legend(figure, panels[0], 3)
    return style.save(figure, folder, f"radius_{data}")


def radius_table(curves, data: str) -> Table:
    """A row for each method and length."""
    columns = [f"{m}_r{r}" for m in ("precision", "recall") for r in RADII]
    rows = []
    for name in METHODS:
        for bits, result in sorted(curves.get(name, {}).items()):
            cells = [None if result is None else result[c] for c in columns]
            rows.append([style.TITLES[name], bits, *cells])
    header = [f"{m} r{r}" for m in "PR" for r in RADII]
    return Table(
        f"radius_{data}",
        f"{sources.TITLES[data]}: radii",
        ["method", "bits", *header],
        rows,
        methods.SUBSET_NOTE,
    )


def kept(curves, name: str) -> float | None:
    """Share of the precision at radius 2 that remains at radius 0.

    The mean over code lengths; where precision is below .05, none remains.
    """
    wide = lines.values(curves, name, "precision_r2")
    narrow = lines.values(curves, name, "precision_r0")
    if not wide:
        return None
    shares = [narrow[b] / wide[b] if wide[b] > 0.05 else 0.0 for b in wide]
    return sum(shares) / len(shares)


def radius_verdicts(curves, data: str) -> list:
    """Whether VDSH is robust, and the others less so."""
    title = sources.TITLES[data]
    texts = (
        f"{title}: VDSH does not lose with a smaller radius",
        f"{title}: SDH and FastHash lose more than VDSH",
    )
    shares = complete({name: kept(curves, name) for name in METHODS})
    if shares is None:
        return undecided(texts, "All three methods are needed.")
    shown = ", ".join(f"{style.TITLES[n]} {v:.2f}" for n, v in shares.items())
    why = f"P@r0 / P@r2, mean over lengths: {shown}."
    return [
        judge(texts[0], shares["vdsh"] >= 0.9, f"Rule: at least .9. {why}"),
        judge(
            texts[1],
            shares["vdsh"] > max(shares["sdh"], shares["fasthash"]),
            f"Rule: VDSH's is the largest. {why}",
        ),
    ]


MAPS_FIGURE = Figure("tsne-codes", "maps of codes", plan_maps, show_maps)
RADIUS_FIGURE = Figure("radius", "small radii", plan_radius, show_radius)
