"""Every entry of the library and its tools, given what it cannot take."""

import pathlib
import subprocess
import sys

from absl.testing import absltest

from tests.support import case

ROOT = pathlib.Path(__file__).resolve().parents[2]


class BadInputsTest(case.TestCase):
    def test_all_are_refused_in_a_sentence(self):
        done = subprocess.run(
            [sys.executable, "-m", "tests.campaigns.bad_inputs"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        self.assertRegex(done.stdout, r"\d{3} inputs, 0 faults")


if __name__ == "__main__":
    absltest.main()
