"""One way to open an index, wherever it lives.

`faiss:path` is a file of this machine (`HammingIndex`, or `MappedIndex` if it
was written to be mapped);
`milvus:uri#collection` is a collection of a Milvus server or, when the URI is
a path that ends in `.db`, of the embedded Milvus Lite (`MilvusIndex`), and
`milvus:uri#collection/partition` a part of one.
"""

import contextlib
import os
from collections.abc import Iterator

from vdsh_tf import files
from vdsh_tf.search import checks
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.search.mapped import MappedIndex
from vdsh_tf.search.milvus import MilvusIndex


def open_index(
    uri: str, encoder=None
) -> HammingIndex | MappedIndex | MilvusIndex:
    """Opens an index that exists.

    Args:
        uri: `faiss:path` or `milvus:uri#collection`; `/partition` may follow.
        encoder: what will make the queries; an index of another encoder is
            refused. None skips the check.
    """
    engine, place, collection = parse(uri)
    if engine == "faiss":
        return HammingIndex.load(place, encoder)
    return MilvusIndex.open(place, collection, encoder)


def create_index(
    uri: str, bits: int, kind: str = "flat", encoder=None, overwrite=False
) -> HammingIndex | MilvusIndex:
    """Makes an empty index; `save` it after adding.

    Args:
        uri: as for `open_index`.
        bits: code length K.
        kind: see `HammingIndex`; Milvus has "flat" and, on a server, "ivf".
        encoder: what makes the codes.
        overwrite: whether an index of this name may be replaced. A file is
            replaced by `save`, a collection at once.
    """
    engine, place, collection = parse(uri)
    if engine == "milvus":
        return MilvusIndex.create(
            place, collection, bits, kind, encoder, overwrite
        )
    if os.path.exists(place) and not overwrite:
        raise checks.exists(uri)
    index = HammingIndex(bits, kind, encoder)
    index.path = place
    return index


@contextlib.contextmanager
def writing(uri: str, timeout: float = 60) -> Iterator[None]:
    """Keeps other programs of this machine from changing an index meanwhile.

    Between opening an index and saving it, another program's changes would
    be lost. A Milvus server is not locked: it keeps what each one adds.

    Args:
        uri: as for `open_index`; need not exist.
        timeout: seconds to wait for the other one.
    """
    engine, place, _ = parse(uri)
    if engine == "milvus" and not place.endswith(".db"):
        yield
        return
    # The embedded engine has a lock of its own beside its file. A second one of
    # the same name would release it, and the engine ends when that happens.
    with files.locked(
        f"{place}.index" if engine == "milvus" else place, timeout
    ):
        yield


def parse(uri: str) -> tuple[str, str, str]:
    """Engine, place and collection ("" for faiss) of an index URI."""
    engine, colon, place = str(uri).partition(":")
    collection = ""
    if engine == "milvus":
        place, _, collection = place.rpartition("#")
    known = engine in ("faiss", "milvus") and colon
    if not known or not place or (engine == "milvus" and not collection):
        raise ValueError(
            "An index must be named as faiss:path or milvus:uri#collection, "
            "such as faiss:runs/mnist-001/index.npz, milvus:codes.db#mnist or "
            f"milvus:http://localhost:19530#mnist. Received: {uri!r}."
        )
    return engine, place, collection
