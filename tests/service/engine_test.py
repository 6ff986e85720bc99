"""Search with filters, radius, re-ranking; changes; after a restart."""

import os

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import export_fixtures
from tests.support import plain_hamming
from tests.support import service_case
from vdsh_tf.encoding import onnx_encoder
from vdsh_tf.search import engines
from vdsh_tf.search import mapped
from vdsh_tf.service import bundle
from vdsh_tf.service import filters
from vdsh_tf.service.engine import Engine
from vdsh_tf.service.records import Change
from vdsh_tf.service.records import Query
from vdsh_tf.service.records import ReadOnlyError
from vdsh_tf.service.records import TakenError
from vdsh_tf.service.records import UnknownError
from vdsh_tf.service.store import Item
from vdsh_tf.service.store import ItemStore

COUNT = service_case.ITEMS


def where(text):
    return text, filters.parse(text)


class Place:
    """A folder, and an index of one engine in it."""

    def __init__(self, kind):
        self.folder = service_case.folder()
        path = os.path.join(self.folder, bundle.ENCODER)
        self.encoder = onnx_encoder.OnnxEncoder(onnx_encoder.read(path), 1)
        self.codes = self.encoder(service_case.rows()[:COUNT])
        name = "index.db#items" if kind == "milvus" else "other.npz"
        engine = "milvus" if kind == "milvus" else "faiss"
        self.uri = f"{engine}:{self.folder}/{name}"
        if kind == "mapped":
            path = f"{self.folder}/other.npz"
            made = (self.encoder.bits, "hash", None, self.encoder.fingerprint)
            mapped.write(path, self.codes, *made)
            return
        kind = "flat" if kind == "milvus" else kind
        index = engines.create_index(
            self.uri, self.encoder.bits, kind, self.encoder.fingerprint
        )
        index.add(self.codes)
        index.save()

    def engine(self):
        self.store = ItemStore(
            os.path.join(self.folder, bundle.ITEMS),
            self.encoder.fingerprint,
            self.encoder.bits,
        )
        index = engines.open_index(self.uri)
        kept = bundle.embeddings(self.folder)
        return Engine(self.encoder, index, self.store, kept)

    def item(self, row, number=None, payload="{}"):
        rows = service_case.rows()[row : row + 1]
        codes, embeddings = self.encoder.embed(rows)
        half = embeddings[0].astype(np.float16)
        return Item(number, codes[0], half, payload)


