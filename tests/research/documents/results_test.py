"""Tables from result files, and pages made of them."""

import json
import os
import pathlib
import tempfile

from absl.testing import absltest

from tests.support import case
from vdsh_tf.research.documents import pages
from vdsh_tf.research.documents import results
from vdsh_tf.research.documents import settings
from vdsh_tf.tools import results as tool

ROOT = pathlib.Path(__file__).parents[3]
FOLDER = str(ROOT / "docs" / "results")
RAW = {
    "VDSH, 4 layers": [
        {"map": 0.8, "trained": {"map": 0.9}, "precision_r2": 0.5},
        {"map": 0.9, "trained": {"map": 0.9}, "precision_r2": 0.7},
    ],
    "sdh": [{"map": 0.7, "precision_r2": 0.25}] * 2,
    "raw features, cosine": [{"map": 0.4}] * 2,
}


class TablesTest(case.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        os.mkdir(os.path.join(self.folder, "raw"))

    def _write(self, name, data):
        with open(os.path.join(self.folder, name), "w") as f:
            json.dump(data, f)

    def test_numbers_get_their_digits_and_texts_stay(self):
        rows = [["a", 0.5, [0.25, 1.0]], ["b", "-", "12 s"]]
        self._write(
            "t.json",
            {
                "title": "T",
                "digits": 2,
                "columns": ["", "p", "q"],
                "rows": rows,
            },
        )
        table = results.read_table(self.folder, "t")
        self.assertEqual(
            table.rows, [["a", ".50", ".25 / 1.00"], ["b", "-", "12 s"]]
        )
        self.assertEqual(table.cell("a", "q"), ".25 / 1.00")
        with self.assertRaisesRegex(ValueError, "must have a row 'c'"):
            table.cell("c", "q")

    def test_a_short_row_is_refused(self):
        data = {"title": "T", "columns": ["", "p"], "rows": [["a"]]}
        self._write("t.json", data)
        with self.assertRaisesRegex(ValueError, "must have 2 cells"):
            results.read_table(self.folder, "t")

    def test_raw_files_are_means_over_seeds(self):
        self._write("raw/cnn.json", RAW)
        self._write("raw/mnist.json", {"sdh": [{"map": 0.1}, {"map": 0.2}]})
        self._write(
            "t.json",
            {
                "title": "T",
                "cell": "{map} ({trained.map})",
                "names": {"VDSH, 4 layers": "VDSH"},
                "raw": {"CNN": "cnn.json", "MNIST": "mnist.json"},
            },
        )
        table = results.read_table(self.folder, "t")
        self.assertEqual(table.columns, ["method", "CNN", "MNIST"])
        self.assertEqual(
            table.rows,
            [
                ["VDSH", ".850 (.900)", ""],
                ["SDH", ".700", ".150"],
                ["raw features, cosine", ".400", ""],
            ],
        )

    def test_a_bare_raw_file_is_a_table(self):
        self._write("fit_alone.json", RAW)
        table = results.read_table(self.folder, "fit_alone")
        self.assertEqual(table.title, "Fit alone")
        self.assertEqual(
            table.rows[0], ["VDSH, 4 layers", ".850", ".900", ".600", ""]
        )

    def test_numbers_stand_once(self):
        data = {"title": "T", "columns": [""], "rows": [], "raw": {}}
        self._write("t.json", data)
        with self.assertRaisesRegex(ValueError, "once"):
            results.read_table(self.folder, "t")


class PagesTest(case.TestCase):
    def test_nothing_generated_is_stale(self):
        self.assertEmpty(
            list(pages.stale(str(ROOT))), "run `python tools/results.py`"
        )

    def test_every_result_file_is_on_the_page_once(self):
        self.assertEmpty(results.unlisted(FOLDER))

    def test_every_table_says_how_it_was_measured(self):
        for path in pathlib.Path(FOLDER).glob("*.json"):
            data = json.loads(path.read_text())
            if path.name != results.CONTENTS and "title" in data:
                for key in ("protocol", "command", "seeds", "measured"):
                    self.assertTrue(data[key], f"{path.name}: {key}")

    def test_a_changed_number_makes_the_page_stale(self):
        with tempfile.TemporaryDirectory() as root:
            for path in pages.made(str(ROOT)):
                os.makedirs(
                    os.path.join(root, os.path.dirname(path)), exist_ok=True
                )
                text = (ROOT / path).read_text()
                pathlib.Path(root, path).write_text(text)
            copy = pathlib.Path(root, "docs", "results")
            copy.mkdir()
            for path in pathlib.Path(FOLDER).glob("*.json"):
                text = path.read_text()
                if path.stem == "fashion":
                    self.assertIn("0.848", text)
                    text = text.replace("0.848", "0.849")
                (copy / path.name).write_text(text)
            raw = pathlib.Path(FOLDER, "raw")
            (copy / "raw").symlink_to(raw)
            flags = [f"--root={root}"]
            self.assertEqual(tool.main([*flags, "--check"]), 1)
            self.assertEqual(tool.main(flags), 0)
            self.assertEqual(tool.main([*flags, "--check"]), 0)
            for path in ("README.md", "docs/results.md"):
                self.assertIn(".849", pathlib.Path(root, path).read_text())

    def test_blocks_need_their_marks(self):
        with self.assertRaisesRegex(ValueError, "once each"):
            pages.replace_block("no marks", "flags", "text")

    def test_every_setting_is_a_row_of_the_flags(self):
        table = settings.flags_table()
        for name in ("--data", "--width", "--mixup", "--goal", "--seed"):
            self.assertEqual(table.count(f"| `{name}` |"), 1, name)
        self.assertIn("| `--sweeps` | 1; not in `full` |", table)
        self.assertIn("| `--beta` | 10; 0.1 in `full` |", table)


if __name__ == "__main__":
    absltest.main()
