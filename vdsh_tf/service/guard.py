"""Guard: what every request passes: host, token, counts, headers."""

import hmac
import time
from collections.abc import Sequence

import prometheus_client

# What is answered without a token: signs of life, and the page, which has
# no data in it.
OPEN = ("/healthz", "/readyz", "/")
LOCAL = ("localhost", "127.0.0.1", "[::1]")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Meters:
    """Counts for Prometheus, of one service."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        self.requests = prometheus_client.Counter(
            "vdsh_requests",
            "Requests answered.",
            ["route", "status"],
            registry=self.registry,
        )
        self.seconds = prometheus_client.Histogram(
            "vdsh_request_seconds",
            "Time from a request to its answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.batch = prometheus_client.Histogram(
            "vdsh_batch_rows",
            "Rows that were encoded together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
            registry=self.registry,
        )
        self.items = prometheus_client.Gauge(
            "vdsh_items", "Items in the index.", registry=self.registry
        )
        self.waiting = prometheus_client.Gauge(
            "vdsh_waiting_rows", "Rows that wait.", registry=self.registry
        )

    def text(self) -> bytes:
        """All counts, as Prometheus reads them."""
        return prometheus_client.generate_latest(self.registry)


class Guard:
    """Wraps an ASGI app.

    Args:
        app: the app.
        meters: to count in.
        token: that requests must bear, or None.
        hosts: names that the service may be asked for by; None allows all.
            On loopback, others are web pages that let their own name point
            here, to read what is not theirs.
        static: paths of the page's files, for which no token is needed.
    """

    def __init__(
        self,
        app,
        meters: Meters,
        token: str | None = None,
        hosts: Sequence[str] | None = None,
        static: Sequence[str] = (),
    ):
        self._app = app
        self._meters = meters
        self._token = None if token is None else f"Bearer {token}".encode()
        self._hosts = None if hosts is None else frozenset(hosts)
        self._open = frozenset((*OPEN, *static))

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start = time.perf_counter()
        status = 500

        async def answer(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._app(scope, receive, answer)
            else:
                await _refuse(answer, *refusal)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._meters.requests.labels(route, status).inc()
            spent = time.perf_counter() - start
            self._meters.seconds.labels(route).observe(spent)

    def _refusal(self, scope):
        """Status and sentence of a request that is not let in."""
        headers = dict(scope["headers"])
        if self._hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0]
            if (name or host) not in self._hosts:
                return 421, (
                    "This service must be asked for by its own name. "
                    f"Received: Host {host[:80]!r}. Start it with --host "
                    "to give it another."
                )
        if self._token is not None and scope["path"] not in self._open:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._token):
                return 401, (
                    "A token is needed: send the header `Authorization: "
                    "Bearer TOKEN` with the token of this service."
                )
        return None


async def _refuse(send, status, text):
    import orjson

    body = orjson.dumps({"error": text})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send(
        {"type": "http.response.start", "status": status, "headers": headers}
    )
    await send({"type": "http.response.body", "body": body})
