"""The HTTP interface: routes of a service, as a FastAPI app."""

import contextlib
import sqlite3

import fastapi
import numpy as np
import orjson
from fastapi.responses import FileResponse
from fastapi.responses import Response

from vdsh_tf import __version__
from vdsh_tf.service import bodies
from vdsh_tf.service import bundle
from vdsh_tf.service import schemas
from vdsh_tf.service.batching import Batcher
from vdsh_tf.service.batching import OverloadedError
from vdsh_tf.service.engine import Change
from vdsh_tf.service.engine import Engine
from vdsh_tf.service.engine import ReadOnlyError
from vdsh_tf.service.engine import TakenError
from vdsh_tf.service.engine import UnknownError
from vdsh_tf.service.guard import Guard
from vdsh_tf.service.guard import Meters
from vdsh_tf.service.pictures import Pictures
from vdsh_tf.service.pictures import png
from vdsh_tf.service.store import Item

_MOST_BATCH = 256
_MOST_WAITING = 1 << 14
_STATUS = {
    ReadOnlyError: 405,
    TakenError: 409,
    UnknownError: 404,
    OverloadedError: 503,
}
_MOST_LISTED = 500


class Service:
    """State that the routes share.

    Args:
        engine: what answers.
        about: of a prepared folder (`bundle`), or of an encoder alone.
        limits: of a request.
    """

    def __init__(
        self, engine: Engine, about: bundle.About, limits: bodies.Limits
    ):
        self.engine = engine
        self.about = about
        self.limits = limits
        self.meters = Meters()
        shape = about.image_shape
        pictures = None if shape is None else Pictures(shape, about.peak)
        self.reader = bodies.Reader(
            engine.encoder.width, limits, pictures, engine.can_rerank
        )
        self.asks = Batcher(engine.ask, _MOST_BATCH, _MOST_WAITING, "ask")
        self.asks.observe = self.meters.batch.observe
        self.changes = Batcher(
            engine.change, _MOST_BATCH, _MOST_WAITING, "change"
        )
        self.stopping = False

    async def close(self) -> None:
        """Answers what waits, then closes the files."""
        self.stopping = True
        await self.changes.close()
        await self.asks.close()
        self.engine.store.close()


def make_app(
    service: Service, token: str | None = None, hosts=None
) -> fastapi.FastAPI:
    """The app.

    Args:
        service: what it serves.
        token, hosts: see `Guard`.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app):
        yield
        await service.close()

    app = fastapi.FastAPI(
        title="vdsh search",
        version=__version__,
        description="Codes of rows, and the items near them.",
        lifespan=lifespan,
    )
    app.include_router(_signs(service))
    app.include_router(_search(service))
    app.include_router(_items(service))
    app.include_router(_page(service))
    app.add_middleware(
        Guard,
        meters=service.meters,
        token=token,
        hosts=hosts,
        static=[f"/{name}" for name in bundle.PAGE_FILES],
    )

    @app.exception_handler(Exception)
    async def failed(request, error):
        return _json({"error": "The service failed; its log says why."}, 500)

    @app.exception_handler(fastapi.exceptions.RequestValidationError)
    async def invalid(request, error):
        where = " ".join(map(str, error.errors()[0]["loc"]))
        text = f"Invalid {where}: {error.errors()[0]['msg']}."
        return _json({"error": text}, 400)

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def nowhere(request, error):
        text = f"{error.detail}. The paths and methods are at /docs."
        return _json({"error": text}, error.status_code)

    for kind in (*_STATUS, bodies.RequestError, sqlite3.Error, RuntimeError):
        app.add_exception_handler(kind, _explain)
    return app


async def _explain(request, error):
    if isinstance(error, bodies.RequestError):
        return _json({"error": str(error)}, error.status)
    status = next((s for k, s in _STATUS.items() if isinstance(error, k)), 503)
    text = str(error)
    if isinstance(error, sqlite3.Error):
        text = f"The change could not be stored, and is not made: {error}."
    headers = {"retry-after": "1"} if status == 503 else None
    return _json({"error": text}, status, headers)


def _json(data, status=200, headers=None):
    return Response(orjson.dumps(data), status, headers, "application/json")


async def _body(request, limits, *kinds):
    """Type and bytes of a body that is not larger than allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    # Others can be sent by any web page, without asking.
    if kind not in kinds:
        raise bodies.RequestError(
            f"The body must be {' or '.join(kinds)}, and the header "
            f"`Content-Type` must say so. Received: {kind[:60]!r}.",
            415,
        )
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limits.body:
            raise bodies.RequestError(
                f"A body may have {limits.body} bytes at most. Send several.",
                413,
            )
        parts.append(part)
    return kind, b"".join(parts)


def _signs(service):
    """Whether it lives, whether it answers, and how much."""
    router = fastapi.APIRouter(tags=["operation"])

    @router.get("/healthz")
    async def healthz():
        """200 as long as the process runs."""
        return _json({"status": "alive"})

    @router.get("/readyz")
    async def readyz():
        """200 when requests are answered, 503 while it stops."""
        if service.stopping:
            return _json({"status": "stopping"}, 503)
        return _json({"status": "ready", "items": len(service.engine)})

    @router.get("/metrics")
    async def metrics():
        """Counts for Prometheus."""
        service.meters.items.set(len(service.engine))
        service.meters.waiting.set(service.asks.rows)
        return Response(service.meters.text(), media_type="text/plain")

    return router


