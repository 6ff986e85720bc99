"""The table of a training run's flags, from the settings themselves."""

import dataclasses
import inspect
from collections.abc import Iterator

from vdsh_tf.config import NotInAlgorithm
from vdsh_tf.training import presets
from vdsh_tf.training.config import TrainingConfig

GROUPS = {
    "source": "Data",
    "network": "Network",
    "optimization": "Recipe",
    "solver": "Solver",
}


def flags_table() -> str:
    """Every flag of `tools/train.py` that is a setting, in Markdown."""
    config = TrainingConfig()
    lines = []
    for name, title in GROUPS.items():
        part = getattr(config, name)
        about = (inspect.getdoc(type(part)) or "").partition("\n")[0]
        lines += [f"**{title}.** {about}", ""]
        lines += ["| flag | default | meaning |", "|---|---|---|"]
        lines += [*_rows(part), ""]
    lines += ["**Run.**", "", "| flag | default | meaning |", "|---|---|---|"]
    return "\n".join([*lines, *_rows(config)])


def presets_table() -> str:
    """The presets, in Markdown."""
    lines = [
        "| preset | data | layers x width, bits | stages "
        "(layers:epochs:rate) | goal |",
        "|---|---|---|---|---|",
    ]
    for name, config in presets.PRESETS.items():
        net = config.network
        goal = config.solver.resolved(config.schedule).goal
        lines.append(
            f"| `{name}` | {config.source.data} | {config.layers} x "
            f"{net.width}, {net.bits} | `{config.stages}` | {goal} |"
        )
    return "\n".join(lines)


def _rows(part) -> Iterator[str]:
    for field in dataclasses.fields(part):
        if "custom_args" in field.metadata:
            text = field.metadata["custom_args"]["help"].replace("|", "\\|")
            yield f"| `--{field.name}` | {_default(field)} | {text} |"


def _default(field) -> str:
    usual = field.metadata.get("usual")
    if usual is None:
        return _value(field.default)
    online, full = usual["online"], usual["full"]
    if full is NotInAlgorithm:
        return f"{_value(online)}; not in `full`"
    if online == full:
        return _value(online)
    return f"{_value(online)}; {_value(full)} in `full`"


def _value(value) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
