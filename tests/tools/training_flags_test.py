"""Flags of the tools that train: a preset, and settings over it."""

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import tool_runner
from vdsh_tf.tools import flags
from vdsh_tf.tools import train
from vdsh_tf.training import presets


class PresetTest(case.TestCase):
    def settings(self, *argv):
        return flags.parse(train.Args.defaults(argv), "", "", argv).settings

    @parameterized.parameters(*presets.PRESETS)
    def test_preset_gives_all_settings(self, name):
        want = presets.get(name)
        self.assertEqual(self.settings(f"--preset={name}"), want)
        self.assertEqual(self.settings("--preset", name), want)

    def test_flags_override(self):
        got = self.settings(
            "--preset=mnist",
            "--layers=6",
            "--epochs=5",
            "--margin=0",
            "--seed=3",
        )
        want = presets.get("mnist").replace(margin=0.0, seed=3)
        self.assertEqual(got, want.with_layers(6).with_epochs(5))

    def test_help_shows_the_presets_defaults(self):
        result = tool_runner.run("train", "--preset=mnist", "--help")
        self.assertRegex(result.out, r"--dropout .*\n.*\(default: 0.2\)")

    def test_own_data_does_not_take_the_preset_of_the_digits(self):
        got = self.settings("--data=npz", "--path=x.npz", "--width=64")
        want = presets.get("auto").replace(data="npz", path="x.npz", width=64)
        self.assertEqual(got, want)
        self.assertEqual(self.settings(), presets.get("digits"))
        self.assertEqual(self.settings("--data=digits"), presets.get("digits"))


if __name__ == "__main__":
    absltest.main()
