"""Serves search over HTTP, with a page to try it: rows in, neighbours out.

    python tools/serve.py                       # the newest run; prepares it
    python tools/serve.py --run_dir=runs/mnist-001 --port=9000
    python tools/serve.py --encoder=encoder.onnx --index=faiss:index.npz
    python tools/serve.py --host=0.0.0.0 --token_file=token.txt

Answers at http://127.0.0.1:8000: the page at /, the interface at /docs. Runs
without TensorFlow, but for a run that is not prepared yet, which a process of
its own does first (`tools/prepare.py`). Items that are added or removed are on
disk before they are acknowledged. Ctrl-C or SIGTERM answers what was asked and
ends. Needs `pip install 'vdsh_tf[serve]'`.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import ClassVar

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import interrupts
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold

if TYPE_CHECKING:
    from vdsh_tf.service.app import Service


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    FIRST: ClassVar = ("run_dir", "encoder", "index", "host", "port")

    encoder: str | None = setting(
        None, ANY, "encoder.onnx, instead of a run.", flag=flags.FILE
    )
    index: str | None = setting(
        None,
        ANY,
        "faiss:path or milvus:uri#collection; default the run's.",
        flag=flags.URI,
    )
    items: str | None = setting(
        None,
        ANY,
        "SQLite file of payloads and changes; default beside the index.",
        flag=flags.FILE,
    )
    embeddings: str | None = setting(
        None,
        ANY,
        ".npy of float16 [items, bits] for rerank; default the run's.",
        flag=flags.FILE,
    )
    host: str = setting("127.0.0.1", ANY, "Address to listen at.")
    port: int = setting(8000, ANY, "Port to listen at; 0 for a free one.")
    token_file: str | None = setting(
        None,
        ANY,
        "File with a token that requests must bear; or set VDSH_TOKEN.",
        flag=flags.FILE,
    )
    most_rows: int = setting(1024, COUNT, "Rows in a request.")
    most_k: int = setting(1000, COUNT, "Neighbours of a row.")
    most_bytes: int = setting(32 << 20, COUNT, "Bytes in a request.")
    threads: int = setting(1, COUNT, "Threads of ONNX Runtime and faiss.")


def serve(args: Args) -> None:
    """Serves until it is told to stop."""
    check_installed()
    from vdsh_tf.service import running

    token = running.read_token(args.token_file)
    if (args.encoder is None) != (args.index is None) and args.encoder:
        raise ValueError("--encoder needs --index, the codes that it made.")
    with opened(args) as service:
        server, address = running.make_server(
            service, args.host, args.port, token
        )
        print(f"{len(service.engine)} items, {service.about.title}")
        print(f"listening at {address} (Ctrl-C stops)", flush=True)
        with contextlib.suppress(interrupts.Interrupt):
            server.run()
    print("stopped; every acknowledged item is stored")


def check_installed() -> None:
    """Raises unless what serving needs is installed."""
    try:
        import fastapi  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"The service needs {error.name}, which is not installed. Run "
            "`pip install 'vdsh_tf[serve]'`."
        ) from error


@contextlib.contextmanager
def opened(args: Args) -> Iterator["Service"]:
    """The service that the flags ask for."""
    from vdsh_tf.service import bodies
    from vdsh_tf.service import running

    limits = bodies.Limits(args.most_rows, args.most_k, args.most_bytes)
    if args.encoder is not None:
        parts = running.Parts(
            args.encoder, str(args.index), args.items, args.embeddings
        )
    else:
        folder = args.directory.file("service")
        if not os.path.exists(folder):
            prepare(args)
        parts = running.Parts.of(
            folder, args.index, args.items, args.embeddings
        )
    with running.opened(parts, limits, args.threads) as service:
        yield service


def prepare(args: run_flags.RunFlags) -> None:
    """Prepares the run in a process of its own, which needs TensorFlow."""
    given = [f"--run_dir={args.directory.path}"]
    for name in ("data_dir", "path"):
        if getattr(args, name) is not None:
            given.append(f"--{name}={getattr(args, name)}")
    command = f"python tools/prepare.py {' '.join(given)}"
    print(f"preparing {args.directory.path}, once: {command}", flush=True)
    program = "import sys; from vdsh_tf.tools import prepare; "
    program += "sys.exit(prepare.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", program, *given])
    if done.returncode:
        raise RuntimeError(
            f"{args.directory.path} must be prepared before it is served, "
            f"and that failed (see above). Mend the cause; `{command}` "
            "tries again."
        )


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(serve, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
