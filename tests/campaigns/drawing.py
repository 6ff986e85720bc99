"""Times drawing to neighbours on the page, in headless Chromium.

    python tools/serve.py                    # of a run on pictures
    python -m tests.campaigns.drawing --address=http://127.0.0.1:8000

Draws strokes piece by piece and prints the milliseconds from a move of the
pointer until the nearest items are on the screen with their pictures, beside
those that the page shows, which end when the answer is in the page. Works on a
static site, too. 18 seconds for 10 drawings.
"""

import argparse
import json
import subprocess

import numpy as np

from tests.campaigns import from_clone
from tests.support import javascript

DRIVER = from_clone.DRIVER.with_name("drawing_times.mjs")


def measure(address: str, drawings: int) -> dict[str, list[float]]:
    """Milliseconds by what they measure, one for each answered move."""
    command = ["node", DRIVER, address, javascript.chromium(), drawings]
    done = subprocess.run(
        [str(part) for part in command],
        cwd=javascript.packages(),
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="http://127.0.0.1:8000")
    parser.add_argument("--drawings", type=int, default=10)
    args = parser.parse_args()
    found = measure(args.address, args.drawings)
    names = {
        "times": "from the pointer to the screen",
        "stated": "as the page says",
    }
    for key, name in names.items():
        p50, p99, most = np.percentile(found[key], [50, 99, 100])
        print(
            f"{len(found[key])} answers, {name}: p50 {p50:.1f} ms, "
            f"p99 {p99:.1f} ms, longest {most:.1f} ms"
        )


if __name__ == "__main__":
    main()
