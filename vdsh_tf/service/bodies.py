"""Bodies of requests: bounded, parsed by orjson, checked by NumPy."""

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from vdsh_tf import config
from vdsh_tf.data import inputs
from vdsh_tf.service import filters
from vdsh_tf.service.pictures import Pictures
from vdsh_tf.service.records import Query

JSON = "application/json"
BYTES = "application/octet-stream"
_SEARCH = ("k", "radius", "filter", "rerank", "payloads")
_SOURCES = ("rows", "images", "ids")
# Each may unpack to much more than its bytes.
_MOST_IMAGES = 64


class RequestError(ValueError):
    """A request that cannot be answered, and the status that says so."""

    def __init__(self, text: str, status: int = 400):
        super().__init__(text)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    rows: int = 1024
    k: int = 1000
    body: int = 32 << 20
    payload: int = 64 << 10


class Reader:
    """Makes queries and items of bodies.

    Args:
        width: numbers in a row.
        limits: of a request.
        pictures: how image files become rows; None if they cannot.
        can_rerank: whether embeddings of the items are at hand.
    """

    def __init__(
        self,
        width: int,
        limits: Limits,
        pictures: Pictures | None = None,
        can_rerank: bool = False,
    ):
        self._width = width
        self._limits = limits
        self._pictures = pictures
        self._can_rerank = can_rerank

    def query(self, kind: str, body: bytes, params: Mapping[str, str]) -> Query:
        """A search: rows as JSON, or as bytes with the rest in the URL."""
        if kind == BYTES:
            options: dict[str, Any] = dict(params)
            for name in ("k", "radius", "rerank"):
                if name in options:
                    options[name] = _integer(name, options[name])
            if "payloads" in options:
                options["payloads"] = options["payloads"] != "false"
            _check_names(options, _SEARCH)
            return self._query(self._floats(body), None, options)
        options = self._object(body)
        _check_names(options, (*_SOURCES, *_SEARCH))
        rows, ids = self._source(options)
        return self._query(rows, ids, options)

    def rows(self, kind: str, body: bytes) -> np.ndarray:
        """Rows to encode."""
        if kind == BYTES:
            return self._floats(body)
        options = self._object(body)
        _check_names(options, ("rows", "images", "embeddings"))
        rows, _ = self._source(options)
        return rows

    def items(self, body: bytes) -> tuple[np.ndarray, list[tuple]]:
        """Rows of new items, and (id or None, payload as text) of each."""
        options = self._object(body)
        _check_names(options, ("items",))
        items = options.get("items")
        if not isinstance(items, list) or not items:
            raise RequestError(
                "`items` must be a list of objects with `row` or `image`, and "
                "if you like `id` and `payload`."
            )
        self._check_count(len(items))
        rows, about, seen = [], [], set()
        for place, item in enumerate(items):
            if not isinstance(item, dict):
                raise RequestError(f"Item {place} must be an object.")
            _check_names(item, ("id", "row", "image", "payload"))
            if ("row" in item) == ("image" in item):
                raise RequestError(f"Item {place} must have `row` or `image`.")
            if "row" in item:
                rows.append(self._matrix([item["row"]])[0])
            else:
                rows.append(self._image(item["image"], place))
            number = item.get("id")
            if number is not None:
                _check_id(number)
                if number in seen:
                    raise RequestError(f"Id {number} must not come twice.")
                seen.add(number)
            about.append((number, self._payload(item.get("payload"), place)))
        return self._checked(np.stack(rows)), about

    def _query(self, rows, ids, options):
        where = options.get("filter")
        try:
            parsed = None if where is None else (where, filters.parse(where))
        except filters.FilterError as error:
            raise RequestError(str(error)) from error
        most = self._limits.k
        radius = options.get("radius")
        # Within a radius, all are asked for.
        k = options.get("k", 10 if radius is None else most)
        _check_count("k", k, 1, most)
        if radius is not None:
            _check_count("radius", radius, 0, 1 << 20)
        rerank = options.get("rerank", 0)
        _check_count("rerank", rerank, 0, most)
        if rerank and not self._can_rerank:
            raise RequestError(
                "`rerank` needs embeddings of the items, and this service has "
                "none. Leave it out, or start the service with them."
            )
        payloads = options.get("payloads", True)
        if not isinstance(payloads, bool):
            raise RequestError("`payloads` must be true or false.")
        return Query(rows, ids, k, radius, parsed, rerank, payloads)

    def _object(self, body):
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RequestError(
                f"The body must be JSON. Cause: {error}"
            ) from None
        if not isinstance(found, dict):
            raise RequestError("The body must be a JSON object.")
        return found

    def _source(self, options):
        """Rows or ids of the items that are asked about."""
        given = [name for name in _SOURCES if options.get(name) is not None]
        if len(given) != 1:
            raise RequestError(
                f"The body must have one of {', '.join(_SOURCES)}. Received: "
                f"{', '.join(given) or 'none'}."
            )
        values = options[given[0]]
        if not isinstance(values, list) or not values:
            raise RequestError(
                f"`{given[0]}` must be a list that is not empty."
            )
        # One row may come without the list around it.
        if given[0] == "rows" and not isinstance(values[0], list):
            values = [values]
        self._check_count(len(values))
        if given[0] == "rows":
            return self._checked(self._matrix(values)), None
        if given[0] == "images":
            if len(values) > _MOST_IMAGES:
                raise RequestError(
                    f"One request may have {_MOST_IMAGES} images at most. "
                    f"Received: {len(values)}. Send several.",
                    413,
                )
            found = [self._image(v, i) for i, v in enumerate(values)]
            return self._checked(np.stack(found)), None
        for value in values:
            _check_id(value)
        return None, np.array(values, np.int64)

    def _matrix(self, rows):
        wide = f"`rows` must be lists of {self._width} numbers"
        for place, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != self._width:
                size = len(row) if isinstance(row, list) else "no list"
                raise RequestError(f"{wide}. Received: {size} in row {place}.")
        try:
            made = np.array(rows)
        except ValueError:
            raise RequestError(f"{wide}, not lists in lists.") from None
        if made.ndim != 2 or made.dtype.kind not in "fiu":
            raise RequestError(f"{wide}. Received: something else among them.")
        # Numbers beyond float32 become infinite, and are refused as such.
        with np.errstate(over="ignore"):
            return made.astype(np.float32)

    def _floats(self, body):
        size = 4 * self._width
        if not body or len(body) % size:
            raise RequestError(
                f"The body must be rows of {self._width} float32 (little "
                f"endian), {size} bytes each. Received: {len(body)} bytes."
            )
        self._check_count(len(body) // size)
        rows = np.frombuffer(body, "<f4").reshape(-1, self._width)
        return self._checked(rows.astype(np.float32, copy=False))

    def _image(self, text, place):
        if self._pictures is None:
            raise RequestError(
                "This encoder takes rows of features, not pictures. Send "
                "`rows`."
            )
        try:
            data = base64.b64decode(text, validate=True)
            return self._pictures.row(data)
        except (TypeError, binascii.Error, ValueError) as error:
            raise RequestError(
                f"Image {place} must be an image file as base64. {error}"
            ) from None

    def _checked(self, rows):
        try:
            return inputs.check_features(rows, self._width)
        except ValueError as error:
            raise RequestError(str(error)) from None

    def _payload(self, value, place):
        if value is None:
            return "{}"
        if not isinstance(value, dict):
            raise RequestError(
                f"The payload of item {place} must be an object."
            )
        text = orjson.dumps(value)
        if len(text) > self._limits.payload:
            raise RequestError(
                f"The payload of item {place} must have at most "
                f"{self._limits.payload} bytes. Received: {len(text)}.",
                413,
            )
        return text.decode()

    def _check_count(self, count):
        if count > self._limits.rows:
            raise RequestError(
                f"One request may have {self._limits.rows} rows at most. "
                f"Received: {count}. Send several.",
                413,
            )


def _check_names(options, allowed):
    for name in options:
        if name not in allowed:
            raise RequestError(
                f"Only {', '.join(allowed)} can be given. Received: "
                f"{name[:60]!r}."
            )


def _check_count(name, value, least, most):
    if not config.is_count(value, least) or value > most:
        raise RequestError(
            f"`{name}` must be an integer from {least} to {most}. Received: "
            f"{str(value)[:60]}."
        )


def _check_id(value):
    if not config.is_count(value, 0) or value > 2**63 - 1:
        raise RequestError(
            "An id must be an integer from 0 to 2^63 - 1. Received: "
            f"{str(value)[:60]}."
        )


def _integer(name, text):
    try:
        return int(text)
    except ValueError:
        raise RequestError(
            f"`{name}` must be an integer. Received: {text[:60]}."
        ) from None
