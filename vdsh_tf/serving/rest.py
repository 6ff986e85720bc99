"""TF Serving's REST protocol, with the standard library."""

import base64
import binascii
import http.client
import json
import threading

import numpy as np

from vdsh_tf.serving import errors

_TRANSIENT = (408, 429, 500, 502, 503, 504)


class Transport:
    """One kept-alive connection a thread to `http://address`."""

    def __init__(self, scheme, address, model, version, timeout):
        self._connect = {
            "http": http.client.HTTPConnection,
            "https": http.client.HTTPSConnection,
        }[scheme]
        self._address = address
        self._model = model
        self._timeout = timeout
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open = set()
        self._path = f"/v1/models/{model}"
        if version is not None:
            self._path += f"/versions/{version}"

    def close(self):
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()

    def signatures(self):
        answer = self._request("GET", f"{self._path}/metadata")
        try:
            found = answer["metadata"]["signature_def"]["signature_def"]
            return {
                name: errors.Signature(
                    _shapes(signature.get("inputs", {})),
                    _shapes(signature.get("outputs", {})),
                )
                for name, signature in found.items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _nonsense(answer) from error

    def predict(self, signature, name, value, output):
        body = {"signature_name": signature, "inputs": {name: value.tolist()}}
        answer = self._request("POST", f"{self._path}:predict", body)
        try:
            found = answer["outputs"]
            # An output that is the only one comes without its name.
            found = found[output] if isinstance(found, dict) else found
            return _array(found, output)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise _nonsense(answer) from error

    def _request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            connection = self._connection()
            connection.request(
                method, path, data, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            status, text = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise errors.Transient(
                f"{type(error).__name__}: {error}"
            ) from error
        if response.will_close:
            self._drop()
        return self._answer(status, text)

    def _answer(self, status, text):
        shown = f"HTTP {status}: {text[:500].decode('utf-8', 'replace')}"
        if status in _TRANSIENT:
            raise errors.Transient(shown)
        if status == 404:
            raise errors.not_found(self._model, shown)
        if status != 200:
            raise errors.refused(shown)
        try:
            return json.loads(text)
        except ValueError as error:
            raise _nonsense(text) from error

    def _connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(self._address, timeout=self._timeout)
            self._local.connection = connection
            with self._lock:
                self._open.add(connection)
        return connection

    def _drop(self):
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None
            with self._lock:
                self._open.discard(connection)


def _shapes(tensors):
    return {
        name: tuple(int(dim["size"]) for dim in info["tensor_shape"]["dim"])
        for name, info in tensors.items()
    }


def _array(values, output):
    if output == "codes_bytes":
        rows = [base64.b64decode(v["b64"], validate=True) for v in values]
        return np.stack([np.frombuffer(row, np.uint8) for row in rows])
    kind = np.uint8 if output == "codes" else np.float32
    return np.asarray(values).astype(kind)


def _nonsense(answer):
    return errors.ServingError(
        "The server must answer as TF Serving does. Received: "
        f"{str(answer)[:300]!r}. Is it a TF Serving REST port?"
    )
