import os

import numpy as np
import onnx
import pytest
from absl.testing import absltest
from absl.testing import parameterized
from sklearn import datasets as sklearn_datasets

from tests.support import export_fixtures
from vdsh_tf import VDSH
from vdsh_tf import codes as codes_lib
from vdsh_tf.export import exporter
from vdsh_tf.export import graph
from vdsh_tf.export import litert
from vdsh_tf.export import metadata
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.export import runtimes


class ResponsesTest(absltest.TestCase):
    def test_by_hand(self):
        # Unit length (.6, -.8); relu(.6, .8) through the identity and a
        # sign change; responses .6 - .8 and .6 + 2 * .8.
        kernels = [
            np.array([[1, 0], [0, -1]], np.float32),
            np.array([[1, 1], [-1, 2]], np.float32),
        ]
        got = parity.responses(kernels, np.array([[3, -4], [0, 0]]))
        np.testing.assert_allclose(got, [[-0.2, 2.2], [0, 0]], atol=1e-15)
        assert got.dtype == np.float64

    def test_scale_does_not_matter(self):
        kernels = graph.kernels_of(export_fixtures.model())
        x = export_fixtures.rows()[:10]
        want = parity.responses(kernels, x)
        for scale in (1e-30, 1e-3, 1e30):
            got = parity.responses(kernels, x * np.float32(scale))
            np.testing.assert_allclose(got, want, atol=1e-6)

    def test_denormals_count_as_zero(self):
        kernels = [np.ones((2, 1), np.float32)]
        got = parity.responses(kernels, np.array([[1e-39, 1e-40]], np.float32))
        np.testing.assert_array_equal(got, 0)


class CompareTest(parameterized.TestCase):
    def test_counts(self):
        want = np.array([[1, -1, 5e-6, -5e-6, 0, -0.5, 2e-5, -2e-5]])
        #  off bit on: beyond, though the embedding there is exactly zero.
        bits = np.array([[1, 1, 0, 1, 0, 0, 1, 0]], bool)
        got = parity.compare(want, codes_lib.pack(bits), "r", 1)
        assert got == parity.Report("r", 1, 1, 8, 3, 2, 1)

    def test_missing_rows(self):
        with pytest.raises(parity.ParityError, match="each of 2 rows"):
            parity.compare(np.ones((2, 8)), np.zeros((1, 1), np.uint8), "r", 1)

    def test_require(self):
        good = parity.Report("good", 1, 1, 8, 3, 2, 0)
        parity.require([good])
        bad = good._replace(runtime="bad", differ_beyond=1)
        with pytest.raises(parity.ParityError, match="bad  "):
            parity.require([good, bad])

    @parameterized.parameters("codes", "bits", "embedding")
    def test_consistent(self, name):
        outputs = {
            "embedding": np.array([[0.0, 1.0]], np.float32),
            "bits": np.array([[-1, 1]], np.int8),
            "codes": np.array([[64]], np.uint8),
        }
        assert parity.consistent(outputs)
        outputs[name] = outputs[name] + np.ones_like(outputs[name])
        assert not parity.consistent(outputs)


class HostileRowsTest(absltest.TestCase):
    def test_kinds(self):
        rows = export_fixtures.rows()[:3]
        got = parity.hostile_rows(rows)
        assert got.shape == (21, 64)
        assert got.dtype == np.float32
        assert np.isfinite(got).all()
        peaks = np.abs(got[:7]).max(axis=1)
        np.testing.assert_allclose(peaks[2:5], [3e38, 2e-38, 1e-41], rtol=1e-3)
        assert (got[5] != 0).sum() == 1
        assert not got[6].any()
        kernels = graph.kernels_of(export_fixtures.model())
        want = parity.responses(kernels, got[:7])
        assert np.abs(want[2]).max() > parity.MARGIN


