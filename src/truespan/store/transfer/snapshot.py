"""The store as a backup holds it: one SQLite file, taken from a library in use, and checked before
another library is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import apsw
from msgspec import Struct

from truespan.errors import (
    BackupInvalid,
    MigrationRefused,
    StorageFull,
    StoreBusy,
    TooManyOpenFiles,
    TruespanError,
)
from truespan.store.engines.session import DuplicateRow, InvalidRow, MissingRow, Row
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.store.transfer.copy import StoreRows, copy_rows
from truespan.types.document import assets_token
from truespan.types.ids import WorldId

CACHES: Final = ("vectors", "query_cache", "tails", "tail_marks")
"""What can be made again by embedding texts; a backup without vectors does not have it."""
NOT_RESTORED: Final = ("tokens", "token_worlds", "replays")
"""What no library takes over from a backup: a token that was revoked since would be valid again,
and one in a forged file would be a back door."""


class Snapshot(NamedTuple):
    """What a copy of the store holds."""

    schema: int
    worlds: int
    documents: int
    chunks: int
    images: tuple[tuple[WorldId, str, str], ...]
    """Documents with images: world, id, and the token of the revision that they belong to."""


class FileSnapshots(Struct, frozen=True):
    """Takes snapshots of a store in a file."""

    store: Path
    attempts: int = 5

    def size(self) -> int:
        return self.store.stat().st_size

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of the store into a new file, while others read and write."""
        with closing(SqliteDatabase(self.store, reserve=0)) as database, database.map_errors():
            database.connection.execute("VACUUM INTO ?", (str(target),))
        with closing(apsw.Connection(str(target))) as copy:
            if not vectors:
                for table in CACHES:
                    copy.execute(f"DELETE FROM {table}")
                copy.execute("VACUUM")
            return _describe(copy)


class ServerSnapshots(Struct, frozen=True):
    """Takes snapshots of a store on a server: its rows are copied into a file."""

    rows: Callable[[], StoreRows]
    """Gives the rows anew, so that two backups share nothing."""
    reserve: int
    attempts: int = 2
    """A whole copy because an image has just changed; images on another machine stay missing."""

    def size(self) -> int:
        return self.rows().size()

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of the store into a new file, a few rows at a time, and read it back.

        Raises:
            BackupInvalid: the copy differs from the store.
            StoreDamaged: rows of the store refer to rows that do not exist.
        """
        database = SqliteDatabase(target, reserve=self.reserve)
        try:
            with database.map_errors():
                # An unfinished copy is thrown away and a finished one is packed: it needs neither
                # a log of its own nor to be on the disk at every commit.
                database.connection.pragma("journal_mode", "off")
                database.connection.pragma("synchronous", "off")
            skip = NOT_RESTORED if vectors else (*NOT_RESTORED, *CACHES)
            copy_rows(self.rows(), StoreRows(database), skip=skip)
            return _describe(database.connection)
        except MigrationRefused:
            raise BackupInvalid(
                "The copy of the store differs from the store; no backup was made.",
                advice="Try again. If that does not help, run 'truespan doctor'.",
            ) from None
        finally:
            database.close()


def prepare_snapshot(store: Path) -> None:
    """Turn a file that was unpacked from a backup into one that a library can be opened with.

    Its schema is brought up to date and compared with our own: a forged file could hold statements
    that run unnoticed. No index belongs to it yet, so that every chunk is yet to be written to one.
    Pending erasures of other files mean nothing in these. A job that was not over is interrupted.

    Raises:
        BackupInvalid: it is not the store of a library, or a damaged one.
    """
    try:
        with (
            closing(SqliteDatabase(store, reserve=0)) as database,
            closing(SqliteDatabase(Path(":memory:"), reserve=0)) as own,
            database.write_every_world() as session,
        ):
            if _list_schema(database.connection) != _list_schema(own.connection):
                raise BackupInvalid("The backup's store was not written by Truespan.")
            if session.all("PRAGMA quick_check(1)") != [("ok",)]:
                raise BackupInvalid("The backup's store is damaged.")
            session.execute("UPDATE states SET state = 'pending' WHERE state = 'embedded'")
            session.execute("UPDATE tallies SET embedded = 0")
            session.execute("DELETE FROM erasures")
            # No process runs them here, and files uploaded for them are not part of a backup. Nor
            # should a library that was restored for inspection start to work by itself.
            session.execute(
                """UPDATE jobs SET state = 'interrupted', finished_at = seen_at
                   WHERE state IN ('queued', 'running')"""
            )
            session.execute("UPDATE jobs SET background = false")
            for table in reversed(NOT_RESTORED):
                session.execute(f"DELETE FROM {table}")
    except (BackupInvalid, StorageFull, TooManyOpenFiles, StoreBusy):
        raise
    except (apsw.Error, TruespanError, DuplicateRow, MissingRow, InvalidRow):
        raise BackupInvalid("The backup's store cannot be opened.") from None


@contextmanager
def open_rows(store: Path) -> Iterator[StoreRows]:
    """Give the rows of a file that was prepared, for a store on another engine. Raises
    `BackupInvalid`: some refer to rows that do not exist, so that their world is unknown."""
    with closing(SqliteDatabase(store, reserve=0)) as database:
        if database.shared.all("SELECT 1 FROM pragma_foreign_key_check LIMIT 1"):
            raise BackupInvalid("The backup's store has rows that refer to missing rows.")
        yield StoreRows(database)


def _describe(copy: apsw.Connection) -> Snapshot:
    counts: list[Row] = copy.execute(
        """SELECT v.user_version, (SELECT count(*) FROM worlds),
             (SELECT count(*) FROM documents WHERE deleted_at IS NULL),
             (SELECT count(*) FROM chunks)
           FROM pragma_user_version v"""
    ).fetchall()
    documents: list[Row] = copy.execute(
        """SELECT DISTINCT w.id, d.doc_id, r.source_hash, r.recipe FROM figures f
           JOIN revisions r ON r.key = f.revision AND r.state = 'active'
           JOIN documents d ON d.key = r.document AND d.deleted_at IS NULL
           JOIN worlds w ON w.world_id = d.world_id
           WHERE f.image_ref IS NOT NULL ORDER BY 1, 2"""
    ).fetchall()
    return Snapshot(
        *counts[0],
        images=tuple(
            (WorldId(world), doc_id, assets_token(source, recipe))
            for world, doc_id, source, recipe in documents
        ),
    )


def _list_schema(connection: apsw.Connection) -> list[Row]:
    return connection.execute(
        """SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master
           WHERE name NOT LIKE 'sqlite!_stat%' ESCAPE '!' ORDER BY 1, 2"""
    ).fetchall()
