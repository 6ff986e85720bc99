import subprocess
import sys

from absl.testing import absltest

from vdsh_tf.research.benchmarks import memory

PROBE = """
import sys
from vdsh_tf.research.benchmarks import memory
held = bytearray(int(sys.argv[1]) << 20)
print(memory.peak_mb())
"""


class PeakTest(absltest.TestCase):
    def _child(self, megabytes):
        out = subprocess.run(
            [sys.executable, "-c", PROBE, str(megabytes)],
            check=True,
            capture_output=True,
            text=True,
        )
        return float(out.stdout)

    def test_counts_what_was_held(self):
        held = self._child(100) - self._child(0)
        self.assertBetween(held, 90, 120)

    def test_starts_anew_in_a_child(self):
        ballast = bytearray(400 << 20)
        self.assertGreater(memory.peak_mb(), 400)
        self.assertLess(self._child(0), 200)
        del ballast


if __name__ == "__main__":
    absltest.main()
