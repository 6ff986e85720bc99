"""Runs every example for real and compares its codes by the parity rule."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import venv
from typing import NamedTuple

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from tests.support import javascript
from vdsh_tf import VDSH
from vdsh_tf import codes as codes_lib
from vdsh_tf.data import datasets
from vdsh_tf.export import graph
from vdsh_tf.export import metadata
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.training import runs

EXAMPLES = export_fixtures.ROOT / "examples"


class Case(NamedTuple):
    encoder: str
    rows: np.ndarray
    responses: np.ndarray

    def check(self, codes, runtime):
        report = parity.compare(self.responses, codes, runtime, 1024)
        parity.require([report])
        bits = codes_lib.unpack(codes, self.responses.shape[1])
        assert 0.05 < bits.mean() < 0.95


@functools.cache
def digits() -> Case:
    """All digits and hostile rows, by the small trained encoder."""
    split = export_fixtures.split()
    real = np.concatenate([split.train.x, split.query.x]).astype(np.float32)
    rows = np.concatenate([real, parity.hostile_rows(real[:50])])
    kernels = graph.kernels_of(export_fixtures.model())
    path = os.path.join(export_fixtures.out(), "encoder.onnx")
    return Case(path, rows, parity.responses(kernels, rows))


@functools.cache
def mnist() -> Case:
    """10,000 images by an untrained encoder, or by the run VDSH_RUN_DIR."""
    root = os.environ.get("TFDS_DATA_DIR") or str(
        export_fixtures.ROOT.parent / "shared" / "data" / "tfds"
    )
    if not os.path.isdir(os.path.join(root, "mnist")):
        pytest.skip("MNIST is not prepared; set TFDS_DATA_DIR to its folder")
    rows = datasets.load("mnist", data_dir=root).train.x[:10_000]
    run_dir = os.environ.get("VDSH_RUN_DIR")
    if run_dir:
        model = runs.load_model(os.path.join(run_dir, "model.keras"))
    else:
        model = VDSH(layers=8, width=64, bits=36, num_classes=10)
        model.build((None, 784))
    served = graph.Served(
        graph.kernels_of(model), metadata.describe(model, "mnist")
    )
    path = os.path.join(export_fixtures.folder(), "encoder.onnx")
    onnx_file.write(served, path)
    rows = rows.astype(np.float32)
    want = parity.responses(graph.kernels_of(model), rows)
    return Case(path, rows, want)


CASES = {"digits": digits, "mnist": mnist}


def run(command, **kwargs):
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **kwargs,
    )


class PythonTest(parameterized.TestCase):
    def search(self, python, case, **kwargs):
        folder = pathlib.Path(export_fixtures.folder())
        np.save(folder / "rows.npy", case.rows)
        found = run(
            [
                *python,
                EXAMPLES / "python_onnx" / "search.py",
                case.encoder,
                folder / "rows.npy",
                f"--codes={folder}/codes.npy",
            ],
            cwd=folder,
            **kwargs,
        )
        assert found.returncode == 0, found.stderr
        case.check(np.load(folder / "codes.npy"), "python example")
        return found.stdout

    def test_search(self):
        case = digits()
        blocker = (
            "import sys, runpy\n"
            "for n in ('tensorflow', 'keras', 'vdsh_tf'):\n"
            "    sys.modules[n] = None\n"
            "sys.argv = sys.argv[1:]\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        text = self.search([sys.executable, "-c", blocker], case)
        first = codes_lib.pack(case.responses[:1] > 0).tobytes().hex()
        lines = text.splitlines()
        assert lines[0].endswith("12 bits")
        assert lines[1].startswith(f"row 0, code {first}: ")
        assert "(0 bits)" in lines[1]

    def test_wrong_width(self):
        folder = pathlib.Path(export_fixtures.folder())
        np.save(folder / "rows.npy", np.ones((2, 63)))
        found = run(
            [
                sys.executable,
                EXAMPLES / "python_onnx" / "search.py",
                digits().encoder,
                folder / "rows.npy",
            ]
        )
        assert found.returncode == 1
        assert "rows must be [n, 64]" in found.stderr

    @pytest.mark.slow
    @pytest.mark.network
    @pytest.mark.skipif(
        not os.environ.get("VDSH_SLOW_TESTS"),
        reason="makes a virtual environment; set VDSH_SLOW_TESTS=1 to run it",
    )
    def test_in_an_environment_with_nothing_else(self):
        folder = pathlib.Path(export_fixtures.folder())
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        done = run(
            [python, "-m", "pip", "install", "-q", "onnxruntime", "faiss-cpu"]
        )
        assert done.returncode == 0, done.stderr
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        for name in ("tensorflow", "keras", "vdsh_tf"):
            done = run([python, "-c", f"import {name}"], cwd=folder, env=clean)
            assert "ModuleNotFoundError" in done.stderr
        self.search([python], digits(), env=clean)


class NodeTest(parameterized.TestCase):
    def workplace(self):
        node = javascript.node()
        modules = javascript.packages() / "node_modules"
        folder = pathlib.Path(export_fixtures.folder(), "node")
        shutil.copytree(EXAMPLES / "node", folder)
        (folder / "node_modules").symlink_to(modules)
        return node, folder

    @parameterized.parameters(*CASES)
    def test_codes(self, name):
        node, folder = self.workplace()
        case = CASES[name]()
        np.save(folder / "rows.npy", case.rows)
        found = run(
            [node, "encode.mjs", case.encoder, "rows.npy", "codes.npy"],
            cwd=folder,
        )
        assert found.returncode == 0, found.stderr
        case.check(np.load(folder / "codes.npy"), "node example")
        assert f"{len(case.rows)} codes of" in found.stdout

    @parameterized.parameters(
        (np.ones((2, 63), np.float32), "Rows must be [n, 64]"),
        (np.full((2, 64), np.nan, np.float32), "Rows must be finite"),
        (np.ones((2, 64)), "float32 or uint8"),
    )
    def test_bad_rows(self, rows, message):
        node, folder = self.workplace()
        np.save(folder / "rows.npy", rows)
        found = run(
            [node, "encode.mjs", digits().encoder, "rows.npy", "codes.npy"],
            cwd=folder,
        )
        assert found.returncode == 1
        assert message in found.stderr
        assert not (folder / "codes.npy").exists()


if __name__ == "__main__":
    absltest.main()
