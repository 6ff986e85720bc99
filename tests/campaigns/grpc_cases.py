"""What hostile gRPC servers do: behaviours, by name.

The encoder is that of `rest_cases`. Messages are made here, with the official
classes, and sent by a process that has nothing but gRPC.
"""

import dataclasses
import itertools
import struct

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2
from tensorflow_serving.apis import predict_pb2

from tests.campaigns.rest_cases import BITS
from tests.campaigns.rest_cases import CODE
from tests.campaigns.rest_cases import ESCAPES
from tests.campaigns.rest_cases import slow_forever
from tests.support.bad_servers import HANG
from tests.support.bad_servers import RESET
from tests.support.bad_servers import Reply
from tests.support.bad_servers import TcpServer

HUGE = 300_000_000
# Just short enough to be taken.
MANY = 1_200_000
# Longer than any time-out of the campaign.
LONG = 30.0


def varint(number: int) -> bytes:
    found = b""
    while number >= 128:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def padded(message: bytes, size: int, **more) -> Reply:
    """A message with an unknown field of so many bytes at its end."""
    return Reply(message + b"\x7a" + varint(size) + b"\0", size - 1, **more)


def signatures():
    made = get_model_metadata_pb2.SignatureDefMap()

    def add(name, inputs, outputs):
        one = made.signature_def[name]
        for tensors, shapes in (
            (one.inputs, inputs),
            (one.outputs, outputs),
        ):
            for key, sizes in shapes.items():
                set_shape(tensors[key], sizes)

    codes, x = {"codes": (-1, 2)}, {"x": (-1, 2)}
    both = {"bits": (-1, BITS), "embedding": (-1, BITS)}
    add("serving_default", x, codes)
    add("embed", x, {**codes, **both})
    add("pixels", {"image": (-1, 1, 2, 1)}, codes)
    add("fingerprint", {"ignored": (-1,)}, {"fingerprint": (-1,)})
    return made


def set_shape(info, sizes):
    info.ClearField("tensor_shape")
    for size in sizes:
        info.tensor_shape.dim.add().size = size


def metadata(change=None, **more) -> Reply:
    made = signatures()
    if change is not None:
        change(made.signature_def)
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.metadata["signature_def"].Pack(made)
    return Reply(response.SerializeToString(), **more)


def predict(value, output="codes", change=None, **more) -> Reply:
    response = predict_pb2.PredictResponse()
    tensor = response.outputs[output]
    tensor.CopyFrom(tf.make_tensor_proto(value))
    if change is not None:
        change(tensor)
    return Reply(response.SerializeToString(), **more)


def codes(rows=3, code=CODE, dtype=np.uint8, **more) -> Reply:
    return predict(np.array([code] * rows, dtype), **more)


def embedding(value, dtype=np.float32) -> Reply:
    return predict(np.full((3, BITS), value, dtype), "embedding")


@dataclasses.dataclass(frozen=True)
class Case:
    """One behaviour: of the methods, or of a raw server."""

    name: str
    predict: Reply = dataclasses.field(default_factory=codes)
    metadata: Reply = dataclasses.field(default_factory=metadata)
    ask: str = "encode"
    answers: bool = False
    width: int = 2
    raw: object = None
    server: dict = dataclasses.field(default_factory=dict)

    @property
    def replies(self) -> dict[str, Reply]:
        return {"Predict": self.predict, "GetModelMetadata": self.metadata}

    def start(self) -> TcpServer:
        return TcpServer(lambda _: self.raw(), reads=False, **self.server)


def _frame(kind, flags, stream, payload):
    head = struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
    return head + struct.pack(">I", stream) + payload


SETTINGS = _frame(4, 0, 0, b"")
# 200 and the type of a gRPC response, as literals without indexing.
HEADERS = _frame(
    *(1, 4, 1),
    b"\x88\x00\x0ccontent-type\x10application/grpc",
)
DATA = _frame(0, 0, 1, b"\0" + struct.pack(">I", 1 << 30) + b"\0" * 9000)
MORE = _frame(0, 0, 1, bytes(16384))


