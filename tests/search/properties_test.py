"""Whatever bytes come: a sentence of the library, or what is true."""

import functools
import json
import math
import os
import tempfile

import hypothesis
import numpy as np
import pytest
from absl.testing import absltest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support import plain_hamming
from vdsh_tf.data import streams
from vdsh_tf.search import code_files
from vdsh_tf.search.hamming import KINDS
from vdsh_tf.search.hamming import HammingIndex

faiss = pytest.importorskip(
    "faiss", reason="search needs `pip install faiss-cpu`"
)
forged = pytest.importorskip("tests.support.forged")
# Small searches only lose by threads.
faiss.omp_set_num_threads(1)

CODES = plain_hamming.random_codes(np.random.default_rng(0), 90, 21, 9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    max_leaves=5,
)
INTEGERS = st.sampled_from((np.int32, np.int64, np.uint8, np.dtype(">i8")))
ARRAYS = INTEGERS.flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0)
    )
)
VALUES = st.integers(-3, 100) | st.integers(-(2**31), 2**31 - 1)

settings = hypothesis.settings(max_examples=150, deadline=None)


@functools.cache
def saved(kind, version=2):
    """The members of an index file."""
    with tempfile.TemporaryDirectory() as folder:
        index = HammingIndex(21, kind)
        index.add(CODES)
        path = os.path.join(folder, "a.npz")
        index.save(path)
        if version == 1:
            forged.write_version_1(index, path)
        return forged.members(path)


class IndexTest(absltest.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "a.npz")

    def load_and_search(self):
        """None if it is refused."""
        try:
            index = HammingIndex.load(self.path)
        except ValueError as error:
            self.assertIn("complete index file", str(error))
            return None
        if not len(index):
            return index
        with np.load(self.path) as arrays:
            codes, ids = arrays["codes"], arrays["ids"]
        k = min(5, len(index))
        queries = codes[:7].copy()
        exact = index.kind in ("flat", "hash")
        found = index.search(queries, k)
        plain_hamming.check_search(found, k, queries, codes, ids, exact)
        found = index.radius_search(queries, 2)
        plain_hamming.check_ball(found, 2, queries, codes, ids)
        return index

    @settings
    @hypothesis.given(st.sampled_from(KINDS), st.data())
    def test_bytes(self, kind, data):
        """Anywhere in the file, the archive's own parts included."""
        forged.write(self.path, saved(kind))
        with open(self.path, "rb") as f:
            whole = bytearray(f.read())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(whole) - 1))
            whole[at] = data.draw(st.integers(0, 255))
        del whole[data.draw(st.just(len(whole)) | st.integers(0, len(whole))) :]
        with open(self.path, "wb") as f:
            f.write(whole)
        index = self.load_and_search()
        if index is not None:
            np.testing.assert_array_equal(
                index._codes.reconstruct_n(0, len(index)), CODES
            )

    @settings
    @hypothesis.given(
        st.sampled_from(KINDS), st.sampled_from((1, 2)), st.data()
    )
    def test_arrays(self, kind, version, data):
        """Any array in the place of any other, digest renewed."""
        parts = dict(saved(kind, version))
        name = data.draw(st.sampled_from(sorted(parts)))
        parts[name] = forged.npy(data.draw(ARRAYS))
        self.write(parts, version)
        self.load_and_search()

    @settings
    @hypothesis.given(st.sampled_from((1, 2)), st.data())
    def test_values(self, version, data):
        """A few numbers of any array, digest renewed."""
        kind = data.draw(st.sampled_from(KINDS))
        parts = dict(saved(kind, version))
        names = sorted(parts.keys() - {"header", "digest", "structure"})
        name = data.draw(st.sampled_from(names))
        forged.write(self.path, parts)
        with np.load(self.path) as arrays:
            array = arrays[name]
        flat = array.reshape(-1)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(flat) - 1))
            flat[at] = np.int64(data.draw(VALUES)).astype(array.dtype)
        parts[name] = forged.npy(array)
        self.write(parts, version)
        self.load_and_search()

    @settings
    @hypothesis.given(
        st.sampled_from(KINDS),
        st.sampled_from(
            ("format", "version", "bits", "kind", "count", "fingerprint")
        ),
        JSON,
    )
    def test_header(self, kind, name, value):
        forged.write(self.path, saved(kind))
        forged.replace(self.path, header={name: value})
        self.load_and_search()

    @settings
    @hypothesis.given(JSON | st.text())
    def test_any_header(self, value):
        text = value if isinstance(value, str) else json.dumps(value)
        parts = dict(saved("flat"))
        parts["header"] = forged.npy(np.array(text))
        self.write(parts, 2)
        self.load_and_search()

    def write(self, parts, version):
        if version == 2:
            parts = forged.with_digest(parts)
        forged.write(self.path, parts)


