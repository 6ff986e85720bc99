"""NUS-WIDE's files, in small."""

import os
import tempfile

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.data import datasets
from vdsh_tf.data import nus_wide

NUM_CONCEPTS = 24
NUM_IMAGES = 400
RARE = (2, 7, 23)


class NusWideTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.enter_context(tempfile.TemporaryDirectory())
        rng = np.random.default_rng(0)
        self.words = rng.poisson(0.4, (NUM_IMAGES, 500))
        self.words[0, 0] = 999
        chance = np.full(NUM_CONCEPTS, 0.15)
        chance[list(RARE)] = 0.01
        self.labels = (rng.random((NUM_IMAGES, NUM_CONCEPTS)) < chance).astype(
            int
        )
        self.labels[:5] = 0
        self.labels[:5, RARE] = 1
        self.names = [f"concept{i:02}" for i in range(NUM_CONCEPTS)]
        self.names[3] = "military"
        self._write()

    def _path(self, *parts):
        path = os.path.join(self.root, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _write(self):
        """Like the site's: spaces at line ends, one file for each concept."""
        with open(self._path("Low_Level_Features", "BoW_int.dat"), "w") as f:
            for row in self.words:
                f.write("".join(f"{count} " for count in row) + "\n")
        with open(self._path("ConceptsList", "Concepts81.txt"), "w") as f:
            f.write("\r\n".join(self.names) + "\r\n")
        for name, column in zip(self.names, self.labels.T, strict=True):
            with open(self._label_path(name), "w") as f:
                f.writelines(f"{value}\n" for value in column)

    def _label_path(self, name):
        return self._path("Groundtruth", "AllLabels", f"Labels_{name}.txt")

    def test_frequent_labels_and_the_images_that_have_one(self):
        data = nus_wide.read(self.root)
        frequent = [i for i in range(NUM_CONCEPTS) if i not in RARE]
        self.assertEqual(data.concepts, tuple(self.names[i] for i in frequent))
        kept = self.labels[:, frequent].any(axis=1)
        self.assertFalse(kept[:5].any())
        self.assert_equal(data.y, self.labels[kept][:, frequent])
        self.assert_equal(data.x, self.words[kept])

    def test_split_by_the_paper_protocol(self):
        split = datasets.load(
            "nus_wide", data_dir=self.root, queries_per_class=3
        )
        self.assertEqual(split.num_classes, 21)
        self.assertLen(split.query, 63)
        self.assertTrue((split.query.y.sum(axis=0) >= 3).all())
        self.assertEqual(split.train.x.shape[1], 500)
        self.assertEqual(split.train.y.dtype, np.float32)

    def test_files_without_the_archives_folders(self):
        for old, new in (
            ("Low_Level_Features/BoW_int.dat", "BoW_int.dat"),
            ("ConceptsList/Concepts81.txt", "Concepts81.txt"),
            ("Groundtruth/AllLabels", "AllLabels"),
        ):
            os.rename(self._path(old), self._path(new))
        self.assertLen(nus_wide.read(self.root).concepts, 21)

    def test_images_without_words_are_left_out_with_a_warning(self):
        before = len(nus_wide.read(self.root).x)
        self.words[np.flatnonzero(self.labels[:, 0])[0]] = 0
        self.words[0] = 0
        self._write()
        with self.assertWarnsRegex(UserWarning, "^1 images .* no visual words"):
            data = nus_wide.read(self.root)
        self.assertLen(data.x, before - 1)

    @parameterized.parameters(
        ("Low_Level_Features/BoW_int.dat", "archive Low-Level Features"),
        ("ConceptsList/Concepts81.txt", "archive Concept List"),
        ("Groundtruth/AllLabels/Labels_military.txt", "Labels_military"),
    )
    def test_missing_file_is_named_with_the_cure(self, path, named):
        os.remove(self._path(path))
        with self.assertRaisesRegex(
            FileNotFoundError, f"(?s){named}.*{nus_wide.SITE}"
        ):
            nus_wide.read(self.root)

    def test_empty_folder_names_all(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            self.assertRaisesRegex(
                FileNotFoundError, "BoW_int.*Concepts81.*AllLabels"
            ),
        ):
            nus_wide.read(folder)

    def test_no_folder(self):
        with self.assertRaisesRegex(ValueError, "needs `data_dir`"):
            datasets.load("nus_wide")
        with self.assertRaisesRegex(FileNotFoundError, "no/such"):
            datasets.load("nus_wide", data_dir="no/such")

    def test_fewer_words_than_labels(self):
        self.words = self.words[:-1]
        self._write()
        with self.assertRaisesRegex(ValueError, "399 lines in .*BoW.* 400 in"):
            nus_wide.read(self.root)

    def test_labels_of_unequal_length(self):
        with open(self._label_path("military"), "a") as f:
            f.write("1\n")
        with self.assertRaisesRegex(ValueError, "400 .* and 401 in .*military"):
            nus_wide.read(self.root)

    @parameterized.parameters("2\n", "0 1\n", "yes\n", "")
    def test_labels_that_are_not_0_or_1(self, line):
        with open(self._label_path("military"), "w") as f:
            f.write(line * NUM_IMAGES)
        with self.assertRaisesRegex(ValueError, "military.*0 or 1 on each"):
            nus_wide.read(self.root)

    def test_half_a_line_of_words(self):
        with open(self._path("Low_Level_Features", "BoW_int.dat"), "a") as f:
            f.write("1 2 3")
        with self.assertRaisesRegex(ValueError, "BoW_int.dat must hold 500"):
            nus_wide.read(self.root)

    def test_other_features(self):
        self.words = self.words[:, :64]
        self._write()
        with self.assertRaisesRegex(ValueError, "500 counts.* 64"):
            nus_wide.read(self.root)

    def test_too_few_concepts(self):
        self.names, self.labels = self.names[:20], self.labels[:, :20]
        self._write()
        with self.assertRaisesRegex(ValueError, "21 concepts.* 20"):
            nus_wide.read(self.root)


if __name__ == "__main__":
    absltest.main()
