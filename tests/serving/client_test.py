"""The client against a server on loopback, over real HTTP and gRPC.

Set TENSORFLOW_MODEL_SERVER to the path of a `tensorflow_model_server` to run
the same tests against TF Serving itself.
"""

import concurrent.futures
import contextlib
import os
import shutil
import subprocess
import time
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from vdsh_tf import VDSH
from vdsh_tf import serving
from vdsh_tf.export import exporter
from vdsh_tf.research.benchmarks import model_server

KINDS = ("rest", "grpc")


def other_export() -> str:
    """Versions of another network with codes of the same length."""
    model = VDSH(layers=2, width=8, bits=export_fixtures.BITS, num_classes=2)
    model.build((None, 64))
    out = export_fixtures.folder()
    exporter.export(model, "digits", out, ("saved_model",), check=False)
    return os.path.join(out, "saved_model")


class RealServer:
    """A `tensorflow_model_server` process."""

    def __init__(self, binary, base):
        ports = model_server.free_port(), model_server.free_port()
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
        return model_server.Server(base, grpc_too=model_server.HAS_GRPC)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        super().tearDownClass()

    def client(self, kind, **kwargs):
        if kind == "grpc" and not model_server.HAS_GRPC:
            self.skipTest(model_server.NO_GRPC)
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
    def test_tells_its_fingerprint_and_asks_once(self, kind):
        client = self.client(kind)
        want = export_fixtures.model().encoder.fingerprint()
        predict = client._transport.predict
        with mock.patch.object(
            client._transport, "predict", side_effect=predict
        ) as calls:
            assert client.fingerprint() == want
            assert client.fingerprint() == want
            client.check_encoder(want)
        calls.assert_called_once()

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


class EncoderTest(parameterized.TestCase):
    """Models that the client must tell from the right one."""

    def connect(self, base, kind):
        """A client of a server of its own, and the server's model."""
        if kind == "grpc" and not model_server.HAS_GRPC:
            self.skipTest(model_server.NO_GRPC)
        server = model_server.Server(base, grpc_too=kind == "grpc")
        self.addCleanup(server.close)
        client = serving.Client(getattr(server, kind))
        self.addCleanup(client.close)
        return client, server.model

    @parameterized.parameters(*KINDS)
    def test_refuses_another_network_of_equal_code_length(self, kind):
        client, _ = self.connect(other_export(), kind)
        x = export_fixtures.rows()[:5]
        codes = export_fixtures.codes(x)
        assert client.encode(x).shape == codes.shape
        assert not np.array_equal(client.encode(x), codes)
        mine = export_fixtures.model().encoder.fingerprint()
        with pytest.raises(
            serving.ServingError,
            match=f"must serve the encoder {mine}.*{client.fingerprint()}",
        ):
            client.check_encoder(mine)

    @parameterized.parameters(*KINDS)
    def test_an_export_without_a_fingerprint_must_be_repeated(self, kind):
        base = os.path.join(export_fixtures.out(), "saved_model")
        client, model = self.connect(base, kind)
        # As version 0.1.0 wrote it.
        del model.session.signature_def["fingerprint"]
        for ask in (client.fingerprint, lambda: client.check_encoder("0")):
            with pytest.raises(serving.ServingError, match="Export it again"):
                ask()

    def test_names_the_signatures_when_one_is_missing(self):
        base = os.path.join(export_fixtures.out(), "saved_model")
        client, model = self.connect(base, "rest")
        del model.session.signature_def["pixels"]
        with pytest.raises(
            serving.ServingError,
            match="it has bytes, embed, fingerprint, serving_def",
        ):
            client.encode_images(np.zeros((1, 8, 8, 1), np.uint8))


if __name__ == "__main__":
    absltest.main()
