"""The formulas against slow counts, and against what the library makes."""

import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf.model import VDSH
from vdsh_tf.research.capacity import model
from vdsh_tf.research.capacity import plan
from vdsh_tf.search import buckets
from vdsh_tf.search import mapped

NONE = model.Assumptions(latency=0.0, network_share=1.0)
RATES = model.Rates(
    scan=8e9, cores=2, bucket_start=1e-4, bucket_code=1e-8, probe=1e9
)


def ring(workers, size):
    """Most bytes over a link when arrays are summed in a ring, simulated."""
    arrays = [np.arange(size) * (w + 1.0) for w in range(workers)]
    cuts = [np.array_split(a, workers) for a in arrays]
    sent = np.zeros(workers)
    for phase in range(2):
        for turn in range(workers - 1):
            moved = []
            for w in range(workers):
                part = (w - turn + phase) % workers
                moved.append(((w + 1) % workers, part, cuts[w][part].copy()))
                sent[w] += cuts[w][part].size
            for to, part, values in moved:
                cuts[to][part] = values + (cuts[to][part] if not phase else 0)
    want = np.arange(size) * sum(range(1, workers + 1))
    for cut in cuts:
        np.testing.assert_allclose(np.concatenate(cut), want)
    return sent.max()


class ModelTest(parameterized.TestCase):
    @parameterized.parameters((4, 1), (16, 3), (7, 8))
    def test_weights(self, width, layers):
        network = model.Network(5, width, layers, 12, 9)
        vdsh = VDSH(layers, width, 12, 9, solver={"goal": "class"})
        vdsh.build((None, 5))
        made = sum(int(np.prod(v.shape)) for v in vdsh.trainable_variables)
        self.assertEqual(network.weights, made)
        self.assertEqual(network.encode_flops, 2 * (made - 12 * 9))

    @parameterized.parameters(2, 3, 8)
    def test_ring(self, workers):
        size = 240
        seconds = model.ring_seconds(8 * size, workers, 8e-9, NONE)
        self.assertAlmostEqual(seconds, 8 * ring(workers, size))
        late = model.Assumptions(latency=1.0, network_share=1.0)
        more = model.ring_seconds(8 * size, workers, 8e-9, late)
        self.assertAlmostEqual(more - seconds, 2 * (workers - 1))
        self.assertEqual(model.ring_seconds(8 * size, 1, 10, NONE), 0)

    def test_training(self):
        network = model.Network()
        run = model.training(network, 1e6, 4, 500, 1e12, 10, NONE)
        steps = 1e6 / 2000
        self.assertAlmostEqual(
            3600 * run.hours, steps * (run.compute + run.reduce)
        )
        self.assertAlmostEqual(run.compute * 1e12, 500 * network.step_flops)
        alone = model.training(network, 1e6, 1, 500, 1e12, 10, NONE)
        self.assertEqual(alone.efficiency, 1)

    @parameterized.product(kind=("flat", "hash"), bits=(16, 64))
    def test_bytes_of_files(self, kind, bits):
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 256, (50_000, bits // 8), np.uint8)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.map")
            mapped.write(path, codes, bits, kind, np.arange(50_000)[::-1])
            size = os.path.getsize(path)
        # A header, and pages that are not full.
        want = model.index_bytes(kind, 50_000, bits)
        self.assertBetween(size - want, 0, (1 << 16) + 4 * 4096)

    @parameterized.parameters(0, 1, 2)
    def test_codes_looked_at(self, radius):
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 256, (200_000, 8), np.uint8)
        made = buckets.sort(64, codes)
        index = buckets.Buckets(made["codes"], made["starts"])
        looked = [len(index._rows(code, radius)) for code in codes[:200]]
        want = model.candidates(200_000, 64, radius)
        self.assertAlmostEqual(np.mean(looked) / want, 1, delta=0.05)

    def test_queries(self):
        def ask(kind, shards):
            return model.query_seconds(kind, 1e9, 64, shards, RATES, NONE)

        self.assertAlmostEqual(ask("flat", 1), 1.0)
        self.assertAlmostEqual(ask("flat", 4), 0.25)
        self.assertLess(ask("hash", 1), ask("flat", 64))
        late = model.Assumptions(latency=1.0)
        there_and_back = model.query_seconds("flat", 8, 64, 2, RATES, late)
        self.assertAlmostEqual(there_and_back, 2, places=6)
        with self.assertRaisesRegex(ValueError, "no such kind"):
            model.index_bytes("tree", 5, 64)


class PlanTest(absltest.TestCase):
    def test_tables(self):
        got = plan.Measured(1e11, 1e-6, 2e11, 2, RATES)
        tables = (
            plan.training(1e8, 10, 1024, got, NONE),
            plan.encoding(1e9, got, NONE),
            plan.searching(1e9, 64, got, NONE),
        )
        for table in tables:
            lines = str(table).splitlines()
            self.assertLen(lines, 4 + len(table.rows))
            for row in table.rows:
                self.assertLen(row, len(table.head))

    def test_price_of_a_month(self):
        assumed = model.Assumptions(
            core_price=1.0, memory_price=2.0, disk_price=3.0, memory_per_core=5
        )
        # 4 cores with 20 GB, 80 GB more, and a file of 100 GB.
        price = plan.month_price(100e9, 2, 2, assumed)
        self.assertEqual(price, 730 * (4 + 2 * 80) + 300)


if __name__ == "__main__":
    absltest.main()
