import numpy as np
import pytest
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from vdsh_tf import VDSH
from vdsh_tf import network
from vdsh_tf.export import graph
from vdsh_tf.export import metadata


def small(bits, width=5) -> VDSH:
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

    def test_frozen_layers_are_left_out(self):
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
        tiny = np.float32(network.TINY)
        x = np.array(
            [
                [tiny / 2, tiny / 4, 0],
                [tiny, tiny / 2, 0],
                [3e38, 3e38, tiny / 2],
                [3 * tiny, -4 * tiny, tiny / 2],
            ],
            np.float32,
        )
        f = network.unit_length
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
            network.unit_length(tf.constant(x)), want, rtol=1e-14
        )


class MetadataTest(parameterized.TestCase):
    def test_pictures_of_any_data_set_have_pixels(self):
        model = small(4, width=24)
        described = metadata.describe(model, "npz", [4, 2, 3])
        assert described.image_shape == (4, 2, 3)
        assert described.feature_kind == "pixels"
        served = graph.Served(graph.kernels_of(model), described)
        assert served.image_spec.shape == [None, 4, 2, 3]
        image = np.random.default_rng(0).integers(1, 256, (6, 4, 2, 3))
        got = served.images(tf.constant(image, tf.uint8))["codes"]
        want = model.encode(image.reshape(6, -1))
        np.testing.assert_array_equal(got, want)

    @parameterized.parameters(((4, 2, 2),), ((24,),), ((4, 6),))
    def test_refuses_a_shape_of_other_pictures(self, shape):
        with pytest.raises(ValueError, match=r"whose rows have 24 numbers"):
            metadata.describe(small(4, width=24), "npz", shape)

    def test_a_run_knows_its_image_shape(self):
        assert export_fixtures.split().image_shape == (8, 8, 1)
        _, result = export_fixtures.exported()
        assert result.metadata.image_shape == (8, 8, 1)

    def test_strings(self):
        found = metadata.describe(small(4), "npz").to_strings()
        assert found["bits"] == "4"
        assert found["image_shape"] == "null"
        assert found["input_width"] == "5"
        assert all(isinstance(value, str) for value in found.values())


class ImportTest(absltest.TestCase):
    def test_the_library_does_not_import_the_exporter_or_extras(self):
        code = (
            "import sys, vdsh_tf.model, vdsh_tf.serving\n"
            "bad = {'vdsh_tf.export', 'vdsh_tf.tools', 'onnx', 'tf2onnx', "
            "'onnxruntime', 'faiss', 'tensorflow_datasets', 'grpc', "
            "'tensorflow_serving'}\n"
            "print(sorted(bad & set(sys.modules)))"
        )
        found = export_fixtures.python(code)
        assert found.stdout.strip() == "[]"


if __name__ == "__main__":
    absltest.main()