class RuntimesTest(absltest.TestCase):
    def test_all_agree_on_all_rows_at_all_batch_sizes(self):
        _, result = export_fixtures.exported()
        names = {report.runtime for report in result.reports}
        assert names >= {
            "keras",
            "saved_model",
            "saved_model bytes",
            "onnx",
            "saved_model pixels",
            "onnx pixels",
        }
        sizes = {report.batch_size for report in result.reports}
        assert sizes == {1, 2, 7, 1024}
        assert all(r.differ_beyond == 0 for r in result.reports)
        assert all(r.rows >= 60 for r in result.reports)

    def test_the_check_sees_one_wrong_weight(self):
        built = {runtimes.ONNX: f"{export_fixtures.out()}/{runtimes.ONNX}"}
        model = export_fixtures.model()
        kernels = graph.kernels_of(model)
        kernels[-1] = kernels[-1].copy()
        kernels[-1][:, 3] *= -1
        rows = export_fixtures.rows()[:50]
        encode = runtimes.encoders(model, built)["onnx"]
        (report,) = parity.check(kernels, rows, {"onnx": encode}, (1024,))
        assert report.differ_beyond > 10

    @pytest.mark.skipif(
        not export_fixtures.HAS_LITERT,
        reason="ai-edge-litert is not installed (extra `litert`)",
    )
    def test_litert(self):
        out, result = export_fixtures.exported()
        assert "litert" in {report.runtime for report in result.reports}
        text = litert.read_metadata(f"{out}/{runtimes.LITERT}")
        assert text == result.metadata.to_json()

    def test_onnx_does_not_depend_on_the_batch(self):
        for name in (runtimes.ONNX, runtimes.QUANTIZED):
            session = onnx_file.Session(f"{export_fixtures.out()}/{name}")
            x = export_fixtures.rows()[:50]
            whole = session.run(x, "codes")["codes"]
            single = [
                session.run(x[i : i + 1], "codes")["codes"][0]
                for i in range(50)
            ]
            np.testing.assert_array_equal(whole, single)


def features(name="wine") -> np.ndarray:
    """A table in many units, with a column that is constant."""
    x = getattr(sklearn_datasets, f"load_{name}")().data
    return np.hstack([x, np.full((len(x), 1), 3.0)])


def small(normalization, rows) -> VDSH:
    model = VDSH(
        layers=3, width=8, bits=9, num_classes=2, normalization=normalization
    )
    model.build((None, rows.shape[1]))
    model.encoder.adapt(rows)
    return model


