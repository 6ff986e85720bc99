"""Servers on loopback that send what they are told to.

What a server sends is an iterable: bytes are sent, a number is a pause in
seconds, HANG keeps the connection open and sends nothing more, RESET ends it
without a farewell. It may be endless.
"""

import contextlib
import dataclasses
import multiprocessing
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from collections.abc import Iterable
from concurrent import futures

HANG, RESET = "hang", "reset"


class TcpServer:
    """Calls `respond(request)` for each request and sends what it yields.

    Args:
        respond: from the bytes of a request, or from None if the server reads
            none, to what is sent. The connection is closed afterwards, unless
            `keep_alive`.
        reads: whether requests are read.
        accepts: whether connections are accepted.
        keep_alive: whether a connection has several requests.
        tls: context of a server of HTTPS.
    """

    def __init__(
        self,
        respond: Callable[[bytes | None], Iterable] = lambda _: (HANG,),
        reads: bool = True,
        accepts: bool = True,
        keep_alive: bool = False,
        tls: ssl.SSLContext | None = None,
    ):
        self._respond = respond
        self._reads = reads
        self._keep_alive = keep_alive
        self._tls = tls
        self._done = threading.Event()
        self._open = []
        backlog = 128 if accepts else 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self._socket.getsockname()[1]
        if accepts:
            threading.Thread(target=self._accept, daemon=True).start()
        else:
            self._fill()

    def close(self):
        self._done.set()
        for one in (self._socket, *self._open):
            one.close()

    def _fill(self):
        """Takes all places in the queue, so that nobody else can connect."""
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", self.port))
            self._open.append(one)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._open.append(connection)
                threading.Thread(
                    target=self._talk, args=(connection,), daemon=True
                ).start()

    def _talk(self, connection):
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError))
            stack.enter_context(connection)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.append(stack.enter_context(connection))
            while True:
                request = read_request(connection) if self._reads else None
                if request == b"":
                    return
                for part in self._respond(request):
                    self._send(connection, part)
                if not self._keep_alive:
                    return

    def _send(self, connection, part):
        if self._done.is_set():
            raise OSError("closed")
        if part == HANG:
            self._done.wait(60)
        elif part == RESET:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            raise OSError("reset")
        elif isinstance(part, bytes):
            connection.sendall(part)
        else:
            time.sleep(part)


def read_request(connection) -> bytes:
    """One HTTP request, head and body; empty if there is none."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(1 << 16)
        if not part:
            return b""
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    parts, left = [found], int(length[1]) - len(body) if length else 0
    while left > 0:
        parts.append(connection.recv(1 << 16))
        if not parts[-1]:
            return b""
        left -= len(parts[-1])
    return b"".join(parts)


@dataclasses.dataclass(frozen=True)
class Reply:
    """What a gRPC method does: wait, then fail or send.

    Attributes:
        data: the message; its last byte is repeated `repeat` times.
        code, details: of a failure, if there is one.
        gzip: whether the message is compressed.
    """

    data: bytes = b""
    repeat: int = 0
    wait: float = 0.0
    code: str | None = None
    details: str = ""
    gzip: bool = False


class GrpcServer:
    """A gRPC server in a process of its own, where its memory does not count.

    Args:
        cases: by model name, the Reply for each method's name.
        port: to listen on; 0 takes a free one.
    """

    def __init__(self, cases: dict[str, dict[str, Reply]], port: int = 0):
        context = multiprocessing.get_context("spawn")
        self._pipe, end = context.Pipe()
        self._process = context.Process(
            target=_serve_grpc, args=(cases, port, end), daemon=True
        )
        self._process.start()
        self.port = self._pipe.recv()

    def close(self):
        self._process.kill()
        self._process.join()


def _serve_grpc(cases, port, pipe):
    import grpc

    names = re.compile(rb"case-\d+")

    def answer(request, context, method):
        reply = cases[names.search(request)[0].decode()][method]
        time.sleep(reply.wait)
        if reply.gzip:
            context.set_compression(grpc.Compression.Gzip)
        if reply.code:
            context.abort(grpc.StatusCode[reply.code], reply.details)
        return reply.data + reply.data[-1:] * reply.repeat

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            method = details.method.rpartition("/")[2]
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: answer(request, context, method)
            )

    options = [("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(32), options=options)
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    pipe.send(port)
    server.wait_for_termination()
