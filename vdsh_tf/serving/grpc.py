"""TF Serving's gRPC protocol, with the official stubs.

The stubs are built on TensorFlow's own messages and import them, so this
module alone of the client needs TensorFlow; `Client` imports it when an
address starts with grpc://.
"""

import functools

from vdsh_tf.serving import errors

try:
    import grpc
    from tensorflow_serving.apis import get_model_metadata_pb2
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc
except ImportError as error:
    raise RuntimeError(
        "gRPC needs the packages grpcio and tensorflow-serving-api. Install "
        "them with `pip install 'vdsh_tf[serving]'`, or use the REST port: "
        f"http://HOST:8501. Cause: {error}"
    ) from error

# Batches of long rows pass gRPC's 4 MB.
OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
]
_TRANSIENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
)


class Transport:
    """One channel to a server; gRPC shares it between threads."""

    def __init__(self, scheme, address, model, version, timeout):
        del scheme
        self._channel = grpc.insecure_channel(address, options=OPTIONS)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(
            self._channel
        )
        self._model = model
        self._version = version
        self._timeout = timeout

    def close(self):
        self._channel.close()

    def signatures(self):
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        self._fill(request.model_spec)
        request.metadata_field.append("signature_def")
        response = self._call(self._stub.GetModelMetadata, request)
        found = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(found)
        return {
            name: errors.Signature(
                _shapes(signature.inputs), _shapes(signature.outputs)
            )
            for name, signature in found.signature_def.items()
        }

    def predict(self, signature, name, value, output):
        tf = _tensorflow()
        request = predict_pb2.PredictRequest()
        self._fill(request.model_spec)
        request.model_spec.signature_name = signature
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        request.output_filter.append(output)
        response = self._call(self._stub.Predict, request)
        if output not in response.outputs:
            raise errors.refused(
                f"no output {output!r} among {sorted(response.outputs)}"
            )
        return tf.make_ndarray(response.outputs[output])

    def _fill(self, spec):
        spec.name = self._model
        if self._version is not None:
            spec.version.value = self._version

    def _call(self, method, request):
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            shown = f"{error.code().name}: {error.details()}"
            if error.code() in _TRANSIENT:
                raise errors.Transient(shown) from error
            if error.code() == grpc.StatusCode.NOT_FOUND:
                raise errors.not_found(self._model, shown) from error
            raise errors.refused(shown) from error


@functools.cache
def _tensorflow():
    import tensorflow as tf

    return tf


def _shapes(tensors):
    return {
        name: tuple(dim.size for dim in info.tensor_shape.dim)
        for name, info in tensors.items()
    }
