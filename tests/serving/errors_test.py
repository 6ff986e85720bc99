"""The client against servers that fail, and its own arguments."""

import contextlib
import json
import socket
import threading
import time
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import bad_servers
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
    b'"outputs": {}}, "serving_default": {"outputs": {"codes": '
    b'{"tensor_shape": {"dim": [{"size": "-1"}, {"size": "1"}]}}}}}}}}',
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
        (None, "within 0.2 s.*1 attempt.*[Tt]imeout", 1),
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
            self.encode(response(503), retries=4, backoff=1.0, timeout=60)
        waits = [call.args[0] for call in sleep.call_args_list]
        self.assertLen(waits, 4)
        for number, wait in enumerate(waits):
            self.assertBetween(wait, 0.5 * 2**number, 1.5 * 2**number)

    def test_all_attempts_share_the_time(self):
        start = time.monotonic()
        with pytest.raises(serving.ServingError, match=r"within 0[.]3 s"):
            self.encode(response(503), retries=1000, timeout=0.3, backoff=0.05)
        assert time.monotonic() - start < 0.45
        self.assertBetween(self.requests, 2, 6)

    def test_no_pause_is_long(self):
        """A server that is back after a minute is found soon."""
        pauses = []
        with (
            mock.patch.object(client.time, "sleep", pauses.append),
            self.assertRaisesRegex(serving.ServingError, "in 41 attempts"),
        ):
            self.encode(response(503), retries=40, backoff=0.1, timeout=60)
        self.assertLessEqual(max(pauses), 15)

    def test_many_attempts_without_a_pause(self):
        with pytest.raises(serving.ServingError, match=r"within 0[.]2 s"):
            self.encode(response(503), retries=10**6, backoff=0)

    def test_names_the_rows_without_an_answer(self):
        script = _Script(METADATA, CODES, CODES, response(400, b"no"))
        self.addCleanup(script.close)
        with (
            serving.Client(script.url, batch_size=1) as client,
            pytest.raises(serving.ServingError, match=r"Rows 2 to 2 of 5.*400"),
        ):
            client.encode(np.ones((5, 2)))

    def test_a_code_length_that_the_caller_knows(self):
        np.testing.assert_array_equal(
            self.encode(METADATA, CODES, bits=8), [[7]]
        )
        with pytest.raises(serving.ServingError, match="codes of 2 bytes"):
            self.encode(METADATA, CODES, bits=9)

    def test_a_code_length_that_nobody_knows(self):
        silent = METADATA.replace(b"serving_default", b"serving_unknown")
        with pytest.raises(serving.ServingError, match="name `bits`"):
            self.encode(silent, CODES)
        np.testing.assert_array_equal(self.encode(silent, CODES, bits=8), [[7]])

    def test_padding_must_be_zero(self):
        with pytest.raises(serving.ServingError, match="last 3 bits"):
            self.encode(METADATA, CODES, bits=5)

    def test_a_stray_answer_is_not_that_to_the_next_question(self):
        """A connection on which more came than was asked for is not reused."""
        stray = (METADATA + METADATA).replace(b"close", b"keep-alive")
        script = bad_servers.TcpServer(
            lambda request: [
                stray if b"metadata" in request else CODES,
            ],
            keep_alive=True,
        )
        self.addCleanup(script.close)
        with serving.Client(f"http://127.0.0.1:{script.port}") as client:
            client.signatures()
            time.sleep(0.1)
            np.testing.assert_array_equal(client.encode(np.ones((1, 2))), [[7]])

    def test_splits_what_would_be_a_long_answer(self):
        sizes = []

        def respond(request):
            if b"metadata" in request:
                return [METADATA]
            body = json.loads(request.partition(b"\r\n\r\n")[2])
            sizes.append(len(body["inputs"]["x"]))
            outputs = [{"b64": "Bw=="}] * sizes[-1]
            return [response(200, json.dumps({"outputs": outputs}).encode())]

        script = bad_servers.TcpServer(respond)
        self.addCleanup(script.close)
        url = f"http://127.0.0.1:{script.port}"
        with (
            mock.patch.object(client.answers, "MOST_NUMBERS", 3),
            serving.Client(url, batch_size=100) as one,
        ):
            got = one.encode(np.ones((7, 2)))
        assert got.shape == (7, 1)
        assert sizes == [3, 3, 1]

    @parameterized.parameters((1e300, "at most 2"), (1e-300, "zero in float32"))
    def test_rows_beyond_float32(self, value, message):
        script = _Script(METADATA)
        self.addCleanup(script.close)
        with (
            serving.Client(script.url) as client,
            pytest.raises(ValueError, match=message),
        ):
            client.encode(np.full((1, 2), value))

    def test_a_host_that_nobody_knows_in_time(self):
        def never(*args, **kwargs):
            time.sleep(1)

        start = time.monotonic()
        with (
            mock.patch.object(socket, "getaddrinfo", never),
            serving.Client("http://somewhere", timeout=0.2) as one,
            pytest.raises(serving.ServingError, match="where somewhere is"),
        ):
            one.signatures()
        assert time.monotonic() - start < 0.3


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
        None,
        "http://host/other",
        "http://host/v1/models/m/versions/x",
        "http://host/v1/models/m/versions/" + "9" * 5000,
        "http://host:99999",
        "http://[::1",
        "http://user:secret@host",
        "http://host?model=x",
    )
    def test_refuses_a_url(self, url):
        with pytest.raises(ValueError, match="`url` must read"):
            serving.Client(url)

    @parameterized.parameters(
        {"batch_size": 0},
        {"batch_size": 2.5},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"retries": -1},
        {"backoff": -1},
        {"backoff": float("nan")},
        {"bits": 0},
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
