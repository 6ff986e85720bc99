"""Ctrl-C and SIGTERM: one line, the exit code of a shell, nothing lost."""

import contextlib
import dataclasses
import glob
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import tool_runner
from vdsh_tf.tools import interrupts
from vdsh_tf.tools import scaffold
from vdsh_tf.training import runs

SMALL = ("--stages=2:60:1e-3", "--width=16", "--bits=8", "--verbose=0")
USUAL = (
    "every file is complete, or as it was before. The same command starts "
    "again.\n"
)
IGNORED = signal.getsignal(signal.SIGINT) == signal.SIG_IGN


@dataclasses.dataclass(frozen=True)
class Args:
    """A tool without flags of its own."""


def run(work, **kwargs):
    """Exit code and messages of a tool that does `work`."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = scaffold.run(work, Args, "", [], **kwargs)
    return code, err.getvalue()


def checkpoints(path):
    """Epochs of a run that are on disk."""
    found = glob.glob(os.path.join(path, "checkpoints", "epoch_?????.keras"))
    return max((int(name[-11:-6]) for name in found), default=0)


def catches(process, number):
    """Whether a process has a handler for a signal (Linux)."""
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    mask = int(re.search(r"SigCgt:\s*(\w+)", text)[1], 16)
    return bool(mask >> (number - 1) & 1)


def stopped(number, ready, *command):
    """Exit code and messages of a tool that gets a signal once `ready`."""
    name, *flags = command
    tool = tool_runner.ROOT / "tools" / f"{name}.py"
    process = subprocess.Popen(
        [sys.executable, tool, *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 120
    while process.poll() is None and not ready(process):
        if time.monotonic() > end:
            break
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


@unittest.skipIf(IGNORED, "SIGINT is ignored here, and so by every child")
class ToolsTest(tool_runner.ToolTestCase):
    def weights(self, path):
        model = runs.load_model(os.path.join(path, "model.keras"))
        return [v.numpy().tobytes() for v in model.weights]

    def test_interrupted_training_resumes_to_the_same_weights(self):
        more = ("--resume", "--run_dir=broken", "--verbose=0")
        first = (*SMALL, "--run_dir=broken")
        kept = 0
        for number, word, flags in (
            (signal.SIGINT, "interrupted", first),
            (signal.SIGTERM, "terminated", more),
        ):
            code, err = stopped(
                number,
                lambda _, least=kept: checkpoints("broken") > least,
                "train",
                *flags,
            )
            self.assertEqual(code, 128 + number, err)
            kept = checkpoints("broken")
            self.assertBetween(kept, 1, 59)
            line = err.splitlines()[-1]
            self.assertRegex(
                line,
                f"^{word}; broken keeps {kept} of 60 epochs. Resume with "
                "`python .*train.py --resume --run_dir=broken`.$",
            )
            self.assertNotIn("Traceback", err)
            self.assertFalse(os.path.exists(".broken.lock"))
        self.assertEqual(tool_runner.run("train", *more).code, 0)
        whole = tool_runner.run("train", *SMALL, "--run_dir=whole")
        self.assertEqual(whole.code, 0)
        self.assertEqual(self.weights("broken"), self.weights("whole"))

    def test_sweep_says_what_it_keeps(self):
        code, err = stopped(
            signal.SIGTERM,
            lambda _: checkpoints("out/digits-8bits-seed0"),
            "sweep",
            *("--preset=digits", "--bits=8", "--seeds=0", "--out=out"),
        )
        self.assertEqual(code, 143, err)
        self.assertEqual(
            err,
            "terminated; finished runs and epochs are kept. The same command "
            "goes on there.\n",
        )

    @unittest.skipUnless(os.path.isdir("/proc"), "asks Linux for handlers")
    @parameterized.product(
        number=(signal.SIGINT, signal.SIGTERM), seconds=(0, 0.7)
    )
    def test_while_a_tool_starts(self, number, seconds):
        def ready(process):
            if not catches(process, signal.SIGTERM):
                return False
            time.sleep(seconds)
            return True

        code, err = stopped(number, ready, "train", *SMALL)
        self.assertEqual(code, 128 + number, err)
        self.assertEqual(err.split("; ")[1], USUAL)
        self.assertEqual(os.listdir(), [])


@unittest.skipIf(IGNORED, "SIGINT is ignored here")
class RunTest(case.TestCase):
    @parameterized.parameters(
        (signal.SIGINT, 130, "interrupted; "),
        (signal.SIGTERM, 143, "terminated; "),
    )
    def test_code_and_line(self, number, code, start):
        before = signal.getsignal(number)
        got = run(lambda args: signal.raise_signal(number))
        self.assertEqual(got, (code, start + USUAL))
        got = run(
            lambda args: signal.raise_signal(number), interrupted="all is kept"
        )
        self.assertEqual(got, (code, start + "all is kept.\n"))
        self.assertEqual(signal.getsignal(number), before)

    def test_what_is_kept_is_known_inside(self):
        def work(args):
            with interrupts.keeping(lambda: "not this"):
                pass
            with interrupts.keeping(lambda: "3 of 4"):
                signal.raise_signal(signal.SIGINT)

        self.assertEqual(run(work), (130, "interrupted; 3 of 4.\n"))

    def test_an_error_that_an_interrupt_became(self):
        def work(args):
            try:
                signal.raise_signal(signal.SIGTERM)
            except KeyboardInterrupt as error:
                raise ImportError("numpy failed to import") from error

        self.assertEqual(run(work), (143, "terminated; " + USUAL))

    def test_python_does_not_drop_it(self):
        class Deaf:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)

        def work(args):
            thing = Deaf()
            del thing
            for _ in range(100):
                time.sleep(0.1)
            self.fail("went on")

        self.assertEqual(run(work), (130, "interrupted; " + USUAL))

    def test_what_a_parent_ignores_stays_ignored(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            got = run(lambda args: signal.raise_signal(signal.SIGINT))
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(got, (0, ""))


if __name__ == "__main__":
    absltest.main()