class FeaturesTest(parameterized.TestCase):
    @parameterized.product(
        normalization=("unit", "center", "standardize", "auto"),
        name=("wine", "breast_cancer", "diabetes"),
    )
    def test_all_runtimes_agree_on_tables(self, normalization, name):
        rows = features(name)
        model = small(normalization, rows)
        out = export_fixtures.folder()
        formats = exporter.FORMATS if export_fixtures.HAS_LITERT else None
        result = exporter.export(
            model,
            "npz",
            out,
            formats or exporter.DEFAULT_FORMATS,
            rows=rows,
            quantized=True,
        )
        assert runtimes.ONNX in os.listdir(out)
        assert runtimes.PIXELS not in os.listdir(out)
        assert not [line for line in result.signatures if "image" in line]
        assert {r.runtime for r in result.reports} == {
            "keras",
            "saved_model",
            "saved_model bytes",
            "onnx",
            *(["litert"] if export_fixtures.HAS_LITERT else []),
        }
        assert all(r.differ_beyond == 0 for r in result.reports)
        # The rule speaks about nearly all bits of the rows that have a code.
        kernels = graph.kernels_of(model)
        normalized = graph.normalization_of(model)
        want = parity.responses(kernels, rows, *normalized)
        assert np.mean(np.abs(want) > parity.MARGIN) > 0.99
        kind = model.encoder.normalization_kind
        assert result.metadata.normalization == f"{kind}_unit_length".replace(
            "unit_unit", "unit"
        )
        assert result.quantized_flips < 0.1

    def test_the_check_sees_one_wrong_scale(self):
        rows = features()
        model = small("standardize", rows)
        mean, scale = graph.normalization_of(model)
        encode = runtimes.encoders(model, {})["keras"]
        wrong = scale.copy()
        wrong[3] *= 2
        rows = rows.astype(np.float32)
        for value, differs in ((scale, False), (wrong, True)):
            (report,) = parity.check(
                graph.kernels_of(model),
                rows,
                {"keras": encode},
                (1024,),
                mean,
                value,
            )
            assert (report.differ_beyond > 0) == differs

    def test_no_scale_leaves_the_range_of_float32(self):
        rows = features("breast_cancer")
        model = small("standardize", rows)
        kernels = graph.kernels_of(model)
        mean, scale = graph.normalization_of(model)
        huge = np.full((1, rows.shape[1]), 3e38, np.float32)
        hostile = np.concatenate([parity.hostile_rows(rows[:20]), huge, -huge])
        want = parity.responses(kernels, hostile, mean, scale)
        assert np.isfinite(want).all()
        assert np.abs(want[-2:]).max() > parity.MARGIN
        # As it would with the plain reciprocal of the deviation.
        plain = scale / np.float32(rows.std(axis=0)[:-1].min())
        with np.errstate(over="ignore", invalid="ignore"):
            got = parity.responses(kernels, huge, mean, plain)
        assert not np.isfinite(got).all()

    def test_what_has_no_effect_is_no_part_of_the_graph(self):
        rows = np.random.default_rng(0).normal(size=(50, 5))
        found = []
        for normalization in ("unit", "auto"):
            model = small(normalization, rows)
            file = os.path.join(export_fixtures.folder(), "e.onnx")
            served = graph.Served(
                graph.kernels_of(model),
                metadata.describe(model, "npz"),
                *graph.normalization_of(model),
            )
            onnx_file.write(served, file)
            loaded = onnx.load(file)
            kinds = [node.op_type for node in loaded.graph.node]
            props = {p.key: p.value for p in loaded.metadata_props}
            found.append((kinds, props))
        assert found[0] == found[1]
        assert found[0][1]["normalization"] == "unit_length"


class PicturesTest(parameterized.TestCase):
    @parameterized.parameters("unit", "center", "standardize")
    def test_pictures_of_a_user_have_pixels(self, normalization):
        rows = np.random.default_rng(0).integers(0, 256, (50, 24), np.uint8)
        model = small(normalization, rows)
        out = export_fixtures.folder()
        result = exporter.export(
            model, "npz", out, rows=rows, image_shape=(4, 2, 3)
        )
        assert runtimes.PIXELS in os.listdir(out)
        assert (
            "pixels: image uint8 [batch, 4, 2, 3] -> codes uint8 [batch, 2]"
            in result.signatures
        )
        assert {r.runtime for r in result.reports} >= {
            "saved_model pixels",
            "onnx pixels",
        }


class RefusalTest(parameterized.TestCase):
    def export(self, **kwargs):
        out = export_fixtures.folder()
        kwargs = {"rows": export_fixtures.rows(), **kwargs}
        return exporter.export(export_fixtures.model(), "digits", out, **kwargs)

    @parameterized.parameters(
        ({"formats": ()}, "`formats` must be"),
        ({"formats": ("tensorrt",)}, "`formats` must be"),
        ({"rows": None}, "`rows` of training data"),
        ({"quantized": True, "formats": ("saved_model",)}, "Add 'onnx'"),
        ({"opset": 20}, "from 13 to 18.*opset=20"),
        ({"opset": 7}, "from 13 to 18"),
    )
    def test_arguments(self, kwargs, message):
        with pytest.raises(ValueError, match=message):
            self.export(**kwargs)


if __name__ == "__main__":
    absltest.main()
