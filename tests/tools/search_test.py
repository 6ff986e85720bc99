"""encode, index, query, evaluate: on a small trained run, as users run them."""

import csv
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from unittest import mock

import matplotlib.image
import numpy as np
import pytest
from absl.testing import absltest

from tests.support import export_fixtures
from tests.support import plain_hamming
from tests.support import tool_runner
from tests.support.tool_runner import run_tool
from vdsh_tf import files
from vdsh_tf.search import engines
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.training import runs

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")

# Runs a tool where TensorFlow and Keras cannot be imported.
NO_TENSORFLOW = """
import sys
sys.modules.update(dict.fromkeys(("keras", "tensorflow")))
from vdsh_tf.tools import vdsh
sys.exit(vdsh.main(sys.argv[1:]))
"""


class ToolsTest(tool_runner.ToolTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trained = export_fixtures.run_dir()
        cls.split = export_fixtures.split()
        cls.model = export_fixtures.model()

    def setUp(self):
        super().setUp()
        self.run_dir = os.path.join("runs", "digits-001")
        shutil.copytree(self.trained, self.run_dir)

    def run_ok(self, name, *args):
        out, error = run_tool(name, *args)
        self.assertIsNone(error)
        return out

    def run_bad(self, message, name, *args):
        _, error = run_tool(name, *args)
        self.assertRegex(error or "no error", f"(?s)^error: .*{message}")

    def in_run(self, name):
        return os.path.join(self.run_dir, name)

    def test_from_nothing_named_to_hits(self):
        """Without flags, everything works on the newest run."""
        self.run_ok("encode")
        self.run_ok("index")
        out = self.run_ok("query", "--plot=found.png", "--k=7")
        queries = self.model.encode(self.split.query.x)
        database = self.model.encode(self.split.database.x)
        np.testing.assert_array_equal(
            np.load(self.in_run("codes.npy")), database
        )
        distance = plain_hamming.all_distances(queries, database)
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertLen(rows, 7 * len(queries))
        for row in rows:
            q, item = int(row["query"]), int(row["id"])
            self.assertEqual(int(row["distance"]), distance[q, item])
        nearest = np.sort(distance, axis=1)[:, :7].ravel()
        got = [int(row["distance"]) for row in rows]
        np.testing.assert_array_equal(got, nearest)
        picture = matplotlib.image.imread("found.png")
        self.assertGreater(picture[..., :3].std(), 0.1)

    def test_radius_and_json(self):
        self.run_ok("encode")
        self.run_ok("index", "--kind=hash")
        self.run_ok("query", "--radius=1", "--out=hits.json")
        with open("hits.json") as f:
            found = json.load(f)
        distance = plain_hamming.all_distances(
            self.model.encode(self.split.query.x),
            self.model.encode(self.split.database.x),
        )
        self.assertLen(found, len(distance))
        for q, entry in enumerate(found):
            self.assertEqual(entry["query"], q)
            want = np.flatnonzero(distance[q] <= 1)
            self.assertEqual(sorted(entry["ids"]), want.tolist())
            np.testing.assert_array_equal(
                entry["distances"], distance[q, entry["ids"]]
            )

    def test_own_images(self):
        """A folder of pictures, searched for its own first picture."""
        os.mkdir("photos")
        for i, x in enumerate(self.split.query.x[:6]):
            gray = np.kron(x.reshape(8, 8), np.ones((3, 3))) / 16
            rgb = np.repeat(gray[..., None], 3, axis=2)
            matplotlib.image.imsave(f"photos/{i}.png", rgb)
        self.run_ok("encode", "--input=photos", "--out=photos.npy")
        self.run_ok("index", "--codes=photos.npy", "--index=faiss:photos.npz")
        out = self.run_ok(
            "query",
            "--queries=photos",
            "--index=faiss:photos.npz",
            "--k=1",
            "--plot=found.png",
            "--database=photos",
            "--out=hits.csv",
        )
        self.assertEqual(out, "")
        with open("hits.csv") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([row["distance"] for row in rows], ["0"] * 6)
        self.assertTrue(os.path.isfile("found.png"))

    def test_ids(self):
        np.save("x.npy", self.split.query.x[:5])
        np.save("ids.npy", np.array([90, 80, 70, 60, 50]) * 10**9)
        np.save("few.npy", np.arange(3))
        self.run_ok("encode", "--input=x.npy", "--out=x-codes.npy")
        here = ("index", "--codes=x-codes.npy", "--index=faiss:x.npz")
        self.run_ok(*here)
        self.run_bad("which exists", *here)
        self.run_ok(*here, "--append", "--ids=ids.npy")
        index = HammingIndex.load("x.npz", self.model)
        self.assertLen(index, 10)
        self.assertIn(70 * 10**9, index.ids)
        self.run_bad("twice", *here, "--append", "--ids=ids.npy")
        self.run_bad("5 codes and 3 ids", *here, "--append", "--ids=few.npy")
        self.run_bad("integers", *here, "--append", "--ids=x.npz")
        self.run_bad("not both", *here, "--append", "--overwrite")
        self.assertLen(HammingIndex.load("x.npz"), 10)
        self.run_ok(*here, "--overwrite", "--kind=ivf")
        self.assertLen(HammingIndex.load("x.npz"), 5)

    def test_another_encoder(self):
        self.run_ok("encode")
        self.run_ok("index")
        other = os.path.join("runs", "digits-002")
        shutil.copytree(self.trained, other)
        kernel = self.model.encoder.kernels[0]
        kept = kernel.numpy()
        try:
            kernel.assign(kept + 0.01)
            runs.save_model(self.model, os.path.join(other, "model.keras"))
        finally:
            kernel.assign(kept)
        uri = f"--index=faiss:{self.in_run('index.npz')}"
        self.run_bad(
            "or rebuild: `python tools/encode.py`",
            "query",
            f"--run_dir={other}",
            uri,
        )
        self.run_ok("encode", f"--run_dir={other}")
        self.run_bad(
            "or rebuild", "index", f"--run_dir={other}", uri, "--append"
        )

    def test_bad_queries(self):
        self.run_ok("encode")
        self.run_ok("index")
        bad = self.split.query.x[:9].copy()
        bad[4, 3] = np.nan
        np.save("nan.npy", bad)
        self.run_bad("NaN or inf in row 4", "query", "--queries=nan.npy")
        self.run_bad("NaN or inf in row 4", "encode", "--input=nan.npy")
        np.save("wide.npy", np.ones((2, 65)))
        self.run_bad("64 wide", "query", "--queries=wide.npy")
        self.run_bad("does not exist", "query", "--queries=nothing.npy")
        self.run_bad("`k` must be", "query", "--k=0")
        self.run_bad("`k` must be", "query", "--k=100000")
        self.run_bad("`radius` must be", "query", "--radius=-1")
        self.run_bad(".csv or .json", "query", "--out=hits.txt")
        self.run_bad("faiss:path", "query", "--index=hits")
        self.run_bad("there is none", "query", "--index=faiss:hits")
        self.run_bad("row to plot", "query", "--plot=a.png", "--plot_rows=0")
        self.run_bad("must end in .npy", "encode", "--out=codes")
        self.run_bad("batch_size", "encode", "--batch_size=0")
        self.assertEmpty([n for n in os.listdir(".") if n.startswith("hits")])

    def test_codes_that_are_not_what_they_seem(self):
        self.run_ok("encode")
        path = self.in_run("codes.npy")
        with open(f"{path}.json") as f:
            about = json.load(f)
        fingerprint = about.pop("fingerprint")
        files.write_json(f"{path}.json", about)
        self.run_bad("'fingerprint' in .* must be", "index")
        files.write_json(f"{path}.json", {**about, "fingerprint": fingerprint})
        with open(path, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            f.write(b"\x10")
        self.run_bad("not those of the record", "index")
        self.run_ok("encode")
        self.run_ok("index")

    def test_rows_that_are_not_what_they_seem(self):
        self.run_ok("encode")
        self.run_ok("index")
        about = {"descr": "<f8", "fortran_order": False, "shape": (-5, 64)}
        with open("x.npy", "wb") as f:
            np.lib.format.write_array_header_1_0(f, about)
        picture = self.split.query.x[:1].reshape(1, 8, 8, 1)
        np.save("y.npy", np.asfortranarray(picture))
        for name in ("x.npy", "y.npy"):
            self.run_bad("in C order", "encode", f"--input={name}")
            self.run_bad("in C order", "query", f"--queries={name}")

    def test_one_index_writer_at_a_time(self):
        self.run_ok("encode")
        self.run_ok("index")
        path = self.in_run("index.npz")
        hurried = functools.partial(engines.writing, timeout=0)
        taken, done = threading.Event(), threading.Event()

        def other_writer():
            with files.locked(path):
                taken.set()
                done.wait()

        thread = threading.Thread(target=other_writer)
        thread.start()
        taken.wait()
        with mock.patch.object(engines, "writing", hurried):
            self.run_bad("Only one process may write", "index", "--append")
        self.assertLen(HammingIndex.load(path), 1597)
        done.set()
        thread.join()
        self.run_ok("index", "--append")
        self.assertLen(HammingIndex.load(path), 2 * 1597)

    def test_wrong_order(self):
        self.run_bad("tools/encode.py", "index")
        self.run_bad("tools/index.py", "query")
        shutil.rmtree("runs")
        for tool in ("encode", "index", "query", "evaluate"):
            self.run_bad("tools/train.py", tool)

    def test_evaluate_leaves_curves(self):
        self.run_ok("evaluate")
        with open(self.in_run("curves.json")) as f:
            curves = json.load(f)
        with open(self.in_run("metrics.json")) as f:
            metrics = json.load(f)
        for name in ("precision", "recall", "empty"):
            self.assertEqual(
                curves["by_radius"][name][2], metrics[f"{name}_r2"]
            )
        picture = matplotlib.image.imread(self.in_run("curves.png"))
        self.assertGreater(picture[..., :3].std(), 0.05)

    def test_index_needs_no_tensorflow(self):
        self.run_ok("encode")
        done = subprocess.run(
            [sys.executable, "-c", NO_TENSORFLOW, "index", "--kind=hash"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1597 codes of 12 bits, hash", done.stdout)


if __name__ == "__main__":
    absltest.main()
