"""MilvusIndex: the calls of `HammingIndex` on a Milvus collection.

For sets that outgrow one machine. The collection has an int64 primary key
`id` and a binary vector `code` with a BIN_FLAT index (exact); its description
holds code length and fingerprint. Needs `pip install 'vdsh_tf[milvus]'`.
"""

import contextlib
import json
import logging

import numpy as np

from vdsh_tf import config
from vdsh_tf.search import checks
from vdsh_tf.search import hamming

# The most hits that Milvus returns for a query.
_MOST_HITS = 16384
_ROWS = 4096
_QUERIES = 64


class MilvusIndex:
    """A collection of codes in Milvus; open it with `engines.open_index`.

    Items are stored when `add` returns; `save` has nothing left to do but
    flush. Adding looks up the new ids first, but two programs that add the
    same id at the same moment are not kept apart: Milvus does not do that.
    """

    kind = "flat"

    def __init__(self, client, collection: str, bits: int, fingerprint):
        self.bits = bits
        self.fingerprint = fingerprint
        self._client = client
        self._collection = collection

    @classmethod
    def open(cls, uri: str, collection: str, encoder=None) -> "MilvusIndex":
        """Opens a collection that `create` made."""
        client = _connect(uri)
        with _explained(f"open {collection}"):
            if not client.has_collection(collection):
                raise FileNotFoundError(
                    f"There must be a collection {collection!r} at {uri}; "
                    "there is none. Build it with `python tools/index.py`, "
                    f"as milvus:{uri}#{collection}, or name another."
                )
            about = client.describe_collection(collection)["description"]
        try:
            header = json.loads(about)
            bits, fingerprint = header["bits"], header["fingerprint"]
            checks.check_size(bits)
            fingerprint = checks.fingerprint_of(fingerprint)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"Collection {collection!r} must have been made by vdsh_tf, "
                f"whose description names bits and fingerprint. Received: "
                f"description={about!r}. Name another collection."
            ) from error
        checks.check_owner(fingerprint, encoder, f"{uri}#{collection}")
        with _explained(f"load {collection}"):
            client.load_collection(collection)
        return cls(client, collection, bits, fingerprint)

    @classmethod
    def create(
        cls, uri, collection, bits, kind="flat", encoder=None, overwrite=False
    ) -> "MilvusIndex":
        """Makes an empty collection."""
        checks.check_size(bits)
        config.require(
            kind == "flat",
            "kind",
            kind,
            '"flat"',
            "the kind that Milvus has for binary codes here",
        )
        fingerprint = checks.fingerprint_of(encoder)
        client = _connect(uri)
        with _explained(f"create {collection}"):
            if client.has_collection(collection):
                if not overwrite:
                    raise checks.exists(f"{uri}#{collection}")
                client.drop_collection(collection)
            _create_collection(client, collection, bits, fingerprint)
        return cls(client, collection, bits, fingerprint)

    def __len__(self) -> int:
        return self._query("", ["count(*)"])[0]["count(*)"]

    @property
    def ids(self) -> np.ndarray:
        """[n] int64, in rising order."""
        found: list[int] = []
        with _explained("list ids"):
            pages = self._client.query_iterator(
                self._collection, batch_size=_ROWS, output_fields=["id"]
            )
            while page := pages.next():
                found.extend(row["id"] for row in page)
            pages.close()
        return np.sort(np.array(found, np.int64))

    def add(self, codes: np.ndarray, ids=None) -> None:
        """Adds codes; ids as in `HammingIndex.add`."""
        checks.check_codes(codes, self.bits)
        if ids is None:
            # A list of all ids is slow; only the default needs it.
            known = self.ids if len(self) else np.zeros(0, np.int64)
            start = int(known[-1]) + 1 if len(known) else 0
            ids = np.arange(start, start + len(codes))
        ids = checks.check_ids(ids, len(codes))
        known = self._known(ids)
        if known:
            checks.raise_duplicate(min(known))
        for start in range(0, len(codes), _ROWS):
            part = slice(start, start + _ROWS)
            rows = [
                {"id": int(number), "code": code.tobytes()}
                for number, code in zip(ids[part], codes[part], strict=True)
            ]
            with _explained("insert"):
                self._client.insert(self._collection, rows)

    def search(self, codes: np.ndarray, k: int = 10) -> hamming.Neighbors:
        """The k nearest items of each query code; k up to 16,384."""
        checks.check_codes(codes, self.bits, "queries")
        checks.check_k(k, len(self))
        if k > _MOST_HITS:
            raise ValueError(
                f"`k` must be at most {_MOST_HITS}, the most that Milvus "
                f"returns. Received: k={k}. Use `radius_search`."
            )
        shape = (len(codes), int(k))
        distances = np.zeros(shape, np.int32)
        ids = np.zeros(shape, np.int64)
        for start in range(0, len(codes), _QUERIES):
            part = slice(start, start + _QUERIES)
            for i, hits in enumerate(self._hits(codes[part], int(k)), start):
                distances[i] = [hit["distance"] for hit in hits]
                ids[i] = [hit["id"] for hit in hits]
        return hamming.Neighbors(distances, ids)

    def radius_search(self, codes: np.ndarray, radius: int = 2) -> hamming.Ball:
        """All items at most `radius` bits from each query code."""
        checks.check_codes(codes, self.bits, "queries")
        checks.check_radius(radius)
        # Milvus, as faiss, means "less than".
        bound = min(int(radius), self.bits) + 1
        found = [self._ball(codes[i : i + 1], bound) for i in range(len(codes))]
        limits = np.cumsum([0, *map(len, found)], dtype=np.int64)
        hits = [hit for ball in found for hit in ball]
        return hamming.Ball(
            limits,
            np.array([hit["distance"] for hit in hits], np.int32),
            np.array([hit["id"] for hit in hits], np.int64),
        )

    def remove(self, ids) -> None:
        """Removes items; nothing is removed when an id is unknown."""
        ids = np.unique(checks.check_ids(ids))
        unknown = sorted(set(ids.tolist()) - self._known(ids))
        if unknown:
            raise ValueError(
                "Ids to remove must be in the index. Received: id "
                f"{unknown[0]} ({len(unknown)} unknown in all)."
            )
        for start in range(0, len(ids), _ROWS):
            part = ids[start : start + _ROWS].tolist()
            with _explained("delete"):
                self._client.delete(self._collection, ids=part)

    def save(self) -> None:
        """Flushes; Milvus keeps what was added."""
        with _explained("flush"):
            self._client.flush(self._collection)

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def _ball(self, code, bound, where=""):
        hits = self._hits(code, _MOST_HITS, bound, where)[0]
        if len(hits) < _MOST_HITS:
            return hits
        # There may be more than Milvus returns: halve by id and ask again.
        middle = int(np.median([hit["id"] for hit in hits]))
        both = f"{where} and " if where else ""
        return [
            *self._ball(code, bound, f"{both}id < {middle}"),
            *self._ball(code, bound, f"{both}id >= {middle}"),
        ]

    def _hits(self, codes, limit, bound=None, where=""):
        params = {} if bound is None else {"radius": bound}
        with _explained("search"):
            return self._client.search(
                self._collection,
                data=[code.tobytes() for code in codes],
                limit=limit,
                filter=where,
                search_params={"metric_type": "HAMMING", "params": params},
                consistency_level="Strong",
            )

    def _known(self, ids):
        found = set()
        for start in range(0, len(ids), _ROWS):
            part = ids[start : start + _ROWS].tolist()
            found.update(
                row["id"] for row in self._query(f"id in {part}", ["id"])
            )
        return found

    def _query(self, where, fields):
        with _explained("query"):
            return self._client.query(
                self._collection,
                filter=where,
                output_fields=fields,
                consistency_level="Strong",
            )


