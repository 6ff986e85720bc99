import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized
from google.protobuf import text_format

from tests.support import cpp_loader
from tests.support import export_fixtures
from vdsh_tf.export import graph
from vdsh_tf.export import saved_model


def version() -> str:
    return os.path.join(export_fixtures.out(), "saved_model", "1")


def rows(count=20) -> np.ndarray:
    return export_fixtures.rows()[:count]


class SavedModelTest(parameterized.TestCase):
    def test_runs_in_saved_model_cli(self):
        folder = export_fixtures.folder()
        np.save(os.path.join(folder, "x.npy"), rows(5))
        programs = os.path.dirname(sys.executable)
        subprocess.run(
            [
                os.path.join(programs, "saved_model_cli"),
                "run",
                "--dir",
                version(),
                "--tag_set",
                "serve",
                "--signature_def",
                "serving_default",
                "--inputs",
                f"x={folder}/x.npy",
                "--outdir",
                folder,
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
        got = np.load(os.path.join(folder, "codes.npy"))
        np.testing.assert_array_equal(got, export_fixtures.codes(rows(5)))

    @parameterized.parameters(1, 2, 7, 1024)
    def test_runs_in_the_cpp_loader(self, batch_size):
        x = np.resize(rows(), (batch_size, 64))
        session = cpp_loader.CppSession(version())
        got = session.run("serving_default", x, "codes")
        np.testing.assert_array_equal(got, export_fixtures.codes(x))
        on = session.run("embed", x, "embedding") > 0
        bits = session.run("embed", x, "bits")
        np.testing.assert_array_equal(bits, np.where(on, 1, -1))
        assert bits.dtype == np.int8

    def test_cpp_loader_takes_pixels(self):
        images = rows().astype(np.uint8).reshape(-1, 8, 8, 1)
        got = cpp_loader.CppSession(version()).run("pixels", images, "codes")
        np.testing.assert_array_equal(got, export_fixtures.codes(rows()))

    @parameterized.parameters(1, 3)
    def test_cpp_loader_tells_the_fingerprint(self, batch_size):
        got = cpp_loader.CppSession(version()).run(
            "fingerprint", np.zeros(batch_size, np.float32), "fingerprint"
        )
        want = export_fixtures.model().encoder.fingerprint().encode()
        assert got.tolist() == batch_size * [want]

    def test_cpp_loader_can_fail(self):
        # A module that holds a Keras model passes in Python and fails here;
        # this is why the export holds plain variables.
        encoder = export_fixtures.model().encoder
        holder = tf.Module()
        holder.encoder = encoder
        spec = tf.TensorSpec([None, 64], tf.float32, name="x")
        holder.f = tf.function(
            lambda x: {"e": encoder(x)}, input_signature=[spec]
        )
        path = export_fixtures.folder()
        tf.saved_model.save(holder, path, signatures=holder.f)
        loaded = tf.saved_model.load(path).signatures["serving_default"]
        assert loaded(tf.constant(rows(1)))["e"].shape == (1, 12)
        with pytest.raises(RuntimeError, match="variable"):
            cpp_loader.CppSession(path).run("serving_default", rows(1), "e")

    def test_strings_hold_the_codes(self):
        session = saved_model.Session(version())
        strings = session.run("bytes", rows())["codes_bytes"]
        want = [row.tobytes() for row in export_fixtures.codes(rows())]
        assert strings.tolist() == want

    @parameterized.parameters(0, 10, 255)
    def test_byte_strings_take_every_byte(self, value):
        codes = tf.constant([[value, 0], [1, value]], tf.uint8)
        got = saved_model.byte_strings(codes).numpy().tolist()
        assert got == [bytes([value, 0]), bytes([1, value])]

    def test_signatures(self):
        found = saved_model.Session(version()).signature_def
        shapes = {
            name: {
                key: [d.size for d in info.tensor_shape.dim]
                for key, info in (*sig.inputs.items(), *sig.outputs.items())
            }
            for name, sig in found.items()
            if not name.startswith("__")
        }
        outputs = {"codes": [-1, 2], "bits": [-1, 12], "embedding": [-1, 12]}
        assert shapes == {
            "serving_default": {"x": [-1, 64], "codes": [-1, 2]},
            "embed": {"x": [-1, 64], **outputs},
            "bytes": {"x": [-1, 64], "codes_bytes": [-1]},
            "fingerprint": {"ignored": [-1], "fingerprint": [-1]},
            "pixels": {"image": [-1, 8, 8, 1], "codes": [-1, 2]},
        }

    def test_holds_metadata(self):
        path = os.path.join(version(), "assets", saved_model.METADATA_FILE)
        with open(path) as f:
            found = json.load(f)
        model = export_fixtures.model()
        assert found["fingerprint"] == model.encoder.fingerprint()
        assert found["bits"] == 12
        assert found["training_data"] == "digits"
        assert found["bit_order"] == "msb_first"
        assert found["normalization"] == "unit_length"
        # The file is in assets/ and nowhere else.
        assert saved_model.METADATA_FILE not in os.listdir(version())

    def test_weights_are_stored_once(self):
        folder = os.path.join(version(), "variables")
        size = sum(
            os.path.getsize(os.path.join(folder, name))
            for name in os.listdir(folder)
        )
        weights = sum(
            k.nbytes for k in graph.kernels_of(export_fixtures.model())
        )
        assert weights <= size < weights + 5000
        graph_size = os.path.getsize(os.path.join(version(), "saved_model.pb"))
        assert graph_size < 60_000

    def test_warmup_parses_with_the_official_messages(self):
        pytest.importorskip(
            "tensorflow_serving",
            reason="tensorflow-serving-api is not installed (extra `serving`)",
        )
        from tensorflow_serving.apis import prediction_log_pb2

        session = saved_model.Session(version())
        path = os.path.join(version(), saved_model.WARMUP_FILE)
        names = []
        for record in tf.data.TFRecordDataset(path):
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            assert log.WhichOneof("log_type") == "predict_log"
            # Nothing in it that the message does not know.
            log.DiscardUnknownFields()
            assert log.ByteSize() == len(record.numpy())
            request = log.predict_log.request
            assert request.model_spec.name == "vdsh"
            names.append(request.model_spec.signature_name)
            (proto,) = request.inputs.values()
            outputs = session.run(names[-1], tf.make_ndarray(proto))
            assert all(len(value) == 1 for value in outputs.values())
        assert sorted(names) == [
            "bytes",
            "embed",
            "fingerprint",
            "pixels",
            "serving_default",
        ]

    def test_models_config_parses_with_the_official_messages(self):
        pytest.importorskip(
            "tensorflow_serving",
            reason="tensorflow-serving-api is not installed (extra `serving`)",
        )
        from tensorflow_serving.config import model_server_config_pb2

        with open(os.path.join(export_fixtures.out(), "models.config")) as f:
            config = text_format.Parse(
                f.read(), model_server_config_pb2.ModelServerConfig()
            )
        (entry,) = config.model_config_list.config
        assert entry.name == saved_model.MODEL_NAME
        assert entry.base_path == "/models/vdsh/saved_model"
        assert entry.model_platform == "tensorflow"

    def test_rows_without_a_code_leave_their_neighbours_alone(self):
        x = rows(6)
        x[1, 3], x[3, 5], x[4] = np.nan, np.inf, 0
        got = saved_model.Session(version()).codes(x)
        good = [0, 2, 5]
        np.testing.assert_array_equal(
            got[good], export_fixtures.codes(rows(6)[good])
        )
        np.testing.assert_array_equal(got[[1, 3, 4]], 0)


if __name__ == "__main__":
    absltest.main()
