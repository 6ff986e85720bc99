"""Makes the generated parts of the documents anew.

    python tools/results.py
    python tools/results.py --check

docs/results.md and the README's table come from docs/results/*.json, the
tables of flags and presets in docs/training.md from the settings. --check
writes nothing and fails where a page is stale. Takes a second.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence

from vdsh_tf import files
from vdsh_tf.config import ANY
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    check: bool = setting(False, SWITCH, "Only say what is stale.")
    root: str = setting(
        ".", ANY, "Folder of the repository.", flag=flags.FOLDER
    )


def make(args: Args) -> None:
    """Writes what is stale, or says so."""
    from vdsh_tf.research.documents import pages

    stale = pages.stale(args.root)
    if args.check and stale:
        raise ValueError(
            f"Stale: {', '.join(stale)}. Run `python tools/results.py`."
        )
    for path, text in stale.items():
        files.write_text(os.path.join(args.root, path), text)
        print(f"wrote {path}")
    if not stale:
        print("Nothing is stale.")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(make, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
