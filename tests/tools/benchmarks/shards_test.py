"""The benchmark's parts, on few rows."""

import tempfile

from absl.testing import absltest

from tests.support import case
from vdsh_tf.tools.benchmarks import shards


class ShardsTest(case.TestCase):
    def test_epoch_and_rates(self):
        with tempfile.TemporaryDirectory() as root:
            folder = f"{root}/shards"
            shards.write(folder, 12_000, 8, 3, "npy")
            found = shards.epoch(folder, 2, 3)
            self.assertBetween(found["codes"], 11_900, 11_999)
            self.assertEqual(found["trained_rows"], found["codes"] // 256 * 256)
            rates = shards.rates(folder, 2, 3, 1000, 1)
        self.assertGreater(rates["rate_of_shards_to_memory"], 0)
        self.assertLen(rates["rows_per_second"]["shards"], 2)


if __name__ == "__main__":
    absltest.main()
