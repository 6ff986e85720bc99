"""Prepared folders: what is in them, how strokes are described, damage."""

import json
import os
import shutil

import numpy as np
from absl.testing import absltest

from tests.support import case
from tests.support import export_fixtures
from tests.support import service_case
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.service import bundle
from vdsh_tf.service import preparing

COUNT = service_case.ITEMS


class PreparingTest(case.TestCase):
    def test_folder(self):
        folder = service_case.prepared()
        about = bundle.read(folder)
        self.assertEqual(about.image_shape, (8, 8, 1))
        self.assertEqual((about.peak, about.ink, about.fill), (16, True, 1))
        rows = service_case.rows()[:COUNT]
        index = HammingIndex.load(os.path.join(folder, bundle.INDEX))
        codes = export_fixtures.codes(rows)
        ids = np.arange(COUNT)[::-3]
        np.testing.assert_array_equal(index.codes_of(ids), codes[ids])
        want = np.asarray(export_fixtures.model().encoder(rows))
        np.testing.assert_allclose(
            bundle.embeddings(folder), want, atol=2e-3 * want.max()
        )
        np.testing.assert_allclose(
            about.pixels(7).ravel(), rows[7] * (255 / 16), atol=0.5
        )
        self.assertIsNone(about.pixels(COUNT))
        self.assertIsNone(about.pixels(-1))

    def test_map(self):
        """Items of one class lie together."""
        with open(bundle.read(service_case.prepared()).map) as f:
            drawn = json.load(f)
        self.assertLen(drawn["ids"], COUNT)
        places = np.stack([drawn["x"], drawn["y"]], axis=1)
        self.assertEqual((places.min(), places.max()), (0, 1))
        labels = np.array(drawn["labels"])
        apart = np.linalg.norm(places[:, None] - places, axis=2)
        np.fill_diagonal(apart, np.inf)
        same = labels[apart.argmin(axis=1)] == labels
        self.assertGreater(same.mean(), 0.5)
        few = np.zeros((2, 1), np.uint8)
        drawn = preparing.code_map(few, np.ones((2, 8)), [None, None])
        self.assertEqual(drawn["codes"], ["00", "00"])

    def test_strokes(self):
        pictures = np.zeros((3, 28, 28, 1), np.uint8)
        pictures[:, 4:24, 10:15] = 200
        self.assertEqual(preparing.describe_strokes(pictures), (True, 20 / 28))
        for others in (255 - pictures, np.repeat(pictures, 3, axis=3)):
            self.assertEqual(preparing.describe_strokes(others), (False, 1))

    def test_nothing_is_left_of_a_failure(self):
        out = os.path.join(export_fixtures.folder(), "service")
        encoder = os.path.join(export_fixtures.out(), "encoder.onnx")
        rows = service_case.rows()[:9]
        with self.assertRaises(ValueError):
            preparing.prepare(out, encoder, rows, [{}] * 9, (9, 9, 1))
        with self.assertRaisesRegex(ValueError, "must be finite"):
            preparing.prepare(out, encoder, np.full((2, 64), np.nan))
        self.assertEmpty(os.listdir(os.path.dirname(out)))
        os.mkdir(out)
        with self.assertRaisesRegex(FileExistsError, "must be new"):
            preparing.prepare(out, encoder, rows)

    def test_damage(self):
        for change, message in (
            (lambda path: os.remove(path), "Prepare a run first"),
            (lambda path: open(path, "w").close(), "is damaged"),
            (lambda path: shutil.copy(__file__, path), "is damaged"),
        ):
            folder = service_case.folder()
            change(os.path.join(folder, bundle.ABOUT))
            with self.assertRaisesRegex(
                (ValueError, FileNotFoundError), message
            ):
                bundle.read(folder)
        folder = service_case.folder()
        np.save(os.path.join(folder, bundle.PICTURES), np.zeros((3, 4)))
        with self.assertRaisesRegex(ValueError, "pictures.npy holds"):
            bundle.read(folder)


if __name__ == "__main__":
    absltest.main()
