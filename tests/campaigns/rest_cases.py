"""What hostile HTTP servers do: behaviours, by name.

The encoder that is served takes rows of 2 numbers, or pictures of 1 x 2 x 1
pixels, and has codes of 12 bits. Three rows are asked for.
"""

import base64
import dataclasses
import gzip
import itertools
import json
from collections.abc import Callable
from collections.abc import Iterable

from tests.support.bad_servers import HANG
from tests.support.bad_servers import RESET
from tests.support.bad_servers import TcpServer

BITS = 12
CODE = [7, 16]
BLOCK = b" " * (1 << 16)
ESCAPES = "\x1b[2J\x1b]0;owned\x07\r\n\u202eerror: all is well\x00\x9b31m"


def shape(*sizes, **more):
    dims = [{"size": str(size)} for size in sizes]
    return {"tensor_shape": {"dim": dims, **more}}


def signatures():
    x = {"x": shape(-1, 2)}
    codes = {"codes": shape(-1, 2)}
    both = {"bits": shape(-1, BITS), "embedding": shape(-1, BITS)}
    return {
        "serving_default": {"inputs": x, "outputs": codes},
        "bytes": {"inputs": x, "outputs": {"codes_bytes": shape(-1)}},
        "embed": {"inputs": x, "outputs": {**codes, **both}},
        "pixels": {"inputs": {"image": shape(-1, 1, 2, 1)}, "outputs": codes},
        "fingerprint": {
            "inputs": {"ignored": shape(-1)},
            "outputs": {"fingerprint": shape(-1)},
        },
    }


