"""Engine: rows in, hits with payloads out; and changes that are kept.

One thread asks at a time, and one changes; both batch what waits for them
(`batching`), and a lock keeps them off the index at the same moment.
"""

import collections
import threading
from collections.abc import Sequence

import numpy as np

from vdsh_tf.encoding.onnx_encoder import OnnxEncoder
from vdsh_tf.search import checks
from vdsh_tf.search import subsets
from vdsh_tf.search.mapped import MappedIndex
from vdsh_tf.service.records import Answer
from vdsh_tf.service.records import Change
from vdsh_tf.service.records import Hits
from vdsh_tf.service.records import Query
from vdsh_tf.service.records import ReadOnlyError
from vdsh_tf.service.records import TakenError
from vdsh_tf.service.records import UnknownError
from vdsh_tf.service.store import Item
from vdsh_tf.service.store import ItemStore

_KEPT_FILTERS = 32


class Engine:
    """Searches and changes an index with its items.

    Args:
        encoder: makes codes and embeddings.
        index: of `search.engines`; what the store has is brought into it.
        store: of payloads and changes.
        embeddings: [n, K] float16 of the items 0 to n - 1 of the index, for
            re-ranking, or None.
    """

    def __init__(
        self,
        encoder: OnnxEncoder,
        index: subsets.AnyIndex,
        store: ItemStore,
        embeddings: np.ndarray | None = None,
    ):
        checks.check_owner(index.fingerprint, encoder.fingerprint, "The index")
        if embeddings is not None and embeddings.shape[1:] != (encoder.bits,):
            raise ValueError(
                f"Embeddings must be [n, {encoder.bits}], a number per bit. "
                f"Received: shape={embeddings.shape}."
            )
        self.encoder = encoder
        self.index = index
        self.store = store
        self._embeddings = embeddings
        self._lock = threading.Lock()
        self._version = 0
        self._allowed: collections.OrderedDict = collections.OrderedDict()
        self._added: set[int] = set()
        self._replay()
        ids = index.ids if len(index) else np.zeros(1, np.int64) - 1
        self._next = max(int(ids.max()), store.largest()) + 1

    def __len__(self) -> int:
        return len(self.index)

    @property
    def can_rerank(self) -> bool:
        """Whether embeddings are at hand."""
        return self._embeddings is not None

    def _replay(self):
        """Brings what was added and removed before into the index."""
        removed, added = self.store.removed(), self.store.added()
        if not len(removed) and not len(added.ids):
            return
        gone = removed[subsets.known(self.index, removed)]
        if len(gone):
            self.index.remove(gone)
        new = ~subsets.known(self.index, added.ids)
        if new.any():
            self.index.add(added.codes[new], added.ids[new])
        self._added = set(added.ids.tolist())

    # Questions.

    def ask(self, queries: Sequence[Query]) -> list[Answer | Exception]:
        """Answers queries of several requests together."""
        encoded = self._encode(queries)
        answers: list[Answer | Exception] = []
        with self._lock:
            found = self._search(queries, encoded)
        for (codes, embeddings), hits in zip(encoded, found, strict=True):
            if isinstance(codes, Exception) or isinstance(hits, Exception):
                answers.append(codes if isinstance(codes, Exception) else hits)
            else:
                answers.append(Answer(codes, embeddings, hits, {}))
        return self._with_payloads(queries, answers)

    def encode(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes and embeddings of rows."""
        return self.encoder.embed(rows)

    def _encode(self, queries):
        """Codes and embeddings by query; rows of all in one run."""
        rows = [q.rows for q in queries if q.rows is not None]
        codes = embeddings = np.zeros((0, 0))
        if rows:
            together = rows[0] if len(rows) == 1 else np.concatenate(rows)
            codes, embeddings = self.encoder.embed(together)
        encoded, start = [], 0
        for query in queries:
            if query.rows is None:
                encoded.append(self._recall(query.ids))
            else:
                part = slice(start, start + len(query.rows))
                encoded.append((codes[part], embeddings[part]))
                start = part.stop
        return encoded

    def _recall(self, ids):
        """Codes and embeddings of items."""
        with self._lock:
            there = subsets.known(self.index, ids)
            if not there.all():
                return UnknownError(self._unknown(ids[~there][0])), None
            codes = subsets.codes_of(self.index, ids)
        return codes, self._embeddings_of(ids)

    def _search(self, queries, encoded):
        """Hits by query; those that ask alike are searched together."""
        groups = collections.defaultdict(list)
        for place, query in enumerate(queries):
            where = query.where[0] if query.where else None
            key = (query.k, query.radius, where, query.rerank)
            groups[key].append(place)
        found: list = [None] * len(queries)
        for (k, radius, _, rerank), places in groups.items():
            good = [p for p in places if isinstance(encoded[p][0], np.ndarray)]
            if not good:
                continue
            index = self._restricted(queries[good[0]].where)
            codes = np.concatenate([encoded[p][0] for p in good])
            hits = _nearest(index, codes, max(k, rerank), radius)
            if rerank:
                parts = [encoded[p][1] for p in good]
                hits = self._rerank(hits, np.concatenate(parts), k)
            start = 0
            for p in good:
                found[p] = hits[start : start + len(queries[p])]
                start += len(queries[p])
        return found

    def _restricted(self, where):
        """The index, or those of its items that a filter allows."""
        if where is None:
            return self.index
        text, node = where
        version, part = self._allowed.get(text, (None, None))
        if version != self._version:
            ids = self.store.matching(node)
            part = subsets.restrict(self.index, ids)
            self._allowed[text] = (self._version, part)
        self._allowed.move_to_end(text)
        while len(self._allowed) > _KEPT_FILTERS:
            self._allowed.popitem(last=False)
        return part

    def _rerank(self, hits, embeddings, k):
        """The same hits in the order of their cosines, the first k."""
        return [
            self._rerank_one(hit, embedding, k)
            for hit, embedding in zip(hits, embeddings, strict=True)
        ]

    def _rerank_one(self, hit, embedding, k):
        theirs = self._embeddings_of(hit.ids)
        norms = np.linalg.norm(theirs, axis=1) * np.linalg.norm(embedding)
        cosines = theirs @ embedding / np.where(norms > 0, norms, 1)
        order = np.argsort(-cosines, kind="stable")[:k]
        return Hits(
            hit.distances[order], hit.ids[order], hit.total, cosines[order]
        )

    def _embeddings_of(self, ids):
        """[n, K] float32; zeros for an item that has none."""
        found = np.zeros((len(ids), self.encoder.bits), np.float32)
        if self._embeddings is not None:
            rows = np.flatnonzero((ids >= 0) & (ids < len(self._embeddings)))
            found[rows] = self._embeddings[ids[rows]]
        asked = [i for i in ids.tolist() if i in self._added]
        for number, values in self.store.embeddings(asked).items():
            found[ids == number] = values
        return found

    def _with_payloads(self, queries, answers):
        """The answers with payloads, all looked up at once."""
        wanted = {
            number
            for query, answer in zip(queries, answers, strict=True)
            if query.payloads and isinstance(answer, Answer)
            for hits in answer.hits
            for number in hits.ids.tolist()
        }
        if not wanted:
            return answers
        found = self.store.payloads(list(wanted))
        return [
            answer._replace(payloads=found)
            if query.payloads and isinstance(answer, Answer)
            else answer
            for query, answer in zip(queries, answers, strict=True)
        ]

    def item(self, number: int) -> tuple[np.ndarray, str]:
        """Code and payload of an item."""
        ids = np.array([number])
        codes, _ = self._recall(ids)
        if isinstance(codes, Exception):
            raise codes
        return codes[0], self.store.payloads([number]).get(number, "{}")

    def page(self, after: int, most: int) -> list[tuple[int, str]]:
        """Ids above `after`, rising, and payloads; `most` of them."""
        with self._lock:
            ids = np.sort(self.index.ids)
        start = np.searchsorted(ids, after, side="right")
        chosen = ids[start : start + most].tolist()
        found = self.store.payloads(chosen)
        return [(number, found.get(number, "{}")) for number in chosen]

    # Changes.

    def change(self, changes: Sequence[Change]) -> list[list | Exception]:
        """Makes changes of several requests; each gets its ids, or an error.

        When it returns, they are on disk and in the index.
        """
        if isinstance(self.index, MappedIndex):
            text = "This service searches a mapped index, which does not change"
            return [ReadOnlyError(f"{text}.")] * len(changes)
        present: dict[int, bool] = {}
        results: list[list | Exception] = []
        made: list[Change] = []
        self.store.begin()
        try:
            for change in changes:
                try:
                    made.append(self._prepare(change, present))
                    results.append([item.id for item in made[-1].add])
                except (TakenError, UnknownError) as error:
                    results.append(error)
            self.store.commit()
        except BaseException:
            self.store.rollback()
            raise
        with self._lock:
            self._apply(made)
        return results

    def _prepare(self, change, present):
        """Writes one change to the store, with ids for all its items."""

        def there(number):
            if number not in present:
                ids = np.array([number])
                with self._lock:
                    present[number] = bool(subsets.known(self.index, ids)[0])
            return present[number]

        if change.remove is not None:
            if not there(change.remove):
                raise UnknownError(self._unknown(change.remove))
            self.store.remove(change.remove)
            present[change.remove] = False
            return change
        taken = [i.id for i in change.add if i.id is not None and there(i.id)]
        if taken:
            raise TakenError(
                f"The id of a new item must be free, and {taken[0]} is taken. "
                "Remove that item first, or leave the id out to get the next."
            )
        last = max((i.id for i in change.add if i.id is not None), default=-1)
        self._next = max(self._next, last + 1)
        items = []
        for item in change.add:
            if item.id is None:
                item = item._replace(id=self._next)
                self._next += 1
            items.append(item)
        self.store.add(items)
        present.update({item.id: True for item in items})
        return Change(items)

    def _apply(self, changes):
        """Brings changes into the index, those of a kind together."""
        self._version += 1
        items: dict[int, Item] = {}
        gone: set[int] = set()
        for change in changes:
            if change.remove is None:
                items.update({item.id: item for item in change.add})
            elif items.pop(change.remove, None) is None:
                gone.add(change.remove)
        if gone:
            self.index.remove(np.array(sorted(gone)))
            self._added -= gone
        if items:
            codes = np.stack([item.code for item in items.values()])
            self.index.add(codes, np.array(list(items)))
            self._added |= items.keys()

    def _unknown(self, number):
        return f"There must be an item {number}; there is none."


def _nearest(index, codes, most, radius):
    """Hits of all codes: the nearest, or the nearest within a radius."""
    if not len(index):
        none = np.zeros(0, np.int64)
        total = None if radius is None else 0
        return [Hits(none, none, total)] * len(codes)
    if radius is None:
        found = index.search(codes, min(most, len(index)))
        pairs = zip(found.distances, found.ids, strict=True)
        return [Hits(distances, ids) for distances, ids in pairs]
    ball = index.radius_search(codes, radius)
    hits = []
    for i in range(len(codes)):
        distances, ids = ball.sorted_hits(i)
        hits.append(Hits(distances[:most], ids[:most], len(ids)))
    return hits
