"""The client against servers that fail, and its own arguments."""

import contextlib
import socket
import threading
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from vdsh_tf import serving
from vdsh_tf.research.benchmarks import model_server
from vdsh_tf.serving import client


class _Script:
    """A raw TCP server that sends the next text for each request."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.seen = []
        self._silent = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def requests(self):
        return len(self.seen)

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.seen.append(connection.recv(1 << 20))
                index = min(self.requests, len(self.texts)) - 1
                if self.texts[index] is None:
                    self._silent.append(connection)
                    continue
                connection.sendall(self.texts[index])
                connection.close()

    def close(self):
        for connection in (*self._silent, self._socket):
            connection.close()


def response(status, body=b"{}", header=b""):
    return (
        b"HTTP/1.1 %d -\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s"
        % (status, header, len(body), body)
    )


METADATA = response(
    200,
    b'{"metadata": {"signature_def": {"signature_def": {"bytes": {"inputs": '
    b'{"x": {"tensor_shape": {"dim": [{"size": "-1"}, {"size": "2"}]}}}, '
    b'"outputs": {}}}}}}',
)
CODES = response(200, b'{"outputs": [{"b64": "Bw=="}]}')


class BadServerTest(parameterized.TestCase):
    def encode(self, *texts, **kwargs):
        script = _Script(*texts)
        self.addCleanup(script.close)
        options = {"timeout": 0.2, "retries": 2, "backoff": 0.01, **kwargs}
        try:
            with serving.Client(script.url, **options) as client:
                return client.encode(np.ones((1, 2)))
        finally:
            self.seen, self.requests = script.seen, script.requests

    def test_comes_through_when_the_server_recovers(self):
        busy = response(503, b"busy")
        got = self.encode(busy, METADATA, busy, b"", CODES)
        np.testing.assert_array_equal(got, [[7]])
        assert self.requests == 5

    @parameterized.parameters(
        (response(503, b"overloaded"), "3 attempts.*HTTP 503: overloaded", 3),
        (None, "within 0.2 s.*3 attempts.*[Tt]imeout", 3),
        (b"", "3 attempts", 3),
        (response(404, b'{"error": "no"}'), "must have the model 'vdsh'", 1),
        (response(400, b"width"), "refuses it.*HTTP 400: width", 1),
        (response(200, b"<html>"), "respond as TF Serving does.*<html>", 1),
        (response(200, b"[1]"), "respond as TF Serving does", 1),
    )
    def test_says_what_is_wrong(self, bad, message, requests):
        with pytest.raises(serving.ServingError, match=message):
            self.encode(bad)
        assert self.requests == requests

    @parameterized.parameters(
        b'{"outputs": []}',
        b'{"outputs": [{"b64": "Bw=="}, {"b64": "Bw=="}]}',
        b'{"outputs": [{"b64": "*"}]}',
        b'{"predictions": [7]}',
    )
    def test_refuses_responses_that_do_not_fit(self, body):
        with pytest.raises(serving.ServingError, match="server"):
            self.encode(METADATA, response(200, body))

    def test_does_not_follow_redirects(self):
        target = _Script(METADATA)
        self.addCleanup(target.close)
        away = f"Location: {target.url}/v1/models/vdsh/metadata\r\n".encode()
        with pytest.raises(serving.ServingError, match=r"refuses it.*HTTP 302"):
            self.encode(response(302, header=away))
        assert (self.requests, target.requests) == (1, 0)

    def test_keeps_no_cookies(self):
        cookie = b"Set-Cookie: a=b\r\n"
        body = METADATA.split(b"\r\n\r\n")[1]
        self.encode(response(200, body, header=cookie), CODES)
        assert self.requests == 2
        assert b"a=b" not in self.seen[1]

    def test_ignores_proxies_of_the_environment(self):
        nobody = f"http://127.0.0.1:{model_server.free_port()}"
        with mock.patch.dict("os.environ", http_proxy=nobody, no_proxy=""):
            np.testing.assert_array_equal(self.encode(METADATA, CODES), [[7]])

    def test_nobody_there(self):
        url = f"http://127.0.0.1:{model_server.free_port()}"
        client = serving.Client(url, retries=1, backoff=0.01)
        with pytest.raises(
            serving.ServingError, match=r"2 attempts.*ConnectionRefused"
        ):
            client.encode(np.ones((1, 2)))

    @pytest.mark.skipif(not model_server.HAS_GRPC, reason=model_server.NO_GRPC)
    def test_nobody_there_by_grpc(self):
        url = f"grpc://127.0.0.1:{model_server.free_port()}"
        client = serving.Client(url, retries=1, backoff=0.01)
        self.addCleanup(client.close)
        with pytest.raises(
            serving.ServingError, match=r"2 attempts.*UNAVAILABLE"
        ):
            client.encode(np.ones((1, 2)))

    def test_waits_longer_each_time(self):
        with (
            mock.patch.object(client.time, "sleep") as sleep,
            pytest.raises(serving.ServingError),
        ):
            self.encode(response(503), retries=4, backoff=1.0)
        waits = [call.args[0] for call in sleep.call_args_list]
        self.assertLen(waits, 4)
        for number, wait in enumerate(waits):
            self.assertBetween(wait, 0.5 * 2**number, 1.5 * 2**number)


class ImportTest(absltest.TestCase):
    def test_rest_needs_no_tensorflow(self):
        code = (
            "import sys\n"
            "for name in ('tensorflow', 'keras', 'grpc'):\n"
            "    sys.modules[name] = None\n"
            "import vdsh_tf.serving\n"
            "vdsh_tf.serving.Client('http://localhost:8501')"
        )
        export_fixtures.python(code)


class ArgumentsTest(parameterized.TestCase):
    @parameterized.parameters(
        "localhost:8501",
        "ftp://localhost",
        "http://",
        "http://host/other",
        "http://host/v1/models/m/versions/x",
    )
    def test_refuses_a_url(self, url):
        with pytest.raises(ValueError, match="`url` must read"):
            serving.Client(url)

    @parameterized.parameters(
        {"batch_size": 0}, {"timeout": 0}, {"retries": -1}, {"backoff": -1}
    )
    def test_refuses_numbers(self, **bad):
        with pytest.raises(ValueError, match="must be"):
            serving.Client("http://localhost:8501", **bad)

    def test_missing_extra_names_the_command(self):
        code = (
            "import sys; sys.modules['tensorflow_serving'] = None\n"
            "from vdsh_tf import serving\n"
            "serving.Client('grpc://localhost:8500')"
        )
        found = export_fixtures.python(code, check=False)
        assert found.returncode != 0
        assert "pip install 'vdsh_tf[serving]'" in found.stderr


if __name__ == "__main__":
    absltest.main()
