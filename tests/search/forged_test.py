"""Index files that lie, with all checksums and the digest renewed."""

import os
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import plain_hamming
from vdsh_tf.search import graph_checks
from vdsh_tf.search.hamming import HammingIndex

faiss = pytest.importorskip(
    "faiss", reason="search needs `pip install faiss-cpu`"
)
forged = pytest.importorskip("tests.support.forged")
# Small searches only lose by threads.
faiss.omp_set_num_threads(1)


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


def unlike(array):
    """Other types and shapes of the same name."""
    return (
        array.astype(np.uint16),
        array.astype(">i8"),
        array.reshape(-1)[:0],
        array.reshape(1, *array.shape),
        array[:-1],
        np.concatenate([array, array]),
    )


class ForgedTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.npz")
        self.codes = plain_hamming.random_codes(
            np.random.default_rng(0), 500, 61, 7
        )

    def save(self, kind, version=2):
        index = HammingIndex(61, kind)
        index.add(self.codes)
        if version == 1:
            forged.write_version_1(index, self.path)
        else:
            index.save(self.path)
        with np.load(self.path) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def refuse(self, **change):
        with open(self.path, "rb") as f:
            whole = f.read()
        forged.replace(self.path, **change)
        with self.assertRaisesRegex(ValueError, "complete index file"):
            HammingIndex.load(self.path)
        with open(self.path, "wb") as f:
            f.write(whole)

    @parameterized.parameters("flat", "hash", "ivf", "hnsw")
    def test_renewed_files_load(self, kind):
        """The forger works: without a change, nothing is refused."""
        self.save(kind)
        forged.replace(self.path, header={})
        self.assertLen(HammingIndex.load(self.path), 500)

    @parameterized.product(kind=("flat", "hash", "ivf", "hnsw"), version=(1, 2))
    def test_each_array(self, kind, version):
        for name, array in self.save(kind, version).items():
            if name in ("header", "digest"):
                continue
            self.refuse(**{name: None})
            if name == "structure":
                self.refuse(structure=array[:3])
                self.refuse(structure=changed(array, 2, 0))
                continue
            for other in unlike(array):
                # Any rows of codes may be centres.
                if name != "centres" or other.ndim != 2:
                    self.refuse(**{name: other})
            self.refuse(**{f"{name}2": array})

    def test_items(self):
        arrays = self.save("flat")
        self.refuse(ids=changed(arrays["ids"], 3, 4))
        # The last three of 64 bits are none of the 61.
        self.refuse(codes=changed(arrays["codes"], (9, 7), 1))
        self.refuse(header={"bits": 60})
        self.refuse(header={"kind": "hnsw"})

    @parameterized.parameters(("hnsw", 2), ("hash", 1), ("ivf", 1), ("hnsw", 1))
    def test_groups(self, kind, version):
        arrays = self.save(kind, version)
        members, starts = arrays["members"], arrays["starts"]
        self.assertLess(len(starts), len(members))
        first = np.flatnonzero(np.diff(starts) > 1)[0]
        for other in (
            changed(members, 0, members[1]),
            changed(members, 0, -1),
            changed(members, 0, 500),
            changed(members, 0, 2**62),
            np.roll(members, 1),
        ):
            self.refuse(members=other)
        for other in (
            changed(starts, 0, 1),
            changed(starts, 1, starts[2]),
            changed(starts, -1, 500),
            changed(starts, -1, -1),
            np.delete(starts, first + 1),
            starts[::-1].copy(),
        ):
            self.refuse(starts=other)

    def test_graph(self):
        arrays = self.save("hnsw")
        levels, links = arrays["levels"], arrays["links"]
        low = np.flatnonzero(levels == 1)[0]
        for value in (0, -1, 2, 7, 2**31 - 1):
            self.refuse(levels=changed(levels, low, value))
        for value in (-2, len(levels), 2**31 - 1, -(2**31)):
            self.refuse(links=changed(links, 5, value))
        for value in (-1, low, len(levels), 2**40):
            self.refuse(entry=np.array([value]))

    def test_links_stay_on_their_level(self):
        ends = np.array([0, 2, 3])
        levels = np.array([2, 1, 2], np.int32)
        links = np.array([1, -1, 2, 0, -1, 1, 0, -1], np.int32)
        entry = np.array([0])
        graph_checks.check(levels, links, entry, ends, 3)
        # Node 1 is on level 0 only.
        with self.assertRaisesRegex(ValueError, "out of level 1"):
            graph_checks.check(levels, changed(links, 2, 1), entry, ends, 3)

    def test_any_graph_that_can_be_walked(self):
        """Worse neighbours, but true ones, and an end."""
        arrays = self.save("hnsw")
        count = len(arrays["levels"])
        rng = np.random.default_rng(0)
        for links in (
            np.full_like(arrays["links"], -1),
            np.where(arrays["links"] < 0, -1, arrays["entry"]),
            rng.permutation(count)[arrays["links"]],
        ):
            links = links.astype(np.int32)
            try:
                forged.replace(self.path, links=links)
                loaded = HammingIndex.load(self.path)
            except ValueError:
                continue
            found = loaded.search(self.codes[:20], 5)
            plain_hamming.check_search(
                found, 5, self.codes[:20], self.codes, np.arange(500), False
            )

    @parameterized.parameters(
        ((10**12,), "<i8"), ((2**40, 2**40), "<i8"), ((500,), "<U1000000000")
    )
    def test_sizes_are_believed_no_further_than_the_file(self, shape, descr):
        self.save("hnsw")
        parts = forged.members(self.path)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        with open(self.path, "wb") as f:
            np.lib.format.write_array_header_1_0(f, header)
        with open(self.path, "rb") as f:
            parts["ids"] = f.read() + bytes(4000)
        forged.write(self.path, parts)
        self.check_memory()

    def test_compressed_members(self):
        """A thousand times its size, once it is read."""
        self.save("flat")
        parts = forged.members(self.path)
        parts["codes"] = forged.npy(np.zeros((10**7, 8), np.uint8))
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in parts.items():
                archive.writestr(f"{name}.npy", data)
        self.check_memory()

    def check_memory(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with self.assertRaisesRegex(ValueError, "complete index file"):
            HammingIndex.load(self.path)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # A few objects of zipfile come on top.
        self.assertLess(most, 2 * os.path.getsize(self.path) + 200_000)

    def test_locked_archive(self):
        """Flags that zipfile answers with errors of other kinds."""
        self.save("flat")
        with open(self.path, "rb") as f:
            whole = f.read()
        start = whole.rindex(b"PK\x01\x02")
        for at, value in ((8, 1), (10, 99), (6, 200), (10, 14)):
            with open(self.path, "wb") as f:
                f.write(whole[: start + at] + bytes([value]))
                f.write(whole[start + at + 1 :])
            with self.assertRaisesRegex(ValueError, "complete index file"):
                HammingIndex.load(self.path)


class CampaignTest(absltest.TestCase):
    @pytest.mark.slow
    def test_a_short_one(self):
        command = [sys.executable, "-m", "tests.campaigns.forged_index"]
        done = subprocess.run(
            [*command, "--trials=120", "--items=2000"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("120 trials, 0 failures", done.stdout)


if __name__ == "__main__":
    absltest.main()
