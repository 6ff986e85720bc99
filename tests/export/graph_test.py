import subprocess
import sys

import numpy as np
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized
from vdsh_tf.export import graph
from vdsh_tf.export import metadata

from tests.support import export_fixtures
from vdsh_tf import VDSH
from vdsh_tf import encoder
from vdsh_tf.training.trainer import trainer


def small(bits, data="npz", width=5) -> VDSH:
    model = VDSH(layers=3, width=8, bits=bits, num_classes=2)
    model.build((None, width))
    return model


class ServedTest(parameterized.TestCase):
    @parameterized.parameters(1, 7, 8, 9, 16, 65)
    def test_codes_are_the_packed_bits(self, bits):
        model = small(bits)
        served = graph.Served(
            graph.kernels_of(model), metadata.describe(model, "npz")
        )
        x = np.random.default_rng(0).normal(size=(33, 5)).astype(np.float32)
        out = {k: v.numpy() for k, v in served.rows(x).items()}
        on = out["embedding"] > 0
        assert 0 < on.mean() < 1
        np.testing.assert_array_equal(
            out["codes"], np.packbits(on, axis=1), strict=True
        )
        np.testing.assert_array_equal(
            out["bits"], np.where(on, 1, -1).astype(np.int8), strict=True
        )
        np.testing.assert_array_equal(
            out["codes"], model.encode(x), strict=True
        )

    def test_sleeping_layers_are_left_out(self):
        model = VDSH(layers=6, width=8, bits=4, num_classes=2, grow_from=3)
        model.build((None, 5))
        assert len(graph.kernels_of(model)) == 6
        model.set_depth(3)
        assert len(graph.kernels_of(model)) == 3

    def test_only_pictures_have_pixels(self):
        model = small(4)
        served = graph.Served(
            graph.kernels_of(model), metadata.describe(model, "npz")
        )
        assert served.image_spec is None
        assert served.metadata.feature_kind == "features"


class UnitLengthTest(parameterized.TestCase):
    """Denormal numbers must count as zero, in every runtime."""

    @parameterized.parameters("eager", "graph")
    def test_denormals_count_as_zero(self, mode):
        tiny = np.float32(encoder.TINY)
        x = np.array(
            [
                [tiny / 2, tiny / 4, 0],
                [tiny, tiny / 2, 0],
                [3e38, 3e38, tiny / 2],
                [3 * tiny, -4 * tiny, tiny / 2],
            ],
            np.float32,
        )
        f = encoder.unit_length
        f = tf.function(f) if mode == "graph" else f
        half = np.sqrt(0.5)
        np.testing.assert_allclose(
            f(tf.constant(x)),
            [[0, 0, 0], [1, 0, 0], [half, half, 0], [0.6, -0.8, 0]],
            rtol=1e-6,
        )

    def test_leaves_ordinary_rows_alone(self):
        x = np.random.default_rng(0).normal(size=(9, 5))
        want = x / np.linalg.norm(x, axis=1, keepdims=True)
        np.testing.assert_allclose(
            encoder.unit_length(tf.constant(x)), want, rtol=1e-14
        )


class MetadataTest(absltest.TestCase):
    def test_image_shapes_are_those_of_the_data(self):
        split = trainer.load_data(export_fixtures.RUN)
        assert metadata.describe(
            export_fixtures.model(), "digits"
        ).image_shape == (split.image_shape)
        assert np.prod(split.image_shape) == split.train.x.shape[1]

    def test_strings(self):
        found = metadata.describe(small(4), "npz").to_strings()
        assert found["bits"] == "4"
        assert found["image_shape"] == "null"
        assert found["input_width"] == "5"
        assert all(isinstance(value, str) for value in found.values())


class ImportTest(absltest.TestCase):
    def test_the_library_does_not_import_the_exporter_or_extras(self):
        code = (
            "import sys, vdsh_tf, vdsh_tf.serving\n"
            "bad = {'export', 'tools', 'onnx', 'tf2onnx', 'onnxruntime', "
            "'faiss', 'tensorflow_datasets', 'grpc', 'tensorflow_serving'}\n"
            "print(sorted(bad & set(sys.modules)))"
        )
        found = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=export_fixtures.environment(),
            check=True,
        )
        assert found.stdout.strip() == "[]"


if __name__ == "__main__":
    absltest.main()
