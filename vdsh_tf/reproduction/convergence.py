"""Figures 2 and 3: duals of every layer over iterations, and its maps.

Both come from the same networks, 8 layers x 64 by Algorithm 1 to the letter.
"""

import keras
import numpy as np

from vdsh_tf import datasets
from vdsh_tf.callbacks import LayerConvergence
from vdsh_tf.model import VDSH
from vdsh_tf.reproduction import maps
from vdsh_tf.reproduction import style
from vdsh_tf.reproduction.sections import Section
from vdsh_tf.reproduction.sections import Table
from vdsh_tf.reproduction.sections import judge
from vdsh_tf.reproduction.tasks import Figure
from vdsh_tf.reproduction.tasks import Outcome
from vdsh_tf.reproduction.tasks import Task

BETAS = ("1e-5", "1e-3", "1e-1", "10")
BEST = "1e-1"
LAYERS = 8
WIDTH = 64
SHOWN = (0, 1, 2, 4, 8)
# One gamma for every beta, as beta alone varies in the paper. It is what the
# full schedule takes of its own accord at beta = .1: .1 (1 / .7 - 1).
GAMMA = 0.043
ROWS = {"smoke": 600, "small": 10_000, "full": None}
ITERATIONS = {"smoke": 5, "small": 100, "full": 100}
POINTS = {"smoke": 200, "small": 1000, "full": 2000}


def train_task(beta: str, budget: str, data: str = "mnist") -> Task:
    """Trains one network and keeps its weights."""
    rows, iterations = ROWS[budget], ITERATIONS[budget]
    settings = {
        "data": data, "rows": rows, "iterations": iterations, "beta": beta,
        "gamma": GAMMA, "layers": LAYERS, "width": WIDTH, "seed": 0,
    }  # fmt: skip

    def compute(context):
        split = context.data.split(data, rows)
        model, follow = train(split, float(beta), iterations)
        result = {
            "dual": np.array(follow.dual),
            "residual": np.array(follow.residual),
            "objective": model.history.history["objective"],
            "accuracy": model.history.history["accuracy"][-1],
        }
        kernels = [keras.ops.convert_to_numpy(k) for k in model.encoder.kernels]
        return Outcome(
            _finite(result),
            {f"theta_{m}": k for m, k in enumerate(kernels, start=1)},
        )

    return Task(
        "convergence", f"beta_{beta}", settings, compute,
        cost={"smoke": 5, "small": 25, "full": 200}[budget],
        headline=("accuracy",),
    )  # fmt: skip


def train(split, beta: float, iterations: int):
    """Algorithm 1 on the training part; returns the model and its norms."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    model = VDSH(
        LAYERS, WIDTH, WIDTH, split.num_classes, schedule="full", beta=beta,
        gamma=GAMMA,
    )  # fmt: skip
    model.compile()
    follow = LayerConvergence()
    model.fit(
        split.train.x, split.train.y, batch_size=1000, epochs=iterations,
        verbose=0, callbacks=[follow],
    )  # fmt: skip
    return model, follow


def map_task(layer: int, budget: str, data: str = "mnist") -> Task:
    """The map of one layer's outputs for training rows."""
    source = train_task(BEST, budget, data)
    count = POINTS[budget]

    def compute(context):
        split = context.data.split(data, ROWS[budget])
        index = np.random.default_rng(0).permutation(len(split.train))[:count]
        part = split.train.take(index)
        theta = context.store.arrays(*source.place)
        z = np.asarray(datasets.unit_rows(part.x))
        for m in range(1, layer + 1):
            z = np.maximum(z @ theta[f"theta_{m}"], 0)
        return Outcome(maps.describe(z, part.y, 0))

    return Task(
        "layers", f"layer_{layer}",
        {"layer": layer, "points": count, "network": source.settings},
        compute, cost=5, headline=("silhouette",),
    )  # fmt: skip


def plan(budget: str) -> list[Task]:
    """One network for each beta."""
    return [train_task(beta, budget) for beta in BETAS]


