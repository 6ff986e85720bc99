"""ItemStore: payloads, and what was added and removed, in one SQLite file.

The index file that a service starts with never changes. What is added or
removed later is committed here, to disk, before it is acknowledged, and
brought into the index again when the service starts: a process that is killed
loses nothing that it acknowledged and leaves nothing by halves.
"""

import os
import sqlite3
from collections.abc import Iterable
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vdsh_tf.service import filters

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS items (
    id INTEGER PRIMARY KEY, code BLOB, embedding BLOB,
    payload TEXT NOT NULL DEFAULT '{}');
CREATE TABLE IF NOT EXISTS removed (id INTEGER PRIMARY KEY);
"""
_PART = 10_000


class Item(NamedTuple):
    """An item to add.

    Attributes:
        id: its number, or None for the next one.
        code: [bytes] uint8.
        embedding: [K] float16.
        payload: a JSON object, as text.
    """

    id: int | None
    code: np.ndarray
    embedding: np.ndarray
    payload: str


class Added(NamedTuple):
    """Items that the store has beyond the index file.

    Attributes:
        ids: [n] int64, in the order of their ids.
        codes: [n, bytes] uint8.
    """

    ids: np.ndarray
    codes: np.ndarray


class ItemStore:
    """The file; made if there is none.

    Args:
        path: the file.
        fingerprint: of the encoder; a store of another one is refused.
        bits: code length K.
    """

    def __init__(self, path: str, fingerprint: str, bits: int):
        self.path = path
        self.bits = bits
        try:
            self._writer = self._connect()
            self._writer.executescript(_SCHEMA)
            self._claim(fingerprint)
            self._reader = self._connect()
        except sqlite3.Error as error:
            raise ValueError(
                f"{path} must be a file of items that this library wrote, or "
                f"a new one in a folder that can be written. Cause: {error}"
            ) from error

    def _connect(self):
        # Autocommit: transactions begin and end where the code says so.
        connection = sqlite3.connect(
            self.path,
            timeout=10,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA journal_mode = WAL")
        # A commit returns when the disk has it.
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _claim(self, fingerprint):
        self._writer.execute(
            "INSERT OR IGNORE INTO about VALUES ('fingerprint', ?)",
            [fingerprint],
        )
        (owner,) = self._writer.execute(
            "SELECT value FROM about WHERE key = 'fingerprint'"
        ).fetchone()
        if owner != fingerprint:
            raise ValueError(
                "The items must belong to the encoder that is served, or "
                "their codes mean nothing. Received: items of encoder "
                f"{owner} in {self.path}, and encoder {fingerprint}. Name "
                "another store, or serve the encoder that made it."
            )

    def close(self) -> None:
        """Closes the file; another process may open it."""
        for connection in (self._reader, self._writer):
            connection.close()

    # Changes, from one thread at a time.

    def begin(self) -> None:
        """Begins changes that `commit` makes together."""
        self._writer.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Returns when all changes since `begin` are on disk."""
        self._writer.execute("COMMIT")

    def rollback(self) -> None:
        """Forgets all changes since `begin`."""
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def add(self, items: Iterable[Item]) -> None:
        """Adds items whose ids are free."""
        self._writer.executemany(
            "INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)",
            [
                (i.id, i.code.tobytes(), i.embedding.tobytes(), i.payload)
                for i in items
            ],
        )

    def remove(self, number: int) -> None:
        """Removes an item, of the index file or added."""
        self._writer.execute("DELETE FROM items WHERE id = ?", [number])
        self._writer.execute(
            "INSERT OR IGNORE INTO removed VALUES (?)", [number]
        )

    def describe(self, pairs: Iterable[tuple[int, str]]) -> None:
        """Gives items of the index file their payloads, all or none."""
        self.begin()
        try:
            self._writer.executemany(
                "INSERT INTO items (id, payload) VALUES (?, ?) ON CONFLICT "
                "(id) DO UPDATE SET payload = excluded.payload",
                pairs,
            )
            self.commit()
        except BaseException:
            self.rollback()
            raise

    # Questions, from one thread at a time, but not that of changes.

    def removed(self) -> np.ndarray:
        """Ids that were removed at some time; some may be there again."""
        rows = self._reader.execute("SELECT id FROM removed ORDER BY id")
        return np.array([row[0] for row in rows], np.int64)

    def added(self) -> Added:
        """All items that were added and not removed."""
        rows = self._reader.execute(
            "SELECT id, code FROM items WHERE code IS NOT NULL ORDER BY id"
        ).fetchall()
        width = (self.bits + 7) // 8
        if any(len(code) != width for _, code in rows):
            raise ValueError(
                f"Codes in {self.path} must be {width} bytes long; some are "
                "not. The file is damaged: restore it from a copy."
            )
        codes = np.frombuffer(b"".join(row[1] for row in rows), np.uint8)
        ids = np.array([row[0] for row in rows], np.int64)
        return Added(ids, codes.reshape(len(rows), width))

    def largest(self) -> int:
        """The largest id that was ever used here; -1 if none."""
        (found,) = self._reader.execute(
            "SELECT max(ifnull((SELECT max(id) FROM items), -1), "
            "ifnull((SELECT max(id) FROM removed), -1))"
        ).fetchone()
        return found

    def matching(self, node: filters.Node) -> np.ndarray:
        """Ids of items whose payload suits a filter, rising."""
        sql, values = filters.to_sql(node)
        rows = self._reader.execute(
            f"SELECT id FROM items WHERE {sql} ORDER BY id", values
        )
        return np.fromiter((row[0] for row in rows), np.int64)

    def payloads(self, ids: Sequence[int]) -> dict[int, str]:
        """Payloads as text, by id; those that have none are left out."""
        return dict(self._select("id, payload", ids))

    def embeddings(self, ids: Sequence[int]) -> dict[int, np.ndarray]:
        """Embeddings of added items by id, as many as there are."""
        rows = self._select("id, embedding", ids)
        return {i: np.frombuffer(e, np.float16) for i, e in rows if e}

    def _select(self, columns, ids):
        found = []
        for start in range(0, len(ids), _PART):
            part = [int(number) for number in ids[start : start + _PART]]
            marks = ",".join("?" * len(part))
            found += self._reader.execute(
                f"SELECT {columns} FROM items WHERE id IN ({marks})", part
            ).fetchall()
        return found


def default_path(engine: str, place: str, collection: str) -> str:
    """Where the items of an index lie unless told: beside it."""
    if engine == "faiss":
        return f"{place}.items.sqlite"
    stem = f"{place}.{collection}" if place.endswith(".db") else collection
    return os.path.abspath(f"{stem}.items.sqlite")