def _connect(uri, timeout=10):
    try:
        import pymilvus
    except ImportError as error:
        raise ImportError(
            "Milvus needs pymilvus, which is not installed. Run "
            "`pip install 'vdsh_tf[milvus]'`."
        ) from error
    # It logs a traceback before it raises what we explain.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    try:
        return pymilvus.MilvusClient(uri, timeout=timeout)
    except Exception as error:
        raise ConnectionError(
            f"A Milvus server must answer at {uri}, or the URI must be a "
            "path that ends in .db, for the embedded one. It does not: start "
            f"the server, or correct the address. Cause: {error}"
        ) from error


@contextlib.contextmanager
def _explained(what):
    import pymilvus

    try:
        yield
    except pymilvus.MilvusException as error:
        raise RuntimeError(
            f"Milvus could not {what}. It says: {error.message}."
        ) from error


def _create_collection(client, collection, bits, fingerprint):
    import pymilvus

    about = {"bits": bits, "fingerprint": fingerprint}
    schema = client.create_schema(auto_id=False, description=json.dumps(about))
    schema.add_field("id", pymilvus.DataType.INT64, is_primary=True)
    schema.add_field(
        "code",
        pymilvus.DataType.BINARY_VECTOR,
        dim=8 * ((bits + 7) // 8),
    )
    index = client.prepare_index_params()
    index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    client.create_collection(
        collection,
        schema=schema,
        index_params=index,
        consistency_level="Strong",
    )
