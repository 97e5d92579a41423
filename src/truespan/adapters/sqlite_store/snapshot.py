"""The store's file as a backup holds it: taken from a library in use, and made ready again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch, migrate
from truespan.adapters.sqlite_store.moving import SqliteRows
from truespan.errors import BackupInvalid, TruespanError
from truespan.protocols import MovableRows
from truespan.types.document import assets_token
from truespan.types.ids import WorldId


class Pictured(NamedTuple):
    """A document in force that has images, and the token of the revision they belong to."""

    world: WorldId
    doc_id: str
    token: str


class Snapshot(NamedTuple):
    """What a copy of the store holds."""

    schema: int
    worlds: int
    documents: int
    chunks: int
    documents_with_images: tuple[Pictured, ...]


CACHES: Final = ("vectors", "query_cache", "tails", "tail_marks")
"""What can be had again from the texts, by embedding them; without vectors it is left out."""
UNRESTORED: Final = ("tokens", "token_worlds", "replays")
"""What no library takes over from a backup: a token revoked since would be valid again, and one in
a stranger's file a back door."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """The store's file, to be backed up."""

    store: Path
    attempts: int = 5

    def size(self) -> int:
        """Return how many bytes it takes."""
        return self.store.stat().st_size

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of it into a new file."""
        return take_snapshot(self.store, target, vectors=vectors)


def fill_snapshot(target: Path, fill: Callable[[MovableRows], None], *, reserve: int) -> Snapshot:
    """Make a new file of the rows of a store that is none, as `fill` gives them."""
    connections = Connections(target, reserve=reserve)
    try:
        migrate(connections)
        with connections.mapped_errors():
            # A copy that is not finished is thrown away, and a finished one is packed: it needs
            # neither a log of its own nor to be on the disk at every commit.
            connections.current().pragma("journal_mode", "off")
            connections.current().pragma("synchronous", "off")
        fill(SqliteRows(connections))
        return _described(connections.current())
    finally:
        connections.close()


@contextmanager
def rows_of(store: Path) -> Iterator[MovableRows]:
    """Give the rows of a file that was made ready, for another kind of store.

    Raises:
        BackupInvalid: some refer to what is not there, so that nobody can say whose they are.
    """
    connections = Connections(store, reserve=0)
    try:
        if connections.query("SELECT 1 FROM pragma_foreign_key_check LIMIT 1"):
            raise BackupInvalid("The backup's store has rows that refer to what is not there.")
        yield SqliteRows(connections)
    finally:
        connections.close()


def take_snapshot(store: Path, target: Path, *, vectors: bool) -> Snapshot:
    """Write one state of the store into a new file, while others read and write."""
    connections = Connections(store, reserve=0)
    try:
        with connections.mapped_errors():
            connections.current().execute("VACUUM INTO ?", (str(target),))
    finally:
        connections.close()
    copy = apsw.Connection(str(target))
    try:
        if not vectors:
            for table in CACHES:
                copy.execute(f"DELETE FROM {table}")  # noqa: S608 -- the names are written above
            copy.execute("VACUUM")
        return _described(copy)
    finally:
        copy.close()


def _described(copy: apsw.Connection) -> Snapshot:
    def count(table: str) -> int:
        return fetch(copy, f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608

    documents_with_images = fetch(
        copy,
        """SELECT DISTINCT w.id, d.doc_id, r.source_hash, r.recipe FROM figures f
           JOIN revisions r ON r.key = f.revision AND r.state = 'active'
           JOIN documents d ON d.key = r.document AND d.deleted_at IS NULL
           JOIN worlds w ON w.key = d.world WHERE f.image_ref IS NOT NULL ORDER BY 1, 2""",
    )
    return Snapshot(
        schema=fetch(copy, "PRAGMA user_version")[0][0],
        worlds=count("worlds"),
        documents=count("documents WHERE deleted_at IS NULL"),
        chunks=count("chunks"),
        documents_with_images=tuple(
            Pictured(WorldId(world), doc_id, assets_token(source, recipe))
            for world, doc_id, source, recipe in documents_with_images
        ),
    )


def make_ready(store: Path) -> None:
    """Make a file that was unpacked from a backup one that a library can be opened with.

    Its schema is brought up to date and compared with our own: a file made by somebody else could
    hold statements that run behind our back. No index belongs to it yet, so every chunk waits to be
    written to one; what was to be erased in other files has no meaning in these. A job that was not
    over is interrupted.

    Raises:
        BackupInvalid: it is no store of a library, or a damaged one.
    """
    connections = Connections(store, reserve=0)
    try:
        migrate(connections)
        with connections.writing() as connection:
            if _schema(connection) != own_schema():
                raise BackupInvalid("The backup's store was not written by Truespan.")
            if fetch(connection, "PRAGMA quick_check(1)") != [("ok",)]:
                raise BackupInvalid("The backup's store is damaged.")
            connection.execute("UPDATE states SET state = 'pending' WHERE state = 'embedded'")
            connection.execute("UPDATE tallies SET embedded = 0")
            connection.execute("DELETE FROM erasures")
            # Nobody runs them here, and what was uploaded for them is not part of a backup. Nor is
            # a library that was restored to look at it to begin with work by itself.
            connection.execute(
                """UPDATE jobs SET state = 'interrupted', finished_at = seen_at
                   WHERE state IN ('queued', 'running')"""
            )
            connection.execute("UPDATE jobs SET background = 0")
            for table in reversed(UNRESTORED):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 -- written above
    except BackupInvalid:
        raise
    except (apsw.Error, TruespanError):
        raise BackupInvalid("The backup's store cannot be opened.") from None
    finally:
        connections.close()


def own_schema() -> list[tuple[str, ...]]:
    """Return what a store that we made consists of."""
    connections = Connections(Path(":memory:"), reserve=0)
    try:
        migrate(connections)
        return _schema(connections.current())
    finally:
        connections.close()


def _schema(connection: apsw.Connection) -> list[tuple[str, ...]]:
    return fetch(
        connection,
        """SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master
           WHERE name NOT LIKE 'sqlite!_stat%' ESCAPE '!' ORDER BY 1, 2""",
    )