class CodesTest(absltest.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "codes.npy")

    @settings
    @hypothesis.given(
        st.fixed_dictionaries(
            {},
            optional={
                "bits": st.integers(-9, 30) | JSON,
                "count": st.just(90) | JSON,
                "fingerprint": st.just("abc") | JSON,
                "sha256": JSON,
            },
        )
        | JSON
    )
    def test_records(self, record):
        np.save(self.path, CODES)
        with open(f"{self.path}.json", "w") as f:
            json.dump(record, f)
        self.read(CODES)

    @settings
    @hypothesis.given(st.binary(max_size=300) | ARRAYS)
    def test_files(self, content):
        with open(self.path, "wb") as f:
            if isinstance(content, bytes):
                f.write(content)
            else:
                np.save(f, content)
        record = {"bits": 8, "count": 1, "fingerprint": "abc"}
        with open(f"{self.path}.json", "w") as f:
            json.dump(record, f)
        self.read(content)

    def read(self, want):
        try:
            codes, about = code_files.read(self.path)
        except ValueError as error:
            self.assertIn("Encode again", str(error))
            return
        np.testing.assert_array_equal(codes, want)
        self.assertEqual(codes.shape[1], (about["bits"] + 7) // 8)
        self.assertIsInstance(about["fingerprint"], str)


class RowsTest(absltest.TestCase):
    def setUp(self):
        super().setUp()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "x.npy")

    @settings
    @hypothesis.given(
        st.lists(st.integers(-3, 5) | st.integers(), max_size=4).map(tuple),
        st.booleans(),
        st.sampled_from(("<f4", ">f8", "|u1", "|b1", "<c8", "<U3", "|V2")),
        st.integers(0, 3000),
    )
    def test_headers(self, shape, fortran, descr, size):
        data = np.random.default_rng(0).integers(0, 2, size, np.uint8)
        with open(self.path, "wb") as f:
            header = {"descr": descr, "fortran_order": fortran, "shape": shape}
            np.lib.format.write_array_header_2_0(f, header)
            f.write(data.tobytes())
        try:
            rows = streams.open_rows(self.path)
        except ValueError as error:
            self.assertIn("must be a .npy file", str(error))
            return
        self.assertEqual(rows.shape, (shape[0], math.prod(shape[1:])))
        if not shape[0]:
            return
        want = np.load(self.path)
        for got, row in zip(rows.batches(1), want, strict=True):
            np.testing.assert_array_equal(got[0], row.ravel())

    @settings
    @hypothesis.given(st.binary(max_size=400))
    def test_bytes(self, content):
        header = b"\x93NUMPY\x01\x00"
        for start in (b"", header, header + b"\x60\x00{'descr': '<f4', "):
            with open(self.path, "wb") as f:
                f.write(start + content)
            try:
                list(streams.open_rows(self.path).batches(3))
            except ValueError as error:
                self.assertIn(self.path, str(error))


if __name__ == "__main__":
    absltest.main()
