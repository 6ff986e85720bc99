"""Two processes on loopback train as one does."""

import csv
import os
import subprocess
import sys
import tempfile

import numpy as np
from absl.testing import absltest

from vdsh_tf.training import runs

TRAIN = (
    sys.executable,
    "-m",
    "vdsh_tf.tools.train",
    "--stages=2:1:2e-3,3:1:1e-3",
    "--width=16",
    "--batch_size=256",
    "--verbose=0",
)


class TwoWorkersTest(absltest.TestCase):
    def test_equal_to_one(self):
        folder = self.enter_context(tempfile.TemporaryDirectory())
        found = []
        for flags in (["--workers=2"], []):
            path = os.path.join(folder, str(len(flags)))
            run = subprocess.run(
                [*TRAIN, f"--run_dir={path}", *flags],
                capture_output=True,
                text=True,
                timeout=300,
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("mAP", run.stdout)
            found.append(self._read(path))
        (one, logs), (two, other_logs) = found
        for a, b in zip(one, two, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
        np.testing.assert_allclose(logs, other_logs, atol=1e-3)

    def _read(self, path):
        with open(os.path.join(path, "history.csv")) as f:
            rows = list(csv.DictReader(f))
        logs = [
            float(row[name])
            for row in rows
            for name in ("objective", "accuracy", "residual_3")
        ]
        self.assertEqual([row["layers"] for row in rows], ["2", "3"])
        model = runs.load_model(os.path.join(path, "model.keras"))
        return model.get_weights(), logs


if __name__ == "__main__":
    absltest.main()
