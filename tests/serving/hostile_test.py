"""The client against hostile servers: a short form of the campaign.

`python -m tests.campaigns.hostile_server` has all behaviours, and a table.
"""

import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.campaigns import hostile_server
from tests.campaigns import rest_cases
from tests.support import bad_servers
from vdsh_tf import serving
from vdsh_tf.research.benchmarks import model_server

TIMEOUT = 1.0
# Some of each kind; what only breaks a form costs nothing.
SLOW = (
    "accepts nothing",
    "reads no long request",
    "late signatures, no codes",
    "header byte by byte",
    "chunks of a byte",
    "busy, byte by byte",
)
REST = (
    *(case for case in rest_cases.TIME if case.name in SLOW),
    *rest_cases.SIZE,
    *rest_cases.FORM,
)
GRPC_RAW = ("settings byte by byte", "a gigabyte, whatever the window")
GRPC_TIME = ("well-behaved", "no codes", "UNAVAILABLE for ever")


class HostileTest(parameterized.TestCase):
    @parameterized.named_parameters((case.name, case) for case in REST)
    def test_rest(self, case):
        outcome = hostile_server.run_raw(case, "rest", TIMEOUT)
        self.assertEqual(outcome.fault, "", outcome.row())

    @pytest.mark.skipif(not model_server.HAS_GRPC, reason=model_server.NO_GRPC)
    def test_grpc(self):
        from tests.campaigns import grpc_cases

        cases = (
            *(case for case in grpc_cases.RAW if case.name in GRPC_RAW),
            *(case for case in grpc_cases.TIME if case.name in GRPC_TIME),
            *(case for case in grpc_cases.SIZE if "300" not in case.name),
            *grpc_cases.FORM,
        )
        for outcome in hostile_server.run_grpc(cases, TIMEOUT):
            with self.subTest(outcome.name):
                self.assertEqual(outcome.fault, "", outcome.row())

    def test_slow_server_by_tls(self):
        """A handshake that never ends has the same time."""
        server = bad_servers.TcpServer(
            lambda _: rest_cases.slow_forever(b"", b"\x16"), reads=False
        )
        self.addCleanup(server.close)
        url = f"https://127.0.0.1:{server.port}"
        with serving.Client(url, timeout=TIMEOUT) as client:
            start = time.monotonic()
            with pytest.raises(serving.ServingError, match="server"):
                client.signatures()
            assert time.monotonic() - start < 1.5 * TIMEOUT

    def serve_tls(self, respond):
        """Address and certificate of a server of HTTPS."""
        if shutil.which("openssl") is None:
            self.skipTest("there is no openssl to make a certificate")
        folder = self.enter_context(tempfile.TemporaryDirectory())
        names = [f"{folder}/cert.pem", f"{folder}/key.pem"]
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"),
                *("-out", names[0], "-keyout", names[1], "-days", "2"),
                *("-subj", "/CN=localhost"),
                *("-addext", "subjectAltName=IP:127.0.0.1"),
            ],
            check=True,
            capture_output=True,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*names)
        server = bad_servers.TcpServer(respond, keep_alive=True, tls=context)
        self.addCleanup(server.close)
        return f"https://127.0.0.1:{server.port}", names[0]

    def test_tls(self):
        case = rest_cases.Case("good")

        def respond(request):
            parts = case.respond(request)
            return [part.replace(b"close", b"keep-alive") for part in parts]

        url, certificate = self.serve_tls(respond)
        x = np.ones((3, 2))
        with (
            serving.Client(url) as client,
            pytest.raises(serving.ServingError, match="certificate must be"),
        ):
            client.encode(x)
        with (
            mock.patch.dict("os.environ", SSL_CERT_FILE=certificate),
            serving.Client(url) as client,
        ):
            for _ in range(3):
                got = client.encode(x)
                np.testing.assert_array_equal(got, hostile_server.WANTED)

    @parameterized.parameters(
        (lambda: rest_cases.slow_forever(rest_cases.CHUNKED, b"1\r\n \r\n"),),
        (lambda: rest_cases.forever(rest_cases.CHUNKED + b"\r\n", b" " * 999),),
        (lambda: [bad_servers.HANG],),
    )
    def test_hostile_by_tls(self, predict):
        case = rest_cases.Case("slow", predict)
        url, certificate = self.serve_tls(case.respond)
        with (
            mock.patch.dict("os.environ", SSL_CERT_FILE=certificate),
            serving.Client(url, timeout=TIMEOUT) as client,
        ):
            client.signatures()
            start = time.monotonic()
            with pytest.raises(serving.ServingError, match="server"):
                client.encode(np.ones((3, 2)))
            assert time.monotonic() - start < 1.5 * TIMEOUT

    def test_a_slow_server_holds_no_other_thread(self):
        slow = threading.Event()

        def respond(request):
            if b"metadata" in request:
                return [rest_cases.metadata()]
            if not slow.is_set():
                slow.set()
                return [bad_servers.HANG]
            return [rest_cases.codes()]

        def held(client, x):
            with pytest.raises(serving.ServingError, match="within 2 s"):
                client.encode(x)

        server = bad_servers.TcpServer(respond)
        self.addCleanup(server.close)
        url = f"http://127.0.0.1:{server.port}"
        x = np.ones((3, 2))
        with serving.Client(url, timeout=2) as client:
            first = threading.Thread(target=held, args=(client, x))
            first.start()
            assert slow.wait(5)
            start = time.monotonic()
            np.testing.assert_array_equal(
                client.encode(x), hostile_server.WANTED
            )
            assert time.monotonic() - start < 1
            first.join()


if __name__ == "__main__":
    absltest.main()
