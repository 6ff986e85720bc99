"""Builds a search index from codes that `tools/encode.py` wrote.

    python tools/index.py                       # the newest run's codes.npy
    python tools/index.py --kind=hash --overwrite
    python tools/index.py --codes=codes.npy --ids=ids.npy --append
    python tools/index.py --index=milvus:codes.db#mnist
    python tools/index.py --kind=hash --mapped  # opens at once, shares memory

Items are numbered by row unless --ids names an int64 .npy. A second for
69,000 codes; `vdsh_tf.HammingIndex` says what the kinds are good for.
"""

import dataclasses
import sys
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold

KINDS = ("flat", "hash", "ivf", "hnsw")
_ROWS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    run_dir: str | None = setting(
        None, ANY, "Run of the codes; default the newest."
    )
    codes: str | None = setting(
        None, ANY, "File of codes; default RUN_DIR/codes.npy.", flag=flags.FILE
    )
    ids: str | None = setting(
        None, ANY, ".npy of integers; default row numbers.", flag=flags.FILE
    )
    index: str | None = setting(
        None,
        ANY,
        "faiss:path or milvus:uri#collection; default faiss:RUN_DIR/index.npz.",
        flag=flags.URI,
    )
    kind: str = setting("flat", ANY, "How to search.", flag={"choices": KINDS})
    append: bool = setting(False, SWITCH, "Add to an index that exists.")
    overwrite: bool = setting(False, SWITCH, "Replace an index that exists.")
    mapped: bool = setting(
        False, SWITCH, "Write a file that is searched where it lies on disk."
    )


def build(args: Args) -> None:
    """Fills the index and prints its size and URI."""
    from vdsh_tf.search import code_files
    from vdsh_tf.search import engines

    if args.append and args.overwrite:
        raise ValueError("Give --append or --overwrite, not both.")
    path, uri = places(args)
    codes, about = code_files.read(path)
    ids = read_ids(args.ids, len(codes))
    maker = about["fingerprint"]
    if args.mapped:
        return write_mapped(args, uri, codes, about, ids)
    # From opening to saving, or what another one adds meanwhile is lost.
    with engines.writing(uri):
        if args.append:
            index = engines.open_index(uri, maker)
        else:
            index = engines.create_index(
                uri, about["bits"], args.kind, maker, args.overwrite
            )
        fill(index, codes, ids)
        index.save()
    print(f"{len(index)} codes of {index.bits} bits, {index.kind}")
    print(uri)


def write_mapped(args: Args, uri: str, codes, about: dict, ids) -> None:
    """Writes a mapped index and prints its size and URI."""
    import os

    from vdsh_tf.search import checks
    from vdsh_tf.search import engines
    from vdsh_tf.search import mapped

    engine, place, _ = engines.parse(uri)
    if engine != "faiss" or args.append:
        raise ValueError(
            "--mapped writes a new file: it needs --index=faiss:path and no "
            f"--append. Received: {uri}, --append={args.append}."
        )
    with engines.writing(uri):
        if os.path.exists(place) and not args.overwrite:
            raise checks.exists(uri)
        mapped.write(
            place, codes, about["bits"], args.kind, ids, about["fingerprint"]
        )
    print(f"{len(codes)} codes of {about['bits']} bits, {args.kind}, mapped")
    print(uri)


def places(args: Args) -> tuple[str, str]:
    """File of the codes and URI of the index."""
    if args.codes and args.index:
        return args.codes, args.index
    from vdsh_tf.training import runs

    directory = runs.select(args.run_dir)
    return (
        args.codes or directory.file("codes.npy"),
        args.index or f"faiss:{directory.file('index.npz')}",
    )


def read_ids(path: str | None, count: int):
    """Ids from a file, or None."""
    from vdsh_tf.data import streams
    from vdsh_tf.search import checks

    if path is None:
        return None
    try:
        ids = streams.map_file(path)
    except ValueError as error:
        raise ValueError(
            f"--ids must name a .npy file of integers. Received: {path}. "
            f"Cause: {error}"
        ) from error
    return checks.check_ids(ids, count)


def fill(index, codes, ids) -> None:
    """Adds codes in parts, so that few are in memory at a time."""
    import numpy as np

    with scaffold.progress(len(codes), "code") as progress:
        for start in range(0, len(codes), _ROWS):
            part = np.array(codes[start : start + _ROWS])
            index.add(part, None if ids is None else ids[start : start + _ROWS])
            progress(start + len(part))


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(build, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
