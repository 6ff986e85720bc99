"""TF Serving's gRPC protocol, with the official stubs.

The stubs are built on TensorFlow's own messages and import them, so this
module alone of the client needs TensorFlow; `Client` imports it when an
address starts with grpc://.
"""

import threading

import numpy as np

from vdsh_tf.serving import answers
from vdsh_tf.serving import errors

try:
    import grpc
    from google.protobuf import message
    from tensorflow_serving.apis import get_model_metadata_pb2
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc
except ImportError as error:
    raise RuntimeError(
        "gRPC needs the packages grpcio and tensorflow-serving-api. Install "
        "them with `pip install 'vdsh_tf[serving]'`, or use the REST port: "
        f"http://HOST:8501. Cause: {error}"
    ) from error

# Batches of long rows pass gRPC's 4 MB on their way to a server.
OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
# An answer has at most MOST_NUMBERS of 4 bytes, and some names.
MOST_BYTES = 4 * answers.MOST_NUMBERS + (1 << 18)
_CHANNEL = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MOST_BYTES),
    # Neither asked for nor taken: a small message can become a large one.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.per_message_decompression", 0),
    # A server that was restarted is found again within a second, not two
    # minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_TRANSIENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
)
# Seconds; gRPC says more of the cause than a clock does.
_GRACE = 0.1
_TOO_LONG = "message larger than max"
# Of types.proto; only TensorFlow itself has it as a module.
_FLOAT, _UINT8, _STRING = 1, 4, 7
_DTYPES = {_UINT8: "uint8", _FLOAT: "float32", _STRING: "string"}


class Transport:
    """One channel to a server; gRPC shares it between threads."""

    def __init__(self, scheme, address, model, version):
        del scheme
        self._channel = grpc.insecure_channel(address, options=_CHANNEL)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(
            self._channel
        )
        self._model = model
        self._version = version
        self._flooded = False

    def close(self):
        if self._flooded:  # it takes seconds to close
            close = self._channel.close
            threading.Thread(target=close, daemon=True).start()
        else:
            self._channel.close()

    def signatures(self, deadline):
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        self._fill(request.model_spec)
        request.metadata_field.append("signature_def")
        response = self._call(self._stub.GetModelMetadata, request, deadline)
        return read_signatures(response)

    def predict(self, signature, name, value, form, deadline):
        request = predict_pb2.PredictRequest()
        self._fill(request.model_spec)
        request.model_spec.signature_name = signature
        _put(value, request.inputs[name])
        request.output_filter.append(form.output)
        response = self._call(self._stub.Predict, request, deadline)
        return read_answer(response, form)

    def _fill(self, spec):
        spec.name = self._model
        if self._version is not None:
            spec.version.value = self._version

    def _call(self, method, request, deadline):
        # `from None`: what a server sent must not reach a terminal as it is.
        try:
            seconds = deadline.left()
            future = method.future(request, timeout=seconds)
            # gRPC's own deadline comes late while it is busy with a flood of
            # headers.
            return future.result(timeout=seconds + _GRACE)
        except TimeoutError as error:
            raise errors.Transient(f"TimeoutError: {error}") from None
        except grpc.FutureTimeoutError:
            future.cancel()
            self._flooded = True
            raise errors.Transient("no response within the deadline") from None
        except grpc.RpcError as error:
            code, details = error.code(), error.details() or ""
            shown = f"{code.name}: {errors.quote(details)}"
        if _TOO_LONG in details:  # here, or on its way to the server
            here = f"vs. {MOST_BYTES})" in details
            raise errors.too_long(MOST_BYTES) if here else errors.refused(shown)
        if code in _TRANSIENT:
            raise errors.Transient(shown)
        if code == grpc.StatusCode.NOT_FOUND:
            raise errors.not_found(self._model, shown)
        raise errors.refused(shown)


def _put(value, proto):
    """Writes float32 or uint8 numbers into a TensorProto."""
    if value.dtype == np.uint8:
        proto.dtype = _UINT8
    else:
        proto.dtype, value = _FLOAT, value.astype("<f4", copy=False)
    for size in value.shape:
        proto.tensor_shape.dim.add().size = size
    proto.tensor_content = value.tobytes()


def read_signatures(response) -> dict[str, errors.Signature]:
    """Signatures from a GetModelMetadataResponse, or ServingError."""
    found = get_model_metadata_pb2.SignatureDefMap()
    try:
        known = response.metadata["signature_def"].Unpack(found)
    except message.DecodeError as error:
        raise errors.nonsense(f"DecodeError: {error}") from None
    if not known:
        raise errors.nonsense("metadata without signatures")
    return {
        name: errors.Signature(
            _shapes(signature.inputs), _shapes(signature.outputs)
        )
        for name, signature in found.signature_def.items()
    }


def read_answer(response, form: answers.Form) -> np.ndarray:
    """The array in a PredictResponse, checked, or ServingError."""
    if form.output not in response.outputs:
        raise errors.refused(
            f"no output {form.output!r} among {sorted(response.outputs)}"
        )
    proto = response.outputs[form.output]
    dtype = _DTYPES.get(proto.dtype, f"type {proto.dtype}")
    # Before anything is made: a shape of a few bytes may claim gigabytes.
    answers.check_form(_shape(proto.tensor_shape), dtype, form)
    try:
        array = _READERS[form.kind](proto).reshape(form.shape)
    except (ValueError, OverflowError, TypeError) as error:
        raise errors.nonsense(f"{type(error).__name__}: {error}") from None
    return answers.check_values(array, form)


def _codes(proto):
    if proto.tensor_content:
        return np.frombuffer(proto.tensor_content, np.uint8)
    array = np.array(list(proto.int_val), np.int64)
    if ((array < 0) | (array > 255)).any():
        raise ValueError("numbers that are no bytes")
    return array.astype(np.uint8)


def _embedding(proto):
    if proto.tensor_content:
        return np.frombuffer(proto.tensor_content, "<f4")
    return np.array(proto.float_val, np.float32)


def _text(proto):
    return np.array([v.decode() for v in proto.string_val], object)


_READERS = {
    answers.CODES: _codes,
    answers.EMBEDDING: _embedding,
    answers.TEXT: _text,
}


def _shapes(tensors):
    return {name: _shape(info.tensor_shape) for name, info in tensors.items()}


def _shape(shape):
    if shape.unknown_rank or len(shape.dim) > answers.MOST_DIMS:
        return None
    return answers.known_shape([dim.size for dim in shape.dim])
