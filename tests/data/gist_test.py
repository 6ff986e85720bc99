"""GIST against a plain oracle, and what its numbers mean."""

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import reference_gist
from vdsh_tf.data import gist


def _images(num, height=32, width=32, channels=3, seed=0):
    """Smooth blobs with noise: structure at every scale."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((num, 4, 4, channels))
    smooth = tf.image.resize(coarse, (height, width), "bicubic").numpy()
    noise = 0.2 * rng.random((num, height, width, channels))
    return np.clip(255 * (0.8 * smooth + noise), 0, 255).astype(np.uint8)


def _stripes(angle, cycles):
    """A wave that runs in direction `angle`, from x towards y."""
    y, x = np.mgrid[:32, :32] / 32
    wave = np.cos(2 * np.pi * cycles * (x * np.cos(angle) + y * np.sin(angle)))
    return (127 + 100 * wave)[None, :, :, None]


class OracleTest(case.TestCase):
    @parameterized.parameters(1, 3)
    def test_matches_the_plain_program(self, channels):
        images = _images(5, channels=channels)
        transfers = reference_gist.filters()
        want = [reference_gist.gist(image, transfers) for image in images]
        got = gist.gist(images)
        self.assertEqual(got.shape, (5, gist.GIST_WIDTH))
        self.assertEqual(got.dtype, np.float32)
        self.assertGreater(np.mean(want), 0.01)
        self.assert_close(got, want, atol=2e-6)

    def test_transfer_functions(self):
        self.assert_close(
            gist.gabor_transfer(), reference_gist.filters(), atol=1e-12
        )

    def test_contrast_normalisation(self):
        grey = _images(3, channels=1)[..., 0].astype("f4")
        want = [reference_gist.prefilter(g.astype("f8")) for g in grey]
        self.assert_close(gist.normalise_contrast(grey), want, atol=1e-4)

    @parameterized.parameters((28, 28), (64, 64), (45, 45), (16, 16))
    def test_other_sizes_are_scaled(self, height, width):
        images = _images(2, height, width).astype("f4")
        scaled = tf.image.resize(images, (32, 32), antialias=True)
        self.assert_close(gist.gist(images), gist.gist(scaled), atol=1e-4)

    @parameterized.parameters((32, 48), (48, 32))
    def test_the_middle_of_an_oblong_image_is_used(self, height, width):
        images = _images(2, height, width)
        top, left = (height - 32) // 2, (width - 32) // 2
        middle = images[:, top : top + 32, left : left + 32]
        self.assert_close(gist.gist(images), gist.gist(middle), atol=1e-6)


class MeaningTest(case.TestCase):
    @parameterized.parameters(
        (0.0, 0), (-np.pi / 4, 2), (np.pi / 2, 4), (np.pi / 4, 6)
    )
    def test_stripes_excite_their_orientation(self, angle, orientation):
        row = gist.gist(_stripes(angle, cycles=8))
        energy = row.reshape(4, 8, 16).sum(axis=(0, 2))
        self.assertEqual(np.argmax(energy), orientation)
        across = energy[(orientation + 4) % 8]
        self.assertGreater(energy[orientation], 3 * across)

    def test_finer_stripes_excite_finer_scales(self):
        scales = []
        for cycles in (10, 5, 2):
            row = gist.gist(_stripes(0.0, cycles)).reshape(4, 8, 16)
            scales.append(np.argmax(row[:, 0].mean(axis=-1)))
        self.assertEqual(scales, sorted(scales))
        self.assertGreater(scales[-1], scales[0])

    def test_a_block_sees_its_own_corner(self):
        image = np.full((1, 32, 32, 1), 100.0)
        image[0, 1:7, 25:31:2] = 200.0
        row = gist.gist(image).reshape(32, 4, 4).sum(axis=0)
        self.assertEqual(np.unravel_index(row.argmax(), (4, 4)), (0, 3))

    def test_one_colour_gives_zeros(self):
        rows = gist.gist(np.full((2, 32, 32, 3), 77, np.uint8))
        self.assert_equal(rows, np.zeros((2, 512)))

    def test_brightness_and_contrast_do_not_matter(self):
        images = _images(2).astype("f4")
        self.assert_close(
            gist.gist(images), gist.gist(images / 4 + 30), atol=1e-4
        )

    def test_a_mirrored_image_has_mirrored_blocks_and_orientations(self):
        images = _images(2)
        row = gist.gist(images).reshape(-1, 4, 8, 4, 4)
        mirrored = gist.gist(images[:, :, ::-1]).reshape(-1, 4, 8, 4, 4)
        turned = mirrored[:, :, (8 - np.arange(8)) % 8, :, ::-1]
        # Not exact: the field's zero and highest frequencies have one
        # direction only, which is not mirrored.
        self.assert_close(turned, row, atol=1e-3)


class BatchTest(case.TestCase):
    def test_rows_do_not_depend_on_the_batch(self):
        images = _images(7)
        want = gist.gist(images, batch_size=7)
        for size in (1, 3, 100):
            self.assert_close(
                gist.gist(images, batch_size=size), want, atol=1e-6
            )

    def test_progress_counts_every_image(self):
        seen = []
        gist.gist(_images(7), batch_size=3, progress=seen.append)
        self.assertEqual(seen, [3, 3, 1])

    def test_no_images(self):
        self.assertEqual(gist.gist(_images(2)[:0]).shape, (0, 512))


class BadInputTest(case.TestCase):
    @parameterized.parameters(
        ((4, 3072),), ((32, 32, 3),), ((4, 32, 32, 2),), ((4, 3, 32, 32),)
    )
    def test_not_images(self, shape):
        with self.assertRaisesRegex(ValueError, r"\[n, height, width, chan"):
            gist.gist(np.zeros(shape))

    def test_not_numbers(self):
        with self.assertRaisesRegex(ValueError, "must be numbers"):
            gist.gist([["a.png"]])

    def test_no_pixels(self):
        with self.assertRaisesRegex(ValueError, "must have pixels"):
            gist.gist(np.zeros((2, 0, 32, 3)))

    def test_nan_names_the_image(self):
        images = _images(3).astype("f4")
        images[2, 0, 0, 0] = np.nan
        with self.assertRaisesRegex(ValueError, "image 2 "):
            gist.gist(images)

    def test_batch_size(self):
        with self.assertRaisesRegex(ValueError, "batch_size=0"):
            gist.gist(_images(1), batch_size=0)


if __name__ == "__main__":
    absltest.main()
