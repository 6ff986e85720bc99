"""Two programs add to one index at the same time.

    python -m tests.campaigns.two_appends --trials=20

Each trial starts two `tools/index.py --append` for one index file. Afterwards
the file must hold what was there and what each of the two added that ended with
0; one that refuses must say so in one line. Ends with 1 if anything was lost.
Two minutes for 20 trials on two cores.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

from tests.support import plain_hamming
from vdsh_tf.data import streams
from vdsh_tf.search import code_files
from vdsh_tf.search.hamming import HammingIndex

BITS, BASE, ADDED = 64, 20_000, 1000


class Given:
    """A hasher for rows that are codes already."""

    bits = BITS

    def __call__(self, rows):
        return rows


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--kind", default="hash")
    args = parser.parse_args(argv)
    both = one = lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.trials):
            ended, missing, left = trial(folder, args.kind, number)
            both += ended == 2
            one += ended == 1
            bad = bool(missing or left or not ended)
            lost += bad
            if bad:
                print(f"trial {number}: {ended} ended with 0; {missing} {left}")
    print(
        f"{args.trials} trials: both added in {both}, one refused in {one}, "
        f"something lost or left behind in {lost}"
    )
    return 1 if lost else 0


def trial(folder, kind, number):
    """How many ended with 0, items that are missing, files left behind."""
    rng = np.random.default_rng(number)
    path = os.path.join(folder, "index.npz")
    index = HammingIndex(BITS, kind, "maker")
    index.add(plain_hamming.random_codes(rng, BASE, BITS))
    index.save(path)
    added = [add(folder, path, i, rng) for i in range(2)]
    wanted = [set(map(bytes, index._codes.reconstruct_n(0, BASE)))]
    for codes, process in added:
        _, message = process.communicate(timeout=300)
        if process.returncode == 0:
            wanted.append(set(map(bytes, codes)))
        elif not message.startswith("error: ") or message.count("\n") > 1:
            print(message)
    found = HammingIndex.load(path)
    there = set(map(bytes, found._codes.reconstruct_n(0, len(found))))
    missing = sum(len(part - there) for part in wanted)
    left = [n for n in os.listdir(folder) if n.startswith(".")]
    os.remove(path)
    return len(wanted) - 1, missing, left


def add(folder, path, number, rng):
    """Codes, and the process that adds them."""
    codes = plain_hamming.random_codes(rng, ADDED, BITS)
    source = os.path.join(folder, f"codes{number}.npy")
    rows = streams.ArrayRows(codes)
    code_files.write(source, rows, Given(), "maker", "a test")
    command = [sys.executable, "-m", "vdsh_tf.tools.index", "--append"]
    flags = [f"--codes={source}", f"--index=faiss:{path}"]
    process = subprocess.Popen(
        [*command, *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return codes, process


if __name__ == "__main__":
    sys.exit(main())
