"""Client of an encoder that TF Serving serves, by REST or gRPC.

```python
with serving.Client("http://localhost:8501") as client:
    client.check_encoder(index.fingerprint)
    codes = client.encode(x)  # [n, ceil(K/8)] uint8, as `VDSH.encode` gives
```
"""

import dataclasses
import functools
import importlib
import math
import random
import time
import urllib.parse

import numpy as np

from vdsh_tf import config
from vdsh_tf.data import inputs
from vdsh_tf.serving import answers
from vdsh_tf.serving.errors import ServingError
from vdsh_tf.serving.errors import Signature
from vdsh_tf.serving.errors import Transient
from vdsh_tf.serving.limits import Deadline

# Signature and output that name the encoder.
FINGERPRINT = "fingerprint"
# Signature and output that hold the codes; strings are smaller in JSON.
_ROWS = {"rest": ("bytes", "codes_bytes"), "grpc": ("serving_default", "codes")}
# Of a time-out, in seconds; sockets take no infinity.
_LONGEST = 1e6
# Between two attempts, in seconds: a server that is back is found soon.
_LONGEST_PAUSE = 10.0


class Client:
    """Codes from a server. One client may be used by many threads.

    Args:
        url: `http://host:8501` or `https://...` for REST, `grpc://host:8500`
            for gRPC (extra `serving`). A path `/v1/models/NAME` or
            `/v1/models/NAME/versions/N` overrides the two next arguments.
        model: name of the model on the server.
        version: number of a version; None means the newest.
        batch_size: rows in a request; fewer where the answer would have more
            than a quarter of a million numbers.
        timeout: seconds that a request may take in all: looking up the host,
            connecting, sending, reading to the end, and all repetitions with
            their pauses. A call with n batches of rows ends within n times
            this; its first batch includes asking for the signatures.
        retries: times that a request is repeated when the server is busy,
            starting or out of reach, while there is time. Encoding twice does
            no harm.
        backoff: seconds before the first repetition; doubled each time, up to
            ten, with jitter, so that many clients do not come back together.
        bits: length of the codes that the server must give; None takes what
            its signatures say.

    Answers are checked: as many rows as were sent, codes and embeddings as
    wide as the signatures say, of their type, embeddings finite. All else is
    a ServingError.

    Without a `version` the server may move to a newer one at any time, whose
    codes can be of another encoder: name the version where this matters.
    """

    def __init__(
        self,
        url: str,
        model: str = "vdsh",
        version: int | None = None,
        batch_size: int = 256,
        timeout: float = 10.0,
        retries: int = 4,
        backoff: float = 0.1,
        bits: int | None = None,
    ):
        _check_arguments(batch_size, timeout, retries, backoff, bits)
        scheme, address, model, version = parse_url(url, model, version)
        self.url = url
        self.model = model
        self.version = version
        self.batch_size = batch_size
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff
        self.bits = bits
        self._signatures: dict[str, Signature] | None = None
        self._fingerprint: str | None = None
        self._kind = "grpc" if scheme == "grpc" else "rest"
        # Only the transport that is asked for must be installed.
        transport = importlib.import_module(f"vdsh_tf.serving.{self._kind}")
        self._transport = transport.Transport(scheme, address, model, version)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections; the client cannot be used any more."""
        self._transport.close()

    def encode(self, x: np.ndarray) -> np.ndarray:
        """Packed codes of raw rows: [n, d] -> [n, ceil(K/8)] uint8."""
        signature, output = _ROWS[self._kind]
        return self._encode_rows(signature, x, output, answers.CODES)

    def embed(self, x: np.ndarray) -> np.ndarray:
        """Embedding of raw rows: [n, d] -> [n, K] float32."""
        return self._encode_rows("embed", x, "embedding", answers.EMBEDDING)

    def encode_images(self, images: np.ndarray) -> np.ndarray:
        """Packed codes of raw pixels: [n, h, w, c] uint8 -> codes."""
        images = np.asarray(images)
        signature, seconds = self._signature("pixels")
        shape = answers.row_shape(signature.inputs, "image", 3)
        if images.dtype != np.uint8 or images.shape[1:] != shape:
            raise ValueError(
                f"Images must be uint8 [n, {', '.join(map(str, shape))}], as "
                f"the model on the server was trained. Received: "
                f"{images.dtype} {list(images.shape)}. Resize or reshape them."
            )
        if len(images) == 0:
            raise ValueError("There must be at least one image, got none.")
        form = self._form("pixels", "codes", answers.CODES)
        return self._predict("pixels", "image", images, form, seconds)

    def fingerprint(self) -> str:
        """What `HashEncoder.fingerprint` says of the encoder; asked once.

        Raises:
            ServingError: the model does not say, as exports of vdsh_tf 0.1.0
                do not.
        """
        if self._fingerprint is None:
            deadline = Deadline(self.timeout)
            if FINGERPRINT not in self._ask_signatures(deadline):
                raise ServingError(
                    f"The model {self.model!r} at {self.url} must tell its "
                    "encoder's fingerprint, or its codes may be those of "
                    f"another one; it has no signature {FINGERPRINT!r}. "
                    "Export it again with this version of vdsh_tf, and serve "
                    "the new folder."
                )
            (self._fingerprint,) = self._predict(
                FINGERPRINT,
                "ignored",
                np.zeros(1, np.float32),
                answers.Form(FINGERPRINT, answers.TEXT, rows=1),
                deadline.remaining(),
            )
        return self._fingerprint

    def check_encoder(self, fingerprint: str) -> None:
        """Raises ServingError unless the server has this very encoder.

        Codes of different encoders have nothing to do with each other, even
        when they are of one length: call it before the first `encode` whose
        codes are compared with stored ones.

        Args:
            fingerprint: of the encoder that made the stored codes.
        """
        found = self.fingerprint()
        if found != fingerprint:
            raise ServingError(
                f"The server at {self.url} must serve the encoder "
                f"{fingerprint}, or its codes cannot be compared with those "
                f"that this one made. Received: {found}. Serve an export of "
                "the same model, or encode and index the database again with "
                "the served one."
            )

    def signatures(self) -> dict[str, Signature]:
        """Signatures of the model, asked for once."""
        return self._ask_signatures(Deadline(self.timeout))

    def _ask_signatures(self, deadline):
        if self._signatures is None:
            found = self._retry(self._transport.signatures, deadline)
            # Names such as __saved_model_init_op are the server's own.
            self._signatures = {
                name: signature
                for name, signature in found.items()
                if not name.startswith("__")
            }
        return self._signatures

    def _signature(self, name):
        """A signature, and the seconds that are left after asking for it."""
        deadline = Deadline(self.timeout)
        found = answers.find(self._ask_signatures(deadline), name)
        return found, deadline.remaining()

    def _form(self, name, output, kind):
        """What the answer for one row must be."""
        found = self.signatures()
        code_bytes, bits = answers.code_size(found, self.bits)
        width = code_bytes
        if kind == answers.EMBEDDING:
            (width,) = answers.row_shape(found[name].outputs, output, 1)
        numbers = answers.row_numbers(found[name], code_bytes)
        return answers.Form(output, kind, 1, width, bits, numbers)

    def _encode_rows(self, name, x, output, kind):
        signature, seconds = self._signature(name)
        (width,) = answers.row_shape(signature.inputs, "x", 1)
        form = self._form(name, output, kind)
        rows = inputs.check_features(x, width)
        if rows.dtype != np.float32:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32)
            # What was finite, or not zero, may not be so any more.
            inputs.check_features(rows)
        return self._predict(name, "x", rows, form, seconds)

    def _predict(self, signature, name, value, form, seconds):
        """Sends all rows, batch by batch; the first has `seconds`."""
        parts = []
        step = min(self.batch_size, answers.MOST_NUMBERS // form.row_numbers)
        for start in range(0, len(value), step):
            batch = value[start : start + step]
            deadline = Deadline(self.timeout if start else seconds)
            call = functools.partial(
                self._transport.predict,
                *(signature, name, batch),
                dataclasses.replace(form, rows=len(batch)),
            )
            try:
                parts.append(self._retry(call, deadline))
            except ServingError as error:
                if len(value) <= step:
                    raise
                raise ServingError(
                    f"Rows {start} to {start + len(batch) - 1} of {len(value)} "
                    f"have no answer. {error}"
                ) from error
        return np.concatenate(parts)

    def _retry(self, call, deadline):
        """What `call(deadline)` gives, at last."""
        for attempt in range(1, self.retries + 2):
            try:
                return call(deadline)
            except Transient as error:
                last = error
            pause = self.backoff * 2.0 ** min(attempt - 1, 60)
            pause = min(pause, _LONGEST_PAUSE) * random.uniform(0.5, 1.5)
            if attempt > self.retries or pause >= deadline.remaining():
                break
            time.sleep(pause)
        times = "attempt" if attempt == 1 else "attempts"
        raise ServingError(
            f"The server at {self.url} must respond within {self.timeout:g} s; "
            f"it did not in {attempt} {times}. Is it running, and is the "
            f"model loaded? Last cause: {last}"
        ) from last


def _check_arguments(batch_size, timeout, retries, backoff, bits):
    good = (
        config.is_count(batch_size)
        and config.is_count(retries, least=0)
        and 0 < timeout <= _LONGEST
        and 0 <= backoff < math.inf
        and (bits is None or config.is_count(bits))
    )
    if not good:
        raise ValueError(
            "`batch_size` must be an integer >= 1, `timeout` > 0 (seconds, at "
            f"most {_LONGEST:g}), `retries` an integer >= 0, `backoff` >= 0, "
            f"`bits` an integer >= 1 or None. Received: {batch_size}, "
            f"{timeout}, {retries}, {backoff}, {bits}."
        )


def parse_url(url: str, model: str, version: int | None):
    """Returns scheme, host:port, model and version of a server's address."""
    try:
        parts = urllib.parse.urlsplit(str(url))
        known = parts.scheme in ("http", "https", "grpc")
        # A port of 99999 is an error only when somebody asks for it.
        known = known and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, known = urllib.parse.urlsplit(""), False
    known = known and not (parts.query or parts.fragment or "@" in parts.netloc)
    path = [part for part in parts.path.split("/") if part]
    if path[:2] == ["v1", "models"] and len(path) in (3, 5):
        model = urllib.parse.unquote(path[2])
        if len(path) == 5:
            known = known and path[3] == "versions"
            known = known and path[4].isdecimal() and len(path[4]) < 19
            version = int(path[4]) if known else None
    elif path:
        known = False
    if not known:
        raise ValueError(
            "`url` must read http://HOST:PORT or grpc://HOST:PORT, and may "
            f"end in /v1/models/NAME. Received: url={url!r}."
        )
    return parts.scheme, parts.netloc, model, version
