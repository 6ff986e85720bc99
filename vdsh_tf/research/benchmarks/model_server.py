"""A small model server for tests: TF Serving's REST and gRPC on loopback.

It runs an exported SavedModel, through a session as the C++ server does, with
the official messages. Error texts and the form of JSON responses follow TF
Serving 2.x.

    python -m vdsh_tf.research.benchmarks.model_server EXPORT/saved_model

writes its addresses as JSON and serves until its input ends. Two numbers after
the folder are ports, for REST and gRPC; 0 takes a free one.
"""

import base64
import concurrent.futures
import http.server
import importlib.util
import json
import os
import re
import socket
import sys
import threading

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from vdsh_tf.export import saved_model

HAS_GRPC = importlib.util.find_spec("tensorflow_serving") is not None
NO_GRPC = "tensorflow-serving-api is not installed (extra `serving`)"

_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+))?"
    r"(?P<action>/metadata|:predict)$"
)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class NotFoundError(Exception):
    """404 and NOT_FOUND."""


class InvalidError(Exception):
    """400 and INVALID_ARGUMENT."""


class Model:
    """The newest version in a folder of versions."""

    def __init__(self, base, name="vdsh"):
        self.name = name
        self.version = max(int(n) for n in os.listdir(base) if n.isdecimal())
        path = os.path.join(base, str(self.version))
        self.session = saved_model.Session(path)

    def find(self, name, version, kind):
        if name != self.name or version not in (None, 0, self.version):
            text = {
                "predict": f"Servable not found for request: Latest({name})",
                "metadata": f"Could not find any versions of model {name}",
            }[kind]
            raise NotFoundError(text)
        return self.session.signature_def

    def predict(self, signature, inputs):
        """Runs a signature on arrays by name; arrays by name come back."""
        signature = signature or "serving_default"
        found = self.session.signature_def
        if signature not in found:
            raise InvalidError(
                f'Serving signature name: "{signature}" not found in '
                "signature def"
            )
        want = found[signature].inputs
        if set(inputs) != set(want):
            raise InvalidError(
                "input size does not match signature: "
                f"{sorted(inputs)} != {sorted(want)}"
            )
        (value,) = inputs.values()
        try:
            return self.session.run(signature, value)
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            raise InvalidError(str(error)) from error


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *unused):
        pass

    def do_GET(self):
        self._respond(None)

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        self._respond(self.rfile.read(length))

    def _respond(self, body):
        try:
            status, response = 200, self._dispatch(body)
        except NotFoundError as error:
            status, response = 404, {"error": str(error)}
        except (InvalidError, ValueError, KeyError, TypeError) as error:
            status, response = 400, {"error": str(error)}
        data = json.dumps(response).encode()
        head = (
            f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        self.wfile.write(head.encode() + data)

    def _dispatch(self, body):
        match = _PATH.match(self.path)
        if match is None:
            raise NotFoundError(f"Malformed request: {self.path}")
        model = self.server.model
        version = int(match["version"]) if match["version"] else None
        if match["action"] == "/metadata":
            found = model.find(match["name"], version, "metadata")
            return _metadata_json(model, found)
        found = model.find(match["name"], version, "predict")
        request = json.loads(body)
        signature = request.get("signature_name", "serving_default")
        inputs, rowwise = _json_inputs(request, found.get(signature))
        outputs = model.predict(signature, inputs)
        return _json_outputs(outputs, rowwise)


def _metadata_json(model, signatures):
    listed = {
        name: json_format.MessageToDict(
            signature,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        for name, signature in signatures.items()
    }
    return {
        "model_spec": {
            "name": model.name,
            "signature_name": "",
            "version": str(model.version),
        },
        "metadata": {"signature_def": {"signature_def": listed}},
    }


def _json_inputs(request, signature):
    if signature is None:
        return {}, False
    rowwise = "instances" in request
    values = request["instances"] if rowwise else request["inputs"]
    ((name, info),) = signature.inputs.items()
    if isinstance(values, dict):
        values = values[name]
    kind = tf.as_dtype(info.dtype).as_numpy_dtype
    return {name: np.asarray(values).astype(kind)}, rowwise


def _json_outputs(outputs, rowwise):
    columns = {name: _json_column(name, v) for name, v in outputs.items()}
    if len(columns) == 1:
        (value,) = columns.values()
        return {"predictions" if rowwise else "outputs": value}
    if not rowwise:
        return {"outputs": columns}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, r, strict=True)) for r in rows]}


def _json_column(name, value):
    if name.endswith("_bytes"):
        return [{"b64": base64.b64encode(v).decode()} for v in value]
    if value.dtype == object:
        return [v.decode() for v in value]
    return value.tolist()


class _HttpServer(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


class Server:
    """REST, and gRPC where tensorflow-serving-api is installed."""

    def __init__(self, base, grpc_too=True, workers=16, ports=(0, 0)):
        self.model = Model(base)
        self._http = _HttpServer(("127.0.0.1", ports[0]), _Handler)
        self._http.model = self.model
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.rest = f"http://127.0.0.1:{self._http.server_port}"
        self._grpc = None
        if grpc_too:
            self._grpc, port = _start_grpc(self.model, workers, ports[1])
            self.grpc = f"grpc://127.0.0.1:{port}"

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        if self._grpc is not None:
            self._grpc.stop(None).wait()
        self.model.session.close()


def _start_grpc(model, workers, port):
    import grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    from vdsh_tf.serving.grpc import OPTIONS

    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(workers), options=OPTIONS
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        _servicer(model), server
    )
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port


def _servicer(model):
    import grpc
    from tensorflow_serving.apis import get_model_metadata_pb2
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802
            response = predict_pb2.PredictResponse()
            try:
                spec = request.model_spec
                model.find(spec.name, spec.version.value, "predict")
                inputs = {
                    name: tf.make_ndarray(proto)
                    for name, proto in request.inputs.items()
                }
                outputs = model.predict(spec.signature_name, inputs)
                for name in request.output_filter or outputs:
                    if name not in outputs:
                        raise InvalidError("output tensor alias not found")
                    response.outputs[name].CopyFrom(
                        tf.make_tensor_proto(outputs[name])
                    )
                response.model_spec.CopyFrom(spec)
                response.model_spec.version.value = model.version
            except NotFoundError as error:
                context.abort(grpc.StatusCode.NOT_FOUND, str(error))
            except InvalidError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            return response

        def GetModelMetadata(self, request, context):  # noqa: N802
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            try:
                spec = request.model_spec
                found = model.find(spec.name, spec.version.value, "metadata")
            except NotFoundError as error:
                context.abort(grpc.StatusCode.NOT_FOUND, str(error))
            signatures = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in found.items():
                signatures.signature_def[name].CopyFrom(signature)
            response.metadata["signature_def"].Pack(signatures)
            response.model_spec.name = model.name
            response.model_spec.version.value = model.version
            return response

    return Servicer()


def main(base: str, *ports: str) -> None:
    """Serves a folder of versions until the process's input ends."""
    server = Server(base, ports=tuple(map(int, ports)) or (0, 0))
    addresses = {"rest": server.rest, "grpc": server.grpc}
    sys.stdout.write(json.dumps(addresses) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
