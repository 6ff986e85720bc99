"""sweep: means over runs that are kept."""

import json
import os

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import tool_runner
from tests.support.tool_runner import run_tool
from vdsh_tf.recipes import Stages
from vdsh_tf.training import presets

FLAGS = ("--preset=digits", "--bits=8", "--seeds=0", "--out=sweep")


class SweepTest(tool_runner.ToolTestCase):
    def setUp(self):
        super().setUp()
        short = presets.get("digits").replace(
            stages=Stages.parse("2:1:2e-3"), width=16
        )
        self.enter_context(
            absltest.mock.patch.dict(presets.PRESETS, digits=short)
        )

    def test_means_over_runs_that_are_kept(self):
        flags = (*FLAGS, "--against=lsh")
        text, error = run_tool("sweep", *flags)
        self.assertIsNone(error)
        with open("sweep/digits-lsh-8bits-seed0.json") as f:
            other = json.load(f)
        self.assertIn(f"{other['map']:.4f}", text)
        path = "sweep/digits-8bits-seed0/metrics.json"
        with open(path) as f:
            found = json.load(f)
        self.assertIn(f"{found['map']:.4f}", text)
        # A finished run is read, not trained again.
        with open(path, "w") as f:
            json.dump({**found, "map": 0.1234}, f)
        self.assertIn("0.1234", run_tool("sweep", *flags)[0])
        # So is a comparison, if it was made on this data.
        with open("sweep/digits-lsh-8bits-seed0.json", "w") as f:
            json.dump({**other, "data_sha256": "0" * 64}, f)
        _, error = run_tool("sweep", *flags)
        self.assertRegex(error, "lsh-8bits-seed0.json must be about the data")
        with open("sweep/digits-lsh-8bits-seed0.json", "w") as f:
            json.dump(other, f)
        # Data that has moved is the same data; other queries are not.
        text, error = run_tool("sweep", *flags, "--data_dir=elsewhere")
        self.assertIsNone(error)
        self.assertIn("0.1234", text)
        _, error = run_tool("sweep", *flags, "--queries_per_class=3")
        self.assertRegex(
            error,
            "^error: sweep/digits-8bits-seed0 must have the settings of this "
            "sweep.*Give another --out",
        )

    @parameterized.parameters(
        ((), "protocol paper: among what was trained on", False),
        (("--train_per_class=30",), "protocol train_per_class=30: among", True),
        (("--unseen_classes=7,8,9",), "unseen_classes=7,8,9: among", True),
        (
            ("--unseen_classes=7,8,9", "--validation_per_class=10"),
            "unseen_classes=7,8,9-validation: among items never",
            True,
        ),
    )
    def test_table_names_the_protocol(self, flags, said, second):
        text, error = run_tool("sweep", *FLAGS, "--against=lsh", *flags)
        self.assertIsNone(error)
        self.assertIn(said, text)
        for path in ("digits-8bits-seed0/metrics", "digits-lsh-8bits-seed0"):
            with open(f"sweep/{path}.json") as f:
                found = json.load(f)
            self.assertIn(found["protocol"], text)
            self.assertEqual("trained" in found, second)
            if second:
                self.assertIn(f"{found['trained']['map']:.4f}", text)

    def test_unknown_method(self):
        _, error = run_tool("sweep", *FLAGS, "--against=sbh")
        self.assertRegex(error, "sdh")
        self.assertEqual(os.listdir("sweep"), [])


if __name__ == "__main__":
    absltest.main()
