"""Files of codes: what an index is given, and what is refused."""

import os
import pathlib
from unittest import mock

import numpy as np
import psutil
import pytest
from absl.testing import absltest

from tests.support import plain_hamming
from tests.support import tool_runner

pytest.importorskip("pyarrow", reason="needs `pip install pyarrow`")

from tests.support import parquet_parts as support
from vdsh_tf.encoding import code_parts
from vdsh_tf.search import importing
from vdsh_tf.search.hamming import HammingIndex


class CodePartsTest(tool_runner.ToolTestCase):
    def setUp(self):
        super().setUp()
        os.mkdir("codes")
        rng = np.random.default_rng(0)
        self.codes = plain_hamming.random_codes(rng, 1000, 21)
        self.ids = rng.permutation(10**6)[:1000]

    def write(self, name="a", rows=slice(None), bits=21, **kwargs):
        path = f"codes/{name}.parquet"
        support.write_codes(
            path, self.codes[rows], self.ids[rows], bits, **kwargs
        )
        return path

    def short(self):
        """A record that says more rows than there are."""
        support.write_codes(
            "codes/zz.parquet", self.codes, self.ids, 21, rows=1001
        )

    def refused(self, message):
        with self.assertRaisesRegex(ValueError, message):
            parts = code_parts.CodeParts("codes/*.parquet")
            list(parts.pieces(70))

    def test_pieces(self):
        self.write("b", slice(300, 1000))
        self.write("a", slice(0, 300))
        parts = code_parts.CodeParts("codes/*.parquet")
        self.assertEqual(
            (len(parts), parts.bits, parts.fingerprint), (1000, 21, "abc")
        )
        for rows in (1, 70, 5000):
            codes, ids = zip(*parts.pieces(rows), strict=True)
            self.assertLessEqual(max(map(len, codes)), rows)
            self.assert_equal(np.concatenate(codes), self.codes)
            self.assert_equal(np.concatenate(ids), self.ids)

    def test_spooled(self):
        self.write("a", slice(0, 300))
        self.write("b", slice(300, 1000))
        done = []
        parts = code_parts.CodeParts("codes/*.parquet")
        with importing.spooled(parts, "codes", done.append) as (codes, ids):
            self.assert_equal(codes, self.codes)
            self.assert_equal(ids, self.ids)
            # Files without a name.
            self.assertLen(os.listdir("codes"), 2)
        self.assertEqual(done[-1], 1000)
        self.write("b", slice(300, 900))
        with (
            self.assertRaisesRegex(ValueError, "must be 1000 codes.*: 900"),
            importing.spooled(parts, "codes"),
        ):
            pass

    def run_ok(self, *args):
        out, error = tool_runner.run_tool(*args)
        self.assertIsNone(error)
        return out

    def run_bad(self, message, *flags):
        _, error = tool_runner.run_tool("index", *flags)
        self.assertRegex(error or "no error", f"(?s)^error: .*{message}")

    def test_flags(self):
        self.write()
        codes = "--codes=codes/*.parquet"
        index = "--index=faiss:a.npz"
        self.run_bad("--ids is for .npy", codes, index, "--ids=a.npy")
        self.run_bad("not both", codes, index, "--append", "--resume")
        self.run_bad("neither", codes, index, "--mapped", "--resume")
        self.run_bad("which names none", "--codes=x/*.parquet", index)
        self.run_bad("--resume is for", "--codes=a.npy", index, "--resume")
        self.run_bad("there is none", codes, index, "--append")
        self.assertCountEqual(os.listdir("."), ["codes"])
        self.run_ok("index", codes, index)
        self.run_bad("which exists", codes, index)
        self.run_bad("which exists", codes, index, "--mapped")
        self.run_bad("twice", codes, index, "--append")
        self.run_ok("index", codes, index, "--mapped", "--overwrite")
        out = self.run_ok("index", codes, "--index=faiss:b.npz", "--resume")
        self.assertIn("1000 of 1000 codes added", out)

    def test_resume_with_other_codes(self):
        self.write()
        flags = ("--codes=codes/*.parquet", "--index=faiss:a.npz")
        self.run_ok("index", *flags)
        self.codes = self.codes[::-1]
        self.write()
        self.run_bad("with another code", *flags, "--resume")
        self.write(fingerprint="other")
        self.run_bad("or rebuild", *flags, "--resume")
        self.assertLen(HammingIndex.load("a.npz"), 1000)

    def test_more_than_memory(self):
        self.write()
        free = mock.Mock(available=10_000)
        flags = ("--codes=codes/*.parquet", "--index=faiss:a.npz")
        with mock.patch.object(psutil, "virtual_memory", return_value=free):
            self.run_bad("1000 codes of 21 bits.*a mapped index", *flags)
            self.run_ok("index", *flags, "--mapped")

    def test_bad_files(self):
        for name, write, message in (
            ("damaged", lambda p: p.write_bytes(b"PAR1"), "zz.parquet must be"),
            ("rows", lambda p: self.short(), "complete file"),
            ("bits", lambda p: self.write("zz", bits=True), "complete file"),
            (
                "maker",
                lambda p: self.write("zz", fingerprint=""),
                "complete file",
            ),
            (
                "other maker",
                lambda p: self.write("zz", fingerprint="x"),
                "codes of one encoder.*zz.parquet of encoder x",
            ),
            ("width", lambda p: self.write("zz", bits=33), "of one encoder"),
        ):
            with self.subTest(name):
                self.write()
                write(pathlib.Path("codes/zz.parquet"))
                self.refused(message)
        os.remove("codes/zz.parquet")
        self.write(bits=33)
        self.refused("5 bytes per row, for 33 bits. Received: fixed_size_bin")

    def test_bad_columns(self):
        for ids, message in (
            (["a"] * 5, "'id' must hold integers.*string"),
            ([1, 2, None, 4, 5], "missing ones .null. in codes/a.parquet"),
            ([1.5] * 5, "'id' must hold integers.*double"),
        ):
            support.write_codes("codes/a.parquet", self.codes[:5], ids, 21)
            self.refused(message)

    def test_damaged_page(self):
        path = pathlib.Path(self.write())
        data = bytearray(path.read_bytes())
        data[4:600] = bytes(596)
        path.write_bytes(data)
        self.refused("codes/a.parquet must be a complete Parquet file")


if __name__ == "__main__":
    absltest.main()