def _search(service):
    """Codes, and what is near."""
    router = fastapi.APIRouter(prefix="/v1", tags=["search"])
    kinds = (bodies.JSON, bodies.BYTES)

    @router.get("/about")
    async def about():
        """What is served: encoder, items, limits."""
        return _json(_describe(service))

    @router.post("/encode", openapi_extra=schemas.body(schemas.ENCODE, True))
    async def encode(request: fastapi.Request):
        """Codes of rows or pictures, as hexadecimal digits."""
        kind, body = await _body(request, service.limits, *kinds)
        rows = service.reader.rows(kind, body)
        codes, embeddings = await service.asks.call(service.engine.encode, rows)
        answer = {
            "bits": service.engine.encoder.bits,
            "fingerprint": service.engine.encoder.fingerprint,
            "codes": [code.tobytes().hex() for code in codes],
        }
        if kind == bodies.JSON and orjson.loads(body).get("embeddings") is True:
            answer["embeddings"] = embeddings.tolist()
        return _json(answer)

    @router.post("/search", openapi_extra=schemas.body(schemas.SEARCH, True))
    async def search(request: fastapi.Request):
        """The items near rows, pictures or other items."""
        kind, body = await _body(request, service.limits, *kinds)
        query = service.reader.query(kind, body, request.query_params)
        answer = await service.asks.submit(query, len(query))
        return _json({"results": _results(answer, query)})

    return router


def _results(answer, query):
    found = []
    for code, hits in zip(answer.codes, answer.hits, strict=True):
        listed = [
            {"id": number, "distance": distance}
            for number, distance in zip(
                hits.ids.tolist(), hits.distances.tolist(), strict=True
            )
        ]
        if hits.similarities is not None:
            for hit, value in zip(
                listed, hits.similarities.tolist(), strict=True
            ):
                hit["similarity"] = round(value, 4)
        if query.payloads:
            for hit in listed:
                text = answer.payloads.get(hit["id"], "{}")
                hit["payload"] = orjson.Fragment(text)
        result = {"code": code.tobytes().hex(), "hits": listed}
        if hits.total is not None:
            result["total"] = hits.total
        found.append(result)
    return found


def _describe(service):
    engine, about = service.engine, service.about
    return {
        "title": about.title,
        "items": len(engine),
        "bits": engine.encoder.bits,
        "width": engine.encoder.width,
        "fingerprint": engine.encoder.fingerprint,
        "image_shape": about.image_shape,
        "peak": about.peak,
        "fill": about.fill,
        "ink": about.ink,
        "pictures": about.pictures is not None,
        "rerank": engine.can_rerank,
        "map": about.map is not None,
        "label": about.label,
        "limits": {
            "rows": service.limits.rows,
            "k": service.limits.k,
            "body": service.limits.body,
        },
        "version": __version__,
    }


def _items(service):
    """Items: look at, add, remove."""
    router = fastapi.APIRouter(prefix="/v1/items", tags=["items"])
    engine = service.engine

    @router.post("", openapi_extra=schemas.body(schemas.ITEMS), status_code=201)
    async def add(request: fastapi.Request):
        """Adds items, all or none; they are on disk when it answers."""
        _, body = await _body(request, service.limits, bodies.JSON)
        rows, about = service.reader.items(body)
        codes, embeddings = await service.asks.call(engine.encode, rows)
        items = [
            Item(number, code, embedding.astype(np.float16), payload)
            for (number, payload), code, embedding in zip(
                about, codes, embeddings, strict=True
            )
        ]
        ids = await service.changes.submit(Change(items), len(items))
        return _json({"ids": ids}, 201)

    @router.get("")
    async def list_items(after: int = -1, limit: int = 50):
        """Ids and payloads, by rising id."""
        if not 1 <= limit <= _MOST_LISTED:
            raise bodies.RequestError(
                f"`limit` must be from 1 to {_MOST_LISTED}. Received: {limit}."
            )
        found = await service.asks.call(engine.page, after, limit)
        listed = [
            {"id": number, "payload": orjson.Fragment(text)}
            for number, text in found
        ]
        return _json({"items": listed})

    @router.get("/{number}")
    async def look(number: int):
        """Code and payload of an item."""
        code, payload = await service.asks.call(engine.item, number)
        return _json(
            {
                "id": number,
                "code": code.tobytes().hex(),
                "payload": orjson.Fragment(payload),
            }
        )

    @router.get("/{number}/picture")
    async def picture(number: int):
        """The picture of an item, as PNG."""
        pixels = service.about.pixels(number)
        if pixels is None:
            raise UnknownError(f"There must be a picture of item {number}.")
        headers = {"cache-control": "private, max-age=3600"}
        return Response(png(pixels), 200, headers, "image/png")

    @router.delete("/{number}", status_code=204)
    async def remove(number: int):
        """Removes an item; it is gone from the disk when it answers."""
        await service.changes.submit(Change(remove=number))
        return Response(status_code=204)

    return router


def _page(service):
    """The page at /, and its map."""
    router = fastapi.APIRouter(include_in_schema=False)

    def add(path, name):
        @router.get(path)
        async def page_file():
            return FileResponse(bundle.page_file(name))

    add("/", "index.html")
    for name in bundle.PAGE_FILES:
        add(f"/{name}", name)

    @router.get("/v1/map")
    async def code_map():
        if service.about.map is None:
            raise UnknownError("This service has no map of its codes.")
        return FileResponse(service.about.map, media_type="application/json")

    return router
