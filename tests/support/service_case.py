"""A small service on loopback, and a client that knows nothing of it."""

import contextlib
import functools
import http.client
import json
import os
import shutil
import threading

import numpy as np

from tests.support import export_fixtures
from vdsh_tf.service import bodies
from vdsh_tf.service import preparing
from vdsh_tf.service import running

ITEMS = 300
TOKEN = "a-token-of-some-length"


def rows() -> np.ndarray:
    """Raw rows of the items, which come first, and more."""
    return export_fixtures.rows()


def payload(number: int) -> dict:
    split = export_fixtures.split()
    return {"label": int(split.train.y[number]), "number": number}


@functools.cache
def prepared() -> str:
    """A prepared folder; copy it before it is changed."""
    out = os.path.join(export_fixtures.folder(), "service")
    preparing.prepare(
        out,
        os.path.join(export_fixtures.out(), "encoder.onnx"),
        rows()[:ITEMS],
        [payload(i) for i in range(ITEMS)],
        export_fixtures.IMAGE_SHAPE,
        "Digits",
        "label",
    )
    return out


def folder() -> str:
    """A copy of the prepared folder."""
    out = os.path.join(export_fixtures.folder(), "service")
    shutil.copytree(prepared(), out)
    return out


class Client:
    """Asks a service, by one connection."""

    def __init__(self, address: str, token: str | None = None):
        host, _, port = address.removeprefix("http://").rpartition(":")
        self._connection = http.client.HTTPConnection(host, int(port), 30)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, method, path, body=None, kind="application/json", **headers):
        """Status, and the answer: JSON, or bytes."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {**self._headers, **headers}
        if body is not None and kind:
            headers["Content-Type"] = kind
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.headers.get_content_type() == "application/json":
            content = json.loads(content)
        return answer.status, content

    def search(self, **options):
        """The results of a search that works."""
        status, answer = self.ask("POST", "/v1/search", options)
        assert status == 200, answer
        return answer["results"]

    def close(self):
        self._connection.close()


@contextlib.contextmanager
def served(parts, token=None, limits=None):
    """Runs a service in a thread; yields its address."""
    limits = limits or bodies.Limits(rows=64, k=200, body=1 << 20)
    with running.opened(parts, limits) as service:
        server, address = running.make_server(service, "127.0.0.1", 0, token)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join()
