"""Files are complete, or as they were before."""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time

from absl.testing import absltest

from vdsh_tf import files


class FilesTest(absltest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "a.json")

    def read(self):
        with open(self.path) as f:
            return f.read()

    def test_json_for_people(self):
        files.write_json(self.path, {"b": 1, "a": [0.5]})
        self.assertEqual(json.loads(self.read()), {"b": 1, "a": [0.5]})
        self.assertStartsWith(self.read(), '{\n  "b": 1,\n')
        self.assertEndsWith(self.read(), "}\n")

    def test_failure_leaves_the_old_file(self):
        files.write_json(self.path, {"a": 1})
        with self.assertRaises(TypeError):
            files.write_json(self.path, {"a": object()})
        with self.assertRaises(KeyError), files.replacing(self.path) as new:
            self.assertEndsWith(new, ".json")
            files.write_text(new, "half")
            raise KeyError
        self.assertEqual(json.loads(self.read()), {"a": 1})
        self.assertEqual(os.listdir(self.folder), ["a.json"])

    def dead_process(self):
        process = subprocess.Popen(["true"])
        process.wait()
        return process.pid

    def test_left_by_the_dead(self):
        """Those of this name, and of no process that lives."""
        dead, here = self.dead_process(), files._machine()
        gone = (
            f".a.partial-{dead}.json",
            f".a.partial-{dead}-{here}.json",
            f".a.partial-{10**30}-{here}.json",
        )
        kept = (
            f".a.partial-{os.getppid()}-{here}.json",
            f".a.partial-{dead}-another.json",
            f".a.partial-{dead}-{here}.csv",
            f".b.partial-{dead}-{here}.json",
            f".a.partial-x{dead}-{here}.json",
            f"a.partial-{dead}-{here}.json",
        )
        for name in (*gone, *kept):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write("half")
        files.write_json(self.path, {})
        self.assertCountEqual(os.listdir(self.folder), [*kept, "a.json"])

    def test_left_on_another_machine(self):
        """Its processes cannot be asked for; a day without a byte says it."""
        path = os.path.join(self.folder, ".a.partial-1-another.json")
        files.write_text(path, "half")
        files.write_json(self.path, {})
        self.assertTrue(os.path.exists(path))
        old = time.time() - 2 * 24 * 3600
        os.utime(path, (old, old))
        files.write_json(self.path, {})
        self.assertFalse(os.path.exists(path))

    def test_killed_writer(self):
        script = textwrap.dedent(
            """
            import os, signal, sys
            from vdsh_tf import files
            with files.locked(sys.argv[1]), files.replacing(sys.argv[1]) as p:
                with open(p, "w") as f:
                    f.write("half")
                os.kill(os.getpid(), signal.SIGKILL)
            """
        )
        command = [sys.executable, "-c", script, self.path]
        self.assertEqual(subprocess.run(command, check=False).returncode, -9)
        self.assertLen(os.listdir(self.folder), 2)
        with files.locked(self.path):
            files.write_json(self.path, {})
        self.assertEqual(os.listdir(self.folder), ["a.json"])

    def test_names_that_look_like_patterns(self):
        for name in ("a[1].json", "*", "a+b", ".hidden", "a b.tar.gz"):
            path = os.path.join(self.folder, name)
            files.write_text(path, "x")
            files.write_text(path, "y")
            self.assertEqual(os.listdir(self.folder), [name])
            os.remove(path)


class LockTest(absltest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "a.npz")

    def test_one_at_a_time(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with (
                files.locked(self.path),
                files.locked(self.path),
                self.assertRaisesRegex(RuntimeError, "another one does"),
            ):
                pool.submit(self.take).result()
            pool.submit(self.take).result()
        self.assertEmpty(os.listdir(self.folder))

    def test_waits(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with files.locked(self.path):
                waiting = pool.submit(self.take, 30)
                time.sleep(0.2)
                self.assertFalse(waiting.done())
            waiting.result()

    def test_needs_a_folder(self):
        with self.assertRaisesRegex(FileNotFoundError, "folder of"):
            self.take(path=os.path.join(self.folder, "b", "c"))
        self.assertEmpty(os.listdir(self.folder))

    def take(self, timeout=0, path=None):
        with files.locked(path or self.path, timeout):
            pass


if __name__ == "__main__":
    absltest.main()