def raw(*parts):
    return lambda: parts


RAW = (
    Case("accepts nothing", server={"accepts": False}),
    Case("says nothing", raw=raw(HANG)),
    Case("closes", raw=raw(b"")),
    Case("resets", raw=raw(RESET)),
    Case("HTTP/1.1", raw=raw(b"HTTP/1.1 400 -\r\n\r\n<html>", HANG)),
    Case("no HTTP/2", raw=raw(bytes(range(256)) * 9, HANG)),
    Case("settings only", raw=raw(SETTINGS, HANG)),
    Case("settings byte by byte", raw=lambda: slow_forever(b"", SETTINGS[:1])),
    Case("settings without end", raw=lambda: itertools.repeat(SETTINGS * 99)),
    Case(
        "pings without end",
        raw=lambda: itertools.chain(
            [SETTINGS], itertools.repeat(_frame(6, 0, 0, bytes(8)) * 99)
        ),
    ),
    Case("answer that never ends", raw=raw(SETTINGS, 0.1, HEADERS, HANG)),
    Case(
        "a gigabyte, whatever the window",
        raw=lambda: itertools.chain(
            [SETTINGS, 0.1, HEADERS, DATA], itertools.repeat(MORE)
        ),
    ),
    Case(
        "a gigabyte, byte by byte",
        raw=lambda: slow_forever(
            SETTINGS + HEADERS + DATA, _frame(0, 0, 1, b"\0")
        ),
    ),
    Case(
        "headers without end",
        raw=lambda: itertools.chain(
            [SETTINGS, 0.1, _frame(1, 0, 1, b"\x88")],
            itertools.repeat(_frame(9, 0, 1, b"\x00\x01x\x01y" * 999)),
        ),
    ),
)
TIME = (
    Case("well-behaved", answers=True),
    Case("no codes", Reply(wait=LONG)),
    Case("no signatures", metadata=Reply(wait=LONG)),
    Case("late signatures, no codes", Reply(wait=LONG), metadata(wait=0.8)),
    *(
        Case(f"{code} for ever", Reply(code=code))
        for code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED")
    ),
    Case("DEADLINE_EXCEEDED at once", Reply(code="DEADLINE_EXCEEDED")),
    *(
        Case(code, Reply(code=code))
        for code in ("INTERNAL", "CANCELLED", "DATA_LOSS", "NOT_FOUND")
    ),
)


