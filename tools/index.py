"""Builds a search index from codes that `tools/encode.py` wrote.

    python tools/index.py                       # the newest run's codes.npy
    python tools/index.py --kind=hash --overwrite
    python tools/index.py --codes=codes.npy --ids=ids.npy --append
    python tools/index.py --index=milvus:codes.db#mnist
    python tools/index.py --kind=hash --mapped  # opens at once, shares memory
    python tools/index.py --codes='codes/*.parquet' --index=milvus:codes.db#all
    python tools/index.py --codes='codes/*.parquet' --index=milvus:... --resume

Items are numbered by row unless --ids names an int64 .npy; Parquet files have
their ids with them. --resume goes on with an import that was interrupted: what
the index has is skipped. A second for 69,000 codes; `vdsh_tf.HammingIndex` says
what the kinds are good for. milvus:uri#collection/partition names a partition.
"""

import dataclasses
import sys
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import interrupts
from vdsh_tf.tools import scaffold

KINDS = ("flat", "hash", "ivf", "hnsw")
_ROWS = 1 << 16
KEPT = (
    "what Milvus was given is kept, a file is as it was before. The same "
    "command with --resume goes on"
)


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    run_dir: str | None = setting(
        None, ANY, "Run of the codes; default the newest."
    )
    codes: str | None = setting(
        None,
        ANY,
        "File of codes, or pattern of Parquet files; default "
        "RUN_DIR/codes.npy.",
        flag=flags.FILE,
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
    resume: bool = setting(
        False, SWITCH, "Go on with an interrupted import of Parquet files."
    )
    mapped: bool = setting(
        False, SWITCH, "Write a file that is searched where it lies on disk."
    )


def build(args: Args) -> None:
    """Fills the index and prints its size and URI."""
    from vdsh_tf.search import code_files
    from vdsh_tf.search import engines

    if args.append + args.overwrite + args.resume > 1:
        raise ValueError(
            "Give one of --append, --overwrite and --resume, not both."
        )
    path, uri = places(args)
    if path.endswith(".parquet"):
        return import_parts(args, path, uri)
    if args.resume:
        raise ValueError(
            "--resume is for imports of Parquet files, such as "
            f"--codes='codes/*.parquet'. Received: {path}."
        )
    codes, about = code_files.read(path)
    ids = read_ids(args.ids, len(codes))
    maker = about["fingerprint"]
    if args.mapped:
        return write_mapped(args, uri, codes, about["bits"], ids, maker)
    # From opening to saving, or what another one adds meanwhile is lost.
    with engines.writing(uri):
        index = open_or_create(args, uri, about["bits"], maker)
        fill(index, codes, ids)
        index.save()
    print(f"{len(index)} codes of {index.bits} bits, {index.kind}")
    print(uri)


def import_parts(args: Args, pattern: str, uri: str) -> None:
    """Fills the index from Parquet files of codes."""
    import os

    from vdsh_tf.encoding import code_parts
    from vdsh_tf.search import engines
    from vdsh_tf.search import importing

    if args.ids:
        raise ValueError(
            "--ids is for .npy codes; Parquet files have a column id. "
            f"Received: --ids={args.ids}, --codes={pattern}."
        )
    source = code_parts.CodeParts(pattern)
    maker = source.fingerprint
    with scaffold.progress(len(source), "code") as progress:
        if args.mapped:
            folder = os.path.dirname(check_mapped(args, uri))
            with importing.spooled(source, folder, progress) as (codes, ids):
                write_mapped(args, uri, codes, source.bits, ids, maker)
            return
        with engines.writing(uri), interrupts.keeping(lambda: KEPT):
            index = open_or_create(args, uri, source.bits, maker)
            added = importing.fill(index, source, args.resume, progress)
            index.save()
    print(f"{added} of {len(source)} codes added")
    print(f"{len(index)} codes of {index.bits} bits, {index.kind}")
    print(uri)


def open_or_create(args: Args, uri: str, bits: int, maker: str):
    """The index to fill; with --resume, the one that was begun."""
    from vdsh_tf.search import engines

    if args.append:
        return engines.open_index(uri, maker)
    if args.resume:
        try:
            return engines.open_index(uri, maker)
        except FileNotFoundError:
            # Nothing was added yet.
            pass
    return engines.create_index(uri, bits, args.kind, maker, args.overwrite)


def check_mapped(args: Args, uri: str) -> str:
    """Path of the mapped index to write."""
    import os

    from vdsh_tf.search import checks
    from vdsh_tf.search import engines

    engine, place, _ = engines.parse(uri)
    if engine != "faiss" or args.append or args.resume:
        raise ValueError(
            "--mapped writes a new file: it needs --index=faiss:path and "
            f"neither --append nor --resume. Received: {uri}, "
            f"--append={args.append}, --resume={args.resume}."
        )
    if os.path.exists(place) and not args.overwrite:
        raise checks.exists(uri)
    return place


def write_mapped(args: Args, uri: str, codes, bits: int, ids, maker) -> None:
    """Writes a mapped index and prints its size and URI."""
    from vdsh_tf.search import engines
    from vdsh_tf.search import mapped

    with engines.writing(uri):
        place = check_mapped(args, uri)
        mapped.write(place, codes, bits, args.kind, ids, maker)
    print(f"{len(codes)} codes of {bits} bits, {args.kind}, mapped")
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