def ok(body, status=200, head=b"", length=None):
    """A whole response."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    length = len(body) if length is None else length
    return (
        b"HTTP/1.1 %d -\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s"
        % (status, head, length, body)
    )


def metadata(change=None):
    found = signatures()
    if change is not None:
        change(found)
    return ok({"metadata": {"signature_def": {"signature_def": found}}})


def codes(rows=3, code=CODE):
    one = {"b64": base64.b64encode(bytes(code)).decode()}
    return ok({"outputs": [one] * rows})


def embedding(value=0.5):
    return ok({"outputs": {"embedding": [[value] * BITS] * 3}})


def slowly(data: bytes, pause=0.1):
    for i in range(len(data)):
        yield data[i : i + 1]
        yield pause


def forever(*parts):
    return itertools.chain(parts[:-1], itertools.repeat(parts[-1]))


def slow_forever(head: bytes, part: bytes, pause=0.1):
    yield head
    while True:
        yield part
        yield pause


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def gzip_bomb() -> bytes:
    """60 kB that would be 60 MB."""
    data = gzip.compress(bytes(60 << 20))
    return ok(data, head=b"Content-Encoding: gzip\r\n")


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """One behaviour.

    Attributes:
        name: in the table.
        predict: what is sent for a request of codes.
        metadata: what is sent for a request of signatures.
        ask: the client's method that is called.
        answers: whether the right answer may come of it.
        width: of the rows that are sent; many fill the network's buffers.
        server: options of the server.
    """

    name: str
    predict: Callable[[], Iterable] = lambda: [codes()]
    metadata: Callable[[], Iterable] = lambda: [metadata()]
    ask: str = "encode"
    answers: bool = False
    width: int = 2
    server: dict = dataclasses.field(default_factory=dict)

    def respond(self, request: bytes | None) -> Iterable:
        if request is None or b"/metadata " in request[:200]:
            return self.metadata()
        return self.predict()

    def start(self) -> TcpServer:
        return TcpServer(self.respond, **self.server)


def said(*parts):
    """The same bytes each time."""
    return lambda: parts


def changed(change):
    return said(metadata(change))


def set_width(found):
    found["bytes"]["inputs"]["x"] = shape(-1, 100_000)


def _no_rank(found):
    found["bytes"]["inputs"]["x"] = shape(unknown_rank=True)


def _no_input(found):
    del found["bytes"]["inputs"]["x"]


def _output(name, output, *sizes, **more):
    def change(found):
        found[name]["outputs"][output] = shape(*sizes, **more)

    return changed(change)


def _input(*sizes):
    def change(found):
        found["bytes"]["inputs"]["x"] = shape(*sizes)

    return changed(change)


def _undead():
    """Right until the answer is due, and silent then."""
    return [0.8, metadata()]


def _wide(found):
    """Rows as wide as they may be, for the longest answers."""
    codes, bits = shape(-1, 14_000), shape(-1, 112_000)
    found["serving_default"]["outputs"]["codes"] = codes
    found["embed"]["outputs"] = {"codes": codes, "embedding": bits}


DEEP = b'{"outputs": ' + b"[" * 100_000
EMPTIES = b'{"outputs": [' + b"[]," * 21_000 + b"[]]}"

TIME = (
    Case("well-behaved", answers=True),
    Case("accepts nothing", server={"accepts": False}),
    Case("says nothing", metadata=said(HANG)),
    Case("reads nothing", server={"reads": False}, metadata=said(HANG)),
    Case(
        "reads no long request",
        metadata=changed(set_width),
        predict=said(HANG),
        width=100_000,
    ),
    Case("says nothing to rows", predict=said(HANG)),
    Case("late signatures, no codes", metadata=_undead, predict=said(HANG)),
    Case("status byte by byte", lambda: slowly(codes())),
    Case(
        "headers without end, slowly", lambda: slow_forever(HEAD, b"X: y\r\n")
    ),
    Case(
        "header byte by byte", lambda: slow_forever(HEAD + b"X: ", b"y", 0.05)
    ),
    Case(
        "body byte by byte",
        lambda: itertools.chain(
            [HEAD + b"Content-Length: 900\r\n\r\n"], slowly(b" " * 900)
        ),
    ),
    Case("chunks of a byte", lambda: slow_forever(CHUNKED, b"1\r\n \r\n")),
    Case("chunk size byte by byte", lambda: slow_forever(CHUNKED, b"0")),
    Case(
        "trailers, slowly",
        lambda: slow_forever(CHUNKED + b"0\r\n", b"A: b\r\n"),
    ),
    Case(
        "100 Continue, slowly",
        lambda: slow_forever(b"", b"HTTP/1.1 100 -\r\n\r\n"),
    ),
    Case("busy for ever", said(ok(b"busy", 503))),
    Case(
        "busy, byte by byte",
        lambda: itertools.chain(
            [b"HTTP/1.1 503 -\r\nContent-Length: 900\r\n\r\n"],
            slowly(b"busy" * 225),
        ),
    ),
    Case("closes", said(b"")),
    Case("resets", said(RESET)),
    Case("resets amid the body", said(codes()[:-9], RESET)),
    Case("body ends early", said(ok(b'{"outputs": [', length=99))),
)
SIZE = (
    Case("endless body", lambda: forever(HEAD + b"\r\n", BLOCK)),
    Case("endless chunks", lambda: forever(CHUNKED, chunked(BLOCK))),
    Case("endless status line", lambda: forever(b"HTTP/1.1 200 ", BLOCK)),
    Case("endless header", lambda: forever(HEAD + b"X: ", BLOCK)),
    Case("endless headers", lambda: forever(HEAD, b"X: y\r\n" * 9999)),
    Case("endless chunk size", lambda: forever(CHUNKED, b"0" * (1 << 16))),
    Case(
        "endless trailers",
        lambda: forever(CHUNKED + b"0\r\n", b"A: b\r\n" * 9999),
    ),
    Case("endless 100 Continue", lambda: forever(b"HTTP/1.1 100 -\r\n\r\n")),
    Case("endless error", lambda: forever(b"HTTP/1.1 400 -\r\n\r\n", BLOCK)),
    Case("endless signatures", metadata=lambda: forever(HEAD + b"\r\n", BLOCK)),
    Case("a terabyte announced", said(ok(b"", length=10**12), HANG)),
    Case("codes, then spaces", lambda: forever(codes()[:-1], BLOCK)),
    Case("gzip bomb", lambda: [gzip_bomb()]),
    Case("chunk of -1", lambda: forever(CHUNKED + b"-1\r\n", BLOCK)),
    Case(
        "chunk of 2^64", lambda: forever(CHUNKED + b"f" * 16 + b"\r\n", BLOCK)
    ),
    Case("many empty lists", said(ok(EMPTIES))),
    Case(
        "long rows of empty lists",
        lambda: [ok(b'{"outputs": [' + b"[]," * 1_400_000 + b"[]]}")],
        changed(_wide),
        ask="embed",
    ),
    Case(
        "long rows, as many lists as are let through",
        lambda: [ok(b'{"outputs": [' + b"{},[]," * 69_000 + b"[]]}")],
        changed(_wide),
        ask="embed",
    ),
    Case(
        "long rows, one too short",
        lambda: [ok(b'{"outputs": [[' + b"-1.25e-300, " * 111_998 + b"1]]}")],
        changed(_wide),
        ask="embed",
    ),
)
FORM = (
    Case("deep JSON", said(ok(DEEP[:60_000]))),
    Case("deep signatures", metadata=said(ok(DEEP))),
    Case("no JSON", said(ok(b"<html>"))),
    Case("nothing as JSON", said(ok(b""))),
    Case("status 204", said(b"HTTP/1.1 204 -\r\n\r\n")),
    Case("status 101", said(b"HTTP/1.1 101 -\r\n\r\n", HANG)),
    Case("status 1e9", said(b"HTTP/1.1 1000000000 -\r\n\r\n")),
    Case("not HTTP", said(b"\x16\x03\x01\x02\x00" + bytes(range(256)))),
    Case("redirect", said(ok(b"", 302, b"Location: http://[::1]:9/\r\n"))),
    Case("a number of 5000 digits", said(ok(b'{"outputs": ' + b"9" * 5000))),
    Case("escapes in an error", said(ok(ESCAPES.encode(), 400))),
    Case("escapes when busy", said(ok(ESCAPES.encode(), 503))),
    Case("escapes in the status line", said(b"\x1b[2J\x9b31m" + b"\r\n" * 2)),
    Case("unknown rank", metadata=changed(_no_rank)),
    Case("input has no name", metadata=changed(_no_input)),
    Case("input of rank 3", metadata=_input(-1, 2, 2)),
    Case("input of width -1", metadata=_input(-1, -1)),
    Case("input of 10^30 numbers", metadata=_input(-1, 10**30)),
    Case("input of rank 20,000", metadata=_input(*[2] * 20_000)),
    Case(
        "sizes of 4000 digits",
        metadata=_output("embed", "bits", *[10**4000] * 99),
        ask="embed",
    ),
    Case(
        "codes of unknown rank",
        metadata=_output("serving_default", "codes", unknown_rank=True),
    ),
    Case("a terabyte a row", metadata=_output("bytes", "more", -1, 2**30)),
    Case(
        "embedding and codes disagree",
        metadata=_output("embed", "embedding", -1, 64),
    ),
    Case("signatures are a list", metadata=said(ok([1, 2, 3]))),
    Case("signatures without sizes", metadata=_input("many")),
    Case("codes too narrow", said(codes(code=[7]))),
    Case("codes too wide", said(codes(code=[7, 16, 0]))),
    Case("bits beyond the code", said(codes(code=[7, 17]))),
    Case("a row too few", said(codes(2))),
    Case("a row too many", said(codes(4))),
    Case("no rows", said(ok({"outputs": []}))),
    Case("codes that are no base64", said(ok({"outputs": [{"b64": "*"}] * 3}))),
    Case("codes of 300", said(ok({"outputs": [[300, 0]] * 3})), ask="images"),
    Case("codes of 0.5", said(ok({"outputs": [[0.5, 0]] * 3})), ask="images"),
    Case(
        "codes of rank 3", said(ok({"outputs": [[[7, 0]]] * 3})), ask="images"
    ),
    Case("NaN embedding", said(embedding(float("nan"))), ask="embed"),
    Case("embedding of 1e39", said(embedding(1e39)), ask="embed"),
    Case("embedding of strings", said(embedding("0.5")), ask="embed"),
    Case("embedding of null", said(embedding(None)), ask="embed"),
    Case("embedding of lists", said(embedding([0.5])), ask="embed"),
    Case("embedding without name", said(ok({"outputs": {}})), ask="embed"),
    Case(
        "fingerprint with escapes",
        said(ok({"outputs": [ESCAPES]})),
        ask="fingerprint",
    ),
    Case(
        "fingerprint of 50 kB",
        said(ok({"outputs": ["f" * 50_000]})),
        ask="fingerprint",
    ),
    Case(
        "two answers to one question",
        said(codes().replace(b"close", b"keep-alive") + codes(code=[0, 0])),
        answers=True,
    ),
)
CASES = (*TIME, *SIZE, *FORM)
