import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from vdsh_tf import network
from vdsh_tf.export import graph
from vdsh_tf.export import metadata
from vdsh_tf.export import onnx_file
from vdsh_tf.export import parity
from vdsh_tf.export import quantize
from vdsh_tf.export import runtimes

# Runs in a Python that cannot import TensorFlow, Keras or this package.
ALONE = """
import json, sys
for name in ("tensorflow", "keras", "vdsh_tf", "onnx", "tf2onnx"):
    sys.modules[name] = None
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
codes, = session.run(["codes"], {"x": np.load(sys.argv[2])})
np.save(sys.argv[3], codes)
meta = session.get_modelmeta().custom_metadata_map
print(json.dumps([meta, [m for m, v in sys.modules.items() if v is not None
      and m.split(".")[0] in ("tensorflow", "keras", "vdsh_tf")]]))
"""


def path(name=runtimes.ONNX) -> str:
    return os.path.join(export_fixtures.out(), name)


def described() -> metadata.Metadata:
    return metadata.describe(
        export_fixtures.model(), "digits", export_fixtures.IMAGE_SHAPE
    )


def shape(value):
    return [
        d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim
    ]


class OnnxTest(parameterized.TestCase):
    @parameterized.parameters(
        (runtimes.ONNX, {"x": ["batch", 64]}, "FLOAT"),
        (runtimes.QUANTIZED, {"x": ["batch", 64]}, "FLOAT"),
        (runtimes.PIXELS, {"image": ["batch", 8, 8, 1]}, "UINT8"),
    )
    def test_file_says_what_it_is(self, name, inputs, kind):
        model = onnx.load(path(name))
        onnx.checker.check_model(model, full_check=True)
        versions = {o.domain: o.version for o in model.opset_import}
        assert versions[""] == 18
        (given,) = model.graph.input
        assert {given.name: shape(given)} == inputs
        elem_type = given.type.tensor_type.elem_type
        assert onnx.TensorProto.DataType.Name(elem_type) == kind
        outputs = {
            value.name: (shape(value), value.type.tensor_type.elem_type)
            for value in model.graph.output
        }
        assert outputs == {
            "codes": (["batch", 2], onnx.TensorProto.UINT8),
            "bits": (["batch", 12], onnx.TensorProto.INT8),
            "embedding": (["batch", 12], onnx.TensorProto.FLOAT),
        }
        found = {entry.key: entry.value for entry in model.metadata_props}
        want = described().to_strings()
        extra = {"quantization": "static_u8u8"}
        more = extra if name == runtimes.QUANTIZED else {}
        assert found == {**want, **more}

    def test_runs_without_tensorflow_and_this_package(self):
        folder = export_fixtures.folder()
        x = export_fixtures.rows()[:30]
        np.save(os.path.join(folder, "x.npy"), x)
        found = subprocess.run(
            [
                sys.executable,
                "-c",
                ALONE,
                path(),
                os.path.join(folder, "x.npy"),
                os.path.join(folder, "c.npy"),
            ],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        )
        meta, imported = json.loads(found.stdout)
        assert imported == []
        model = export_fixtures.model()
        assert meta["fingerprint"] == model.encoder.fingerprint()
        got = np.load(os.path.join(folder, "c.npy"))
        np.testing.assert_array_equal(got, export_fixtures.codes(x))

    @parameterized.parameters(13, 15, 17)
    def test_older_opsets(self, opset):
        model = export_fixtures.model()
        served = graph.Served(
            graph.kernels_of(model),
            described(),
            *graph.normalization_of(model),
        )
        file = os.path.join(export_fixtures.folder(), "e.onnx")
        onnx_file.write(served, file, opset=opset)
        versions = {o.domain: o.version for o in onnx.load(file).opset_import}
        assert versions[""] == opset
        x = export_fixtures.rows()[:30]
        got = onnx_file.Session(file).run(x, "codes")["codes"]
        np.testing.assert_array_equal(got, export_fixtures.codes(x))

    def test_rows_without_a_code_leave_their_neighbours_alone(self):
        x = export_fixtures.rows()[:6].copy()
        want = export_fixtures.codes(x)
        x[1, 3], x[3, 5], x[4] = np.nan, np.inf, 0
        want[[1, 3, 4]] = 0
        got = onnx_file.Session(path()).run(x, "codes")["codes"]
        np.testing.assert_array_equal(got, want)

    def test_denormals_count_as_zero(self):
        # ONNX Runtime keeps them where TensorFlow flushes them, so without
        # care in the graph the two would give these rows different codes.
        rows = parity.hostile_rows(export_fixtures.rows()[:40])
        tiny, denormal = rows[3::7], rows[4::7]
        assert ((tiny != 0) & (np.abs(tiny) < network.TINY)).any()
        session = onnx_file.Session(path())
        model = export_fixtures.model()
        got = session.run(tiny, "codes")["codes"]
        want = parity.responses(
            graph.kernels_of(model), tiny, *graph.normalization_of(model)
        )
        assert parity.compare(want, got, "onnx", 40).differ_beyond == 0
        got = session.run(denormal, "codes")["codes"]
        np.testing.assert_array_equal(got, 0)

    def test_wrong_width(self):
        with pytest.raises(Exception, match="invalid dimensions for input"):
            onnx_file.Session(path()).run(np.ones((2, 63), np.float32))


class QuantizeTest(absltest.TestCase):
    def test_layers_are_quantised_and_packing_is_not(self):
        model = onnx.load(path(runtimes.QUANTIZED))
        weights = {
            w.name: w.data_type
            for w in model.graph.initializer
            if list(w.dims) in ([64, 24], [24, 24], [24, 12])
        }
        assert len(weights) == 4
        assert set(weights.values()) == {onnx.TensorProto.UINT8}
        kinds = {node.name: node for node in model.graph.node}
        producer = {o: n for n in kinds.values() for o in n.output}
        # Nothing between the code layer's ReLU and `codes` is quantised.
        seen, todo = [], ["codes"]
        while todo:
            node = producer.get(todo.pop())
            if node is not None and "embedding" not in node.output:
                seen.append(node.op_type)
                todo.extend(node.input)
        assert "ReduceSum" in seen
        assert not {"QuantizeLinear", "DequantizeLinear"} & set(seen)

    def test_few_bits_change(self):
        _, result = export_fixtures.exported()
        assert result.quantized_flips < 0.02

    def test_scales_come_from_the_rows_given(self):
        folder = export_fixtures.folder()
        meta = described()
        files = []
        for number, rows in enumerate(
            (export_fixtures.rows()[:100], export_fixtures.rows()[:1])
        ):
            files.append(os.path.join(folder, f"{number}.onnx"))
            quantize.static(path(), files[-1], rows, meta)
        scales = [
            [
                onnx.numpy_helper.to_array(w).item()
                for w in onnx.load(file).graph.initializer
                if w.name.endswith("_scale") and not w.dims
            ]
            for file in files
        ]
        assert scales[0] != scales[1]


if __name__ == "__main__":
    absltest.main()
