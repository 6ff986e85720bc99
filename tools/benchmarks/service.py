"""Measures the search service under load, beside its parts alone.

    python tools/benchmarks/service.py          # the newest run, 16 connections
    python tools/benchmarks/service.py --client=wrk --seconds=60
    python tools/benchmarks/service.py --format=bytes --rerank=100

Starts `tools/serve.py` in a process of its own, sends it one raw row of the
run's items per request, and prints requests per second, p50 and p99 in
milliseconds. The client of its own compares the code in every answer with what
the encoder gives: none may be lost or mixed up. `wrk` (a package of most
systems) costs the machine less and looks at the status only. The same rows by
the bare encoder and faiss in this process come first.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Sequence
from typing import ClassVar

import psutil

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold
from vdsh_tf.tools import serve

_ROWS = 500
_LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "%(kind)s"
local bodies = {}
for i = 0, %(count)d - 1 do
  local f = io.open("%(folder)s/" .. i, "rb")
  bodies[#bodies + 1] = f:read("*a")
  f:close()
end
local i = 0
request = function()
  i = i %% #bodies + 1
  return wrk.format(nil, "%(path)s", nil, bodies[i])
end
"""


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    FIRST: ClassVar = ("run_dir", "client", "connections", "seconds")

    client: str = setting(
        "own", ANY, "What sends.", flag={"choices": ["own", "wrk"]}
    )
    connections: int = setting(16, COUNT, "Requests under way at a time.")
    seconds: int = setting(10, COUNT, "How long to send.")
    format: str = setting(
        "json", ANY, "How rows are sent.", flag={"choices": ["json", "bytes"]}
    )
    k: int = setting(10, COUNT, "Neighbours per row.")
    rerank: int = setting(0, ANY, "The first so many by embedding.")


def measure(args: Args) -> None:
    """Prints what the parts do alone, and what the service does."""
    serve.check_installed()
    folder = args.directory.file("service")
    if not os.path.exists(folder):
        serve.prepare(args)
    rows, codes = bare(folder, args.k, min(2, args.seconds / 5))
    with started(args) as (address, process):
        before = sum(process.cpu_times()[:2])
        if args.client == "wrk":
            report, answered = by_wrk(address, args, rows)
        else:
            report, answered = asyncio.run(
                by_sockets(address, args, rows, codes)
            )
        spent = sum(process.cpu_times()[:2]) - before
    print(report)
    print(
        f"processor time of the service: {1e3 * spent / answered:.2f} ms each"
    )


def bare(folder: str, k: int, seconds: float):
    """Rows and their codes; prints how fast encoder and faiss are alone."""
    import numpy as np

    from vdsh_tf.data import streams
    from vdsh_tf.encoding import onnx_encoder
    from vdsh_tf.search.hamming import HammingIndex
    from vdsh_tf.search.structures import import_faiss
    from vdsh_tf.service import bundle

    import_faiss().omp_set_num_threads(1)
    encode = onnx_encoder.OnnxEncoder(
        onnx_encoder.read(os.path.join(folder, bundle.ENCODER)), 1
    )
    index = HammingIndex.load(os.path.join(folder, bundle.INDEX))
    pictures = os.path.join(folder, bundle.PICTURES)
    if os.path.exists(pictures):
        about = bundle.read(folder)
        held = streams.map_file(pictures)
        chosen = held[:: max(1, len(held) // _ROWS)][:_ROWS]
        rows = chosen.reshape(len(chosen), -1) * np.float32(about.peak / 255)
    else:
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(_ROWS, encode.width)).astype(np.float32)
    print(f"{len(index)} items, rows of {encode.width}, one thread")
    for size in (1, 16):
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            part = rows[done % len(rows) :][:size]
            index.search(encode(part), k)
            done += len(part)
        rate = done / (time.perf_counter() - start)
        print(f"encoder and faiss alone, {size:2} at a time: {rate:,.0f}/s")
    return rows, [code.tobytes().hex() for code in encode(rows)]


@contextlib.contextmanager
def started(args: Args) -> Iterator[tuple[str, psutil.Process]]:
    """A service in a process of its own: its address, and the process."""
    program = "import sys; from vdsh_tf.tools import serve; "
    program += "sys.exit(serve.main(sys.argv[1:]))"
    flags = [f"--run_dir={args.directory.path}", "--port=0"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *flags],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = iter(process.stdout or [])
        address = next((t.split()[2] for t in lines if " at http" in t), None)
        if address is None:
            raise RuntimeError("The service did not start; see above.")
        yield address, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def bodies(args: Args, rows) -> tuple[str, str, list[bytes]]:
    """Path, content type and bodies of the requests."""
    if args.format == "bytes":
        path = f"/v1/search?k={args.k}&rerank={args.rerank}"
        kind = "application/octet-stream"
        return path, kind, [row.astype("<f4").tobytes() for row in rows]
    options = {"k": args.k, "rerank": args.rerank}
    texts = [json.dumps({"rows": [r.tolist()], **options}) for r in rows]
    return "/v1/search", "application/json", [t.encode() for t in texts]


async def by_sockets(address: str, args: Args, rows, codes) -> tuple[str, int]:
    """Sends by sockets of its own, and looks at every answer."""
    path, kind, texts = bodies(args, rows)
    host, _, port = address.removeprefix("http://").rpartition(":")
    requests = [
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: {kind}"
        f"\r\nContent-Length: {len(text)}\r\n\r\n".encode()
        + text
        for text in texts
    ]
    times: list[float] = []
    wrong = 0
    sent = 0
    end = time.perf_counter() + args.seconds

    async def one() -> None:
        nonlocal wrong, sent
        reader, writer = await asyncio.open_connection(host, int(port))
        while time.perf_counter() < end:
            number = sent % len(requests)
            sent += 1
            start = time.perf_counter()
            writer.write(requests[number])
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2]
            size = int(length.partition(b"\r\n")[0])
            body = await reader.readexactly(size)
            times.append(time.perf_counter() - start)
            want = f'"code":"{codes[number]}"'.encode()
            if b" 200 " not in head[:15] or want not in body:
                wrong += 1
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(args.connections)))
    spent = time.perf_counter() - start
    times.sort()
    p50, p99 = (1e3 * times[int(q * len(times))] for q in (0.5, 0.99))
    report = (
        f"service, {args.connections} connections: {len(times) / spent:,.0f}/s,"
        f" p50 {p50:.1f} ms, p99 {p99:.1f} ms; {sent} requests, "
        f"{sent - len(times)} lost, {wrong} wrong"
    )
    return report, len(times)


def by_wrk(address: str, args: Args, rows) -> tuple[str, int]:
    """Sends by wrk; what it says, and how many were answered."""
    if shutil.which("wrk") is None:
        raise RuntimeError("--client=wrk needs wrk, which is not installed.")
    path, kind, texts = bodies(args, rows)
    with tempfile.TemporaryDirectory() as folder:
        for i, text in enumerate(texts):
            with open(os.path.join(folder, str(i)), "wb") as f:
                f.write(text)
        script = os.path.join(folder, "post.lua")
        about = {"kind": kind, "count": len(texts), "folder": folder}
        with open(script, "w") as f:
            f.write(_LUA % {**about, "path": path})
        command = ["wrk", "-t1", f"-c{args.connections}", "--latency"]
        command += [f"-d{args.seconds}s", "-s", script, address]
        done = subprocess.run(command, capture_output=True, text=True)
    count = re.search(r"(\d+) requests in", done.stdout)
    if count is None:
        raise RuntimeError(f"wrk did not run. It says: {done.stderr}")
    return done.stdout.strip(), int(count[1])


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(measure, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
