"""`tools/export.py` as a person types it, and what a kill leaves behind."""

import contextlib
import hashlib
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from vdsh_tf.export import exporter
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.export import runtimes
from vdsh_tf.export import saved_model
from vdsh_tf.export import staging

TOOL = str(export_fixtures.ROOT / "tools" / "export.py")

# Exports over and over in forked processes; each is killed by itself at the
# n-th operation on files that Python makes below the output folder.
KILLED = """
import os, signal, sys
from vdsh_tf.export import exporter
from vdsh_tf.training import runs

run, out, points = sys.argv[1], sys.argv[2], map(int, sys.argv[3].split(","))
EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")

def child(point):
    model = runs.load_model(run + "/model.keras")
    count = 0
    def hook(event, arguments):
        nonlocal count
        if event not in EVENTS or not str(arguments[0]).startswith(out):
            return
        count += 1
        if count == point:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    exporter.export(
        model, "digits", out, check=False, image_shape=(8, 8, 1)
    )
    print(count, flush=True)
    os._exit(0)

for point in points:
    pid = os.fork()
    if not pid:
        child(point)
    status = os.waitpid(pid, 0)[1]
    found = sorted(os.listdir(out + "/saved_model"))
    print(point, os.WIFSIGNALED(status), *found, flush=True)
"""

# Runs the tool with each list of flags, importing TensorFlow only once; the
# outcome of each case comes after its exit code.
CASES = """
import json, os, runpy, sys
import vdsh_tf.export.exporter
from vdsh_tf.training import trainer

for folder, *flags in json.loads(sys.argv[2]):
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(writer)
        os.chdir(folder)
        sys.argv = [sys.argv[1], *flags]
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit(0)
    os.close(writer)
    with open(reader) as f:
        text = f.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(f"\\nNEXT {code}\\n{text}", flush=True)
"""

ENDLESS = """
import sys
from vdsh_tf.export import exporter
from vdsh_tf.training import runs

model = runs.load_model(sys.argv[1] + "/model.keras")
print("go", flush=True)
while True:
    exporter.export(
        model, "digits", sys.argv[2], check=False, image_shape=(8, 8, 1)
    )
"""


def digest(folder) -> dict[str, str]:
    """Hash of each visible file below a folder."""
    root = pathlib.Path(folder)
    return {
        str(path.relative_to(root)): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not str(path.relative_to(root)).startswith(".")
    }


@contextlib.contextmanager
def hidden(name):
    """Makes a package fail to import, and touches no other."""
    package = importlib.import_module(name)
    sys.modules[name] = None
    try:
        yield
    finally:
        sys.modules[name] = package


