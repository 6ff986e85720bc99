"""Index URIs."""

import concurrent.futures
import os
import tempfile

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf.search import engines

pytest.importorskip("faiss", reason="search needs `pip install faiss-cpu`")


class EnginesTest(parameterized.TestCase):
    @parameterized.parameters(
        ("faiss:a/b.npz", ("faiss", "a/b.npz", "")),
        ("faiss:c:d", ("faiss", "c:d", "")),
        ("milvus:x.db#codes", ("milvus", "x.db", "codes")),
        ("milvus:http://h:19530#c", ("milvus", "http://h:19530", "c")),
    )
    def test_parse(self, uri, want):
        self.assertEqual(engines.parse(uri), want)

    @parameterized.parameters(
        "",
        "index.npz",
        "faiss:",
        "faiss",
        "milvus:x.db",
        "milvus:#c",
        "milvus:x.db#",
        "pg:host#codes",
    )
    def test_not_an_index(self, uri):
        with self.assertRaisesRegex(ValueError, "faiss:path or milvus:uri"):
            engines.parse(uri)

    def test_faiss_file(self):
        with tempfile.TemporaryDirectory() as folder:
            uri = f"faiss:{os.path.join(folder, 'a.npz')}"
            index = engines.create_index(uri, 8, "hash", encoder="ab")
            with self.assertRaisesRegex(FileNotFoundError, "there is none"):
                engines.open_index(uri)
            index.add(np.zeros((3, 1), np.uint8))
            index.save()
            loaded = engines.open_index(uri, "ab")
            self.assertEqual((len(loaded), loaded.kind), (3, "hash"))
            loaded.add(np.zeros((1, 1), np.uint8))
            loaded.save()
            self.assertLen(engines.open_index(uri), 4)
            with self.assertRaisesRegex(FileExistsError, "overwrite=True"):
                engines.create_index(uri, 8)
            engines.create_index(uri, 8, overwrite=True)
            # Nothing is replaced before `save`.
            self.assertLen(engines.open_index(uri), 4)

    @parameterized.parameters("faiss:{}/a.npz", "milvus:{}/a.db#codes")
    def test_one_writer_at_a_time(self, uri):
        with tempfile.TemporaryDirectory() as folder:
            uri = uri.format(folder)
            with (
                engines.writing(uri),
                concurrent.futures.ThreadPoolExecutor(1) as pool,
                self.assertRaisesRegex(RuntimeError, "at a time"),
            ):
                pool.submit(self.write, uri).result()
            self.write(uri)
            self.assertEmpty(os.listdir(folder))

    def test_servers_are_not_locked(self):
        self.write("milvus:http://localhost:19530#codes")

    def write(self, uri):
        with engines.writing(uri, timeout=0):
            pass


if __name__ == "__main__":
    absltest.main()
