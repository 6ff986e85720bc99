"""TF Serving's REST protocol."""

import base64
import http.client
import json
import ssl
import urllib.parse

import numpy as np

from vdsh_tf.serving import answers
from vdsh_tf.serving import connections
from vdsh_tf.serving import errors
from vdsh_tf.serving import limits

_TRANSIENT = (408, 429, 500, 502, 503, 504)
# A signature is a few hundred bytes of metadata.
_MOST_METADATA = 1 << 20
# A float is 26 characters at most; the rest is for whoever indents.
_BYTES_PER_NUMBER = 32
_BYTES_PER_ROW = 64
_SPARE = 1 << 16
# What JSON of another form comes to: no JSON at all, [[[[..., numbers of 5000
# digits, other keys, other types.
_UNREADABLE = (
    ValueError,
    RecursionError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
)


class Transport:
    """Requests to `scheme://address`, from a pool of connections."""

    def __init__(self, scheme, address, model, version):
        parts = urllib.parse.urlsplit(f"//{address}")
        self._pool = connections.Pool(scheme, parts.hostname, parts.port)
        self._model = model
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"

    def close(self):
        self._pool.close()

    def signatures(self, deadline):
        text = self._request("GET", "/metadata", None, _MOST_METADATA, deadline)
        return read_signatures(text)

    def predict(self, signature, name, value, form, deadline):
        body = {"signature_name": signature, "inputs": {name: value.tolist()}}
        text = self._request(
            "POST",
            ":predict",
            json.dumps(body).encode(),
            most_bytes(form),
            deadline,
        )
        return read_answer(text, form)

    def _request(self, method, action, body, most, deadline):
        # `from None`: what a server sent must not reach a terminal as it is.
        try:
            status, text = self._pool.exchange(
                method, self._path + action, body, most, deadline
            )
        except limits.TooLongError:
            raise errors.too_long(most) from None
        except ssl.SSLCertVerificationError as error:
            raise errors.ServingError(
                "The server's certificate must be one that this system "
                f"trusts. Received: {errors.quote(error)}."
            ) from None
        except (OSError, http.client.IncompleteRead) as error:
            cause = errors.quote(f"{type(error).__name__}: {error}")
            raise errors.Transient(cause) from None
        except (http.client.HTTPException, ValueError) as error:
            raise errors.nonsense(f"{type(error).__name__}: {error}") from None
        self._check_status(status, text)
        return text

    def _check_status(self, status, text):
        if status == 200:
            return
        shown = f"HTTP {status}: {errors.quote(text)}"
        if status in _TRANSIENT:
            raise errors.Transient(shown)
        if status == 404:
            raise errors.not_found(self._model, shown)
        raise errors.refused(shown)


def most_bytes(form: answers.Form) -> int:
    """How long the JSON of an answer may be, generously."""
    return (
        _SPARE + _BYTES_PER_ROW * form.rows + _BYTES_PER_NUMBER * form.numbers
    )


def read_signatures(text: bytes) -> dict[str, errors.Signature]:
    """Signatures from the JSON of `/metadata`, or ServingError."""
    try:
        found = json.loads(text)["metadata"]["signature_def"]["signature_def"]
        return {
            name: errors.Signature(
                _shapes(signature.get("inputs", {})),
                _shapes(signature.get("outputs", {})),
            )
            for name, signature in found.items()
        }
    except _UNREADABLE:
        raise errors.nonsense(text) from None


def read_answer(text: bytes, form: answers.Form) -> np.ndarray:
    """The array in the JSON of `:predict`, checked, or ServingError."""
    # An empty list is 2 characters and 64 bytes: count before they are made.
    parts = sum(text.count(sign) for sign in (b",", b"[", b"{", b":"))
    if parts > 2 * form.numbers + 8 * form.rows + 1024:
        raise errors.nonsense(text)
    try:
        found = json.loads(text)["outputs"]
        # An output that is the only one comes without its name.
        found = found[form.output] if isinstance(found, dict) else found
        if not isinstance(found, list):
            raise TypeError("not rows")
        array, dtype = _READERS[form.kind](found)
    except _UNREADABLE:
        raise errors.nonsense(text) from None
    answers.check_form(array.shape, dtype, form)
    return answers.check_values(array, form)


def _codes(values):
    if isinstance(values[0], dict):
        rows = [base64.b64decode(v["b64"], validate=True) for v in values]
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise ValueError("codes of several lengths")
        joined = np.frombuffer(b"".join(rows), np.uint8)
        return joined.reshape(len(rows), width), "uint8"
    array = np.asarray(values)
    if array.dtype.kind == "i" and array.min() >= 0 and array.max() <= 255:
        array = array.astype(np.uint8)
    return array, str(array.dtype)


def _embedding(values):
    array = np.asarray(values)
    if array.dtype.kind in "fi":
        with np.errstate(over="ignore"):  # infinity is refused
            array = array.astype(np.float32)
    return array, str(array.dtype)


def _text(values):
    if not all(isinstance(value, str) for value in values):
        raise TypeError("not strings")
    return np.asarray(values, object), "string"


_READERS = {
    answers.CODES: _codes,
    answers.EMBEDDING: _embedding,
    answers.TEXT: _text,
}


def _shapes(tensors):
    return {name: _shape(info) for name, info in tensors.items()}


def _shape(info):
    shape = info["tensor_shape"]
    if shape.get("unknown_rank"):
        return None
    return answers.known_shape([int(dim["size"]) for dim in shape["dim"]])
