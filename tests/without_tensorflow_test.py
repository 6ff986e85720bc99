"""Index, searcher, metrics and client where TensorFlow is not installed."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

import pytest
from absl.testing import absltest

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")

ROOT = pathlib.Path(__file__).parents[1]
# Makes TensorFlow and Keras look as if they were not installed.
BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""
USE = """
import os, sys, tempfile
import numpy as np
import vdsh_tf
from vdsh_tf import HammingIndex, open_index, serving
from vdsh_tf.evaluation import curves, metrics
from vdsh_tf.search import answers, code_files
from vdsh_tf.search.searcher import Searcher

try:
    vdsh_tf.VDSH
except ImportError as error:
    assert "tensorflow" in str(error) or "keras" in str(error), error
else:
    sys.exit("TensorFlow is there: nothing was tested")

def encode(x):
    return np.packbits(x > 0, axis=1)

x = np.random.default_rng(0).normal(size=(100, 16))
codes, labels = encode(x), np.arange(100) % 4
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "index.npz")
    index = HammingIndex(16, "hash", encoder="f" * 32)
    index.add(codes)
    index.save(path)
    index = open_index(f"faiss:{path}", "f" * 32)
hits = Searcher(encode, index).search(x, k=3)
assert all(distances[0] == 0 for distances, _ in hits)
assert metrics.evaluate(codes, labels, codes, labels, 16)["map"] > 0.2
counts = metrics.count_by_distance(codes, labels, codes, labels)
assert curves.retrieval_curves(counts)["by_rank"]["k"][-1] == 100
with serving.Client("http://localhost:1", retries=0) as client:
    assert client.model == "vdsh"
found = {"tensorflow", "keras"} & set(sys.modules)
assert not found, found
"""
# What a searcher and a client of a server need.
PACKAGES = (
    "numpy>=2.0",
    "faiss-cpu>=1.8",
    "filelock>=3.20.4",
    "matplotlib>=3.8",
)


class WithoutTensorflowTest(absltest.TestCase):
    def test_blocked(self):
        subprocess.run([sys.executable, "-c", BLOCKER + USE], check=True)

    def test_blocker_blocks(self):
        for module in ("tensorflow", "keras.layers", "vdsh_tf.encoder"):
            done = subprocess.run(
                [sys.executable, "-c", f"{BLOCKER}\nimport {module}"],
                capture_output=True,
                text=True,
            )
            self.assertIn("ModuleNotFoundError: No module", done.stderr)

    @pytest.mark.slow
    @pytest.mark.network
    def test_environment_of_its_own(self):
        """The package as it is installed, beside what a searcher needs only."""
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            python = os.path.join(folder, "bin", "python")
            install = [python, "-m", "pip", "install", "--quiet"]
            done = subprocess.run(
                [*install, *PACKAGES], capture_output=True, text=True
            )
            if done.returncode:
                self.skipTest(f"pip cannot install: {done.stderr[-300:]}")
            # pip leaves files where it builds.
            source = os.path.join(folder, "source")
            leave = shutil.ignore_patterns(".git", "build", "*.egg-info")
            shutil.copytree(ROOT, source, ignore=leave)
            subprocess.run([*install, "--no-deps", source], check=True)
            shutil.rmtree(source)
            subprocess.run([python, "-I", "-c", USE], cwd=folder, check=True)


if __name__ == "__main__":
    absltest.main()
