"""Index files: complete or refused, whatever happens to them."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from unittest import mock

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import forged
from tests.support import plain_hamming
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.search import archives
from vdsh_tf.search.hamming import HammingIndex

faiss = pytest.importorskip(
    "faiss", reason="search needs `pip install faiss-cpu`"
)
# Small searches only lose by threads.
faiss.omp_set_num_threads(1)


class FileTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.index")
        self.codes = plain_hamming.random_codes(
            np.random.default_rng(0), 500, 61, 7
        )

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_round_trip(self, kind):
        index = HammingIndex(61, kind, encoder="f" * 32)
        index.add(self.codes, np.arange(500) - 250)
        index.save(self.path)
        loaded = HammingIndex.load(self.path, encoder="f" * 32)
        self.assertEqual(
            (loaded.bits, loaded.kind, loaded.fingerprint, len(loaded)),
            (61, kind, "f" * 32, 500),
        )
        got, want = (i.search(self.codes, 7) for i in (loaded, index))
        np.testing.assert_array_equal(got.ids, want.ids)
        np.testing.assert_array_equal(got.distances, want.distances)
        loaded.remove([0])
        loaded.add(self.codes[250:251], [0])
        order = np.argsort(loaded.ids)
        np.testing.assert_array_equal(loaded.ids[order], np.arange(500) - 250)
        found = loaded.radius_search(self.codes[:9], 2)
        plain_hamming.check_ball(
            found, 2, self.codes[:9], self.codes, np.arange(500) - 250
        )

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_empty_round_trip(self, kind):
        HammingIndex(61, kind).save(self.path)
        loaded = HammingIndex.load(self.path)
        self.assertEmpty(loaded)
        loaded.add(self.codes)
        self.assertLen(loaded, 500)

    def test_another_encoder(self):
        first, second = (HashEncoder(2, 8, 61, seed=s) for s in (1, 2))
        for encoder in (first, second):
            encoder.build((None, 4))
        index = HammingIndex(61, encoder=first)
        index.add(self.codes)
        index.save(self.path)
        self.assertLen(HammingIndex.load(self.path, first), 500)
        with self.assertRaisesRegex(ValueError, r"tools/index.py.*overwrite"):
            HammingIndex.load(self.path, second)

    def test_unnamed_encoder_is_not_trusted(self):
        index = HammingIndex(61)
        index.save(self.path)
        with self.assertRaisesRegex(ValueError, "an unnamed encoder"):
            HammingIndex.load(self.path, "f" * 32)

    @parameterized.parameters("flat", "ivf")
    def test_truncated_anywhere(self, kind):
        index = HammingIndex(61, kind)
        index.add(self.codes)
        index.save(self.path)
        with open(self.path, "rb") as f:
            whole = f.read()
        for size in {0, 1, 100, len(whole) // 2, len(whole) - 1}:
            with open(self.path, "wb") as f:
                f.write(whole[:size])
            with self.assertRaisesRegex(ValueError, "complete index file"):
                HammingIndex.load(self.path)

    def test_flipped_byte(self):
        index = HammingIndex(61)
        index.add(self.codes)
        index.save(self.path)
        with zipfile.ZipFile(self.path) as archive:
            start = archive.getinfo("codes.npy").header_offset
        with open(self.path, "r+b") as f:
            f.seek(start + 1000)
            byte = f.read(1)[0]
            f.seek(start + 1000)
            f.write(bytes([byte ^ 4]))
        with self.assertRaisesRegex(ValueError, "damaged"):
            HammingIndex.load(self.path)

    @parameterized.named_parameters(
        ("no_digest", {"version": 2}),
        ("version", {"version": 3}),
        ("format", {"format": "other"}),
        ("kind", {"kind": "tree"}),
        ("bits", {"bits": 128}),
        ("count", {"count": 3}),
        ("structure", {"kind": "hash"}),
        ("kind_type", {"kind": ["flat"]}),
        ("bits_type", {"bits": "61"}),
        ("bits_bool", {"bits": True}),
        ("bits_many", {"bits": 10**12, "count": 0}),
        ("count_type", {"count": 500.0}),
        ("count_sign", {"count": -1}),
        ("fingerprint_type", {"fingerprint": 7}),
    )
    def test_header_does_not_suit(self, change):
        header = {
            "format": "vdsh_tf index",
            "version": 1,
            "bits": 61,
            "kind": "flat",
            "count": 500,
            "fingerprint": None,
        }
        arrays = {"codes": self.codes, "ids": np.arange(500)}
        for extra in ({}, change):
            text = np.array(json.dumps({**header, **extra}))
            with open(self.path, "wb") as f:
                np.savez(f, header=text, **arrays)
            if not extra:
                self.assertLen(HammingIndex.load(self.path), 500)
        with self.assertRaisesRegex(ValueError, "complete index file"):
            HammingIndex.load(self.path)

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_version_1(self, kind):
        """Without a digest, and with bytes of faiss, which are not used."""
        index = HammingIndex(61, kind, encoder="f" * 32)
        index.add(self.codes, np.arange(500) - 250)
        forged.write_version_1(index, self.path)
        loaded = HammingIndex.load(self.path, encoder="f" * 32)
        got, want = (i.search(self.codes, 7) for i in (loaded, index))
        np.testing.assert_array_equal(got.distances, want.distances)
        np.testing.assert_array_equal(loaded.ids, index.ids)
        loaded.save()
        self.assertIsNotNone(archives.read_digest(self.path))

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_after_adding(self, kind):
        """Items that came after the structure are in the file, too."""
        index = HammingIndex(61, kind)
        index.add(self.codes[:300])
        index.save(self.path)
        index.add(self.codes[300:])
        index.save()
        loaded = HammingIndex.load(self.path)
        found = loaded.search(self.codes, 7)
        plain_hamming.check_search(
            found,
            7,
            self.codes,
            self.codes,
            np.arange(500),
            exact=kind in ("flat", "hash"),
        )

    def test_save_would_undo_what_others_added(self):
        index = HammingIndex(61)
        index.add(self.codes[:10])
        index.save(self.path)
        one, other = (HammingIndex.load(self.path) for _ in range(2))
        one.add(self.codes[10:20])
        one.save()
        other.add(self.codes[20:25])
        with self.assertRaisesRegex(ValueError, "changed since"):
            other.save()
        self.assertLen(HammingIndex.load(self.path), 20)
        other.save(self.path + "2")
        self.assertLen(HammingIndex.load(self.path + "2"), 15)
        # Its own changes do not count.
        one.add(self.codes[20:30])
        one.save()
        self.assertLen(HammingIndex.load(self.path), 30)

    def test_other_files(self):
        np.save(self.path + ".npy", self.codes)
        with self.assertRaisesRegex(ValueError, "another kind"):
            HammingIndex.load(self.path + ".npy")
        with self.assertRaisesRegex(FileNotFoundError, "there is none"):
            HammingIndex.load(self.path)

    def test_save_needs_a_folder(self):
        with self.assertRaisesRegex(FileNotFoundError, "folder"):
            HammingIndex(8).save(os.path.join(self.path, "x", "y"))
        with self.assertRaisesRegex(ValueError, "where to save"):
            HammingIndex(8).save()

    def test_failed_save_leaves_the_old_file(self):
        index = HammingIndex(61)
        index.add(self.codes[:3])
        index.save(self.path)
        index.add(self.codes[3:])

        def half(f, **kwargs):
            f.write(b"half of it")
            raise OSError("No space left on device")

        with (
            mock.patch.object(archives.np, "savez", half),
            self.assertRaisesRegex(OSError, "No space"),
        ):
            index.save(self.path)
        self.assertLen(HammingIndex.load(self.path), 3)
        self.assertLen(os.listdir(os.path.dirname(self.path)), 1)

    def test_killed_save_leaves_the_old_file(self):
        """Killed between arrays, before the flush and before the rename."""
        script = textwrap.dedent(
            """
            import os, signal, sys, zipfile
            import numpy as np
            from vdsh_tf.search.hamming import HammingIndex

            def killed(function, calls):
                def call(*args, **kwargs):
                    calls.pop()
                    if not calls:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return function(*args, **kwargs)
                return call

            old, new = HammingIndex(64), HammingIndex(64)
            old.add(np.zeros((3, 8), np.uint8))
            new.add(np.zeros((20_000, 8), np.uint8))
            old.save(sys.argv[1])
            points = ((zipfile.ZipFile, "open", 3), (os, "fsync", 1))
            for owner, name, calls in (*points, (os, "replace", 1)):
                child = os.fork()
                if child == 0:
                    function = killed(getattr(owner, name), [0] * calls)
                    setattr(owner, name, function)
                    new.save(sys.argv[1])
                    os._exit(0)
                _, status = os.waitpid(child, 0)
                assert os.WIFSIGNALED(status), name
                assert len(HammingIndex.load(sys.argv[1])) == 3, name
            """
        )
        subprocess.run([sys.executable, "-c", script, self.path], check=True)
        # The index, and what the last of them left: its lock and its half of
        # a file. Each has removed those of the one before; so does the next.
        self.assertLen(os.listdir(os.path.dirname(self.path)), 3)
        HammingIndex(64).save(self.path)
        self.assertLen(os.listdir(os.path.dirname(self.path)), 1)


if __name__ == "__main__":
    absltest.main()
