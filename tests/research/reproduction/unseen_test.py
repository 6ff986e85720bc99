"""Points and report of items, and classes, that were not trained on."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized

from tests.research.reproduction import digits_case
from vdsh_tf.evaluation import splits
from vdsh_tf.research.reproduction import report
from vdsh_tf.research.reproduction import unseen

WIDTHS = {**unseen.WIDTHS, "digits": 32}
METHODS = ("vdsh", "class_id", "itq", "raw")


class UnseenTest(digits_case.StoreCase):
    def setUp(self):
        super().setUp()
        for name, value in (
            ("WIDTHS", WIDTHS),
            ("GOALS", {"vdsh": "search"}),
            ("RIVALS", ("class_id", "itq")),
            ("BITS", 16),
        ):
            self.enter_context(absltest.mock.patch.object(unseen, name, value))

    @parameterized.parameters(
        ("ITEMS", "--train_per_class=20", "trained-on rows"),
        ("CLASSES", "--unseen_classes=7,8,9", "trained classes"),
    )
    def test_report_names_the_protocol_and_has_both_figures(
        self, name, flag, trained
    ):
        protocol = dataclasses.replace(getattr(unseen, name), data=("digits",))
        plan = unseen.plan(protocol, "smoke")
        self.assertEqual(self.run_plan(plan), [])
        self.assertEqual(self.computed, [f"digits-{m}-seed_0" for m in METHODS])
        self.assertEqual(self.run_plan(plan), [])
        self.assertEmpty(self.computed)
        found = self.store.read(protocol.figure, "digits-itq-seed_0").result
        self.assertEqual(found["protocol"], flag[2:])
        report.write(self.store, [unseen.figure(protocol)], "smoke")
        with open(f"{self.root}/REPORT.md") as f:
            text = f.read()
        self.assertIn(flag, text)
        self.assertIn("For a user:", text)
        line = next(x for x in text.splitlines() if x.startswith("| ITQ"))
        for number in (found["map"], found["trained"]["map"]):
            self.assertIn(f"{number:.3f}".lstrip("0"), line)
        self.assertIn(f"mAP, {trained}", text)
        for bound in ("VDSH's embedding, cosine", "raw features, cosine"):
            self.assertIn(f"| {bound} | .", text)
        self.assertNotIn("missing", text.split("## Summary")[1])

    def test_rows_are_limited_on_both_sides(self):
        split = self.context.data.split("digits", 100, unseen_classes="7,8,9")
        self.assertLessEqual(len(split.train), 100)
        self.assertLessEqual(len(split.database), 100)
        self.assertEqual(set(split.database.y), {7, 8, 9})

    def test_cosine_has_both_figures(self):
        split = self.context.data.split("digits", 400, train_per_class=30)
        found = splits.evaluate_cosine(lambda x: x, split)
        self.assertBetween(found["map"], 0.5, 1)
        self.assertBetween(found["trained"]["map"], 0.5, 1)
        self.assertEqual(found["protocol"], "train_per_class=30")


if __name__ == "__main__":
    absltest.main()
