"""Settings of back-propagation, read from text."""

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.recipes import Stage
from vdsh_tf.recipes import Stages
from vdsh_tf.research.benchmarks import rivals
from vdsh_tf.training import presets
from vdsh_tf.training.config import TrainingConfig


class BaselineTest(case.TestCase):
    def test_reads_a_setting(self):
        got = rivals.parse("he_normal 4:2:1e-3,48:10:3e-4 dropout=.1")
        stages = Stages([Stage(4, 2, 1e-3), Stage(48, 10, 3e-4)])
        want = rivals.Baseline("he_normal", stages, (("dropout", 0.1),))
        self.assertEqual(got, want)
        self.assertEqual(
            got.name, "Adam he_normal 4:2:0.001,48:10:0.0003 dropout=0.1"
        )
        stages = Stages([Stage(4, 2, 1e-3), Stage(16, 10, 3e-4)])
        self.assertEqual(got.with_layers(16).stages, stages)

    @parameterized.parameters(
        ("looks_linear", "not enough values"),
        ("zeros 4:1:1e-3", "no start"),
        ("he_normal 1e-3", "layers:epochs:learning_rate"),
        ("he_normal 4:1:1e-3 plain", "unpack"),
        ("he_normal 4:1:1e-3 width=3", "width cannot be changed"),
        ("he_normal 4:1:1e-3 dropout=2", "`dropout` must be"),
    )
    def test_refuses_other_text(self, text, why):
        with self.assertRaisesRegex(ValueError, f"START STAGES.*{text}.*{why}"):
            rivals.parse(text)

    @parameterized.parameters(5, 48, 100)
    def test_best_settings_for_any_depth(self, layers):
        found = rivals.at_depth(layers, [])
        self.assertEqual({b.layers for b in found}, {layers})
        starts = {(b.start, len(b.stages)) for b in found}
        want = {("looks_linear", 1), ("looks_linear", 2), ("he_normal", 1)}
        self.assertEqual(starts, want)

    def test_given_settings_run_at_their_own_depth(self):
        texts = ["he_normal 8:2:1e-3", "he_normal 4:2:1e-3,16:2:1e-3"]
        (got,) = rivals.at_depth(16, texts)
        self.assertEqual(got, rivals.parse(texts[1]))
        rivals.check_depths(texts, [8, 16])
        with self.assertRaisesRegex(ValueError, "8, 48 layers.*16 layers"):
            rivals.check_depths(texts, [8, 48])

    def test_shares_the_settings_of_vdsh_that_it_does_not_name(self):
        config = presets.get("mnist")
        got = rivals.parse("he_normal 48:10:3e-4 weight_decay=0")
        want = config.replace(
            stages=Stages([Stage(48, 10, 3e-4)]),
            initializer="he_normal",
            weight_decay=0.0,
        )
        self.assertEqual(got.settings(config), want)

    def test_every_continuous_setting_can_be_changed(self):
        for name in rivals.CHANGEABLE:
            got = rivals.parse(f"he_normal 4:1:1e-3 {name}=0.25")
            config = got.settings(TrainingConfig())
            self.assertEqual(getattr(config.optimization, name), 0.25)
        self.assertContainsSubset(
            ["warmup", "noise", "dropout", "weight_decay"], rivals.CHANGEABLE
        )


if __name__ == "__main__":
    absltest.main()
