"""The routes of a service: what is asked, and how it is answered."""

import asyncio

import fastapi
import numpy as np
import orjson
from fastapi.responses import FileResponse
from fastapi.responses import Response

from vdsh_tf import __version__
from vdsh_tf.service import bodies
from vdsh_tf.service import bundle
from vdsh_tf.service import schemas
from vdsh_tf.service.pictures import png
from vdsh_tf.service.records import Change
from vdsh_tf.service.records import UnknownError
from vdsh_tf.service.store import Item

_MOST_LISTED = 500
# Bytes of a body that is read beside the event loop.
_LARGE = 1 << 16


def answered(data, status: int = 200, headers=None) -> Response:
    """An answer in JSON."""
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


async def _parsed(body, parse, *args):
    """What a body says; large ones are read beside the event loop."""
    if len(body) < _LARGE:
        return parse(*args)
    return await asyncio.to_thread(parse, *args)


def signs(service) -> fastapi.APIRouter:
    """Whether it lives, whether it answers, and how much."""
    router = fastapi.APIRouter(tags=["operation"])

    @router.get("/healthz")
    async def healthz():
        """200 as long as the process runs."""
        return answered({"status": "alive"})

    @router.get("/readyz")
    async def readyz():
        """200 when requests are answered, 503 while it stops."""
        if service.stopping:
            return answered({"status": "stopping"}, 503)
        return answered({"status": "ready", "items": len(service.engine)})

    @router.get("/metrics")
    async def metrics():
        """Counts for Prometheus."""
        service.meters.items.set(len(service.engine))
        service.meters.waiting.set(service.asks.rows)
        return Response(service.meters.text(), media_type="text/plain")

    return router


def search(service) -> fastapi.APIRouter:
    """Codes, and what is near."""
    router = fastapi.APIRouter(prefix="/v1", tags=["search"])
    kinds = (bodies.JSON, bodies.BYTES)

    @router.get("/about")
    async def about():
        """What is served: encoder, items, limits."""
        return answered(_describe(service))

    @router.post("/encode", openapi_extra=schemas.body(schemas.ENCODE, True))
    async def encode(request: fastapi.Request):
        """Codes of rows or pictures, as hexadecimal digits."""
        kind, body = await _body(request, service.limits, *kinds)
        rows = await _parsed(body, service.reader.rows, kind, body)
        codes, embeddings = await service.asks.call(service.engine.encode, rows)
        answer = {
            "bits": service.engine.encoder.bits,
            "fingerprint": service.engine.encoder.fingerprint,
            "codes": [code.tobytes().hex() for code in codes],
        }
        if kind == bodies.JSON and orjson.loads(body).get("embeddings") is True:
            answer["embeddings"] = embeddings.tolist()
        return answered(answer)

    @router.post("/search", openapi_extra=schemas.body(schemas.SEARCH, True))
    async def search(request: fastapi.Request):
        """The items near rows, pictures or other items."""
        kind, body = await _body(request, service.limits, *kinds)
        query = await _parsed(
            body, service.reader.query, kind, body, request.query_params
        )
        answer = await service.asks.submit(query, len(query))
        return answered({"results": _results(answer, query)})

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


def items(service) -> fastapi.APIRouter:
    """Items: look at, add, remove."""
    router = fastapi.APIRouter(prefix="/v1/items", tags=["items"])
    engine = service.engine

    @router.post("", openapi_extra=schemas.body(schemas.ITEMS), status_code=201)
    async def add(request: fastapi.Request):
        """Adds items, all or none; they are on disk when it answers."""
        _, body = await _body(request, service.limits, bodies.JSON)
        rows, about = await _parsed(body, service.reader.items, body)
        codes, embeddings = await service.asks.call(engine.encode, rows)
        items = [
            Item(number, code, embedding.astype(np.float16), payload)
            for (number, payload), code, embedding in zip(
                about, codes, embeddings, strict=True
            )
        ]
        ids = await service.changes.submit(Change(items), len(items))
        return answered({"ids": ids}, 201)

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
        return answered({"items": listed})

    @router.get("/{number}")
    async def look(number: int):
        """Code and payload of an item."""
        code, payload = await service.asks.call(engine.item, number)
        return answered(
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


def page(service) -> fastapi.APIRouter:
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
