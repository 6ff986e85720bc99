"""Measurements run, and what does not depend on speed is foretold."""

import pytest
from absl.testing import absltest

from vdsh_tf.research.capacity import measures
from vdsh_tf.research.capacity.model import Network

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")


class MeasuresTest(absltest.TestCase):
    def test_search(self):
        rates, checks = measures.search(20_000, 64, 1)
        self.assertGreater(rates.scan, 0)
        self.assertGreater(rates.probe, 0)
        self.assertGreater(rates.bucket_start, 0)
        sizes = [check for check in checks if "bytes" in check.what]
        self.assertLen(sizes, 2)
        for check in sizes:
            self.assertLess(abs(check.error), 0.1, check.what)

    def test_reduced(self):
        self.assertLess(abs(measures.reduced().error), 1e-3)

    def test_encoder(self):
        network = Network(dim=9, width=16, layers=2, bits=12, classes=3)
        self.assertGreater(measures.encoder_seconds(network, 1), 0)


if __name__ == "__main__":
    absltest.main()
