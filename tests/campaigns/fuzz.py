"""Gives the readers of files made-up bytes, guided by what these reach.

    python -m tests.campaigns.fuzz index --seconds=600

Readers: index, codes (with their record), rows (.npy and .npz to encode),
config (of a run). With `pip install atheris`, inputs that reach new lines of
the code are kept and changed further; without it, inputs are changed at random.
A reader may refuse with one of the library's own errors, or give what is true
of the file; anything else ends the program with an error and the input's name.
Checksums and digests are right: what lies behind them is tried.
"""

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import time

try:
    import atheris
except ImportError:
    atheris = None

with atheris.instrument_imports() if atheris else contextlib.nullcontext():
    from vdsh_tf.data import streams
    from vdsh_tf.search import archives  # noqa: F401
    from vdsh_tf.search import code_files
    from vdsh_tf.search import hamming
    from vdsh_tf.search import restoring  # noqa: F401
    from vdsh_tf.training import runs

import faiss
import numpy as np

from tests.support import forged
from tests.support import plain_hamming

# Between the parts of an input.
MARK = b"\n--part--\n"
CODES = plain_hamming.random_codes(np.random.default_rng(0), 24, 13, 5)


def expect(words: str, error: Exception) -> None:
    """Raises unless an error is the reader's own."""
    if words not in str(error):
        raise RuntimeError(f"without {words!r}: {error}") from error


class Index:
    """Arrays of an index file; the archive around them is right."""

    def seeds(self, path):
        for kind in hamming.KINDS:
            index = hamming.HammingIndex(13, kind)
            index.add(CODES)
            index.save(path)
            yield self._join(path)
            forged.write_version_1(index, path)
            yield self._join(path)

    def read(self, data, path):
        about, *parts = data.split(MARK)
        names = about.decode("latin1").split(",")[:12]
        pairs = zip(names, parts, strict=False)
        members = {name: part for name, part in pairs if name.isidentifier()}
        if "digest" in members:
            members = forged.with_digest(members)
        forged.write(path, members)
        try:
            index = hamming.HammingIndex.load(path)
        except ValueError as error:
            expect("complete index file", error)
            return
        with np.load(path) as arrays:
            codes, ids = arrays["codes"], arrays["ids"]
        if len(index):
            k = min(3, len(index))
            exact = index.kind in ("flat", "hash")
            found = index.search(codes[:4].copy(), k)
            plain_hamming.check_search(found, k, codes[:4], codes, ids, exact)
            found = index.radius_search(codes[:4].copy(), 1)
            plain_hamming.check_ball(found, 1, codes[:4], codes, ids)

    def _join(self, path):
        members = forged.members(path)
        names = ",".join(members)
        return MARK.join([names.encode(), *members.values()])


class Codes:
    """A file of codes and its record."""

    def seeds(self, path):
        record = {"bits": 13, "count": len(CODES), "fingerprint": "abc"}
        yield MARK.join([json.dumps(record).encode(), forged.npy(CODES)])
        record["sha256"] = "0" * 64
        yield MARK.join([json.dumps(record).encode(), forged.npy(CODES)])

    def read(self, data, path):
        record, _, codes = data.partition(MARK)
        for name, part in ((path, codes), (f"{path}.json", record)):
            with open(name, "wb") as f:
                f.write(part)
        try:
            found, about = code_files.read(path)
        except ValueError as error:
            expect("Encode again", error)
            return
        assert found.shape == (about["count"], (about["bits"] + 7) // 8)
        assert isinstance(about["fingerprint"], str)


class Rows:
    """Files to encode."""

    def seeds(self, path):
        yield forged.npy(np.ones((3, 4, 2), np.float32))
        for save in (np.savez, np.savez_compressed):
            with open(path, "wb") as f:
                save(f, x=np.ones((3, 4), np.uint8))
            with open(path, "rb") as f:
                yield f.read()

    def read(self, data, path):
        with open(path, "wb") as f:
            f.write(data)
        try:
            rows = streams.open_rows(path)
            found = sum(map(len, rows.batches(1000)))
        except ValueError as error:
            expect(path, error)
            return
        assert found == rows.shape[0] >= 0


class Config:
    """config.json of a run."""

    def seeds(self, path):
        from vdsh_tf.training.config import TrainingConfig

        yield json.dumps(TrainingConfig().to_json()).encode()

    def read(self, data, path):
        folder = os.path.dirname(path)
        with open(os.path.join(folder, "config.json"), "wb") as f:
            f.write(data)
        with contextlib.suppress(ValueError):
            _ = runs.RunDirectory.open(folder).config


TARGETS = {"index": Index, "codes": Codes, "rows": Rows, "config": Config}


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="no atheris")
    args = parser.parse_args(argv)
    faiss.omp_set_num_threads(1)
    target = TARGETS[args.target]()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.npz")
        seeds = list(target.seeds(path))
        if atheris and not args.random:
            guided(target, path, seeds, args)
        else:
            mutated(target, path, seeds, args)
    return 0


def guided(target, path, seeds, args) -> None:
    """Fuzzes by coverage; ends the process."""
    corpus = tempfile.mkdtemp()
    for number, seed in enumerate(seeds):
        with open(os.path.join(corpus, f"seed{number}"), "wb") as f:
            f.write(seed)
    atheris.Setup(
        [
            sys.argv[0],
            f"-max_total_time={args.seconds}",
            f"-seed={args.seed}",
            f"-max_len={2 * max(map(len, seeds))}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            corpus,
        ],
        lambda data: target.read(data, path),
    )
    atheris.Fuzz()


def mutated(target, path, seeds, args) -> None:
    """Changes seeds at random for a while; prints how many were tried."""
    source = random.Random(args.seed)
    end = time.monotonic() + args.seconds
    tried = 0
    while time.monotonic() < end:
        data = change(source.choice(seeds), source)
        try:
            target.read(data, path)
        except Exception:
            with open(f"crash-{args.target}", "wb") as f:
                f.write(data)
            print(f"the input is in crash-{args.target}", file=sys.stderr)
            raise
        tried += 1
    print(f"{tried} inputs, each refused or read as it is")


def change(data: bytes, source) -> bytes:
    """Bytes set, flipped, cut out, repeated."""
    result = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 4, 16))):
        at = source.randrange(len(result) + 1)
        size = source.choice((1, 1, 2, 4, 8, 30))
        kind = source.randrange(5)
        if kind == 0:
            result[at : at + size] = source.randbytes(size)
        elif kind == 1 and at < len(result):
            result[at] ^= 1 << source.randrange(8)
        elif kind == 2:
            del result[at : at + size]
        elif kind == 3:
            result[at:at] = result[at : at + size]
        else:
            result[at : at + 1] = source.choice((b"\0", b"\xff", b"-", b"9"))
    return bytes(result)


if __name__ == "__main__":
    sys.exit(main())
