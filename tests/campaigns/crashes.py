"""Kills tools at random moments, and looks at what they left behind.

    python -m tests.campaigns.crashes --kills=100

Each trial starts one of train, export, encode and index, ends it with SIGKILL
after a random part of the time that it takes, checks that what was there
before can still be used, runs the same command again (training resumes) and
checks the result: weights equal to the bit to those of an uninterrupted run,
codes, index and exported files complete and right, no partial files or locks.
Ends with 1 if anything is wrong. Four minutes for 100 kills on two cores.

Tools run in copies of this process, so that TensorFlow is imported once; no
operation of TensorFlow may run here.
"""

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable

import faiss
import keras  # noqa: F401
import numpy as np
import tensorflow as tf  # noqa: F401

from vdsh_tf.search import code_files
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.tools import encode
from vdsh_tf.tools import export
from vdsh_tf.tools import index
from vdsh_tf.tools import train

TOOLS = {"train": train, "export": export, "encode": encode, "index": index}
SMALL = ("--stages=2:8:1e-3", "--width=16", "--bits=16", "--verbose=0")
RUN = "base"
ROWS, ADDED = 40_000, 10_000
HANG = 120


class FailedError(Exception):
    """Something was lost, wrong, or left behind."""


def start(function: Callable[[], int]) -> int:
    """Runs a function in a copy of this process; its process number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(os.open("messages.txt", os.O_WRONLY | os.O_CREAT, 0o600), 2)
        code = function()
    finally:
        os._exit(code)


def finish(function: Callable[[], int]) -> float:
    """Runs it to its end; seconds that it took."""
    began = time.monotonic()
    child, status = start(function), None
    while status is None:
        if time.monotonic() > began + HANG:
            os.kill(child, signal.SIGKILL)
        ended, found = os.waitpid(child, os.WNOHANG)
        status = found if ended else None
        time.sleep(0.005)
    if status:
        with open("messages.txt", errors="replace") as f:
            raise FailedError(f"a run ended with {status}: {f.read()[-500:]}")
    return time.monotonic() - began


def kill(function: Callable[[], int], seconds: float) -> bool:
    """Kills it after some time; False if it had ended before."""
    child = start(function)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def tool(name: str, *flags: str) -> Callable[[], int]:
    """A run of a tool, to be called in a process of its own."""
    return lambda: TOOLS[name].main(flags)


def require(holds: bool, what: str) -> None:
    """Raises FailedError unless it holds."""
    if not holds:
        raise FailedError(what)


def digest(*paths: str) -> str:
    """SHA-256 of files."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as f:
            total.update(f.read())
    return total.hexdigest()


def weights(path: str) -> str:
    """SHA-256 of the weights of a run, by a process of its own."""

    def write():
        from vdsh_tf.training import runs

        model = runs.load_model(os.path.join(path, "model.keras"))
        with open("weights", "wb") as f:
            f.writelines(v.numpy().tobytes() for v in model.weights)
        return 0

    finish(write)
    return digest("weights")


class Train:
    """Training: resumed, it ends with the weights of an uninterrupted run."""

    def prepare(self):
        finish(tool("train", *SMALL, f"--run_dir={RUN}"))
        self.want = weights(RUN)

    def before(self):
        shutil.rmtree("run", ignore_errors=True)

    def work(self):
        return tool("train", *SMALL, "--run_dir=run")

    def after_kill(self):
        pass

    def again(self):
        if os.path.exists("run/config.json"):
            return tool("train", "--resume", "--run_dir=run", "--verbose=0")
        return self.work()

    def check(self):
        require(weights("run") == self.want, "other weights than without kill")
        require(os.path.exists("run/metrics.json"), "no metrics")
        require(not os.path.exists("run/checkpoints"), "checkpoints are left")


class Encode:
    """Codes: the old file, or the new one; never one for the other."""

    def prepare(self):
        rng = np.random.default_rng(0)
        np.save("old.npy", rng.random((1000, 64)).astype("f4"))
        np.save("new.npy", rng.random((ROWS, 64)).astype("f4"))
        self.known = {}
        for name in ("old", "new"):
            finish(self._encode(name))
            shutil.copy("codes.npy", f"codes-{name}.npy")
            shutil.copy("codes.npy.json", f"codes-{name}.npy.json")
            self.known[digest("codes.npy")] = name

    def before(self):
        for ending in ("", ".json"):
            shutil.copy(f"codes-old.npy{ending}", f"codes.npy{ending}")

    def work(self):
        return self._encode("new")

    def after_kill(self):
        # Between two renames, the pair is refused, never misread.
        with contextlib.suppress(ValueError):
            code_files.read("codes.npy")
            require(digest("codes.npy") in self.known, "other codes")

    again = work

    def check(self):
        code_files.read("codes.npy")
        require(self.known.get(digest("codes.npy")) == "new", "other codes")

    def _encode(self, name):
        flags = (f"--input={name}.npy", "--out=codes.npy", "--batch_size=256")
        return tool("encode", f"--run_dir={RUN}", *flags)


