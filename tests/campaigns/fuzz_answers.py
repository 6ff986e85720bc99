"""Gives the readers of a server's answers made-up JSON, guided by coverage.

    pip install atheris
    python -m tests.campaigns.fuzz_answers --seconds=600 --corpus=FOLDER

The first byte of an input chooses the reader: codes, embedding, text or
signatures; and whether the rest is the text itself, or a plan for valid JSON
in the words of the protocol. A reader may refuse with a ServingError that can
be shown, or give an array of the form asked for; anything else ends the program
with an error and the input's name. `tests/serving/answers_test.py` has the same
checks.
"""

import argparse
import json
import os
import sys

import atheris

with atheris.instrument_imports():
    from vdsh_tf.serving import answers  # noqa: F401
    from vdsh_tf.serving import errors  # noqa: F401
    from vdsh_tf.serving import rest

from tests.campaigns import rest_cases
from tests.serving import answers_test


def seeds():
    """Right answers, and some of the campaign's wrong ones."""
    for case in (*rest_cases.FORM, *rest_cases.TIME[:1]):
        for number, make in ((3, case.metadata), (0, case.predict)):
            for part in make():
                if isinstance(part, bytes):
                    body = part.partition(b"\r\n\r\n")[2][:20_000]
                    kinds = (number,) if number else (0, 1, 2)
                    yield from (bytes([48 + kind]) + body for kind in kinds)
    rows = {"codes": [[7, 16], [255, 0]], "bits": [[0.5, 1e-9]] * 2}
    for kind in range(3):
        yield bytes([48 + kind]) + json.dumps({"outputs": rows}).encode()
    for kind in range(4, 8):
        yield bytes([48 + kind]) + bytes(range(200))


WORDS = (
    *("outputs", "codes", "b64", "metadata", "signature_def", "inputs"),
    *("serving_default", "embed", "embedding", "x", "tensor_shape", "dim"),
    *("size", "unknown_rank"),
)
LEAVES = (
    *(0, 1, 2, 7, 16, 255, 256, -1, 2**31, 2**63, 10**30, 0.5, 1e39, 1e308),
    *(float("nan"), float("inf"), True, None, "", "2", "-1", "BxA=", "/wA="),
    *("f" * 200, "a\nb", "\x1b", "\ud800", [], {}),
)


def plan(source, depth=0):
    """JSON that the bytes of `source` describe."""
    kind = source.ConsumeIntInRange(0, 3)
    if kind == 0 or depth > 9:
        return LEAVES[source.ConsumeIntInRange(0, len(LEAVES) - 1)]
    count = source.ConsumeIntInRange(0, 3)
    if kind == 1:
        return [plan(source, depth + 1) for _ in range(count)]
    if kind == 2:
        return [plan(source, depth + 1)] * 2
    return {
        WORDS[source.ConsumeIntInRange(0, len(WORDS) - 1)]: plan(
            source, depth + 1
        )
        for _ in range(count)
    }


def planned(number: int, data: bytes) -> bytes:
    """The text that a plan makes, with the protocol's frame around it."""
    tree = plan(atheris.FuzzedDataProvider(data))
    if number == 3:
        inner = {"signature_def": {"signature_def": tree}}
        return json.dumps({"metadata": inner}).encode()
    return json.dumps({"outputs": tree}).encode()


def read(data: bytes) -> None:
    """Reads one input; raises when the reader does what it must not."""
    place = b"01234567".find(data[:1] or b"?")
    if place < 0:
        return
    number, text = place % 4, data[1:]
    if place >= 4:
        text = planned(number, text)
    if number == 3:
        answers_test.RestTest().use_signatures(text)
        return
    kind = answers_test.KINDS[number]
    form = answers_test.form(kind)
    answers_test.check(kind, lambda: rest.read_answer(text, form))


def main() -> None:
    """Fuzzes; ends the process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", required=True)
    args = parser.parse_args()
    os.makedirs(args.corpus, exist_ok=True)
    for number, seed in enumerate(dict.fromkeys(seeds())):
        with open(os.path.join(args.corpus, f"seed{number}"), "wb") as f:
            f.write(seed)
    options = (
        f"-max_total_time={args.seconds}",
        f"-seed={args.seed}",
        "-max_len=4096",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
    )
    atheris.Setup([sys.argv[0], *options, args.corpus], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
