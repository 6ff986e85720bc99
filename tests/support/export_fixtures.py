"""A small trained run and its export, made once for all tests."""

import atexit
import functools
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from vdsh_tf.data import datasets
from vdsh_tf.export import exporter
from vdsh_tf.recipes import Stages
from vdsh_tf.training import runs
from vdsh_tf.training import trainer
from vdsh_tf.training.config import TrainingConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
HAS_LITERT = importlib.util.find_spec("ai_edge_litert") is not None
IMAGE_SHAPE = (8, 8, 1)
# 12 bits: the second byte of a code is half empty.
BITS = 12
CONFIG = TrainingConfig().replace(
    data="digits",
    stages=Stages.parse("4:2:2e-3"),
    batch_size=64,
    width=24,
    bits=BITS,
    normalization="unit",
    goal="class",
)


def folder() -> str:
    """A new folder that goes when the tests end."""
    path = tempfile.mkdtemp(prefix="vdsh_export_")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def split() -> datasets.Split:
    return trainer.load_data(CONFIG)


@functools.cache
def run_dir() -> str:
    """A finished run; copy it before you change it."""
    directory = runs.RunDirectory.create(os.path.join(folder(), "run"), CONFIG)
    trainer.train(directory, split(), verbose=0)
    return directory.path


@functools.cache
def model():
    return runs.load_model(os.path.join(run_dir(), "model.keras"))


@functools.cache
def exported() -> tuple[str, exporter.Result]:
    """Folder with all formats that can be checked here, and the result."""
    out = os.path.join(folder(), "export")
    formats = exporter.FORMATS if HAS_LITERT else exporter.DEFAULT_FORMATS
    result = exporter.export(
        model(),
        "digits",
        out,
        formats,
        rows=rows(),
        quantized=True,
        image_shape=IMAGE_SHAPE,
    )
    return out, result


def out() -> str:
    return exported()[0]


def rows() -> np.ndarray:
    """Raw training rows as float32."""
    return split().train.x.astype(np.float32)


def codes(x: np.ndarray) -> np.ndarray:
    """What Keras says, the codes that all others must give."""
    return model().encode(x)


def environment(**more: str) -> dict[str, str]:
    """Environment of a child process that imports this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def python(code: str, check=True) -> subprocess.CompletedProcess:
    """Runs Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        check=check,
    )


def tool(*arguments: str, cwd=None) -> subprocess.CompletedProcess:
    """Runs `python tools/export.py` as a person would."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "export.py"), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=300,
        check=False,
    )
