"""A few kills at random moments; `tests.campaigns.crashes` does a hundred."""

import os
import pathlib
import subprocess
import sys

import pytest
from absl.testing import absltest

from tests.support import case

FLAGS = ("--kills=3", "--works=train,encode,index")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="copies its process")
class CrashesTest(case.TestCase):
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
        self.assertEqual(done.stdout.count("1 kills within"), 3, done.stdout)


if __name__ == "__main__":
    absltest.main()
