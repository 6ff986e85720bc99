"""The client against a server on loopback, over real HTTP and gRPC.

Set TENSORFLOW_MODEL_SERVER to the path of a `tensorflow_model_server` to run
the same tests against TF Serving itself.
"""

import concurrent.futures
import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests import export_fixtures
from tests import model_server
from vdsh_tf import serving

HAS_GRPC = importlib.util.find_spec("tensorflow_serving") is not None
NO_GRPC = "tensorflow-serving-api is not installed (extra `serving`)"
KINDS = ("rest", "grpc")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class RealServer:
    """A `tensorflow_model_server` process."""

    def __init__(self, binary, base):
        ports = free_port(), free_port()
        self.grpc = f"grpc://127.0.0.1:{ports[0]}"
        self.rest = f"http://127.0.0.1:{ports[1]}"
        self._process = subprocess.Popen(
            [
                binary,
                f"--port={ports[0]}",
                f"--rest_api_port={ports[1]}",
                "--model_name=vdsh",
                f"--model_base_path={os.path.abspath(base)}",
            ]
        )
        client = serving.Client(self.rest, retries=60, backoff=0.5)
        for _ in range(60):
            with contextlib.suppress(serving.ServingError):
                client.signatures()
                return
            time.sleep(1)
        raise RuntimeError(f"{binary} did not load the model in a minute")

    def close(self):
        self._process.terminate()
        self._process.wait()


class ClientTest(parameterized.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        base = os.path.join(export_fixtures.out(), "saved_model")
        cls.server = cls.start(base)

    @classmethod
    def start(cls, base):
        return model_server.Server(base, grpc_too=HAS_GRPC)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        super().tearDownClass()

    def client(self, kind, **kwargs):
        if kind == "grpc" and not HAS_GRPC:
            self.skipTest(NO_GRPC)
        client = serving.Client(getattr(self.server, kind), **kwargs)
        self.addCleanup(client.close)
        return client

    @parameterized.product(kind=KINDS, batch_size=(1, 7, 256))
    def test_gives_the_codes_of_keras(self, kind, batch_size):
        x = export_fixtures.rows()[:40]
        got = self.client(kind, batch_size=batch_size).encode(x)
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, export_fixtures.codes(x))

    @parameterized.parameters(*KINDS)
    def test_takes_other_number_types_and_one_row(self, kind):
        x = export_fixtures.rows()[:1]
        got = self.client(kind).encode(x.astype(np.int64))
        np.testing.assert_array_equal(got, export_fixtures.codes(x))

    @parameterized.parameters(*KINDS)
    def test_embeds(self, kind):
        x = export_fixtures.rows()[:9]
        got = self.client(kind).embed(x)
        want = np.asarray(export_fixtures.model().encoder(x))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, atol=1e-5)

    @parameterized.parameters(*KINDS)
    def test_takes_pixels(self, kind):
        x = export_fixtures.rows()[:9]
        images = x.astype(np.uint8).reshape(-1, 8, 8, 1)
        got = self.client(kind).encode_images(images)
        np.testing.assert_array_equal(got, export_fixtures.codes(x))

    @parameterized.product(
        kind=KINDS,
        bad=(
            (np.ones((2, 63)), "must be 64 wide"),
            (np.full((2, 64), np.nan), "must be finite"),
            (np.zeros((2, 64)), "must not be all zero"),
            (np.ones((0, 64)), "at least one row"),
            (np.ones(64), "must be rows"),
            (np.array([["a"] * 64]), "must be numbers"),
        ),
    )
    def test_refuses_rows_that_have_no_code(self, kind, bad):
        x, message = bad
        with pytest.raises(ValueError, match=message):
            self.client(kind).encode(x)

    @parameterized.product(
        kind=KINDS,
        images=(
            np.zeros((2, 8, 9, 1), np.uint8),
            np.zeros((2, 8, 8), np.uint8),
            np.zeros((2, 8, 8, 1), np.float32),
        ),
    )
    def test_refuses_images_of_the_wrong_size(self, kind, images):
        with pytest.raises(ValueError, match=r"uint8 \[n, 8, 8, 1\]"):
            self.client(kind).encode_images(images)

    @parameterized.parameters(*KINDS)
    def test_names_a_model_that_is_not_there(self, kind):
        client = self.client(kind, model="nope")
        with pytest.raises(serving.ServingError, match="model 'nope'"):
            client.encode(np.ones((1, 64)))

    @parameterized.parameters(*KINDS)
    def test_names_a_version_that_is_not_there(self, kind):
        client = self.client(kind, version=99)
        with pytest.raises(serving.ServingError, match="it says there is none"):
            client.encode(np.ones((1, 64)))

    @parameterized.parameters(*KINDS)
    def test_model_and_version_may_stand_in_the_url(self, kind):
        self.client(kind)
        url = getattr(self.server, kind) + "/v1/models/vdsh/versions/1"
        x = export_fixtures.rows()[:3]
        with serving.Client(url, model="ignored") as client:
            got = client.encode(x)
        np.testing.assert_array_equal(got, export_fixtures.codes(x))

    @parameterized.parameters(*KINDS)
    def test_serves_many_threads(self, kind):
        client = self.client(kind)
        x = export_fixtures.rows()[:200]

        def one(i):
            return client.encode(x[i : i + 1])

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            got = np.concatenate(list(pool.map(one, range(len(x)))))
        np.testing.assert_array_equal(got, export_fixtures.codes(x))

    @parameterized.parameters(*KINDS)
    def test_a_wrong_width_past_the_client_is_refused(self, kind):
        client = self.client(kind)
        wrong = serving.Signature({"x": (-1, 63)}, {"codes": (-1, 2)})
        client._signatures = {"bytes": wrong, "serving_default": wrong}
        with pytest.raises(serving.ServingError, match="refuses it"):
            client.encode(np.ones((1, 63)))