class Index:
    """An index that is added to: as before, or with all that was added."""

    def prepare(self):
        shutil.copy("codes-old.npy", "more.npy")
        shutil.copy("codes-old.npy.json", "more.npy.json")
        _, about = code_files.read("more.npy")
        rng = np.random.default_rng(1)
        old = HammingIndex(16, "hnsw", about["fingerprint"])
        old.add(rng.integers(0, 256, (ADDED, 2), np.uint8))
        old.save("index-old.npz")

    def before(self):
        shutil.copy("index-old.npz", "index.npz")

    def work(self):
        flags = ("--codes=more.npy", "--index=faiss:index.npz", "--append")
        return tool("index", *flags)

    def after_kill(self):
        found = len(HammingIndex.load("index.npz"))
        require(found in (ADDED, ADDED + 1000), f"{found} items")
        if found != ADDED:
            self.before()

    again = work

    def check(self):
        found = len(HammingIndex.load("index.npz"))
        require(found == ADDED + 1000, f"{found} items")


class Export:
    """Exported files: complete and right, the old ones or the new ones."""

    def prepare(self):
        finish(self.work())
        shutil.copytree("exported", "exported-old")
        self.rows = np.load("old.npy")[:50]
        self.want = self.codes("exported")

    def before(self):
        shutil.rmtree("exported")
        shutil.copytree("exported-old", "exported")

    def work(self):
        flags = (f"--run_dir={RUN}", "--out=exported", "--nocheck")
        return tool("export", *flags)

    def after_kill(self):
        got = self.codes("exported")
        require((got == self.want).all(), "other codes from ONNX")
        for version in os.listdir("exported/saved_model"):
            whole = (
                "saved_model.pb",
                "variables/variables.index",
                "assets.extra/tf_serving_warmup_requests",
            )
            for name in whole:
                path = f"exported/saved_model/{version}/{name}"
                require(os.path.exists(path), f"{path} is missing")

    again = work

    def check(self):
        self.after_kill()
        require(len(os.listdir("exported/saved_model")) >= 2, "no new version")

    def codes(self, folder):
        import onnxruntime

        session = onnxruntime.InferenceSession(f"{folder}/encoder.onnx")
        return session.run(["codes"], {"x": self.rows})[0]


# Encode needs what Train prepares, Index what Encode does, and so on.
WORKS = {"train": Train, "encode": Encode, "index": Index, "export": Export}


def leftovers() -> list[str]:
    """Partial files and locks, anywhere below the folder."""
    return [
        os.path.join(folder, name)
        for folder, folders, names in os.walk(".")
        for name in (*folders, *names)
        if name.startswith(".")
    ]


def trial(work, seconds: float) -> bool:
    """One kill with its checks; False if the tool had ended before it."""
    work.before()
    if not kill(work.work(), seconds):
        return False
    work.after_kill()
    finish(work.again())
    work.check()
    left = leftovers()
    require(not left, f"left behind: {left}")
    return True


def campaign(names: list[str], kills: int, seed: int) -> int:
    """Runs all trials and prints a line for each tool; number of failures."""
    source = random.Random(seed)
    works: dict = {}
    times: dict = {}
    last = max(list(WORKS).index(name) for name in names)
    for name, kind in list(WORKS.items())[: last + 1]:
        works[name] = kind()
        works[name].prepare()
        if name in names:
            works[name].before()
            times[name] = finish(works[name].work())
    failures = 0
    for number, name in enumerate(names):
        done = bad = tried = 0
        wanted = kills // len(names) + (number < kills % len(names))
        while done < wanted and tried < 20 * kills:
            tried += 1
            moment = source.uniform(0, times[name])
            try:
                done += trial(works[name], moment)
            except FailedError as error:
                done, bad = done + 1, bad + 1
                print(f"{name} at {moment:.3f} s: {error}", flush=True)
                with contextlib.suppress(OSError):
                    for left in leftovers():
                        os.remove(left)
        failures += bad
        print(
            f"{name}: {done} kills within {times[name]:.1f} s, {bad} with "
            "something lost, wrong or left behind",
            flush=True,
        )
    return failures


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    # Threads of OpenMP that this process had would be waited for in its copies.
    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        failures = campaign(args.works.split(","), args.kills, args.seed)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
