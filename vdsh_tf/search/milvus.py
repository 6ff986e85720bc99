"""MilvusIndex: the calls of `HammingIndex` on a Milvus collection.

For sets that outgrow one machine. `collection/partition` is a part of a
collection that is searched, filled and replaced by itself. Needs
`pip install 'vdsh_tf[milvus]'`.
"""

import numpy as np

from vdsh_tf.search import checks
from vdsh_tf.search import hamming
from vdsh_tf.search import milvus_store as store
from vdsh_tf.search.milvus_store import Header

# The most hits that Milvus returns for a query.
_MOST_HITS = 16384
_ROWS = 4096
_QUERIES = 64


class MilvusIndex:
    """A collection of codes in Milvus; open it with `engines.open_index`.

    - flat: exact, scans everything.
    - ivf: `search` is approximate, it looks into 16 of 1,024 cells of every
      segment; `radius_search` is exact and looks into all of them. Not in the
      embedded engine.

    Items are stored when `add` returns; `save` has nothing left to do but
    flush. Adding looks up the new ids first, but two programs that add the
    same id at the same moment are not kept apart: Milvus does not do that.

    Ids are distinct in a collection, whatever its partitions.
    """

    def __init__(self, client, collection: str, partition, header: Header):
        self.bits = header.bits
        self.fingerprint = header.fingerprint
        self.kind = header.kind
        self.partition: str | None = partition
        self._partitioned = header.partitioned
        self._client = client
        self._collection = collection

    @classmethod
    def open(cls, uri: str, name: str, encoder=None) -> "MilvusIndex":
        """Opens a collection, or a partition of one, that `create` made."""
        collection, partition = store.split_name(name)
        client = store.connect(uri)
        with store.explained(f"open {name}"):
            if not client.has_collection(collection):
                raise _missing(uri, name, "collection")
            header = store.read_header(client, collection)
        checks.check_owner(header.fingerprint, encoder, f"{uri}#{name}")
        with store.explained(f"load {name}"):
            client.load_collection(collection)
        index = cls(client, collection, partition, header)
        if partition is not None and not (header.partitioned and len(index)):
            raise _missing(uri, name, "partition")
        return index

    @classmethod
    def create(
        cls, uri, name, bits, kind="flat", encoder=None, overwrite=False
    ) -> "MilvusIndex":
        """Makes an empty collection, or an empty partition of one."""
        checks.check_size(bits)
        store.check_kind(kind, uri)
        collection, partition = store.split_name(name)
        fingerprint = checks.fingerprint_of(encoder)
        header = Header(bits, fingerprint, kind, partition is not None)
        client = store.connect(uri)
        index = cls(client, collection, partition, header)
        with store.explained(f"create {name}"):
            exists = client.has_collection(collection)
            if exists and partition is not None:
                index._empty_partition(uri, header, overwrite)
                return index
            if exists and not overwrite:
                raise checks.exists(f"{uri}#{collection}")
            if exists:
                client.drop_collection(collection)
            store.create(client, collection, header, store.is_embedded(uri))
        return index

    def _empty_partition(self, uri, header, overwrite):
        """Makes room for a partition of a collection that exists."""
        name = f"{uri}#{self._collection}/{self.partition}"
        found = store.read_header(self._client, self._collection)
        if found != header:
            raise ValueError(
                "Partitions of a collection must hold codes of one encoder, "
                "length and kind, and the collection must have been made with "
                f"partitions. Received: {header} for {name}, and the "
                f"collection has {found}. Name another collection."
            )
        self._client.load_collection(self._collection)
        if not len(self):
            return
        if not overwrite:
            raise checks.exists(name)
        self.remove(self.ids)

    def __len__(self) -> int:
        return self._query(self._where(), ["count(*)"])[0]["count(*)"]

    @property
    def ids(self) -> np.ndarray:
        """[n] int64, in rising order."""
        return self._ids(self._where())

    def add(self, codes: np.ndarray, ids=None) -> None:
        """Adds codes; ids as in `HammingIndex.add`."""
        checks.check_codes(codes, self.bits)
        if ids is None:
            # A list of all ids is slow; only the default needs it.
            known = self._ids("")
            start = int(known[-1]) + 1 if len(known) else 0
            ids = np.arange(start, start + len(codes))
        ids = checks.check_ids(ids, len(codes))
        known = self._known(ids, "")
        if known:
            checks.raise_duplicate(min(known))
        for start in range(0, len(codes), _ROWS):
            part = slice(start, start + _ROWS)
            self._insert(codes[part], ids[part])

    def add_missing(self, codes: np.ndarray, ids) -> int:
        """Adds the codes whose ids are not there yet; returns their number.

        An id that is there with another code, or in another partition, is an
        error; what came before it is added.
        """
        checks.check_codes(codes, self.bits)
        ids = checks.check_ids(ids, len(codes))
        added = 0
        for start in range(0, len(codes), _ROWS):
            part = slice(start, start + _ROWS)
            left = self._missing(codes[part], ids[part])
            self._insert(codes[part][left], ids[part][left])
            added += int(left.sum())
        return added

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
            found = self._hits(codes[part], int(k), probes=store.PROBES)
            for i, hits in enumerate(found, start):
                if len(hits) < k:
                    # The cells that were looked into hold no more.
                    hits = self._hits(codes[i : i + 1], int(k))[0]
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
        unknown = sorted(set(ids.tolist()) - self._known(ids, self._where()))
        if unknown:
            raise ValueError(
                "Ids to remove must be in the index. Received: id "
                f"{unknown[0]} ({len(unknown)} unknown in all)."
            )
        for start in range(0, len(ids), _ROWS):
            part = ids[start : start + _ROWS].tolist()
            with store.explained("delete"):
                self._client.delete(self._collection, ids=part)

    def save(self) -> None:
        """Flushes; Milvus keeps what was added."""
        with store.explained("flush"):
            self._client.flush(self._collection)

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def _where(self, more=""):
        """A filter for this partition, and more."""
        own = "" if self.partition is None else f'part == "{self.partition}"'
        return " and ".join(filter(None, (own, more)))

    def _insert(self, codes, ids):
        if not len(codes):
            return
        more = {"part": self.partition or ""} if self._partitioned else {}
        rows = [
            {"id": int(number), "code": code.tobytes(), **more}
            for number, code in zip(ids, codes, strict=True)
        ]
        with store.explained("insert"):
            self._client.insert(self._collection, rows)

    def _missing(self, codes, ids):
        """[n] bool, which ids are not in the collection."""
        fields = ["id", "code", *(["part"] if self._partitioned else [])]
        found = self._query(f"id in {ids.tolist()}", fields)
        known = {row["id"]: row for row in found}
        for number, code in zip(ids.tolist(), codes, strict=True):
            row = known.get(number)
            if row is None:
                continue
            other = self.partition not in (None, row.get("part"))
            if other or row["code"][0] != code.tobytes():
                checks.raise_other_code(number)
        return np.array([number not in known for number in ids.tolist()], bool)

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

    def _hits(self, codes, limit, bound=None, where="", probes=store.CELLS):
        params = {} if bound is None else {"radius": bound}
        if self.kind == "ivf":
            params["nprobe"] = probes
        with store.explained("search"):
            return self._client.search(
                self._collection,
                data=[code.tobytes() for code in codes],
                limit=limit,
                filter=self._where(where),
                search_params={"metric_type": "HAMMING", "params": params},
                consistency_level="Strong",
            )

    def _ids(self, where):
        found: list[int] = []
        with store.explained("list ids"):
            pages = self._client.query_iterator(
                self._collection,
                batch_size=_ROWS,
                filter=where,
                output_fields=["id"],
            )
            while page := pages.next():
                found.extend(row["id"] for row in page)
            pages.close()
        return np.sort(np.array(found, np.int64))

    def _known(self, ids, where):
        found = set()
        both = f"{where} and " if where else ""
        for start in range(0, len(ids), _ROWS):
            part = ids[start : start + _ROWS].tolist()
            rows = self._query(f"{both}id in {part}", ["id"])
            found.update(row["id"] for row in rows)
        return found

    def _query(self, where, fields):
        with store.explained("query"):
            return self._client.query(
                self._collection,
                filter=where,
                output_fields=fields,
                consistency_level="Strong",
            )


def _missing(uri, name, what):
    return FileNotFoundError(
        f"There must be a {what} {name!r} at {uri}; there is none. Build it "
        f"with `python tools/index.py`, as milvus:{uri}#{name}, or name "
        "another."
    )
