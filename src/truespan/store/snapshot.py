"""Snapshots of a store for backups: one SQLite file, taken from a library in use."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import apsw
from msgspec import Struct

from truespan import errors
from truespan.store.engines.session import DuplicateRow, InvalidRow, MissingRow, Row
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.types.document import assets_token
from truespan.types.ids import WorldId

CACHES: Final = ("word_states", "vectors", "query_cache", "tails", "tail_marks")
"""Tables that can be rebuilt by embedding texts; backups without vectors lack them."""
NOT_RESTORED: Final = ("tokens", "token_worlds", "replays")
"""Tables that are not restored: a token revoked since the backup would be valid again, and a token
in a forged file would be a back door."""


class Snapshot(NamedTuple):
    """Contents of a snapshot."""

    schema: int
    worlds: int
    documents: int
    chunks: int
    images: tuple[tuple[WorldId, str, str], ...]
    """Documents with images: world, id, and the token of their revision."""
    sources: tuple[tuple[WorldId, str, str], ...]
    """All documents: world, id, and the hash of their source."""


class Snapshots(Protocol):
    """Snapshots of the store of a library."""

    @property
    def attempts(self) -> int: ...

    def size(self) -> int: ...

    def take(self, target: Path, *, vectors: bool) -> Snapshot: ...


class FileSnapshots(Struct, frozen=True):
    """Snapshots of a store in a file."""

    store: Path
    attempts: int = 5

    def size(self) -> int:
        return self.store.stat().st_size

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of the store to a new file, while others read and write."""
        with closing(SqliteDatabase(self.store, reserve=0)) as database, database.map_errors():
            database.connection.execute("VACUUM INTO ?", (str(target),))
        with closing(apsw.Connection(str(target))) as copy:
            if not vectors:
                for table in CACHES:
                    copy.execute(f"DELETE FROM {table}")
                copy.execute("VACUUM")
            return describe_snapshot(copy)


def prepare_snapshot(store: Path) -> None:
    """Prepare the unpacked store of a backup for a new library.

    Its schema is migrated and compared with ours, because a forged file could have triggers. All
    chunks become pending, since there is no index yet. Pending erasures, which concern other files,
    are removed. Unfinished jobs become interrupted.
    """
    try:
        with (
            closing(SqliteDatabase(store, reserve=0)) as database,
            closing(SqliteDatabase(Path(":memory:"), reserve=0)) as own,
            database.write_every_world() as session,
        ):
            if _list_schema(database.connection) != _list_schema(own.connection):
                raise errors.BackupInvalid("The backup's store was not written by Truespan.")
            if session.all("PRAGMA quick_check(1)") != [("ok",)]:
                raise errors.BackupInvalid("The backup's store is damaged.")
            session.execute("UPDATE states SET state = 'pending' WHERE state = 'embedded'")
            session.execute("UPDATE tallies SET embedded = 0")
            session.execute("DELETE FROM erasures")
            # No process of a restored library runs these jobs, and their uploaded files are not in
            # the backup. The library must not start jobs by itself.
            session.execute(
                """UPDATE jobs SET state = 'interrupted', finished_at = seen_at
                   WHERE state IN ('queued', 'running')"""
            )
            session.execute("UPDATE jobs SET background = false")
            for table in reversed(NOT_RESTORED):
                session.execute(f"DELETE FROM {table}")
    except (errors.BackupInvalid, errors.StorageFull, errors.TooManyOpenFiles, errors.StoreBusy):
        raise
    except (apsw.Error, errors.TruespanError, DuplicateRow, MissingRow, InvalidRow):
        raise errors.BackupInvalid("The backup's store cannot be opened.") from None


def describe_snapshot(copy: apsw.Connection) -> Snapshot:
    """Return the contents of a snapshot."""
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
    sources: list[Row] = copy.execute(
        """SELECT DISTINCT w.id, d.doc_id, r.source_hash FROM documents d
           JOIN revisions r ON r.document = d.key AND r.state = 'active'
           JOIN worlds w ON w.world_id = d.world_id
           WHERE d.deleted_at IS NULL ORDER BY 1, 2"""
    ).fetchall()
    schema, worlds, live, chunks = counts[0]
    return Snapshot(
        schema=schema,
        worlds=worlds,
        documents=live,
        chunks=chunks,
        sources=tuple((WorldId(world), doc_id, source) for world, doc_id, source in sources),
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
