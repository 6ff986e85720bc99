"""The file of items: what it keeps, what it refuses."""

import os
import sqlite3
import tempfile

import numpy as np
from absl.testing import absltest

from tests.support import case
from vdsh_tf.service import filters
from vdsh_tf.service.store import Item
from vdsh_tf.service.store import ItemStore


def item(number, label=0):
    rng = np.random.default_rng(number)
    return Item(
        number,
        rng.integers(0, 256, 2, np.uint8),
        rng.normal(size=16).astype(np.float16),
        f'{{"label": {label}}}',
    )


class StoreTest(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "items")
        self.store = self.open()

    def open(self):
        store = ItemStore(self.path, "maker", 16)
        self.addCleanup(store.close)
        return store

    def add(self, *items):
        self.store.begin()
        self.store.add(items)
        self.store.commit()

    def test_keeps_what_was_committed(self):
        self.store.describe((i, '{"label": 1}') for i in range(4))
        self.add(item(7), item(9, label=1))
        self.store.begin()
        self.store.remove(2)
        self.store.remove(7)
        self.store.commit()
        # A second connection sees what is committed, as a new process does.
        again = self.open()
        self.store.begin()
        self.store.add([item(11)])
        np.testing.assert_array_equal(again.removed(), [2, 7])
        np.testing.assert_array_equal(again.added().ids, [9])
        np.testing.assert_array_equal(again.added().codes, [item(9).code])
        np.testing.assert_array_equal(
            again.embeddings([0, 9])[9], item(9).embedding
        )
        self.assertEqual(again.payloads([1, 2, 9]).keys(), {1, 9})
        found = again.matching(filters.parse("label = 1"))
        np.testing.assert_array_equal(found, [0, 1, 3, 9])
        self.assertEqual(again.largest(), 9)
        self.store.rollback()
        self.assertLen(self.store.added().ids, 1)

    def test_all_or_no_payloads(self):
        with self.assertRaises(sqlite3.Error):
            self.store.describe([(1, "{}"), (2, None)])
        self.assertEmpty(self.store.payloads([1, 2]))

    def test_an_id_that_is_used_again(self):
        self.add(item(3))
        self.store.begin()
        self.store.remove(3)
        self.store.add([item(3, label=5)])
        self.store.commit()
        np.testing.assert_array_equal(self.store.added().ids, [3])
        self.assertEqual(self.store.payloads([3]), {3: '{"label": 5}'})

    def test_other_files(self):
        with self.assertRaisesRegex(ValueError, "items of encoder maker"):
            ItemStore(self.path, "other", 16)
        path = os.path.join(os.path.dirname(self.path), "text")
        with open(path, "w") as f:
            f.write("no database, but longer than its header would be" * 9)
        with self.assertRaisesRegex(ValueError, "must be a file of items"):
            ItemStore(path, "maker", 16)
        with self.assertRaisesRegex(ValueError, "must be a file of items"):
            ItemStore(os.path.join(path, "inside"), "maker", 16)

    def test_codes_of_another_length(self):
        self.add(item(3)._replace(code=np.zeros(3, np.uint8)))
        with self.assertRaisesRegex(ValueError, "2 bytes long"):
            self.store.added()


if __name__ == "__main__":
    absltest.main()
