"""What a tool writes to standard error."""

import contextlib
import dataclasses
import io
import os
import subprocess
import sys
import tempfile

from absl import logging
from absl.testing import absltest

from tests.support import case
from vdsh_tf.tools import quiet
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args:
    """A tool without flags of its own."""


def run(work, *argv):
    """What a tool that does `work` writes to standard error."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        assert scaffold.run(work, Args, "", argv) == 0
    return err.getvalue()


class MessagesTest(case.TestCase):
    def test_own_messages_are_shown_and_others_are_not(self):
        module = "tensorflow_datasets.py"

        def work(args):
            logging.info("shown from here")

        def others(args):
            code = "logging.info('info of others')\nlogging.error('trouble')"
            exec(compile(code, module, "exec"), {"logging": logging})

        with absltest.mock.patch.object(
            quiet, "_FOLDERS", (os.path.dirname(__file__),)
        ):
            self.assertEqual(run(work), "shown from here\n")
            self.assertEqual(run(others), "trouble\n")
            self.assertEqual(
                run(others, "--verbose"), "info of others\ntrouble\n"
            )

    def test_levels_are_restored(self):
        before = logging.get_verbosity(), list(sys.meta_path)
        run(lambda args: None)
        self.assertEqual((logging.get_verbosity(), sys.meta_path), before)

    def test_tensorflow_starts_quietly(self):
        code = (
            "from vdsh_tf.tools import quiet\n"
            "with quiet.messages(): import tensorflow as tf\n"
            "assert tf.constant(1).numpy() == 1"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(done.stderr, "")

    def test_a_start_that_fails_is_not_quiet(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tensorflow.py"), "w") as f:
                f.write("import os\nos.write(2, b'why')\nraise ImportError")
            done = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    "from vdsh_tf.tools import quiet\n"
                    "with quiet.messages(): import tensorflow",
                ],
                env={**os.environ, "PYTHONPATH": folder},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 1)
        self.assertStartsWith(done.stderr, "why")


if __name__ == "__main__":
    absltest.main()
