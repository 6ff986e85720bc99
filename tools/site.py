"""Writes the search page as a static site: no server, the encoder in it.

    python tools/site.py                        # the newest run -> RUN_DIR/site
    python tools/site.py --out=site --items=5000
    python -m http.server --directory=runs/digits-001/site

Encodes queries in the browser by onnxruntime-web, which npm brings when the
site is written (or name its folder with --ort). Has --items items of the run,
with pictures, chosen at random. Needs `pip install 'vdsh_tf[serve]'`. Seconds,
and those that preparing the run takes (`tools/prepare.py`).
"""

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import ClassVar

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold
from vdsh_tf.tools import serve


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    FIRST: ClassVar = ("run_dir", "out", "items", "ort")

    out: str | None = setting(
        None, ANY, "New folder; default RUN_DIR/site.", flag=flags.FOLDER
    )
    items: int = setting(5000, COUNT, "Items to search in, at most.")
    ort: str | None = setting(
        None,
        ANY,
        "`dist` folder of onnxruntime-web; default npm brings it.",
        flag=flags.FOLDER,
    )


def build(args: Args) -> None:
    """Writes the site and prints where it is."""
    serve.check_installed()
    from vdsh_tf.service import site

    out = args.out or args.directory.file("site")
    if os.path.exists(out):
        raise FileExistsError(
            f"The site must be a new folder. Received: {out}, which exists. "
            "Remove it, or name another with --out."
        )
    folder = args.directory.file("service")
    if not os.path.exists(folder):
        serve.prepare(args)
    count = site.write(out, folder, args.items, args.ort)
    size = sum(
        os.path.getsize(os.path.join(place, name))
        for place, _, names in os.walk(out)
        for name in names
    )
    print(f"{count} items, {size / 1e6:.1f} MB")
    print(f"{out}; look at it with `python -m http.server --directory={out}`")


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(build, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
