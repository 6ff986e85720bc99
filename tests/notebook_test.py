"""The notebook runs from top to bottom, and shows what it says."""

import pathlib
import tempfile

import nbclient
import nbformat
from absl.testing import absltest

from tests.support import case

PATH = pathlib.Path(__file__).parents[1] / "examples" / "quickstart.ipynb"


class NotebookTest(case.TestCase):
    def test_runs(self):
        notebook = nbformat.read(PATH, as_version=4)
        nbformat.validate(notebook)
        with self.subTest("kept without outputs"):
            for cell in notebook.cells:
                self.assertEmpty(cell.get("outputs", []))
        with tempfile.TemporaryDirectory() as folder:
            client = nbclient.NotebookClient(
                notebook,
                timeout=300,
                kernel_name="python3",
                resources={"metadata": {"path": folder}},
            )
            client.execute()
        shown = "".join(
            output.get("text", "")
            for cell in notebook.cells
            for output in cell.get("outputs", [])
        )
        self.assertIn("query", shown)
        self.assertIn("1597 items; ['digits.index', 'digits.keras']", shown)


if __name__ == "__main__":
    absltest.main()
