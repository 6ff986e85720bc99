"""A few kills at random moments; `tests.campaigns.crashes` does a hundred."""

import os
import pathlib
import subprocess
import sys

import pytest
from absl.testing import absltest

from tests.support import case

# Training that is killed is in `interrupts_test` and `trainer_test`, too.
FLAGS = ("--kills=4", "--works=encode,index")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="copies its process")
class CrashesTest(case.TestCase):
    @pytest.mark.slow
    def test_nothing_is_lost(self):
        """In a process of its own: no TensorFlow may have run before."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.campaigns.crashes", *FLAGS],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-2000:])
        self.assertEqual(done.stdout.count("2 kills within"), 2, done.stdout)


if __name__ == "__main__":
    absltest.main()
