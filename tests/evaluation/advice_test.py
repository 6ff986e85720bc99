"""Sentences that follow from metrics, and who says them."""

from absl.testing import absltest

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf import Recipe
from vdsh_tf.data import datasets
from vdsh_tf.evaluation import advice


class AdviceTest(case.TestCase):
    def test_silent_when_all_is_well(self):
        self.assertEmpty(advice.sentences(500, 1000, 0.8, 0.85))
        self.assertEmpty(advice.sentences(500, 1000, 0.8, None))

    def test_few_codes(self):
        (said,) = advice.sentences(12, 10_000, 0.8, None)
        self.assertRegex(said, r"10,000 items share 12 codes \(0.1%\)")

    def test_known_by_heart(self):
        (said,) = advice.sentences(500, 1000, 0.7, 0.9)
        self.assertRegex(said, "0.900 among items .* 0.700 among others")

    def test_fit_says_when_rows_are_known_by_heart(self):
        split = datasets.load("digits", train_per_class=5)
        model = VDSH(layers=3, width=128, bits=16, num_classes=10)
        model.compile(recipe=Recipe(noise=0.0))
        with self.assertLogs(level="WARNING") as logs:
            history = model.fit(
                split.train.x,
                split.train.y,
                epochs=40,
                validation_data=(split.unseen.x[:600], split.unseen.y[:600]),
                validation_freq=40,
                verbose=0,
            ).history
        self.assertIn("by heart", " ".join(logs.output))
        gap = history["val_trained_map"][-1] - history["val_map"][-1]
        self.assertGreater(gap, advice.LARGE_GAP)


if __name__ == "__main__":
    absltest.main()
