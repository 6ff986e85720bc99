"""The HTTP interface of a service, as a FastAPI app."""

import contextlib
import sqlite3

import fastapi

from vdsh_tf import __version__
from vdsh_tf.search import structures
from vdsh_tf.service import bodies
from vdsh_tf.service import bundle
from vdsh_tf.service import routes
from vdsh_tf.service.batching import Batcher
from vdsh_tf.service.batching import OverloadedError
from vdsh_tf.service.engine import Engine
from vdsh_tf.service.guard import Guard
from vdsh_tf.service.guard import Meters
from vdsh_tf.service.pictures import Pictures
from vdsh_tf.service.records import ReadOnlyError
from vdsh_tf.service.records import TakenError
from vdsh_tf.service.records import UnknownError

_MOST_BATCH = 256
_MOST_WAITING = 1 << 14
_STATUS = {
    ReadOnlyError: 405,
    TakenError: 409,
    UnknownError: 404,
    OverloadedError: 503,
}


class Service:
    """State that the routes share.

    Args:
        engine: what answers.
        about: of a prepared folder (`bundle`), or of an encoder alone.
        limits: of a request.
        threads: that faiss may use for a batch.
    """

    def __init__(
        self,
        engine: Engine,
        about: bundle.About,
        limits: bodies.Limits,
        threads: int = 1,
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

        def begin():
            # It holds for the thread that says so, and no other.
            structures.import_faiss().omp_set_num_threads(threads)

        self.asks = Batcher(
            engine.ask, _MOST_BATCH, _MOST_WAITING, "ask", begin
        )
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
    app.include_router(routes.signs(service))
    app.include_router(routes.search(service))
    app.include_router(routes.items(service))
    app.include_router(routes.page(service))
    app.add_middleware(
        Guard,
        meters=service.meters,
        token=token,
        hosts=hosts,
        static=[f"/{name}" for name in bundle.PAGE_FILES],
    )

    @app.exception_handler(Exception)
    async def failed(request, error):
        return routes.answered(
            {"error": "The service failed; its log says why."}, 500
        )

    @app.exception_handler(fastapi.exceptions.RequestValidationError)
    async def invalid(request, error):
        where = " ".join(map(str, error.errors()[0]["loc"]))
        text = f"Invalid {where}: {error.errors()[0]['msg']}."
        return routes.answered({"error": text}, 400)

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def nowhere(request, error):
        text = f"{error.detail}. The paths and methods are at /docs."
        return routes.answered({"error": text}, error.status_code)

    for kind in (*_STATUS, bodies.RequestError, sqlite3.Error, RuntimeError):
        app.add_exception_handler(kind, _explain)
    return app


async def _explain(request, error):
    if isinstance(error, bodies.RequestError):
        return routes.answered({"error": str(error)}, error.status)
    status = next((s for k, s in _STATUS.items() if isinstance(error, k)), 503)
    text = str(error)
    if isinstance(error, sqlite3.Error):
        text = f"The change could not be stored, and is not made: {error}."
    headers = {"retry-after": "1"} if status == 503 else None
    return routes.answered({"error": text}, status, headers)
