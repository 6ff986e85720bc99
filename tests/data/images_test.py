"""Folders of images, one folder per class, as a data set."""

import os
import tempfile

import matplotlib.image
import numpy as np
import PIL.Image
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.data import datasets
from vdsh_tf.data import images
from vdsh_tf.data import streams


class ImagesTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        rng = np.random.default_rng(0)
        self.pixels = rng.integers(1, 256, (12, 6, 4, 3), dtype=np.uint8)
        for i, image in enumerate(self.pixels):
            self.write(("cat", "dog", "emu")[i % 3], f"{i:02}.png", image)

    def write(self, name, file, image):
        os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        path = os.path.join(self.folder, name, file)
        matplotlib.image.imsave(path, image)
        return path

    def load(self, **kwargs):
        return datasets.load(
            "images", path=self.folder, queries_per_class=0, **kwargs
        )

    def test_folders_are_classes_in_the_order_of_their_names(self):
        split = self.load()
        order = np.argsort(np.arange(12) % 3, kind="stable")
        self.assertEqual(split.image_shape, (6, 4, 3))
        self.assertEqual(split.num_classes, 3)
        self.assertEqual(split.train.x.dtype, np.uint8)
        self.assert_equal(split.train.x, self.pixels[order].reshape(12, -1))
        self.assert_equal(split.train.y, [0] * 4 + [1] * 4 + [2] * 4)

    @parameterized.parameters("link", "fifo", "device", "folder")
    def test_what_only_seems_to_be_a_picture(self, kind):
        path = os.path.join(self.folder, "cat", "zz.png")
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            os.mkdir(path)
        else:
            os.symlink("/dev/zero" if kind == "device" else "nowhere", path)
        for call in (
            self.load,
            lambda: streams.open_rows(os.path.dirname(path), (6, 4, 3)),
        ):
            with self.assertRaisesRegex(ValueError, "zz.png must be a file"):
                call()

    @parameterized.parameters("gif", "bmp")
    def test_grey_from_colours(self, ending):
        grey = np.arange(48, dtype=np.uint8).reshape(6, 8)
        colours = np.repeat(grey[..., None], 3, axis=-1)
        path = os.path.join(self.folder, f"one.{ending}")
        PIL.Image.fromarray(colours).save(path)
        got = images.decode(path, (6, 8, 1))
        self.assertLessEqual(np.abs(got - grey.reshape(-1)).max(), 1)

    def test_queries_are_drawn(self):
        split = datasets.load("images", path=self.folder, queries_per_class=1)
        self.assert_equal(split.query.y, [0, 1, 2])
        self.assertLen(split.database, 9)

    def test_other_sizes_are_brought_to_the_first(self):
        tall = np.full((12, 8, 3), 200, np.uint8)
        path = self.write("emu", "99.png", tall)
        split = self.load()
        self.assertEqual(split.image_shape, (6, 4, 3))
        self.assert_close(split.train.x[-1], np.full(72, 200), atol=0.01)
        # A query from the same file must have the same code.
        rows = streams.open_rows(os.path.dirname(path), split.image_shape)
        self.assert_equal(rows.take([4])[0], split.train.x[-1])

    @parameterized.parameters(((3, 2, 3),), ((6, 4, 1),), ((9, 9, 1),))
    def test_a_shape_of_choice(self, shape):
        split = self.load(image_shape=shape)
        self.assertEqual(split.image_shape, shape)
        self.assertEqual(split.train.x.shape, (12, np.prod(shape)))
        means = split.train.x.mean(axis=1)
        want = np.sort(self.pixels.mean(axis=(1, 2, 3)))
        self.assert_close(np.sort(means), want, atol=12)

    def test_grey_images_have_one_channel(self):
        import tensorflow as tf

        grey = self.pixels[0, :, :, :1]
        path = os.path.join(self.folder, "cat", "00.png")
        tf.io.write_file(path, tf.io.encode_png(grey))
        self.assertEqual(images.shape_of(path), (6, 4, 1))
        self.assertEqual(self.load().image_shape, (6, 4, 1))
        self.assert_equal(self.load().train.x[0], grey.ravel())

    def test_other_files_are_passed_over(self):
        os.mkdir(os.path.join(self.folder, ".thumbnails"))
        for name in ("readme.txt", "cat/notes.txt"):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write("not an image")
        self.assertLen(self.load().train, 12)

    def test_black_images_are_left_out(self):
        self.write("cat", "00.png", np.zeros((6, 4, 3), np.uint8))
        with self.assertWarnsRegex(UserWarning, "1 rows .* all zero"):
            self.assertLen(self.load().train, 11)

    def test_damaged_image(self):
        with open(os.path.join(self.folder, "dog", "01.png"), "w") as f:
            f.write("not an image")
        with self.assertRaisesRegex(ValueError, "01.png must be an image"):
            self.load()

    def test_class_without_images(self):
        os.mkdir(os.path.join(self.folder, "fox"))
        with self.assertRaisesRegex(ValueError, "must hold image files.*fox"):
            self.load()

    def test_no_folder(self):
        with self.assertRaisesRegex(ValueError, "needs `path`"):
            datasets.load("images")
        with self.assertRaisesRegex(FileNotFoundError, "no/such"):
            datasets.load("images", path="no/such")

    def test_no_classes(self):
        with self.assertRaisesRegex(ValueError, "one folder .* with 0"):
            datasets.load("images", path=os.path.join(self.folder, "cat"))


if __name__ == "__main__":
    absltest.main()
