"""What `MilvusIndex` keeps in Milvus: collections that say what they hold.

A collection has an int64 primary key `id`, a binary vector `code` and, if it
has partitions, their names in `part`. Its description is a JSON header. A
server prunes by `part`, which is its partition key there; the embedded engine
has no partitions of its own, and filters.
"""

import contextlib
import json
import logging
import re
from typing import NamedTuple

from vdsh_tf import config
from vdsh_tf.search import checks

# Index types of Milvus by the names that `HammingIndex` has for the same.
KINDS = {"flat": "BIN_FLAT", "ivf": "BIN_IVF_FLAT"}
# Cells of "ivf" in each segment of the server, and those that `search` looks
# into.
CELLS = 1024
PROBES = 16
_PARTITION = re.compile(r"[\w.-]{1,64}", re.ASCII)


class Header(NamedTuple):
    """What a collection says of itself.

    Attributes:
        bits, fingerprint: as in `HammingIndex`.
        kind: one of KINDS.
        partitioned: whether it has the field `part`.
    """

    bits: int
    fingerprint: str | None
    kind: str = "flat"
    partitioned: bool = False


def is_embedded(uri: str) -> bool:
    """Whether a URI is the file of Milvus Lite, and not a server."""
    return uri.endswith(".db")


def split_name(name: str) -> tuple[str, str | None]:
    """Collection and partition of `collection` or `collection/partition`."""
    collection, slash, partition = name.partition("/")
    if not slash:
        return collection, None
    if not collection or not _PARTITION.fullmatch(partition):
        raise ValueError(
            "A partition must be named as collection/partition, with up to 64 "
            "letters, digits, underscores, dots or hyphens after the slash. "
            f"Received: {name!r}."
        )
    return collection, partition


def check_kind(kind: str, uri: str) -> None:
    """Raises unless Milvus has an index of this kind there."""
    config.require(
        kind in KINDS,
        "kind",
        kind,
        f"one of {', '.join(KINDS)}",
        "the kinds that Milvus has for binary codes",
    )
    if kind != "flat" and is_embedded(uri):
        raise ValueError(
            '`kind` must be "flat" in the embedded Milvus (a path that ends '
            "in .db), which has no other index for binary codes. Received: "
            f"kind={kind!r}. Use a Milvus server, or faiss."
        )


def connect(uri: str, timeout: float = 10):
    """A client, or an error that says what is wrong."""
    try:
        import pymilvus
    except ImportError as error:
        raise ImportError(
            "Milvus needs pymilvus, which is not installed. Run "
            "`pip install 'vdsh_tf[milvus]'`."
        ) from error
    # It logs a traceback before it raises what we explain.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    try:
        return pymilvus.MilvusClient(uri, timeout=timeout)
    except Exception as error:
        raise ConnectionError(
            f"A Milvus server must answer at {uri}, or the URI must be a "
            "path that ends in .db, for the embedded one, which one process "
            "at a time can have open. It does not: start the server, correct "
            "the address, or wait for the other process. Cause: "
            f"{type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def explained(what: str):
    """Errors of Milvus inside become sentences."""
    import pymilvus

    try:
        yield
    except pymilvus.MilvusException as error:
        raise RuntimeError(
            f"Milvus could not {what}. It says: {error.message}."
        ) from error


def read_header(client, collection: str) -> Header:
    """What a collection holds, or an error if it is not of this library."""
    about = client.describe_collection(collection)["description"]
    try:
        stored = json.loads(about)
        kind = stored.get("kind", "flat")
        parted = stored.get("partitioned", False)
        bits = stored["bits"]
        checks.check_size(bits)
        fingerprint = checks.fingerprint_of(stored["fingerprint"])
        if kind not in KINDS or not isinstance(parted, bool):
            raise ValueError(f"kind={kind!r}, partitioned={parted!r}")
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"Collection {collection!r} must have been made by vdsh_tf, "
            "whose description names bits and fingerprint. Received: "
            f"description={about!r}. Name another collection."
        ) from error
    return Header(bits, fingerprint, kind, parted)


def create(client, collection: str, header: Header, embedded: bool) -> None:
    """Makes an empty collection."""
    import pymilvus

    schema = client.create_schema(
        auto_id=False, description=json.dumps(header._asdict())
    )
    schema.add_field("id", pymilvus.DataType.INT64, is_primary=True)
    schema.add_field(
        "code",
        pymilvus.DataType.BINARY_VECTOR,
        dim=8 * ((header.bits + 7) // 8),
    )
    if header.partitioned:
        # The embedded engine takes a partition key and then answers nothing.
        schema.add_field(
            "part",
            pymilvus.DataType.VARCHAR,
            max_length=64,
            is_partition_key=not embedded,
        )
    index = client.prepare_index_params()
    index.add_index(
        "code",
        index_type=KINDS[header.kind],
        metric_type="HAMMING",
        params={} if header.kind == "flat" else {"nlist": CELLS},
    )
    client.create_collection(
        collection,
        schema=schema,
        index_params=index,
        consistency_level="Strong",
    )
