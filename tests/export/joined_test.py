"""Backbone and encoder in one file: a trained Keras one, and ONNX ones."""

import functools
import importlib.util
import os
import pathlib

import keras
import matplotlib.image
import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import export_fixtures
from tests.support import tool_runner
from vdsh_tf import VDSH
from vdsh_tf import codes as codes_lib
from vdsh_tf.encoding import onnx_encoder
from vdsh_tf.export import backbones
from vdsh_tf.export import graph
from vdsh_tf.export import joined
from vdsh_tf.export import parity
from vdsh_tf.search import code_files
from vdsh_tf.training import runs
from vdsh_tf.training.config import TrainingConfig

WIDTH = 10


@functools.cache
def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Digits, twice as large, uint8, and their labels."""
    split = export_fixtures.split()
    x = split.train.x.reshape(-1, 8, 8, 1) * (255 / 16)
    large = np.kron(x, np.ones((1, 2, 2, 1)))
    return np.rint(large).astype(np.uint8), split.train.y


@functools.cache
def extractor() -> str:
    """A small network, trained to tell digits, as a file."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(16, 3, activation="relu", name="map"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(WIDTH, name="features"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    model.fit(*pictures(), epochs=2, batch_size=64, verbose=0)
    path = os.path.join(export_fixtures.folder(), "extractor.keras")
    model.save(path)
    return path


@functools.cache
def features(name=None) -> np.ndarray:
    wanted = backbones.Wanted(extractor(), features=name)
    return backbones.load(wanted).features(pictures()[0])


@functools.cache
def encoder(name=None) -> VDSH:
    """A network of codes, trained on those features."""
    model = VDSH(layers=2, width=16, bits=12, num_classes=10)
    model.compile()
    model.fit(features(name), pictures()[1], epochs=1, verbose=0)
    return model


def want(name=None):
    """Float64 responses of the code layer."""
    model = encoder(name)
    arrays = graph.normalization_of(model)
    return parity.responses(graph.kernels_of(model), features(name), *arrays)


def check_codes(codes, name=None):
    """Codes of all pictures, but where features differ in their last digits."""
    responses = want(name)
    differ = codes_lib.unpack(codes, 12) != (responses > 0)
    near = np.abs(responses) < 1e-4
    assert not (differ & ~near).any()
    assert near.mean() < 0.1
    assert 0.05 < (responses > 0).mean() < 0.95


class KerasTest(case.TestCase):
    @parameterized.parameters(None, "map")
    def test_onnx_and_saved_model(self, name):
        """The output, and an inner map, which is averaged."""
        out = os.path.join(export_fixtures.folder(), "export")
        wanted = backbones.Wanted(extractor(), features=name)
        formats = ("onnx", "saved_model") if name is None else ("onnx",)
        paths, reports, about = joined.export(
            encoder(name), "digits", wanted, out, formats
        )
        self.assertLen(paths, len(formats))
        self.assertEqual(about.image_shape, (16, 16, 1))
        self.assertEqual(sum(report.differ_beyond for report in reports), 0)
        # Again by the runtimes themselves, on pictures of digits.
        encode = onnx_encoder.OnnxEncoder(onnx_encoder.read(paths[0]))
        self.assertEqual(encode.image_shape, (16, 16, 1))
        self.assertEqual(
            encode.fingerprint, encoder(name).encoder.fingerprint()
        )
        flat = pictures()[0].reshape(-1, 256)
        check_codes(encode(flat), name)
        if name is None:
            served = tf.saved_model.load(paths[1])
            found = served.signatures["serving_default"](
                tf.constant(pictures()[0][:50])
            )
            np.testing.assert_array_equal(
                found["codes"].numpy(), encode(flat[:50])
            )

    def test_what_does_not_fit(self):
        out = os.path.join(export_fixtures.folder(), "export")
        path = extractor()
        text = os.path.join(export_fixtures.folder(), "text.keras")
        pathlib.Path(text).write_text("no model")
        for kind, message, wanted, formats in (
            (FileNotFoundError, "does not exist", ("none.keras",), ["onnx"]),
            (ValueError, "must be a Keras model", (text,), ["onnx"]),
            (ValueError, "`pixels` must be", (path, "bgr"), ["onnx"]),
            (ValueError, "name a layer", (path, "raw", None, "x"), ["onnx"]),
            (ValueError, r"\[3, 16\]", (path, "raw", None, "map"), ["onnx"]),
            (ValueError, "joined as onnx", (path,), ["litert"]),
            (ValueError, "one of keras.app", ("keras:Nothing",), ["onnx"]),
        ):
            with self.subTest(message), self.assertRaisesRegex(kind, message):
                joined.export(
                    encoder(),
                    "digits",
                    backbones.Wanted(*wanted),
                    out,
                    tuple(formats),
                )
        self.assertFalse(os.path.exists(out))

    def test_weights_that_cannot_be_downloaded(self):
        before = os.environ.get("HTTPS_PROXY")
        os.environ["HTTPS_PROXY"] = "http://127.0.0.1:9"
        try:
            with self.assertRaisesRegex(
                RuntimeError, "(?s)could not be.*put it into .*models.*http"
            ):
                backbones._application("MobileNetV3Small", 33)
        finally:
            del os.environ["HTTPS_PROXY"]
            if before is not None:
                os.environ["HTTPS_PROXY"] = before


