"""A small figure on digits, and a store of its points for each test."""

import dataclasses
import tempfile

from tests.support import case
from vdsh_tf.research.reproduction import lines
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import points
from vdsh_tf.research.reproduction import runner
from vdsh_tf.research.reproduction import sections
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import tasks


def digits_plan(budget="smoke"):
    return [
        methods.task("tiny", "digits", name, bits, budget, name == "itq")
        for name, bits in (("lsh", 8), ("lsh", 16), ("itq", 8))
    ]


def show_digits(results, budget, folder):
    curves = lines.read(results, "tiny", digits_plan(budget))
    return sections.Section(
        "tiny",
        "nothing",
        "digits",
        [(lines.draw(curves, "digits", folder, "tiny"), "digits")],
        [lines.table(curves, "digits", "tiny", methods.SUBSET_NOTE)],
        [],
    )


TINY = tasks.Figure("tiny", "digits", digits_plan, show_digits)


class StoreCase(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.store = points.PointStore(self.root)
        self.context = tasks.Context(self.store, sources.Library())
        self.computed = []
        self.said = []

    def counted(self, plan):
        """The same tasks, which also note that they ran."""

        def watch(task):
            def compute(context):
                self.computed.append(task.key)
                return task.compute(context)

            return dataclasses.replace(task, compute=compute)

        return [watch(task) for task in plan]

    def run_plan(self, plan=None):
        self.computed.clear()
        self.said.clear()
        plan = digits_plan() if plan is None else plan
        return runner.run(self.counted(plan), self.context, self.said.append)
