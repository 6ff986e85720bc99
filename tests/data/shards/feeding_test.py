"""Batches from disk: their order, and the weights that they lead to."""

import os
import subprocess
import sys
import tempfile
from unittest import mock

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

import vdsh_tf
from tests.support import case
from tests.support import shard_files
from vdsh_tf.data import batches
from vdsh_tf.data.shards import feeding
from vdsh_tf.data.shards import formats
from vdsh_tf.data.shards import opening

BATCH, BLOCK, BUFFER = 16, 24, 96
# Bytes of 12 floats.
ROW = 48


def expected_order(starts, seed, epoch):
    """Rows of an epoch, one by one, by the rule in `feeding`'s docstring.

    Args:
        starts: first rows of all pieces, and the end.
        seed, epoch: of the order.
    """
    rng = np.random.default_rng([seed, epoch])
    pieces = rng.permutation(len(starts) - 1)
    rows = [r for p in pieces for r in range(starts[p], starts[p + 1])]
    result = []
    while rows:
        buffer, rows = rows[:BUFFER], rows[BUFFER:]
        result += [buffer[i] for i in rng.permutation(len(buffer))]
    return result[: len(result) // BATCH * BATCH]


def small_pieces(test):
    """Lets small files have many pieces, and a buffer a few of them."""
    for module, name, value in (
        (formats, "_BLOCK", BLOCK * ROW),
        (formats, "_FEWEST", 1),
        (feeding, "BUFFER_BYTES", BUFFER * ROW),
    ):
        test.enter_context(mock.patch.object(module, name, value))


class FeedingTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        small_pieces(self)
        self.x, self.y = shard_files.make_rows(500)

    def _rows(self, kind="npy"):
        shard_files.write(self.folder, self.x, self.y, kind)
        return opening.open_rows("shards", path=self.folder)

    def _epochs(self, arrays, count, first=0, **kwargs):
        dataset, steps = feeding.shuffled(
            arrays, BATCH, seed=3, epoch=first, **kwargs
        )
        found = list(dataset.take(count * steps).as_numpy_iterator())
        return [found[i * steps : (i + 1) * steps] for i in range(count)]

    def test_order_is_that_of_the_rule(self):
        rows = self._rows()
        starts = rows.catalog.piece_starts
        self.assertGreater(len(starts), 20)
        for epoch, found in enumerate(self._epochs((rows, self.y), 3)):
            order = expected_order(starts, 3, epoch)
            self.assertLen(set(order), 496)
            self.assert_equal(
                np.concatenate([x for x, _ in found]), self.x[order]
            )
            self.assert_equal(
                np.concatenate([y for _, y in found]), self.y[order]
            )

    @parameterized.parameters("npy", "parquet", "tfrecord")
    def test_an_epoch_does_not_depend_on_those_before(self, kind):
        rows = self._rows(kind)
        whole = self._epochs((rows, self.y), 3)
        (last,) = self._epochs((rows, self.y), 1, first=tf.Variable(2))
        for (x, y), (a, b) in zip(whole[2], last, strict=True):
            self.assert_equal(x, a)
            self.assert_equal(y, b)
        self.assertFalse(np.array_equal(whole[0][0][0], whole[1][0][0]))

    def test_some_rows_with_labels_and_weights_of_their_own(self):
        rows = self._rows()
        mask = self.x[:, 0] > 0
        weight = np.arange(mask.sum()).astype("f4")
        labels = self.y[mask] + 5
        (found,) = self._epochs((rows[mask], labels, weight), 1)
        x, y, w = (np.concatenate(part) for part in zip(*found, strict=True))
        self.assert_equal(x, self.x[mask][w.astype(int)])
        self.assert_equal(y, labels[w.astype(int)])
        self.assertLen(set(w), mask.sum() // BATCH * BATCH)

    def test_noise_is_that_of_arrays(self):
        # One batch that is everything: the same rows, in another order.
        rows = self._rows()
        noise = batches.Perturbation(noise=0.3)
        dataset, _ = feeding.shuffled((rows, self.y), 500, 0, 1, noise)
        (x, _), *_ = dataset.take(1).as_numpy_iterator()
        plain, _ = feeding.shuffled((rows, self.y), 500, 0, 1)
        (order, _), *_ = plain.take(1).as_numpy_iterator()
        # Noise of an epoch starts at its first row's number.
        self.assert_equal(x, noise(order, [0, 500]))

    def test_in_order(self):
        rows = self._rows()
        dataset = feeding.in_order((rows, self.y), 64)
        self.assertEqual(int(dataset.cardinality()), 8)
        found = list(dataset.as_numpy_iterator())
        self.assert_equal(np.concatenate([x for x, _ in found]), self.x)
        self.assert_equal(np.concatenate([y for _, y in found]), self.y)


class FitTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        small_pieces(self)
        self.x, self.y = shard_files.make_rows(500)

    def _rows(self, kind="npy"):
        shard_files.write(self.folder, self.x, self.y, kind)
        return opening.open_rows("shards", path=self.folder)

    def _fit(self, *data, **kwargs):
        model = vdsh_tf.VDSH(layers=4, width=8, bits=8, num_classes=4)
        model.compile()
        settings = {"batch_size": BATCH, "epochs": 2, "verbose": 0}
        history = model.fit(*data, **{**settings, **kwargs}).history
        return [w.numpy() for w in model.weights], history, model

    @parameterized.parameters("npy", "parquet")
    def test_same_order_same_weights_as_in_memory(self, kind):
        rows = self._rows(kind)
        starts = rows.catalog.piece_starts

        def order(_, seed):
            made = tf.numpy_function(
                lambda pair: np.array(expected_order(starts, *pair), np.int32),
                [seed],
                tf.int32,
            )
            return tf.ensure_shape(made, [496])

        got, logs, model = self._fit(rows, self.y)
        with mock.patch.object(
            tf.random.experimental, "stateless_shuffle", order
        ):
            want, other, _ = self._fit(self.x, self.y)
        self.assertEqual(logs["loss"], other["loss"])
        for a, b in zip(got, want, strict=True):
            self.assertEqual(a.tobytes(), b.tobytes())
        self.assert_equal(model.encode(rows), model.encode(self.x))

    def test_unshuffled_equals_arrays(self):
        # The same code path from end to end, but for where rows are.
        got, _, _ = self._fit(self._rows(), self.y, shuffle=False)
        want, _, _ = self._fit(self.x, self.y, shuffle=False)
        for a, b in zip(got, want, strict=True):
            self.assertEqual(a.tobytes(), b.tobytes())

    def test_validation(self):
        rows = self._rows()
        held = rows[400:], self.y[400:]
        _, logs, _ = self._fit(rows[:400], self.y[:400], validation_data=held)
        arrays = self.x[400:], self.y[400:]
        _, same, _ = self._fit(rows[:400], self.y[:400], validation_data=arrays)
        self.assertLen(logs["val_map"], 2)
        np.testing.assert_allclose(logs["val_loss"], same["val_loss"], rtol=0.1)
        self.assertEqual(logs["val_map"], same["val_map"])
        _, split, _ = self._fit(rows, self.y, validation_split=0.2)
        self.assertEqual(split["val_map"], same["val_map"])

    def test_full_schedule_is_refused(self):
        model = vdsh_tf.VDSH(2, 8, 8, num_classes=4, schedule="full")
        model.compile()
        with self.assertRaisesRegex(ValueError, "full.*online.*on disk"):
            model.fit(self._rows(), self.y, verbose=0)

    def test_labels_must_fit(self):
        rows = self._rows()
        with self.assertRaisesRegex(ValueError, "500 rows and 7 labels"):
            self._fit(rows, self.y[:7])
        with self.assertRaisesRegex(ValueError, "Labels must be from 0 to 3"):
            self._fit(rows, self.y + 1)

    def test_file_that_is_gone(self):
        rows = self._rows()
        os.remove(f"{self.folder}/part-00002.npy")
        with self.assertRaisesRegex(FileNotFoundError, "00002.npy must be th"):
            self._fit(rows, self.y)
        # Told once, and no longer held against these rows.
        self.assertIsNone(rows.failure)

    def test_process_ends_after_an_error(self):
        code = (
            "import sys, os, numpy as np, vdsh_tf\n"
            "from vdsh_tf.data.shards import opening\n"
            "rows = opening.open_rows('shards', path=sys.argv[1])\n"
            "os.remove(rows._shards[1].name)\n"
            "model = vdsh_tf.VDSH(2, 8, 8, num_classes=4)\n"
            "model.compile()\n"
            "model.fit(rows, rows.catalog.labels, verbose=0)\n"
        )
        self._rows()
        done = subprocess.run(
            [sys.executable, "-c", code, self.folder],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "FileNotFoundError: .*00001.npy must be")


if __name__ == "__main__":
    absltest.main()