class ToolTest(parameterized.TestCase):
    def workplace(self) -> str:
        """A folder with one finished run in `runs`."""
        folder = export_fixtures.folder()
        shutil.copytree(
            export_fixtures.run_dir(), os.path.join(folder, "runs", "tiny-001")
        )
        return folder

    def test_works_as_typed(self):
        folder = self.workplace()
        found = export_fixtures.tool("--onnx", cwd=folder)
        assert found.returncode == 0, found.stderr
        out = os.path.join(folder, "runs", "tiny-001", "export")
        assert sorted(os.listdir(out)) == sorted(
            [runtimes.ONNX, runtimes.PIXELS]
        )
        model = export_fixtures.model()
        assert f"model {model.encoder.fingerprint()}" in found.stdout
        assert "x float32 [batch, 64] -> codes uint8 [batch, 2]" in found.stdout
        assert "onnx                     1024" in found.stdout

    def test_says_what_is_wrong(self):
        damaged = self.workplace()
        path = os.path.join(damaged, "runs", "tiny-001", "model.keras")
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)
        unfinished = self.workplace()
        run = os.path.join(unfinished, "runs", "tiny-001")
        os.remove(os.path.join(run, "metrics.json"))
        cases = {
            ("damaged",): "it is damaged",
            ("unfinished", f"--run_dir={run}"): "The run must be finished",
            ("empty",): "Train one with `python tools/train.py`",
            ("empty", "--run_dir=no"): "A run directory with config.json",
            ("empty", "--quantize=dynamic"): "should be one of <static>",
            ("empty", "--opset=x"): "invalid literal",
            ("empty", "extra"): "Unknown arguments: extra",
        }
        places = {
            "damaged": damaged,
            "unfinished": unfinished,
            "empty": export_fixtures.folder(),
        }

        commands = [(places[place], *flags) for place, *flags in cases]
        found = subprocess.run(
            [sys.executable, "-c", CASES, TOOL, json.dumps(commands)],
            env=export_fixtures.environment(), text=True, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        results = found.stdout.split("\nNEXT ")[1:]
        for result, (case, message) in zip(results, cases.items(), strict=True):
            assert result.startswith("1\n"), case
            assert message in result, (case, result)
            assert "Traceback" not in result, case


class MissingExtraTest(parameterized.TestCase):
    @parameterized.parameters("onnx", "tf2onnx", "onnxruntime")
    def test_message_names_the_command(self, name):
        out = os.path.join(export_fixtures.folder(), "new")
        with (
            hidden(name),
            pytest.raises(RuntimeError, match=r"pip install 'vdsh_tf\[onnx\]'"),
        ):
            exporter.export(
                export_fixtures.model(), "digits", out,
                rows=export_fixtures.rows(),
            )  # fmt: skip
        assert not os.path.exists(out)


class AtomicTest(parameterized.TestCase):
    def export(self, out, **kwargs):
        return exporter.export(
            export_fixtures.model(), "digits", out, ("saved_model",),
            rows=export_fixtures.rows(), **kwargs,
        )  # fmt: skip

    def test_versions_count_up(self):
        out = export_fixtures.folder()
        self.export(out, check=False)
        first = digest(os.path.join(out, "saved_model", "1"))
        os.mkdir(os.path.join(out, "saved_model", "7"))
        result = self.export(out, check=False)
        assert result.paths[0] == os.path.join(out, "saved_model", "8")
        assert digest(os.path.join(out, "saved_model", "1")) == first

    def test_a_wrong_bit_leaves_no_file(self):
        out = os.path.join(export_fixtures.folder(), "new")

        def broken(kernels, x, mean=None, right=parity.responses):
            return -right(kernels, x, mean)

        with (
            absltest.mock.patch.object(parity, "responses", broken),
            pytest.raises(parity.ParityError, match="Nothing was written"),
        ):
            self.export(out)
        assert not os.path.exists(out)

    def test_a_wrong_bit_keeps_the_old_export(self):
        out = export_fixtures.folder()
        self.export(out, check=False)
        before = digest(out)
        with (
            absltest.mock.patch.object(
                parity, "consistent", lambda outputs: False
            ),
            pytest.raises(parity.ParityError, match="must agree"),
        ):
            self.export(out)
        assert digest(out) == before
        assert sorted(os.listdir(out)) == ["models.config", "saved_model"]

    def test_a_folder_that_cannot_be_written(self):
        path = os.path.join(export_fixtures.folder(), "file")
        pathlib.Path(path).write_text("a file, not a folder")
        for out in (path, os.path.join(path, "below"), "/proc/vdsh"):
            with pytest.raises(OSError, match="can be made and written"):
                self.export(out, check=False)
        assert pathlib.Path(path).read_text() == "a file, not a folder"

    def test_two_exports_to_one_folder(self):
        out = export_fixtures.folder()
        with (
            staging.folder(out),
            pytest.raises(RuntimeError, match="Only one export may write"),
        ):
            self.export(out, check=False)

    def test_killed_at_any_point(self):
        out = os.path.join(export_fixtures.folder(), "out")
        exporter.export(
            export_fixtures.model(),
            "digits",
            out,
            check=False,
            image_shape=export_fixtures.IMAGE_SHAPE,
        )
        before = digest(out)
        points = ",".join(map(str, (2, 7, 12, 14, 16, 17, 18, 1000)))
        found = subprocess.run(
            [
                sys.executable, "-c", KILLED, export_fixtures.run_dir(), out,
                points,
            ],
            env=export_fixtures.environment(), capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        lines = [line.split() for line in found.stdout.splitlines()]
        killed = [line for line in lines if line[1:2] == ["True"]]
        assert len(killed) >= 5, found.stdout
        self.assert_whole(out, before)
        # The last one was not killed, and cleared what the others left.
        assert lines[-1][1] == "False"
        assert not [n for n in os.listdir(out) if n.startswith(".")]

    @parameterized.parameters(0.4, 1.1)
    def test_killed_from_outside(self, seconds):
        out = os.path.join(export_fixtures.folder(), "out")
        exporter.export(
            export_fixtures.model(),
            "digits",
            out,
            check=False,
            image_shape=export_fixtures.IMAGE_SHAPE,
        )
        before = digest(out)
        process = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, export_fixtures.run_dir(), out],
            env=export_fixtures.environment(), stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout.readline() == b"go\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        self.assert_whole(out, before)

    def assert_whole(self, out, before):
        """Every version has all its files, and the first never moved."""
        after = digest(out)
        for name, value in before.items():
            if name.startswith("saved_model/1/"):
                assert after[name] == value
        assert set(before) <= set(after)
        whole = {n.split("/", 2)[2] for n in before if "saved_model/" in n}
        for version in os.listdir(os.path.join(out, "saved_model")):
            assert version.isdecimal()
            folder = os.path.join(out, "saved_model", version)
            assert set(digest(folder)) == whole
            saved_model.Session(folder).close()
        for name in (runtimes.ONNX, runtimes.PIXELS):
            onnx_file.Session(os.path.join(out, name))


if __name__ == "__main__":
    absltest.main()
