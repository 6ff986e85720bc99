"""What a figure consists of: points to compute, and how to show them."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple

import numpy as np

from vdsh_tf.research.reproduction import points
from vdsh_tf.research.reproduction import sources

BUDGETS = ("smoke", "small", "full")


class Outcome(NamedTuple):
    """What a task computes.

    Attributes:
        result: numbers, plain JSON.
        arrays: what other tasks need from it, or None.
    """

    result: dict[str, Any]
    arrays: dict[str, np.ndarray] | None = None


@dataclasses.dataclass(frozen=True)
class Context:
    """What tasks compute with: where results and data are."""

    store: points.PointStore
    data: sources.Library


@dataclasses.dataclass(frozen=True)
class Task:
    """One point to compute.

    Attributes:
        figure, key: its place in the store.
        settings: all that determines its result, plain JSON.
        compute: function of a Context that returns an Outcome.
        cost: estimated seconds on two cores; only ratios matter, for the
            remaining time.
        headline: names of the results that the progress line shows.
        unit: what the number at the end of the key counts.
    """

    figure: str
    key: str
    settings: dict[str, Any]
    compute: Callable[[Context], Outcome]
    cost: float = 10.0
    headline: tuple[str, ...] = ("map",)
    unit: str = ""

    @property
    def place(self) -> tuple[str, str]:
        return self.figure, self.key

    def title(self) -> str:
        words = self.key.replace("-", " ") if self.unit else self.key
        return f"{self.figure} {words} {self.unit}".rstrip()


class Results:
    """The points of a plan that are finished; the report's only source.

    Args:
        store: PointStore.
        tasks: the plan; points computed with other settings do not count.
    """

    def __init__(self, store: points.PointStore, tasks: Iterable[Task]):
        self.tasks = list(tasks)
        self.found = {}
        for task in self.tasks:
            point = store.finished(*task.place, task.settings)
            if point is not None:
                self.found[task.place] = point

    def get(self, figure: str, key: str) -> dict | None:
        """Numbers of a point; None if it is missing."""
        point = self.found.get((figure, key))
        return None if point is None else point.result

    def value(self, figure: str, key: str, name: str) -> float | None:
        """One number of a point; None if it is missing."""
        result = self.get(figure, key)
        return None if result is None else result.get(name)

    @property
    def missing(self) -> list[Task]:
        return [t for t in self.tasks if t.place not in self.found]

    @property
    def points(self) -> list[points.Point]:
        return [
            self.found[t.place] for t in self.tasks if t.place in self.found
        ]


@dataclasses.dataclass(frozen=True)
class Figure:
    """One experiment of the paper.

    Attributes:
        name: by which it is chosen.
        title: heading in the report.
        plan: function of a budget's name that returns the tasks.
        show: function of Results, the budget's name and a folder for plots
            that returns a `sections.Section`.
        reads: function of a budget's name: tasks of other figures whose
            results it shows if they are finished.
    """

    name: str
    title: str
    plan: Callable[[str], list[Task]]
    show: Callable[[Results, str, str], Any]
    reads: Callable[[str], list[Task]] = lambda budget: []
