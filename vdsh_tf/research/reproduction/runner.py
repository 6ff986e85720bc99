"""Computes the points of figures; resumes, and continues after failures."""

import time
from collections.abc import Callable
from typing import NamedTuple

from absl import logging

from vdsh_tf.research.reproduction import points
from vdsh_tf.research.reproduction import sections
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction.tasks import Context
from vdsh_tf.research.reproduction.tasks import Task


class Failure(NamedTuple):
    """A point that could not be computed, and why."""

    title: str
    reason: str


class Clock:
    """Time spent, and an estimate of the rest from the costs of tasks."""

    def __init__(self, total_cost: float):
        self.start = time.perf_counter()
        self.open_cost = total_cost
        self.done_cost = 0.0
        self.done_seconds = 0.0

    def skip(self, task: Task) -> None:
        self.open_cost -= task.cost

    def add(self, task: Task, seconds: float) -> None:
        self.open_cost -= task.cost
        self.done_cost += task.cost
        self.done_seconds += seconds

    def text(self) -> str:
        spent = (time.perf_counter() - self.start) / 60
        pace = self.done_seconds / self.done_cost if self.done_cost else 1.0
        left = pace * self.open_cost / 60
        return f"{spent:.1f} min spent, about {left:.0f} min left"


def unique(tasks: list[Task]) -> list[Task]:
    """Tasks in order, those that several figures share only once."""
    first: dict[tuple[str, str], Task] = {}
    for task in tasks:
        first.setdefault(task.place, task)
    return list(first.values())


def run(
    tasks: list[Task], context: Context, say: Callable[[str], None]
) -> list[Failure]:
    """Computes what is not finished yet, with one progress line per point.

    Args:
        tasks: the plan; earlier tasks may be read by later ones.
        context: where results and data are.
        say: called with each line.

    Returns:
        The points that failed; all others are finished.

    Raises:
        points.StorageError: results cannot be written.
    """
    tasks = unique(tasks)
    finished = {
        task.place
        for task in tasks
        if context.store.finished(*task.place, task.settings)
    }
    clock = Clock(sum(t.cost for t in tasks if t.place not in finished))
    failures: list[Failure] = []
    for number, task in enumerate(tasks, start=1):
        if task.place in finished:
            continue
        label = f"[{number}/{len(tasks)}] {task.title()}"
        try:
            point = compute(task, context)
        except points.StorageError:
            raise
        except Exception as error:
            clock.skip(task)
            failure, line = _explain(task, error)
            if not _said_before(error, failures):
                say(f"{label}: {line}")
            failures.append(failure)
        else:
            clock.add(task, point.seconds)
            say(
                f"{label}: {headline(task, point.result)}"
                f"{point.seconds:.0f} s ({clock.text()})"
            )
    if finished:
        say(f"{len(finished)} of {len(tasks)} points were finished before.")
    return failures


def _said_before(error, failures):
    """Whether the same data was missing before: one line is enough."""
    return isinstance(error, sources.MissingDataError) and any(
        failure.reason == str(error) for failure in failures
    )


def _explain(task, error):
    """The failure of a task, and its progress line."""
    if isinstance(error, sources.MissingDataError):
        return Failure(task.title(), str(error)), f"data is missing. {error}"
    logging.error("%s failed", task.title(), exc_info=error)
    reason = f"{type(error).__name__}: {error}"
    return Failure(task.title(), reason), f"failed. {reason}"


def compute(task: Task, context: Context) -> points.Point:
    """Computes one point and writes it."""
    start = time.perf_counter()
    outcome = task.compute(context)
    return context.store.write(
        *task.place,
        task.settings,
        outcome.result,
        time.perf_counter() - start,
        outcome.arrays,
    )


def headline(task: Task, result: dict) -> str:
    """The results that a progress line shows."""
    names = {"map": "mAP", "precision_r2": "P@r2", "recall_r2": "R@r2"}
    shown = [
        f"{names.get(name, name.replace('_', ' '))} {short(result[name])}, "
        for name in task.headline
        if name in result
    ]
    return "".join(shown)


def short(value: float) -> str:
    """A number for a progress line: .937, 12.50, 3."""
    return sections.cell_text(value, 3 if abs(value) < 1 else 2)
