"""Sources of rows give the same rows as reading all at once."""

import os
import tempfile
import types
import zipfile

import matplotlib.image
import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf.data import streams


def write_header(f, shape, order=False):
    about = {"descr": "<f8", "fortran_order": order, "shape": shape}
    np.lib.format.write_array_header_1_0(f, about)


def header_of(text):
    data = text.encode()
    return b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data


def write_zip(f, name, data):
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr(name, data)


class StreamsTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.x = np.random.default_rng(0).normal(size=(25, 4, 3))

    def file(self, name):
        return os.path.join(self.folder, name)

    def check(self, rows, want):
        want = want.reshape(len(want), -1)
        self.assertEqual(rows.shape, want.shape)
        for size in (1, 7, 25, 100):
            got = np.concatenate(list(rows.batches(size)))
            np.testing.assert_array_equal(got, want)
        order = [24, 0, 7, 7]
        np.testing.assert_array_equal(rows.take(order), want[order])

    @parameterized.parameters(np.uint8, np.float16, np.float32, np.float64)
    def test_npy(self, dtype):
        x = (100 * self.x).astype(dtype)
        np.save(self.file("x.npy"), x)
        self.check(streams.open_rows(self.file("x.npy")), x)

    @parameterized.product(
        save=(np.savez, np.savez_compressed), key=("features", "x", "images")
    )
    def test_npz(self, save, key):
        save(self.file("x.npz"), labels=np.arange(25), **{key: self.x})
        self.check(streams.open_rows(self.file("x.npz")), self.x)

    def test_array(self):
        x = self.x.reshape(25, -1)
        self.check(streams.ArrayRows(x), x)

    def test_named(self):
        x = self.x.reshape(25, -1)
        split = types.SimpleNamespace(
            database=types.SimpleNamespace(x=x),
            query=types.SimpleNamespace(x=x[:3]),
        )
        self.check(streams.named_rows("database", lambda: split), x)
        rows = streams.named_rows("query", lambda: split, (4, 3, 1))
        np.testing.assert_array_equal(rows.take([2]), x[[2]])
        # The run's own data is not needed for a file, nor are pictures.
        np.save(self.file("x.npy"), self.x)
        self.check(streams.named_rows(self.file("x.npy"), None), x)
        path = self.file("0.png")
        matplotlib.image.imsave(path, np.zeros((6, 4, 3)))
        rows = streams.named_rows(self.folder, None, (6, 4, 1))
        self.assertEqual(rows.shape, (1, 24))

    def test_images(self):
        pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 4))
        for i, image in enumerate(pixels.astype(np.uint8)):
            rgb = np.repeat(image[..., None], 3, axis=2)
            matplotlib.image.imsave(self.file(f"{i}.png"), rgb)
        with open(self.file("readme.txt"), "w") as f:
            f.write("not an image")
        rows = streams.open_rows(self.folder, (6, 4, 1))
        got = np.concatenate(list(rows.batches(2)))
        np.testing.assert_allclose(got, pixels.reshape(5, -1), atol=1)
        self.assertEqual(rows.names[3], "3.png")
        np.testing.assert_array_equal(rows.take([3, 1]), got[[3, 1]])
        half = streams.open_rows(self.folder, (3, 2, 3)).take([0])
        self.assertEqual(half.shape, (1, 18))
        # A smaller picture keeps its mean.
        self.assertAlmostEqual(half.mean(), got[0].mean(), delta=12)

    def test_bad_images(self):
        with self.assertRaisesRegex(ValueError, "must hold image files"):
            streams.open_rows(self.folder, (6, 4, 1))
        with open(self.file("a.png"), "w") as f:
            f.write("not an image")
        with self.assertRaisesRegex(ValueError, "a.png must be an image"):
            streams.open_rows(self.folder, (6, 4, 1)).take([0])
        with self.assertRaisesRegex(ValueError, "features first"):
            streams.open_rows(self.folder, None)

    def test_truncated(self):
        path = self.file("x.npy")
        np.save(path, self.x)
        os.truncate(path, os.path.getsize(path) - 8)
        with self.assertRaisesRegex(ValueError, "truncated"):
            list(streams.open_rows(path).batches(10))

    @parameterized.named_parameters(
        ("empty", lambda f, x: f.write(b"")),
        ("text", lambda f, x: f.write(b"1 2 3")),
        ("names", lambda f, x: np.savez(f, z=x)),
        ("rank", lambda f, x: np.save(f, x.ravel())),
        ("strings", lambda f, x: np.save(f, x.astype(str))),
        ("order", lambda f, x: np.save(f, x.T)),
        ("pickle", lambda f, x: np.save(f, x.astype(object))),
        ("picture", lambda f, x: np.save(f, x[:1].transpose(0, 2, 1))),
        ("fortran", lambda f, x: np.save(f, np.ones((1, 8, 8, 1), order="F"))),
        ("negative", lambda f, x: write_header(f, (-5, 64))),
        ("negative_width", lambda f, x: write_header(f, (5, -64))),
        ("both_negative", lambda f, x: write_header(f, (-1, -64))),
        ("no_width", lambda f, x: write_header(f, (10**15, 0))),
        ("large", lambda f, x: write_header(f, (10**12, 64))),
        ("overflow", lambda f, x: write_header(f, (2**32, 2**32))),
        ("member_without_ending", lambda f, x: write_zip(f, "x", b"1")),
        ("member_is_text", lambda f, x: write_zip(f, "x.npy", b"1, 2")),
        ("member_is_short", lambda f, x: write_zip(f, "x.npy", b"\x93NUMPY")),
        ("nested", lambda f, x: f.write(header_of("(" * 3000))),
        ("unended", lambda f, x: f.write(header_of("{'a': ("))),
    )
    def test_bad_file(self, write):
        path = self.file("x.npy")
        with open(path, "wb") as f:
            write(f, self.x)
        with self.assertRaisesRegex(ValueError, "must be a .npy file"):
            streams.open_rows(path)

    def test_fortran_order_where_it_is_the_same(self):
        for x in (self.x[:1, :1], self.x[:, :1, :1]):
            with open(self.file("x.npy"), "wb") as f:
                write_header(f, x.shape, order=True)
                f.write(x.tobytes())
            rows = streams.open_rows(self.file("x.npy"))
            got = np.concatenate(list(rows.batches(7)))
            np.testing.assert_array_equal(got, x.reshape(len(x), -1))

    def test_damage_inside_a_compressed_member(self):
        path = self.file("x.npz")
        np.savez_compressed(path, x=np.zeros((1000, 50)) + self.x[0, 0, 0])
        with open(path, "rb") as f:
            whole = f.read()
        for at in range(100, len(whole), 7):
            with open(path, "wb") as f:
                f.write(whole[:at] + bytes([whole[at] ^ 85]) + whole[at + 1 :])
            try:
                got = np.concatenate(list(streams.open_rows(path).batches(64)))
            except ValueError:
                continue
            np.testing.assert_array_equal(got, self.x[0, 0, 0])

    def test_missing(self):
        with self.assertRaisesRegex(FileNotFoundError, "does not exist"):
            streams.open_rows(self.file("nothing.npy"))

    @parameterized.parameters(-1, 25)
    def test_ids_of_other_data(self, row):
        np.save(self.file("x.npy"), self.x)
        with self.assertRaisesRegex(ValueError, "from 0 to 24"):
            streams.open_rows(self.file("x.npy")).take([0, row])


if __name__ == "__main__":
    absltest.main()