class EngineTest(case.TestCase):
    def distances(self, place, rows):
        return plain_hamming.all_distances(place.encoder(rows), place.codes)

    @parameterized.parameters("flat", "hash", "hnsw", "mapped", "milvus")
    def test_filters(self, kind):
        if kind == "milvus":
            pytest.importorskip("milvus_lite")
        place = Place(kind)
        engine = place.engine()
        rows = service_case.rows()[COUNT : COUNT + 5]
        labels = export_fixtures.split().train.y[:COUNT]
        want = self.distances(place, rows)
        allowed = np.isin(labels, [3, 7])
        text = "label in [3, 7]"
        nearest, ball, all_of_them, none = engine.ask(
            [
                Query(rows, k=6, where=where(text)),
                Query(rows, k=COUNT, radius=2, where=where(text)),
                Query(
                    rows[:1], k=COUNT, where=where(f"{text} and number < 40")
                ),
                Query(rows[:1], k=5, where=where("label = 99")),
            ]
        )
        for i, hits in enumerate(nearest.hits):
            self.assertTrue(allowed[hits.ids].all())
            np.testing.assert_array_equal(hits.distances, want[i, hits.ids])
            near = np.sort(want[i, allowed])[:6]
            np.testing.assert_array_equal(hits.distances, near)
        for i, hits in enumerate(ball.hits):
            inside = np.flatnonzero(allowed & (want[i] <= 2))
            self.assertEqual(set(hits.ids.tolist()), set(inside.tolist()))
            self.assertEqual(hits.total, len(inside))
        few = np.flatnonzero(allowed[:40])
        self.assertEqual(sorted(all_of_them.hits[0].ids.tolist()), few.tolist())
        self.assertEmpty(none.hits[0].ids)
        found = nearest.payloads[int(nearest.hits[0].ids[0])]
        self.assertIn('"label":', found)

    @parameterized.parameters("flat", "milvus")
    def test_changes_are_there_after_a_restart(self, kind):
        if kind == "milvus":
            pytest.importorskip("milvus_lite")
        place = Place(kind)
        before = place.engine()
        row = service_case.rows()[COUNT : COUNT + 1]
        first = Change([place.item(COUNT, payload='{"label": 77}')])
        results = before.change(
            [
                first,
                Change(remove=4),
                Change([place.item(COUNT + 1, 5)]),
                Change([place.item(COUNT + 1, 900), place.item(COUNT, 4)]),
                Change(remove=12345),
                Change(remove=900),
            ]
        )
        self.assertEqual(results[0], [COUNT])
        self.assertEqual(results[3], [900, 4])
        self.assertIsInstance(results[2], TakenError)
        self.assertIsInstance(results[4], UnknownError)
        for engine in (before, place.engine()):
            self.assertLen(engine, COUNT + 1)
            (found,) = engine.ask([Query(row, k=3, where=where("label = 77"))])
            self.assertEqual(found.hits[0].ids.tolist(), [COUNT])
            self.assertEqual(found.hits[0].distances.tolist(), [0])
            # Item 4 is another one now, without a label.
            (found,) = engine.ask([Query(None, np.array([4]), k=2)])
            np.testing.assert_array_equal(
                found.codes, place.encoder(row), str(kind)
            )
            self.assertEqual(engine.item(4)[1], "{}")
            (found,) = engine.ask([Query(None, np.array([900]))])
            self.assertIsInstance(found, UnknownError)
        # Ids are never used twice by themselves.
        self.assertEqual(engine.change([first]), [[901]])

    def test_a_filter_sees_changes(self):
        place = Place("flat")
        engine = place.engine()
        row = service_case.rows()[:1]
        query = Query(row, k=COUNT, where=where("color = 'red'"))
        self.assertEmpty(engine.ask([query])[0].hits[0].ids)
        engine.change([Change([place.item(3, payload='{"color": "red"}')])])
        self.assertEqual(engine.ask([query])[0].hits[0].ids, [COUNT])
        engine.change([Change(remove=COUNT)])
        self.assertEmpty(engine.ask([query])[0].hits[0].ids)

    def test_rerank(self):
        place = Place("flat")
        engine = place.engine()
        rows = service_case.rows()[COUNT : COUNT + 4]
        added = place.item(COUNT)
        engine.change([Change([added])])
        (found,) = engine.ask([Query(rows, k=5, rerank=60)])
        _, asked = place.encoder.embed(rows)
        kept = np.concatenate(
            [bundle.embeddings(place.folder), added.embedding[None]]
        ).astype(np.float64)
        codes = np.concatenate([place.codes, added.code[None]])
        distances = plain_hamming.all_distances(place.encoder(rows), codes)
        for i, hits in enumerate(found.hits):
            norms = np.linalg.norm(kept, axis=1) * np.linalg.norm(asked[i])
            cosines = kept @ asked[i] / np.maximum(norms, 1e-9)
            np.testing.assert_allclose(
                hits.similarities, cosines[hits.ids], atol=1e-3
            )
            # Which of those at equal distance are among the 60 is open.
            edge = np.sort(distances[i])[59]
            sure = np.sort(cosines[distances[i] < edge])[::-1]
            self.assertGreaterEqual(
                hits.similarities[0] + 1e-3, sure[:1].max(initial=-1)
            )
            self.assertTrue((np.diff(hits.similarities) <= 0).all())
        self.assertEqual(found.hits[0].ids[0], COUNT)

    def test_one_bad_query_does_not_spoil_others(self):
        engine = Place("flat").engine()
        rows = service_case.rows()[:2]
        bad, good = engine.ask(
            [Query(None, np.array([10**6])), Query(rows, k=1)]
        )
        self.assertIsInstance(bad, UnknownError)
        self.assertEqual([h.distances[0] for h in good.hits], [0, 0])

    def test_a_mapped_index_does_not_change(self):
        place = Place("mapped")
        engine = place.engine()
        for change in (Change(remove=1), Change([place.item(1)])):
            (result,) = engine.change([change])
            self.assertIsInstance(result, ReadOnlyError)
        self.assertLen(place.engine(), COUNT)

    def test_another_encoder(self):
        place = Place("flat")
        other = engines.create_index("faiss:unused", 12, "flat", "other")
        place.engine()
        with self.assertRaisesRegex(ValueError, "must hold codes of"):
            Engine(place.encoder, other, place.store)
        with self.assertRaisesRegex(ValueError, "a number per bit"):
            index = engines.open_index(place.uri)
            Engine(place.encoder, index, place.store, np.zeros((3, 5)))


if __name__ == "__main__":
    absltest.main()