class RealServerTest(ClientTest):
    """The same against TF Serving itself."""

    @classmethod
    def start(cls, base):
        binary = os.environ.get("TENSORFLOW_MODEL_SERVER")
        if not binary:
            raise absltest.unittest.SkipTest(
                "TENSORFLOW_MODEL_SERVER does not name a "
                "tensorflow_model_server to test with"
            )
        return RealServer(shutil.which(binary) or binary, base)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()


class SignatureTest(absltest.TestCase):
    def test_names_the_signatures_when_one_is_missing(self):
        base = os.path.join(export_fixtures.out(), "saved_model")
        server = model_server.Server(base, grpc_too=False)
        self.addCleanup(server.close)
        del server.model.session.signature_def["pixels"]
        with (
            serving.Client(server.rest) as client,
            pytest.raises(
                serving.ServingError, match="it has bytes, embed, serving_def"
            ),
        ):
            client.encode_images(np.zeros((1, 8, 8, 1), np.uint8))


class _Script:
    """A raw TCP server that answers each request with the next text."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = 0
        self._silent = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.recv(1 << 20)
                self.requests += 1
                index = min(self.requests, len(self.answers)) - 1
                if self.answers[index] is None:
                    self._silent.append(connection)
                    continue
                connection.sendall(self.answers[index])
                connection.close()

    def close(self):
        for connection in (*self._silent, self._socket):
            connection.close()


def answer(status, body=b"{}"):
    return (
        b"HTTP/1.1 %d -\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
        % (status, len(body), body)
    )


METADATA = answer(
    200,
    b'{"metadata": {"signature_def": {"signature_def": {"bytes": {"inputs": '
    b'{"x": {"tensor_shape": {"dim": [{"size": "-1"}, {"size": "2"}]}}}, '
    b'"outputs": {}}}}}}',
)
CODES = answer(200, b'{"outputs": [{"b64": "Bw=="}]}')


class BadServerTest(parameterized.TestCase):
    def encode(self, *answers, **kwargs):
        script = _Script(*answers)
        self.addCleanup(script.close)
        options = {"timeout": 0.2, "retries": 2, "backoff": 0.01, **kwargs}
        try:
            with serving.Client(script.url, **options) as client:
                return client.encode(np.ones((1, 2)))
        finally:
            self.requests = script.requests

    def test_comes_through_when_the_server_recovers(self):
        busy = answer(503, b"busy")
        got = self.encode(busy, METADATA, busy, b"", CODES)
        np.testing.assert_array_equal(got, [[7]])
        assert self.requests == 5

    @parameterized.parameters(
        (answer(503, b"overloaded"), "3 attempts.*HTTP 503: overloaded", 3),
        (None, "within 0.2 s.*3 attempts.*[Tt]imeout", 3),
        (b"", "3 attempts", 3),
        (answer(404, b'{"error": "no"}'), "must have the model 'vdsh'", 1),
        (answer(400, b"width"), "refuses it.*HTTP 400: width", 1),
        (answer(200, b"<html>"), "answer as TF Serving does.*<html>", 1),
        (answer(200, b"[1]"), "answer as TF Serving does", 1),
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
    def test_refuses_answers_that_do_not_fit(self, body):
        with pytest.raises(serving.ServingError, match="server"):
            self.encode(METADATA, answer(200, body))

    def test_nobody_there(self):
        url = f"http://127.0.0.1:{free_port()}"
        client = serving.Client(url, retries=1, backoff=0.01)
        with pytest.raises(
            serving.ServingError, match=r"2 attempts.*ConnectionRefused"
        ):
            client.encode(np.ones((1, 2)))

    @pytest.mark.skipif(not HAS_GRPC, reason=NO_GRPC)
    def test_nobody_there_by_grpc(self):
        url = f"grpc://127.0.0.1:{free_port()}"
        client = serving.Client(url, retries=1, backoff=0.01)
        self.addCleanup(client.close)
        with pytest.raises(
            serving.ServingError, match=r"2 attempts.*UNAVAILABLE"
        ):
            client.encode(np.ones((1, 2)))

    def test_waits_longer_each_time(self):
        with (
            mock.patch.object(serving.time, "sleep") as sleep,
            pytest.raises(serving.ServingError),
        ):
            self.encode(answer(503), retries=4, backoff=1.0)
        waits = [call.args[0] for call in sleep.call_args_list]
        self.assertLen(waits, 4)
        for number, wait in enumerate(waits):
            self.assertBetween(wait, 0.5 * 2**number, 1.5 * 2**number)


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
        found = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=export_fixtures.environment(),
            check=False,
        )
        assert found.returncode != 0
        assert "pip install 'vdsh_tf[serving]'" in found.stderr


if __name__ == "__main__":
    absltest.main()