def plan_layers(budget: str) -> list[Task]:
    """The network at beta = .1, then a map of each layer shown."""
    return [
        train_task(BEST, budget),
        *[map_task(layer, budget) for layer in SHOWN],
    ]


def late_change(dual: np.ndarray) -> np.ndarray:
    """How far each layer's norm moves in the last tenth, by its range."""
    tail = dual[-max(2, len(dual) // 10) :]
    span = np.maximum(np.ptp(dual, axis=0), 1e-30)
    return np.ptp(tail, axis=0) / span


def roughness(dual: np.ndarray) -> float:
    """Path that the norms travel, by the distance from lowest to highest.

    1 for a curve that only rises or only falls; large for a zigzag.
    """
    path = np.abs(np.diff(dual, axis=0)).sum(axis=0)
    span = np.maximum(np.ptp(dual, axis=0), 1e-30)
    return float(np.median(path / span))


def settling(dual: np.ndarray) -> np.ndarray:
    """Iteration after which a layer stays within 10 % of its range.

    The range is taken around the last value; [M], counted from 1.
    """
    span = np.maximum(np.ptp(dual, axis=0), 1e-30)
    away = np.abs(dual - dual[-1]) > 0.1 * span
    last = len(dual) - np.argmax(away[::-1], axis=0)
    return np.where(away.any(axis=0), last + 1, 1)


def show(results, budget: str, folder: str) -> Section:
    """Curves of every layer, a panel for each beta."""
    duals = {}
    for beta in BETAS:
        result = results.get("convergence", f"beta_{beta}")
        duals[beta] = None if result is None else np.array(result["dual"])
    rows = []
    for beta, dual in duals.items():
        if dual is None:
            rows.append([beta, *[None] * 6])
            continue
        settle = settling(dual)
        result = results.get("convergence", f"beta_{beta}")
        rows.append([
            beta, float(dual[0].mean()), float(dual[-1].mean()),
            float(np.median(late_change(dual))), roughness(dual),
            f"{settle.min()}-{settle.max()}", float(result["accuracy"]),
        ])  # fmt: skip
    table = Table(
        "convergence", "Norms of the duals, 8 layers x 64",
        ["beta", "mean at first", "mean at last", "moved in last tenth",
         "path / range", "settled at iteration", "training accuracy"],
        rows, "Moved and path are medians over layers, by each layer's range.",
        digits=4,
    )  # fmt: skip
    return Section(
        "convergence: duals of every layer",
        "Figure 2, 8 layers x 64 on MNIST, beta from 1e-5 to 10: small steps "
        "converge slowly, .1 smoothly, 10 zigzags, and all layers converge "
        "alike.",
        f"Algorithm 1 to the letter (schedule `full`), gamma {GAMMA} for "
        f"every beta, {ITERATIONS[budget]} iterations on "
        f"{ROWS[budget] or 69_000:,} training images.",
        [(draw(duals, folder), "Mean norm of the dual of each layer")],
        [table], verdicts(duals),
    )  # fmt: skip


def verdicts(duals: dict[str, np.ndarray | None]) -> list:
    """Rules on the curves."""
    known = all(dual is not None for dual in duals.values())
    if not known:
        why = "Every beta is needed."
        return [judge(text, None, why) for text in _STATEMENTS]
    late = {b: float(np.median(late_change(d))) for b, d in duals.items()}
    rough = {b: roughness(d) for b, d in duals.items()}
    settle = {b: settling(d) for b, d in duals.items()}
    median = {b: float(np.median(s)) for b, s in settle.items()}
    spread = {
        b: float((s.max() - s.min()) / len(duals[b])) for b, s in settle.items()
    }
    slow, steps, smooth, alike = _STATEMENTS
    return [
        judge(
            slow,
            min(median["1e-5"], median["1e-3"]) > median[BEST],
            "Rule: the median layer settles later than at beta .1. "
            + _each(median, "{:.0f}"),
        ),
        judge(
            steps,
            rough["10"] > 2 * rough[BEST],
            "Rule: path / range more than twice that of beta .1. "
            + _each(rough, "{:.1f}"),
        ),
        judge(
            smooth,
            late[BEST] < 0.1 and rough[BEST] < 2,
            "Rule: in its last tenth the median layer moves less than a tenth "
            f"of its range ({late[BEST]:.2f}), and path / range is below 2 "
            f"({rough[BEST]:.1f}).",
        ),
        judge(
            alike,
            max(spread.values()) < 0.25,
            "Rule: first and last layer to settle are less than a quarter of "
            "the iterations apart, for every beta. " + _each(spread, "{:.2f}"),
        ),
    ]


def show_layers(results, budget: str, folder: str) -> Section:
    """Maps of pixels and layers side by side."""
    panels = {
        "pixels" if layer == 0 else f"layer {layer}": results.get(
            "layers", f"layer_{layer}"
        )
        for layer in SHOWN
    }
    rows = [
        [name, *([None] * 2 if r is None else [r["silhouette"], r["distinct"]])]
        for name, r in panels.items()
    ]
    return Section(
        "layers: maps of pixels and layers",
        "Figure 3, t-SNE of training samples: with each layer the classes "
        "come apart further, the last layer's outputs best.",
        f"The network of `convergence` at beta .1; {POINTS[budget]:,} training "
        "images. The silhouette is of the features themselves, not of the map.",
        [(maps.draw(panels, folder, "layers"), "t-SNE by layer")],
        [Table("layers", "Separation of classes",
               ["features", "silhouette", "distinct rows"], rows)],
        layer_verdicts({k: r and r["silhouette"] for k, r in panels.items()}),
    )  # fmt: skip


def layer_verdicts(silhouette: dict[str, float | None]) -> list:
    """Whether classes come apart with depth."""
    texts = (
        "Classes are better separated with more layers",
        "Outputs of layer 8 are the best separated",
    )
    values = list(silhouette.values())
    if any(v is None for v in values):
        return [judge(text, None, "All maps are needed.") for text in texts]
    shown = _each(silhouette, "{:.2f}")
    falls = sum(b < a for a, b in zip(values, values[1:], strict=False))
    return [
        judge(texts[0], falls <= 1 and values[-1] > values[0],
              "Rule: the silhouette rises from pixels to layer 8 and falls at "
              "most once on the way. " + shown),
        judge(texts[1], max(values) == values[-1],
              "Rule: layer 8 has the largest silhouette. " + shown),
    ]  # fmt: skip


def draw(duals: dict, folder: str) -> str:
    """A panel for each beta, a line for each layer."""
    import matplotlib

    figure = style.new_figure(13, 3.6)
    panels = figure.subplots(1, len(duals))
    colors = matplotlib.colormaps["viridis"]
    for axes, (beta, dual) in zip(panels, duals.items(), strict=True):
        axes.set(title=f"beta = {beta}", xlabel="iteration", yscale="log")
        axes.grid(alpha=0.3)
        if dual is None:
            axes.text(0.5, 0.5, "missing", transform=axes.transAxes, ha="center")
            continue
        for m in range(dual.shape[1]):
            axes.plot(
                np.arange(1, len(dual) + 1), dual[:, m],
                color=colors(m / (dual.shape[1] - 1)), label=f"layer {m + 1}",
            )  # fmt: skip
    panels[0].set_ylabel("mean of beta |u|")
    handles, labels = panels[0].get_legend_handles_labels()
    if not handles:
        handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=8)
    return style.save(figure, folder, "convergence")


_STATEMENTS = (
    "Small beta (1e-5, 1e-3) converges slowly",
    "Large beta (10) zigzags",
    "Beta .1 converges smoothly and is flat by iteration 100",
    "For every beta all eight layers converge at similar rates",
)


def _each(values, form):
    return "; ".join(f"{k}: {form.format(v)}" for k, v in values.items()) + "."


def _finite(result):
    for name, value in result.items():
        if not np.isfinite(value).all():
            raise FloatingPointError(f"`{name}` diverged to NaN or infinity")
    return result


FIGURE = Figure("convergence", "duals of every layer", plan, show)
LAYERS_FIGURE = Figure("layers", "maps of layers", plan_layers, show_layers)
