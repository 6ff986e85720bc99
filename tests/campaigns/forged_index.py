"""Changes one byte anywhere in an index file, all checksums renewed.

    python -m tests.campaigns.forged_index --trials=2000

For each of the four kinds of index, and three ways to treat the digest:

kept     it stays as it was: one who does not know of it
renewed  it is computed again: one who does
version1 the file is of version 1, which has none

A trial loads the file and searches it, in a process of its own. It is refused,
gives the answers of the file before, or other ones that are true of the codes
that the file now holds (which no check can notice where the digest is not
kept). Anything else counts as a failure, and the program ends with 1: wrong
answers, errors that are not the library's own, crashes, hangs, more memory for
loading than twice the file and a megabyte. Memory is printed over the size of
the file. Ten minutes for 2,000 trials. Linux only.
"""

import argparse
import collections
import functools
import os
import sys
import tempfile

import faiss
import numpy as np

from tests.campaigns import isolated
from tests.support import forged
from tests.support import plain_hamming
from vdsh_tf.search.hamming import KINDS
from vdsh_tf.search.hamming import HammingIndex

BITS = 61
WAYS = ("kept", "renewed", "version1")
GOOD = ("refused", "same", "other, true")
K, RADIUS = 5, 2
# Memory beyond twice the file that Python itself may take.
SLACK = 1 << 20


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--digest", choices=WAYS, help="one way only")
    args = parser.parse_args(argv)
    # A copy of a process has none of its threads.
    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(args.seed)
    ways = [args.digest] if args.digest else WAYS
    cases = [(kind, way) for way in ways for kind in KINDS]
    bad = 0
    print("digest   kind  trials refused same other,true bad  memory (intact)")
    with tempfile.TemporaryDirectory() as folder:
        bases = [Base(folder, *case, args.items) for case in cases]
        for number, base in enumerate(bases):
            # As many as the others, or one more.
            trials = len(range(number, args.trials, len(bases)))
            bad += base.report(trials, rng)
    print(f"{args.trials} trials, {bad} failures")
    return 1 if bad else 0


class Base:
    """An index file to forge, and what it answers."""

    def __init__(self, folder: str, kind: str, way: str, items: int):
        self.kind, self.way = kind, way
        self.path = os.path.join(folder, f"{kind}-{way}.npz")
        rng = np.random.default_rng(1)
        # A graph takes 20 times the room and a hundred times the time.
        items = items // 10 if kind == "hnsw" else items
        # Half of them near a few centres, as trained codes are.
        half = items // 2
        codes = np.concatenate(
            [
                plain_hamming.random_codes(rng, half, BITS, 40),
                plain_hamming.random_codes(rng, items - half, BITS),
            ]
        )
        self.small = self.path.replace(".npz", "-small.npz")
        few = len(codes[:500])
        self.save(codes[:few], rng.permutation(few), self.small)
        self.save(codes, rng.permutation(items) * 7, self.path)
        self.size = os.path.getsize(self.path)
        self.parts = forged.members(self.path)
        self.queries = np.concatenate([codes[:10], codes[-10:]])
        loaded = HammingIndex.load(self.path)
        self.answers = answers(loaded, self.queries)

    def save(self, codes, ids, path) -> None:
        index = HammingIndex(BITS, self.kind, "a" * 32)
        index.add(codes, ids)
        if self.way == "version1":
            forged.write_version_1(index, path)
        else:
            index.save(path)

    def report(self, trials: int, rng) -> int:
        """Runs the trials; prints a line, and the failures."""
        counts: collections.Counter[str] = collections.Counter()
        forged.write(self.path, self.parts)
        intact = self.memory()
        largest = 0
        for _ in range(trials):
            place = self.forge(rng)
            found = isolated.call(self.trial)
            memory = self.memory()
            largest = max(largest, memory)
            verdict = found.verdict
            if memory > 2 * self.size + SLACK:
                verdict = f"{memory} bytes of memory"
            counts[verdict if verdict in GOOD else "bad"] += 1
            if verdict not in GOOD:
                print(f"  {place}: {verdict}")
        cells = " ".join(f"{counts[name]:7}" for name in GOOD)
        print(
            f"{self.way:8} {self.kind:5} {trials:6} {cells} {counts['bad']:5} "
            f"  {largest / self.size:.2f} ({intact / self.size:.2f}) "
            f"x {self.size} bytes",
            flush=True,
        )
        return counts["bad"]

    def memory(self) -> int:
        """Bytes that loading takes at most."""
        load = functools.partial(self.load, self.path)
        warm = functools.partial(self.load, self.small)
        return isolated.call(load, warm=warm).peak

    def forge(self, rng) -> str:
        """Writes the file with one byte changed; says which."""
        name = rng.choice(sorted(self.parts))
        data = bytearray(self.parts[name])
        at = int(rng.integers(len(data)))
        data[at] ^= int(rng.integers(1, 256))
        parts = {**self.parts, name: bytes(data)}
        if self.way == "renewed" and name != "digest":
            parts = forged.with_digest(parts)
        forged.write(self.path, parts)
        return f"{self.kind}, {self.way}, byte {at} of {name}"

    def load(self, path: str) -> str:
        """Loads a file and forgets it."""
        try:
            HammingIndex.load(path)
        except ValueError:
            return "refused"
        return "loaded"

    def trial(self) -> str:
        """Loads and searches the file."""
        try:
            index = HammingIndex.load(self.path)
        except ValueError as error:
            return "refused" if "anew" in str(error) else f"says: {error}"
        # More queries than the file knew, and items, as users go on.
        found = answers(index, self.queries)
        wrong = untrue(found, index, self.queries, self.path)
        if wrong:
            return f"wrong: {wrong}"
        same = equal(found, self.answers)
        if self.way == "kept" and not same:
            return "wrong: another answer, and the digest is as it was"
        index.add(self.queries)
        index.search(self.queries, K)
        return "same" if same else "other, true"


def answers(index, queries):
    found = index.search(queries, K)
    ball = index.radius_search(queries, RADIUS)
    hits = [ball.sorted_hits(i) for i in range(len(queries))]
    return found.distances, found.ids, hits


def equal(one, other) -> bool:
    pairs = [*zip(one[:2], other[:2], strict=True)]
    pairs += zip(one[2], other[2], strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def untrue(found, index, queries, path) -> str:
    """What is not true of the codes in the file, or ""."""
    with np.load(path) as arrays:
        codes, ids = arrays["codes"], arrays["ids"]
    distances, hits, balls = found
    row_of = dict(zip(ids.tolist(), range(len(ids)), strict=True))
    for q, query in enumerate(queries):
        all_of = np.bitwise_count(codes ^ query).sum(axis=1, dtype=np.int64)
        rows = [row_of[number] for number in hits[q].tolist()]
        if len(set(rows)) != K or (all_of[rows] != distances[q]).any():
            return f"neighbours of query {q}"
        exact = index.kind in ("flat", "hash")
        if exact and (np.sort(all_of)[:K] != distances[q]).any():
            return f"nearest of query {q}"
        near = np.flatnonzero(all_of <= RADIUS)
        if sorted(ids[near].tolist()) != sorted(balls[q][1].tolist()):
            return f"ball of query {q}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