def _many_dims(tensor):
    tensor.tensor_shape.MergeFromString(b"\x12\0" * (MANY // 2))


def _many_strings(tensor):
    tensor.MergeFromString(b"\x42\0" * (MANY // 2))


def _many_signatures() -> Reply:
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    packed = response.metadata["signature_def"]
    packed.Pack(signatures())
    packed.value += b"\x0a\0" * (MANY // 2)
    return Reply(response.SerializeToString())


SIZE = (
    Case("300 MB of codes", padded(codes().data, HUGE)),
    Case("300 MB of signatures", metadata=padded(metadata().data, HUGE)),
    Case("gzip bomb", padded(codes().data, HUGE // 2, gzip=True)),
    # Each is two bytes, and a message of its own in memory.
    Case(
        "many empty outputs",
        Reply(codes().data + b"\x0a\0" * (MANY // 2)),
        answers=True,
    ),
    Case("many dims", codes(change=_many_dims)),
    Case("many strings", codes(change=_many_strings), answers=True),
    Case("many signatures", metadata=_many_signatures(), answers=True),
    Case(
        "a terabyte of one number",
        codes(change=lambda t: set_shape(t, (1 << 20, 1 << 20))),
    ),
    Case(
        "refuses a long request",
        Reply(
            code="RESOURCE_EXHAUSTED",
            details="Received message larger than max (9 vs. 4)",
        ),
    ),
    Case("long error", Reply(code="INTERNAL", details="x" * 100_000)),
)


def _deep() -> Reply:
    data = b""
    for _ in range(3000):
        one = b"\x1a" + varint(len(data)) + data
        data = b"\x7a" + varint(len(one)) + one
    value = b"\x12" + varint(len(data)) + data
    key = b"\x0a\x05codes"
    entry = key + value
    return Reply(b"\x0a" + varint(len(entry)) + entry)


def _input(*sizes, signature="serving_default", name="x"):
    return metadata(lambda s: set_shape(s[signature].inputs[name], sizes))


def _output(signature, name, *sizes):
    return metadata(lambda s: set_shape(s[signature].outputs[name], sizes))


def _unknown(found):
    shape = found["serving_default"].inputs["x"].tensor_shape
    shape.ClearField("dim")
    shape.unknown_rank = True


def _garbled() -> Reply:
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.metadata["signature_def"].Pack(signatures())
    response.metadata["signature_def"].value = b"\xff" * 99
    return Reply(response.SerializeToString())


def _other_type() -> Reply:
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.metadata["signature_def"].Pack(meta_graph_pb2.SignatureDef())
    return Reply(response.SerializeToString())


def _int_val(*values):
    def change(tensor):
        tensor.ClearField("tensor_content")
        tensor.int_val.extend(values)

    return codes(change=change)


def _content(data):
    def change(tensor):
        tensor.ClearField("int_val")
        tensor.tensor_content = data

    return codes(change=change)


def _text(*values) -> Reply:
    return predict(np.array(values, object), "fingerprint")


FORM = (
    Case("codes byte by byte in int_val", _int_val(*CODE * 3), answers=True),
    Case("no message", Reply(b"\xff" * 99)),
    Case("no metadata", metadata=Reply()),
    Case("signatures garbled", metadata=_garbled()),
    Case("signatures of another type", metadata=_other_type()),
    Case("deep message", _deep()),
    Case("unknown rank", metadata=metadata(_unknown)),
    Case(
        "input has no name",
        metadata=metadata(lambda s: s["serving_default"].inputs.clear()),
    ),
    Case("input of rank 3", metadata=_input(-1, 2, 2)),
    Case("input of width -1", metadata=_input(-1, -1)),
    Case("input of 2^62 numbers", metadata=_input(-1, 2**62)),
    Case("input of rank 20,000", metadata=_input(*[2] * 20_000)),
    Case(
        "a terabyte a row", metadata=_output("serving_default", "m", -1, 2**30)
    ),
    Case(
        "embedding and codes disagree",
        metadata=_output("embed", "embedding", -1, 64),
    ),
    Case("codes too narrow", codes(code=[7])),
    Case("codes too wide", codes(code=[7, 16, 0])),
    Case("bits beyond the code", codes(code=[7, 17])),
    Case("a row too few", codes(2)),
    Case("a row too many", codes(4)),
    Case("codes of rank 1", predict(np.array(CODE, np.uint8))),
    Case("codes as int32", codes(dtype=np.int32)),
    Case("codes as float32", codes(dtype=np.float32)),
    Case("codes of 300", _int_val(300, 0, 1, 2, 3, 4)),
    Case("one number for all", _int_val(7)),
    Case("no numbers at all", _int_val()),
    Case("content too short", _content(b"\1\2\3")),
    Case("content too long", _content(bytes(99))),
    Case("another output", codes(output="other")),
    Case("NaN embedding", embedding(np.nan), ask="embed"),
    Case("infinite embedding", embedding(np.inf), ask="embed"),
    Case("float64 embedding", embedding(0.5, np.float64), ask="embed"),
    Case("fingerprint with escapes", _text(ESCAPES), ask="fingerprint"),
    Case("fingerprint of 50 kB", _text("f" * 50_000), ask="fingerprint"),
    Case("fingerprint of bytes", _text(b"\xff\xfe"), ask="fingerprint"),
    Case("two fingerprints", _text("a", "b"), ask="fingerprint"),
    Case("escapes in an error", Reply(code="INTERNAL", details=ESCAPES)),
    Case("escapes when busy", Reply(code="UNAVAILABLE", details=ESCAPES)),
)
CASES = (*RAW, *TIME, *SIZE, *FORM)
