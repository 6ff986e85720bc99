"""Finds what is near: a file of queries -> ids and distances.

    python tools/query.py                       # the newest run's queries
    python tools/query.py --queries=photos/ --k=5 --plot=found.png
    python tools/query.py --queries=features.npy --radius=2 --out=hits.json
    python tools/query.py --server=http://localhost:8501

Writes CSV (query, rank, id, distance) or, to a name that ends in .json, JSON.
--plot shows the first queries with their neighbours, for runs on images; ids
must then be row numbers of --database. With --server the queries are encoded
there, and a server whose encoder did not make the index is refused. Needs
`tools/encode.py` and `tools/index.py` first. Seconds, most of them to start.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import ClassVar

from vdsh_tf.config import ANY
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    FIRST: ClassVar = ("queries", "k", "radius", "index", "out", "run_dir")

    queries: str = setting(
        "query",
        ANY,
        "File, folder, or the run's own query or database.",
        flag=flags.FILE,
    )
    index: str | None = setting(
        None,
        ANY,
        "faiss:path or milvus:uri#collection; default faiss:RUN_DIR/index.npz.",
        flag=flags.URI,
    )
    k: int = setting(10, ANY, "Number of neighbours.")
    radius: int | None = setting(
        None, ANY, "All within so many bits, instead of k."
    )
    out: str | None = setting(
        None, ANY, ".csv or .json; default CSV to the screen.", flag=flags.FILE
    )
    plot: str | None = setting(
        None, ANY, "Picture (.png) of queries and neighbours.", flag=flags.FILE
    )
    plot_rows: int = setting(10, ANY, "Queries in the picture.")
    database: str = setting(
        "database",
        ANY,
        "Where --plot finds neighbours; as --queries.",
        flag=flags.FILE,
    )
    server: str | None = setting(
        None,
        ANY,
        "http://host:8501 or grpc://host:8500 that serves the run's encoder, "
        "to encode there.",
        flag=flags.URI,
    )


@contextlib.contextmanager
def encoder(args: Args) -> Iterator[tuple[Callable, str]]:
    """What makes codes of raw rows, and its encoder's fingerprint."""
    if args.server:
        from vdsh_tf import serving

        with serving.Client(args.server) as client:
            yield client.encode, client.fingerprint()
        return
    from vdsh_tf.search.hasher import Hasher

    made = args.model.encoder
    yield Hasher(made), made.fingerprint()


def query(args: Args) -> None:
    """Searches for all queries and writes what is near them."""
    from vdsh_tf.search import engines
    from vdsh_tf.search.searcher import Searcher

    uri = args.index or f"faiss:{args.directory.file('index.npz')}"
    with encoder(args) as (encode, fingerprint):
        index = engines.open_index(uri, fingerprint)
        rows = args.rows(args.queries)
        found = Searcher(encode, index).stream(
            rows, args.queries, args.k, args.radius
        )
        write(args, found)


def write(args: Args, found) -> None:
    """Writes hits to file or screen, and the picture if there is to be one."""
    from vdsh_tf.search import answers

    plot = None
    if args.plot:
        plot = answers.Plot(
            args.plot,
            args.plot_rows,
            args.rows(args.database),
            args.directory.image_shape,
        )
    with answers.writer(args.out) as write_hits:
        for batch in found:
            write_hits(batch.hits)
            if plot is not None:
                plot.add(batch.rows, batch.hits)
    if plot is not None:
        plot.draw()


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(query, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
