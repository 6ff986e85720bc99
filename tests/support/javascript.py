"""Node, npm packages and Chromium for tests; absent ones skip the test."""

import contextlib
import functools
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

import pytest

PACKAGES = (
    "onnxruntime-node@1.30.0",
    "onnxruntime-web@1.30.0",
    "playwright-core@1.65.0",
)


def node() -> str:
    """Path of Node, or skips."""
    path = shutil.which("node")
    if path is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    return path


def chromium() -> str:
    """Path of Chromium, or skips."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = [path for path in map(shutil.which, names) if path]
    if not found:
        pytest.skip("chromium is not installed")
    return found[0]


@functools.cache
def packages() -> pathlib.Path:
    """A folder with node_modules, kept in the user's cache; or skips."""
    node()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    key = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    target = pathlib.Path(home, "vdsh_tf_tests", f"npm-{key}")
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = tempfile.mkdtemp(dir=target.parent)
        # Scripts would fetch GPU libraries that the tests do not use.
        command = [
            "npm",
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
            draft,
            *PACKAGES,
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            shutil.rmtree(draft)
            pytest.skip(f"npm cannot install packages: {done.stderr[-300:]}")
        with contextlib.suppress(OSError):
            os.rename(draft, target)
        shutil.rmtree(draft, ignore_errors=True)
    return target


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *unused):
        pass


@contextlib.contextmanager
def served(folder):
    """Serves a folder on loopback; yields the address."""
    handler = functools.partial(_Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
