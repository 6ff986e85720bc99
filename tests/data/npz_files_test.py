"""Labelled rows from .npz files: what is not one is refused."""

import io
import os
import tempfile
import zipfile

import numpy as np
import psutil
from absl.testing import absltest
from absl.testing import parameterized
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tests.support import case
from vdsh_tf.data import datasets

X = np.random.default_rng(0).normal(size=(60, 5)).astype("f4")
Y = np.arange(60) % 3


def saved(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


GOOD = saved(features=X, labels=Y)


class NpzTest(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "data.npz")

    def load(self, data):
        with open(self.path, "wb") as f:
            f.write(data)
        return datasets.load("npz", path=self.path, queries_per_class=2)

    def test_good(self):
        self.assertLen(self.load(GOOD).train.x, 54)

    @parameterized.parameters(
        (saved(features=np.float32(3), labels=Y), "array of rows"),
        (saved(features=X, labels=np.int64(3)), "array of rows"),
        (saved(x_train=X, y_train=Y, x_test=X), "y_test"),
        (
            saved(x_train=X, y_train=Y, x_test=X[:, :2], y_test=Y),
            r"x_test \(60, 2\)",
        ),
        (saved(a=X, b=Y), "Received: a, b"),
        (saved(features=np.array([{}]), labels=Y), "plain arrays"),
        (b"\x93NUMPY\x01\x00", "no archive"),
        (b"", "no archive"),
    )
    def test_others(self, data, message):
        with self.assertRaisesRegex(ValueError, message):
            self.load(data)

    def test_member_that_is_no_array(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("features", b"text")
        with self.assertRaisesRegex(ValueError, "array of rows"):
            self.load(file.getvalue())

    def test_what_is_not_needed_is_not_unpacked(self):
        file = io.BytesIO(GOOD)
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("other.npy", b"no array")
        self.assertLen(self.load(file.getvalue()).train.x, 54)

    def test_too_large_for_memory(self):
        data = bytearray(GOOD)
        # Sizes in the central directory, which is at the end.
        place = data.rindex(b"PK\x01\x02")
        first = data.index(b"PK\x01\x02")
        for at in (first, place):
            data[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")
        with (
            absltest.mock.patch.object(
                psutil,
                "virtual_memory",
                return_value=absltest.mock.Mock(available=2**30),
            ),
            self.assertRaisesRegex(ValueError, "8.0 GiB, free: 1.0 GiB"),
        ):
            self.load(bytes(data))

    @parameterized.parameters("fifo", "folder", "device")
    def test_no_file(self, kind):
        if kind == "fifo":
            os.mkfifo(self.path)
        elif kind == "folder":
            os.mkdir(self.path)
        else:
            os.symlink("/dev/zero", self.path)
        with self.assertRaisesRegex(ValueError, "not a file"):
            datasets.load("npz", path=self.path)

    @settings(max_examples=60, deadline=None, database=None)
    @given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=9))
    def test_damage(self, at, other):
        """Damaged bytes are refused, or do not matter."""
        data = GOOD[:at] + other + GOOD[at + len(other) :]
        try:
            split = self.load(data)
        except ValueError as error:
            self.assertIn(self.path, str(error))
        else:
            rows = np.concatenate([split.train.x, split.query.x])
            self.assert_equal(np.sort(rows, axis=0), np.sort(X, axis=0))


if __name__ == "__main__":
    absltest.main()
