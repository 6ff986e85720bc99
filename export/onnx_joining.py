"""One ONNX graph of pixels, an ONNX backbone and an encoder."""

import os
import tempfile

from vdsh_tf.export import extras
from vdsh_tf.export import onnx_file
from vdsh_tf.export.backbones import OnnxBackbone
from vdsh_tf.export.graph import Served

FEATURES = "features"


def write(served: Served, backbone: OnnxBackbone, path: str) -> None:
    """Puts pixels, the backbone's graph and the encoder's one after another."""
    onnx = extras.load("onnx")
    opset = next(
        (o.version for o in backbone.proto.opset_import if not o.domain), 1
    )
    proto = backbone.proto
    if opset not in onnx_file.OPSETS:
        opset = onnx_file.OPSET
        try:
            proto = onnx.version_converter.convert_version(proto, opset)
        except Exception as error:
            raise ValueError(
                f"The backbone must be of opset {onnx_file.OPSETS[0]} to "
                f"{onnx_file.OPSETS[-1]}, or one that onnx can convert. "
                f"Received: {backbone.name}. Export it again at {opset}. "
                f"Cause: {error}"
            ) from error
    with tempfile.TemporaryDirectory() as folder:
        draft = os.path.join(folder, "encoder.onnx")
        onnx_file.write(served, draft, opset=opset)
        encoder = onnx.load(draft)
    before = _pixel_graph(onnx, backbone, opset)
    middle = onnx.compose.add_prefix(_cut(onnx, proto, backbone), "backbone/")
    for part in (before, middle, encoder):
        part.ir_version = encoder.ir_version
        del part.metadata_props[:]
        del part.opset_import[:]
        part.opset_import.append(onnx.helper.make_opsetid("", opset))
    first = onnx.compose.merge_models(
        before, middle, [("pixels", f"backbone/{backbone.input}")]
    )
    whole = onnx.compose.merge_models(
        first, encoder, [(f"backbone/{FEATURES}", "x")]
    )
    whole.graph.node.append(
        onnx.helper.make_node("Identity", [f"backbone/{FEATURES}"], [FEATURES])
    )
    whole.graph.output.append(
        onnx.helper.make_tensor_value_info(
            FEATURES,
            onnx.TensorProto.FLOAT,
            ["batch", served.metadata.input_width],
        )
    )
    finish(whole, served, path)


def _pixel_graph(onnx, backbone, opset):
    """uint8 pixels -> what the backbone takes."""
    helper, kinds = onnx.helper, onnx.TensorProto
    height, width, channels = backbone.image_shape
    factor, offset = backbone.scaling
    last = ["batch", height, width, channels]
    nodes = [
        helper.make_node("Cast", ["image"], ["cast"], to=kinds.FLOAT),
        helper.make_node("Mul", ["cast", "pixel_factor"], ["scaled"]),
        helper.make_node("Add", ["scaled", "pixel_offset"], ["moved"]),
    ]
    if backbone.channels_first:
        last = ["batch", channels, height, width]
        order = [0, 3, 1, 2]
        nodes.append(
            helper.make_node("Transpose", ["moved"], ["pixels"], perm=order)
        )
    else:
        nodes.append(helper.make_node("Identity", ["moved"], ["pixels"]))
    made = helper.make_graph(
        nodes,
        "pixels",
        [
            helper.make_tensor_value_info(
                "image", kinds.UINT8, ["batch", height, width, channels]
            )
        ],
        [helper.make_tensor_value_info("pixels", kinds.FLOAT, last)],
        [
            onnx.numpy_helper.from_array(factor, "pixel_factor"),
            onnx.numpy_helper.from_array(offset, "pixel_offset"),
        ],
    )
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", opset)]
    )


def _cut(onnx, proto, backbone):
    """The backbone up to its features, which are its only output."""
    cut = onnx.ModelProto()
    cut.CopyFrom(proto)
    nodes, needed = [], {backbone.output}
    for node in reversed(cut.graph.node):
        if needed & set(node.output):
            nodes.insert(0, node)
            needed |= set(node.input)
    kept = [n for n in cut.graph.initializer if n.name in needed]
    inputs = [v for v in cut.graph.input if v.name == backbone.input]
    for value in inputs:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    if _rank(onnx, proto, backbone.output) == 4:
        helper = onnx.helper
        pooled = [backbone.output, "features/pooled"]
        nodes.append(
            helper.make_node("GlobalAveragePool", pooled[:1], pooled[1:])
        )
        nodes.append(
            helper.make_node("Flatten", pooled[1:], [FEATURES], axis=1)
        )
    else:
        nodes.append(
            onnx.helper.make_node("Identity", [backbone.output], [FEATURES])
        )
    output = onnx.helper.make_tensor_value_info(
        FEATURES, onnx.TensorProto.FLOAT, ["batch", None]
    )
    made = onnx.helper.make_graph(nodes, "backbone", inputs, [output], kept)
    return onnx.helper.make_model(made, opset_imports=cut.opset_import)


def _rank(onnx, proto, name):
    """Dimensions of a tensor, by inference of shapes."""
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    for value in (*inferred.output, *inferred.value_info):
        if value.name == name:
            return len(value.type.tensor_type.shape.dim)
    return 2


def finish(proto, served: Served, path: str) -> None:
    """Names, describes, checks and saves a joined graph."""
    onnx = extras.load("onnx")
    onnx_file.name_batch(proto)
    onnx_file.add_metadata(proto, served.metadata)
    proto.graph.name = "vdsh"
    proto.doc_string = "Pictures to codes: a backbone and a vdsh_tf encoder."
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, path)
