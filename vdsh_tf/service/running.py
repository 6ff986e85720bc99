"""Opens the parts of a service, and runs it."""

import contextlib
import dataclasses
import gc
import os
import socket
from collections.abc import Iterator

import uvicorn

from vdsh_tf import files
from vdsh_tf.data import streams
from vdsh_tf.encoding import onnx_encoder
from vdsh_tf.search import engines
from vdsh_tf.service import app
from vdsh_tf.service import bodies
from vdsh_tf.service import bundle
from vdsh_tf.service import guard
from vdsh_tf.service import store
from vdsh_tf.service.engine import Engine

# Seconds that requests have to end when the service stops.
_PATIENCE = 10
_LEAST_TOKEN = 16


@dataclasses.dataclass(frozen=True)
class Parts:
    """Where the parts of a service are.

    Attributes:
        encoder: path of encoder.onnx.
        index: `faiss:path` or `milvus:uri#collection`.
        items: path of the item store; None for beside the index.
        embeddings: path of a .npy, or None.
        about: what else is known.
    """

    encoder: str
    index: str
    items: str | None = None
    embeddings: str | None = None
    about: bundle.About = bundle.About()

    @classmethod
    def of(cls, folder: str, index=None, items=None, embeddings=None):
        """Those of a prepared folder, unless others are named."""

        def place(name):
            path = os.path.join(folder, name)
            return path if os.path.exists(path) else None

        about = bundle.read(folder)
        return cls(
            os.path.join(folder, bundle.ENCODER),
            index or f"faiss:{os.path.join(folder, bundle.INDEX)}",
            items or os.path.join(folder, bundle.ITEMS),
            embeddings or place(bundle.EMBEDDINGS),
            about,
        )


@contextlib.contextmanager
def opened(
    parts: Parts, limits: bodies.Limits | None = None, threads: int = 1
) -> Iterator[app.Service]:
    """A service whose items no other process changes meanwhile.

    Args:
        parts: where everything is.
        limits: of a request.
        threads: of ONNX Runtime and faiss, each.
    """
    encoder = onnx_encoder.OnnxEncoder(
        onnx_encoder.read(parts.encoder), threads
    )
    index = engines.open_index(parts.index, encoder.fingerprint)
    path = parts.items or store.default_path(*engines.parse(parts.index))
    embeddings = None
    if parts.embeddings is not None:
        embeddings = streams.map_file(parts.embeddings)
    with files.locked(path):
        items = store.ItemStore(path, encoder.fingerprint, encoder.bits)
        engine = Engine(encoder, index, items, embeddings)
        about = parts.about
        if about.image_shape is None and encoder.image_shape is not None:
            about = dataclasses.replace(about, image_shape=encoder.image_shape)
        yield app.Service(engine, about, limits or bodies.Limits(), threads)


def read_token(path: str | None) -> str | None:
    """The token of a file, or else of VDSH_TOKEN; None for none.

    A file, and not a flag: all users of a machine see the flags.
    """
    if path is not None:
        with open(path) as f:
            token: str | None = f.read().strip()
    else:
        token = os.environ.get("VDSH_TOKEN")
    if token is None:
        return None
    if len(token) < _LEAST_TOKEN or not token.isascii() or " " in token:
        raise ValueError(
            f"A token must be at least {_LEAST_TOKEN} letters and digits, or "
            f"it is guessed. Received: one of {len(token)} characters. Make "
            "one with `python -c 'import secrets; "
            "print(secrets.token_urlsafe(32))'`."
        )
    return token


def make_server(
    service: app.Service, host: str, port: int, token: str | None = None
) -> tuple["Server", str]:
    """A server that listens already, and its address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise OSError(
            f"The service must be able to listen at {host}, port {port}, and "
            "cannot. Name another port (0 for a free one) or host. Cause: "
            f"{error}"
        ) from error
    shown = f"[{host}]" if ":" in host else host
    local = shown in guard.LOCAL
    made = app.make_app(service, token, guard.LOCAL if local else None)
    config = uvicorn.Config(
        made,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE,
        limit_concurrency=1000,
        h11_max_incomplete_event_size=64 << 10,
    )
    server = Server(config, listener)
    return server, f"http://{shown}:{listener.getsockname()[1]}"


class Server(uvicorn.Server):
    """A server at a socket that is bound."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket):
        super().__init__(config)
        self._listener = listener

    def run(self, sockets=None) -> None:
        """Serves until a signal, or `should_exit`."""
        # What is here now stays. Without this the collector looks through
        # all of it now and then, and requests wait for 50 ms.
        gc.collect()
        gc.freeze()
        try:
            super().run(sockets or [self._listener])
        finally:
            gc.unfreeze()
