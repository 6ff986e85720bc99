"""An export appears atomically, whatever goes wrong or whoever kills it."""

import contextlib
import hashlib
import importlib
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

ENDLESS = """
import sys
from vdsh_tf.export import exporter
from vdsh_tf.training import runs

model = runs.load_model(sys.argv[1] + "/model.keras")
print("ready", flush=True)
sys.stdin.readline()
while True:
    exporter.export(
        model, "digits", sys.argv[2], check=False, image_shape=(8, 8, 1)
    )
"""


EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")


def export_all(out: str) -> None:
    """Writes the usual formats, unchecked."""
    exporter.export(
        export_fixtures.model(),
        "digits",
        out,
        check=False,
        image_shape=export_fixtures.IMAGE_SHAPE,
    )


def hidden_files(folder: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".")]


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


class Snapshots:
    """Copies of a folder, as a process killed at that moment leaves it.

    One is taken before each operation that Python makes on the folder's
    files. What it has not written yet is lost, as in a kill.
    """

    def __init__(self, folder: str, copies: str):
        self.folder = folder
        self.copies = copies
        self.count = 0
        self._active = False
        # A hook cannot be removed, only told to rest.
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def taken(self):
        self._active = True
        try:
            yield
        finally:
            self._active = False

    def paths(self) -> list[str]:
        return [os.path.join(self.copies, str(i)) for i in range(self.count)]

    def _hook(self, event, arguments):
        if not self._active or event not in EVENTS:
            return
        if str(arguments[0]).startswith(self.folder):
            self._active = False
            path = os.path.join(self.copies, str(self.count))
            shutil.copytree(self.folder, path)
            self.count += 1
            self._active = True


class MissingExtraTest(parameterized.TestCase):
    @parameterized.parameters("onnx", "tf2onnx", "onnxruntime")
    def test_message_names_the_command(self, name):
        out = os.path.join(export_fixtures.folder(), "new")
        with (
            hidden(name),
            pytest.raises(RuntimeError, match=r"pip install 'vdsh_tf\[onnx\]'"),
        ):
            exporter.export(
                export_fixtures.model(),
                "digits",
                out,
                rows=export_fixtures.rows(),
            )
        assert not os.path.exists(out)


class AtomicTest(parameterized.TestCase):
    def export(self, out, **kwargs):
        return exporter.export(
            export_fixtures.model(),
            "digits",
            out,
            ("saved_model",),
            rows=export_fixtures.rows(),
            **kwargs,
        )

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

        def broken(*arguments, right=parity.responses):
            return -right(*arguments)

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

    @parameterized.parameters(
        ("saved_model", open),
        ("encoder_pixels.onnx", os.mkdir),
        ("models.config", os.mkdir),
    )
    def test_a_target_in_the_way(self, name, make):
        """Nothing is published where the last of the renames would fail."""
        out = os.path.join(export_fixtures.folder(), "export")
        os.makedirs(out)
        path = os.path.join(out, name)
        if make is open:
            pathlib.Path(path).write_text("mine")
        else:
            make(path)
        with self.assertRaisesRegex(OSError, f"{name} must be a"):
            export_all(out)
        self.assertEqual(os.listdir(out), [name])

    def test_two_exports_to_one_folder(self):
        out = export_fixtures.folder()
        with (
            staging.folder(out),
            pytest.raises(RuntimeError, match="Only one export may write"),
        ):
            self.export(out, check=False)

    def test_killed_at_any_point(self):
        root = export_fixtures.folder()
        out = os.path.join(root, "out")
        export_all(out)
        before = digest(out)
        snapshots = Snapshots(out, os.path.join(root, "killed"))
        with snapshots.taken():
            export_all(out)
        assert snapshots.count > 15
        # The lock of a process that ends is free, but its file may stay.
        seen = []
        for path in snapshots.paths():
            found = digest(path)
            if found not in seen:
                self.assert_whole(path, before)
                seen.append(found)
        # Before and after each of the renames.
        assert len(seen) > 3
        left = max(snapshots.paths(), key=hidden_files)
        assert hidden_files(left)
        # The next export clears what the killed one left.
        export_all(left)
        assert not hidden_files(left)

    @pytest.mark.slow
    def test_killed_from_outside(self):
        root = export_fixtures.folder()
        first = os.path.join(root, "first")
        export_all(first)
        before = digest(first)
        processes = []
        for seconds in (0.4, 1.1):
            out = os.path.join(root, str(seconds))
            shutil.copytree(first, out)
            command = [sys.executable, "-c", ENDLESS, export_fixtures.run_dir()]
            process = subprocess.Popen(
                [*command, out],
                env=export_fixtures.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            processes.append((process, out, seconds))
        for process, _, seconds in processes:
            assert process.stdout.readline() == b"ready\n"
            process.stdin.write(b"go\n")
            process.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        for _, out, _ in processes:
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
