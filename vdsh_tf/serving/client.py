"""Client of an encoder that TF Serving serves, by REST or gRPC.

```python
with serving.Client("http://localhost:8501") as client:
    client.check_encoder(index.fingerprint)
    codes = client.encode(x)  # [n, ceil(K/8)] uint8, as `VDSH.encode` gives
```
"""

import importlib
import random
import time
import urllib.parse

import numpy as np

from vdsh_tf.data import inputs
from vdsh_tf.serving.errors import ServingError
from vdsh_tf.serving.errors import Signature
from vdsh_tf.serving.errors import Transient

# Signature and output that name the encoder.
FINGERPRINT = "fingerprint"
# Signature and output that hold the codes; strings are smaller in JSON.
_ROWS = {"rest": ("bytes", "codes_bytes"), "grpc": ("serving_default", "codes")}


class Client:
    """Codes from a server. One client may be used by many threads.

    Args:
        url: `http://host:8501` or `https://...` for REST, `grpc://host:8500`
            for gRPC (extra `serving`). A path `/v1/models/NAME` or
            `/v1/models/NAME/versions/N` overrides the two next arguments.
        model: name of the model on the server.
        version: number of a version; None means the newest.
        batch_size: rows in a request.
        timeout: seconds that one request may take.
        retries: times that a request is repeated when the server is busy,
            starting or out of reach. Encoding twice does no harm.
        backoff: seconds before the first repetition; doubled each time, with
            jitter, so that many clients do not come back together.

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
    ):
        if batch_size < 1 or timeout <= 0 or retries < 0 or backoff < 0:
            raise ValueError(
                "`batch_size` must be >= 1, `timeout` > 0, `retries` and "
                f"`backoff` >= 0. Received: {batch_size}, {timeout}, "
                f"{retries}, {backoff}."
            )
        scheme, address, model, version = parse_url(url, model, version)
        self.url = url
        self.model = model
        self.version = version
        self.batch_size = batch_size
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff
        self._signatures: dict[str, Signature] | None = None
        self._fingerprint: str | None = None
        self._kind = "grpc" if scheme == "grpc" else "rest"
        # Only the transport that is asked for must be installed.
        transport = importlib.import_module(f"vdsh_tf.serving.{self._kind}")
        self._transport = transport.Transport(
            scheme, address, model, version, timeout
        )

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
        return self._predict(signature, "x", self._rows(signature, x), output)

    def embed(self, x: np.ndarray) -> np.ndarray:
        """Embedding of raw rows: [n, d] -> [n, K] float32."""
        return self._predict("embed", "x", self._rows("embed", x), "embedding")

    def encode_images(self, images: np.ndarray) -> np.ndarray:
        """Packed codes of raw pixels: [n, h, w, c] uint8 -> codes."""
        images = np.asarray(images)
        shape = self._signature("pixels").inputs["image"][1:]
        if images.dtype != np.uint8 or images.shape[1:] != shape:
            raise ValueError(
                f"Images must be uint8 [n, {', '.join(map(str, shape))}], as "
                f"the model on the server was trained. Received: "
                f"{images.dtype} {list(images.shape)}. Resize or reshape them."
            )
        if len(images) == 0:
            raise ValueError("There must be at least one image, got none.")
        return self._predict("pixels", "image", images, "codes")

    def fingerprint(self) -> str:
        """What `HashEncoder.fingerprint` says of the encoder; asked once.

        Raises:
            ServingError: the model does not say, as exports of vdsh_tf 0.1.0
                do not.
        """
        if self._fingerprint is None:
            if FINGERPRINT not in self.signatures():
                raise ServingError(
                    f"The model {self.model!r} at {self.url} must tell its "
                    "encoder's fingerprint, or its codes may be those of "
                    f"another one; it has no signature {FINGERPRINT!r}. "
                    "Export it again with this version of vdsh_tf, and serve "
                    "the new folder."
                )
            (found,) = self._predict(
                FINGERPRINT, "ignored", np.zeros(1, np.float32), FINGERPRINT
            )
            # gRPC carries strings as bytes.
            text = found.decode() if isinstance(found, bytes) else str(found)
            self._fingerprint = text
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
        if self._signatures is None:
            found = self._retry(self._transport.signatures)
            # Names such as __saved_model_init_op are the server's own.
            self._signatures = {
                name: signature
                for name, signature in found.items()
                if not name.startswith("__")
            }
        return self._signatures

    def _signature(self, name):
        found = self.signatures()
        if name not in found:
            raise ServingError(
                f"The model {self.model!r} at {self.url} must have the "
                f"signature {name!r}; it has {', '.join(sorted(found))}. "
                "Serve a SavedModel that `vdsh_tf.export` wrote"
                + (", of a data set of pictures." if name == "pixels" else ".")
            )
        return found[name]

    def _rows(self, signature, x):
        width = self._signature(signature).inputs["x"][1]
        return inputs.check_features(x, width).astype(np.float32, copy=False)

    def _predict(self, signature, name, value, output):
        parts = []
        for start in range(0, len(value), self.batch_size):
            batch = value[start : start + self.batch_size]
            part = self._retry(
                lambda batch=batch: self._transport.predict(
                    signature, name, batch, output
                )
            )
            if len(part) != len(batch):
                raise ServingError(
                    f"The server at {self.url} must respond with a row for "
                    f"each of {len(batch)} rows sent. Received: {len(part)}."
                )
            parts.append(part)
        return np.concatenate(parts)

    def _retry(self, call):
        for attempt in range(self.retries + 1):
            try:
                return call()
            except Transient as error:
                last = error
            if attempt < self.retries:
                pause = self.backoff * 2**attempt
                time.sleep(pause * random.uniform(0.5, 1.5))
        raise ServingError(
            f"The server at {self.url} must respond within {self.timeout:g} s; "
            f"it did not in {self.retries + 1} attempts. Is it running, and "
            f"is the model loaded? Last cause: {last}"
        ) from last


def parse_url(url: str, model: str, version: int | None):
    """Returns scheme, host:port, model and version of a server's address."""
    parts = urllib.parse.urlsplit(url)
    path = [part for part in parts.path.split("/") if part]
    known = parts.scheme in ("http", "https", "grpc") and bool(parts.hostname)
    if path[:2] == ["v1", "models"] and len(path) in (3, 5):
        model = path[2]
        if len(path) == 5:
            known = known and path[3] == "versions" and path[4].isdecimal()
            version = int(path[4]) if known else None
    elif path:
        known = False
    if not known:
        raise ValueError(
            "`url` must read http://HOST:PORT or grpc://HOST:PORT, and may "
            f"end in /v1/models/NAME. Received: url={url!r}."
        )
    return parts.scheme, parts.netloc, model, version