class OnnxTest(case.TestCase):
    def backbone(self, opset, channels_first):
        """The trained network again, as an ONNX file."""
        import tf2onnx

        model = keras.saving.load_model(extractor())
        shape = [None, 1, 16, 16] if channels_first else [None, 16, 16, 1]
        spec = tf.TensorSpec(shape, tf.float32, name="pixels")

        @tf.function(input_signature=[spec])
        def run(x):
            if channels_first:
                x = tf.transpose(x, [0, 2, 3, 1])
            # It rescales, and so do `pixels`.
            return model(255 * x, training=False)

        proto, _ = tf2onnx.convert.from_function(
            run, input_signature=[spec], opset=opset
        )
        path = os.path.join(export_fixtures.folder(), "backbone.onnx")
        onnx.save(proto, path)
        return path

    @parameterized.parameters((18, True), (13, False), (11, True))
    def test_joined(self, opset, channels_first):
        out = os.path.join(export_fixtures.folder(), "export")
        path = self.backbone(opset, channels_first)
        wanted = backbones.Wanted(path, "unit")
        paths, _, _ = joined.export(encoder(), "digits", wanted, out, ("onnx",))
        encode = onnx_encoder.OnnxEncoder(onnx_encoder.read(paths[0]))
        check_codes(encode(pictures()[0].reshape(-1, 256)))

    def test_what_does_not_fit(self):
        path = self.backbone(18, True)
        out = os.path.join(export_fixtures.folder(), "export")
        text = os.path.join(export_fixtures.folder(), "text.onnx")
        pathlib.Path(text).write_text("no model")
        for message, wanted, formats in (
            ("gives an ONNX file", (path,), ("saved_model",)),
            ("name a tensor", (path, "unit", None, "x"), ("onnx",)),
            ("whole ONNX file", (text,), ("onnx",)),
        ):
            with (
                self.subTest(message),
                self.assertRaisesRegex(ValueError, message),
            ):
                joined.export(
                    encoder(), "d", backbones.Wanted(*wanted), out, formats
                )

    def test_a_network_that_others_made(self):
        """A small classifier of pictures of text, from PyPI (Apache-2.0)."""
        spec = importlib.util.find_spec("rapidocr_onnxruntime")
        if spec is None:
            pytest.skip("pip install --no-deps rapidocr-onnxruntime")
        folder = pathlib.Path(spec.submodule_search_locations[0], "models")
        path = next(folder.glob("*cls*.onnx"))
        proto = onnx.load(path)
        # What the classifier sees: the averages before its last layer.
        pool = [n for n in proto.graph.node if n.op_type == "GlobalAveragePool"]
        name = pool[-1].output[0]
        wanted = backbones.Wanted(str(path), "signed", 48, name)
        images = joined.made_up_images((48, 48, 3), 40)
        x = backbones.load(wanted).features(images)
        model = VDSH(layers=2, width=16, bits=12, num_classes=2)
        model.compile()
        model.fit(x, np.arange(40) % 2, epochs=1, verbose=0)
        out = os.path.join(export_fixtures.folder(), "export")
        paths, reports, _ = joined.export(
            model, "text", wanted, out, ("onnx",), images=images
        )
        self.assertEqual(sum(r.differ_beyond for r in reports), 0)
        session = onnxruntime.InferenceSession(paths[0])
        (got,) = session.run(["features"], {"image": images})
        np.testing.assert_allclose(got, x, atol=1e-4 * np.abs(x).max())


class ToolsTest(tool_runner.ToolTestCase):
    def test_three_commands(self):
        """Features, a run on them, and then pictures to codes."""
        np.savez("features.npz", features=features(), labels=pictures()[1])
        config = TrainingConfig().replace(data="npz", path="features.npz")
        directory = runs.RunDirectory.create("runs/own-001", config)
        runs.save_model(encoder(), directory.file("model.keras"))
        directory.write_json("metrics.json", {"map": 1.0})
        out, error = tool_runner.run_tool(
            "export", "--onnx", f"--backbone={extractor()}"
        )
        self.assertIsNone(error)
        self.assertIn("pictures uint8 [batch, 16, 16, 1]", out)
        os.mkdir("photos")
        for i, picture in enumerate(pictures()[0][:20]):
            rgb = np.repeat(picture, 3, axis=2)
            matplotlib.image.imsave(f"photos/{i:03}.png", rgb)
        out, error = tool_runner.run_tool(
            "encode", "--images=photos", "--out=photos.npy"
        )
        self.assertIsNone(error)
        self.assertIn("20 codes of 12 bits", out)
        codes, about = code_files.read("photos.npy")
        self.assertEqual(about["fingerprint"], encoder().encoder.fingerprint())
        near = np.abs(want()[:20]) < 1e-4
        differ = codes_lib.unpack(np.array(codes), 12) != (want()[:20] > 0)
        self.assertFalse((differ & ~near).any())
        _, error = tool_runner.run_tool(
            "encode",
            "--images=photos",
            f"--encoder={export_fixtures.out()}/encoder.onnx",
        )
        self.assertRegex(error, "needs an encoder that takes pictures")


if __name__ == "__main__":
    absltest.main()
