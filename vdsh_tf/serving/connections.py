"""HTTP exchanges that end in time, over connections that are kept alive.

A time-out of a socket starts again with every byte, so that a slow server can
hold a client for ever: in its status line, headers, chunk sizes, trailers or
TLS records. Here the socket itself knows the deadline and counts the bytes,
below all who read from it.
"""

import collections
import http.client
import queue
import select
import socket
import ssl
import threading

from vdsh_tf.serving.limits import Budget
from vdsh_tf.serving.limits import Deadline
from vdsh_tf.serving.limits import TooLongError

_HEADERS = {
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "vdsh_tf",
}
# Room for status line and headers.
_MOST_HEAD = 1 << 16
# Of the text of an error, enough to show.
_MOST_ERROR = 1 << 12
_CHUNK = 1 << 16
# Idle connections that are kept alive, one for each of so many threads.
_MOST_IDLE = 128


class _Watched:
    """What a socket does within its budget."""

    budget: Budget

    def recv_into(self, *args, **kwargs):
        self.settimeout(self.budget.deadline.left())
        count = super().recv_into(*args, **kwargs)
        self.budget.take(count)
        return count

    def send(self, *args, **kwargs):
        self.settimeout(self.budget.deadline.left())
        return super().send(*args, **kwargs)

    def sendall(self, *args, **kwargs):
        self.settimeout(self.budget.deadline.left())
        return super().sendall(*args, **kwargs)


class _Socket(_Watched, socket.socket):
    """Its `sendall` has one time-out for all that is sent."""


class _TlsSocket(_Watched, ssl.SSLSocket):
    """Its `sendall` calls `send`, its handshake has one time-out."""


def _resolve(host: str, port: int, deadline: Deadline) -> list:
    """Addresses of a host; the system's own call knows no time-out."""
    found: queue.SimpleQueue = queue.SimpleQueue()

    def ask():
        try:
            found.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.put(OSError(f"{host}: {error}"))

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = found.get(timeout=deadline.left())
    except queue.Empty:
        raise TimeoutError(f"nobody says where {host} is") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _connect(host: str, port: int, budget: Budget) -> _Socket:
    """A connection to the first address that takes one."""
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in _resolve(
        host, port, budget.deadline
    ):
        sock = _Socket(family, kind, protocol)
        sock.budget = budget
        try:
            sock.settimeout(budget.deadline.left())
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            last = error
    raise last


class _Connection(http.client.HTTPConnection):
    """One connection; `budget` is that of the exchange it is used for."""

    budget: Budget

    def __init__(self, host, port, context):
        super().__init__(host, port)
        self._context = context

    def connect(self):
        self.sock = _connect(self.host, self.port, self.budget)
        if self._context is not None:
            plain = self.sock
            plain.settimeout(self.budget.deadline.left())
            self.sock = self._context.wrap_socket(
                plain, server_hostname=self.host
            )
            self.sock.budget = self.budget

    def is_fresh(self) -> bool:
        """Whether the server neither closed it nor sent what none asked."""
        if not hasattr(select, "poll"):  # Windows
            return not select.select([self.sock], [], [], 0)[0]
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


class Pool:
    """Connections to one server, for many threads.

    It follows no redirects, takes no cookies, decodes no compressed bodies and
    reads nothing from the environment (proxies, .netrc).

    Args:
        scheme: "http" or "https".
        host, port: of the server; a port of None is the scheme's own.
    """

    def __init__(self, scheme: str, host: str, port: int | None):
        self._address = host, port or {"http": 80, "https": 443}[scheme]
        self._context = None
        if scheme == "https":
            self._context = ssl.create_default_context()
            self._context.sslsocket_class = _TlsSocket
        self._idle: collections.deque[_Connection] = collections.deque()
        self._closed = False

    def close(self) -> None:
        """Closes idle connections; those in use are closed after it."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        most_bytes: int,
        deadline: Deadline,
    ) -> tuple[int, bytes]:
        """Status and body of the response to a request.

        The body of an error may be cut.

        Raises:
            TooLongError: the body is longer than `most_bytes`.
            OSError, http.client.HTTPException, ValueError: no whole response.
        """
        budget = Budget(deadline, most_bytes + _MOST_HEAD)
        connection = self._take(budget)
        response = None
        try:
            connection.request(method, path, body, _HEADERS)
            response = connection.getresponse()
            text = _read(response, most_bytes)
            if response.isclosed() and not response.will_close:
                self._give(connection)
                connection = None
            return response.status, text
        finally:
            if connection is not None:
                connection.close()
                if response is not None:
                    response.close()

    def _take(self, budget):
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if connection.is_fresh():
                connection.budget = connection.sock.budget = budget
                return connection
            connection.close()
        connection = _Connection(*self._address, self._context)
        connection.budget = budget
        return connection

    def _give(self, connection):
        if self._closed or len(self._idle) >= _MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)


def _read(response, most_bytes):
    """The body, piece by piece; of an error only the beginning."""
    if response.status != 200:
        return response.read(_MOST_ERROR)
    if (response.length or 0) > most_bytes:
        raise TooLongError(most_bytes)
    parts = []
    while part := response.read(_CHUNK):
        parts.append(part)
    if response.length:
        raise ConnectionError(
            f"{response.length} bytes of the body are missing"
        )
    return b"".join(parts)
