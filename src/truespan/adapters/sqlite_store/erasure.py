"""What SQLite does so that something deleted is gone for good, and remembers until it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.adapters.stored_rows import generation_of
from truespan.errors import WorldNotFound
from truespan.protocols import Clock
from truespan.types.ids import ChunkId, WorldId
from truespan.types.maintenance import Erasure, ErasureKind, FileFate, Trace
from truespan.types.scope import Authority, Scope, Verb

REWRITE_WAIT_MILLISECONDS = 5_000
"""How long rewriting the file waits for others who read; after that it stays queued."""

_ORDER = {kind: place for place, kind in enumerate(ErasureKind)}
_TRACES = 4
_TRACE_CHARACTERS = 48
_GONE = "(deleted)"


class SqliteErasure:
    """The part of the store that forgets for good."""

    _connections: Connections
    _clock: Clock

    def erasures(self, *, urgent: bool = False) -> list[Erasure]:
        """Return what waits, in the order it is to be done."""
        rows = self._connections.query(
            """SELECT number, kind, world, generation, profile, urgent FROM erasures
               WHERE urgent >= ? ORDER BY number""",
            (int(urgent),),
        )
        return sorted(map(_erasure, rows), key=lambda one: _ORDER[one.kind])

    def queue_erasure(self, scope: Scope, *, urgent: bool = False) -> None:
        """Have the files of the store and of the scope's profile written anew."""
        with self._connections.writing() as connection:
            rows = fetch(
                connection,
                "SELECT profile FROM generations WHERE world = ? AND number = ?",
                (world_key(connection, scope), scope.generation.number),
            )
            queue_files(connection, [row[0] for row in rows], self._clock.now(), urgent=urgent)

    def finish_erasure(self, erasure: Erasure) -> None:
        """Forget what was done, unless it was wished for again, under a new number."""
        with self._connections.writing() as connection:
            connection.execute("DELETE FROM erasures WHERE number = ?", (erasure.number,))

    def rewrite_file(self) -> FileFate:
        """Write the file anew and empty its log; neither holds anything deleted after that."""
        self._connections.rewrite(REWRITE_WAIT_MILLISECONDS)
        return FileFate.GONE

    def traces(self, scope: Scope, document: int | None) -> list[Trace]:
        """Return stretches of text that nothing else in the library has."""
        with self._connections.reading() as connection:
            world = world_key(connection, scope)
            keys = [
                key
                for (key,) in fetch(
                    connection,
                    """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
                       WHERE d.world = ?1 AND d.number = coalesce(?2, d.number)""",
                    (world, document),
                )
            ]
            found = [_stretch(text) for text in _texts(connection, keys)]
            return [
                Trace(False, one.encode())
                for one in dict.fromkeys(found)
                if one and not _elsewhere(connection, one, keys)
            ]

    def own_chunks(self, scope: Scope, document: int | None, *, limit: int) -> list[ChunkId]:
        """Return embedded chunks whose text no other document, or no other world, has."""
        rows = self._connections.query(
            """WITH own AS (SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
                 JOIN worlds w ON w.key = d.world
                 WHERE w.id = ?1 AND d.number = coalesce(?2, d.number))
               SELECT s.chunk_id FROM states s
               WHERE s.revision IN own AND s.generation = ?3 AND s.state = 'embedded'
                 AND s.text_hash NOT IN
                   (SELECT o.text_hash FROM states o WHERE o.revision NOT IN own)
                 AND s.text_hash NOT IN
                   (SELECT t.text_hash FROM tails t WHERE t.revision NOT IN own)
               ORDER BY s.revision, s.position LIMIT ?4""",
            (scope.world, document, scope.generation.number, limit),
        )
        return [ChunkId(row[0]) for row in rows]

    def delete_world(self, authority: Authority, world: WorldId, *, erase: bool) -> dict[str, int]:
        """Remove a world with all its rows, and queue what has to follow, in one commit."""
        if not authority.may(Verb.ADMINISTER, world):
            raise WorldNotFound(world)
        now = self._clock.now()
        with self._connections.writing() as connection:
            generations = fetch(
                connection,
                """SELECT g.number, g.profile FROM generations g JOIN worlds w ON w.key = g.world
                   WHERE w.id = ?""",
                (world,),
            )
            with counting(connection) as removed:
                connection.execute("DELETE FROM worlds WHERE id = ?", (world,))
            if not removed:
                raise WorldNotFound(world)
            for number, profile in generations:
                _queue(connection, ErasureKind.POINTS, now, world, number, profile, urgent=True)
            _queue(connection, ErasureKind.ASSETS, now, world, urgent=True)
            queue_files(connection, [profile for _, profile in generations], now, urgent=erase)
        return removed


def queue_files(
    connection: apsw.Connection, profiles: list[str], now: float, *, urgent: bool
) -> None:
    """Have files written anew: those of the store, and of some profiles in the index."""
    for profile in dict.fromkeys(profiles):
        _queue(connection, ErasureKind.INDEX, now, profile=profile, urgent=urgent)
    _queue(connection, ErasureKind.STORE, now, urgent=urgent)


def queue_revision(connection: apsw.Connection, revision: int, now: float) -> None:
    """Have files written anew because a revision's rows are about to go; urgent if its document
    was deleted by somebody who wants no trace of it."""
    profiles = fetch(
        connection,
        """SELECT DISTINCT g.profile FROM states s
           JOIN generations g ON g.world = s.world AND g.number = s.generation
           WHERE s.revision = ?""",
        (revision,),
    )
    wanted = fetch(
        connection,
        """SELECT d.erase FROM documents d JOIN revisions r ON r.document = d.key
           WHERE r.key = ?""",
        (revision,),
    )
    urgent = bool(wanted and wanted[0][0])
    queue_files(connection, [row[0] for row in profiles], now, urgent=urgent)


@contextmanager
def counting(connection: apsw.Connection) -> Iterator[dict[str, int]]:
    """Count the rows that each table loses in between, those that go with others included.

    The tables are taken from the catalogue, so one that is added later is counted as well.
    """
    counts: dict[str, int] = {}
    names = [
        name
        for (name,) in fetch(
            connection,
            """SELECT name FROM pragma_table_list
               WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'""",
        )
    ]
    connection.execute("CREATE TEMP TABLE lost (name TEXT PRIMARY KEY, count INTEGER)")
    for name in names:
        connection.execute("INSERT INTO temp.lost VALUES (?, 0)", (name,))
        connection.execute(
            f"""CREATE TEMP TRIGGER "lost_{name}" AFTER DELETE ON main."{name}" BEGIN
                  UPDATE lost SET count = count + 1 WHERE name = '{name}'; END"""  # noqa: S608
        )
    try:
        yield counts
        counts.update(fetch(connection, "SELECT name, count FROM temp.lost WHERE count > 0"))
    finally:
        for name in names:
            connection.execute(f'DROP TRIGGER IF EXISTS temp."lost_{name}"')
        connection.execute("DROP TABLE IF EXISTS temp.lost")


def redact(connection: apsw.Connection, world: int, document: int) -> dict[str, int]:
    """Take the names of a document out of the records of jobs, and forget queries of its world.

    A query may have quoted the document, so the vectors of queries go too; they are asked for
    again. A job that is not done keeps the paths it would need to go on.
    """
    names = _names(connection, world, document)
    connection.execute("DELETE FROM query_cache WHERE world = ?", (world,))
    counts = {"query_cache": connection.changes()}
    connection.execute(
        """UPDATE OR REPLACE job_documents SET doc_id = ?3, name = ?4, reason = NULL
           WHERE job IN (SELECT key FROM jobs WHERE world = ?1) AND doc_id =
             (SELECT doc_id FROM documents WHERE world = ?1 AND number = ?2)""",
        (world, document, f"deleted-{document}", _GONE),
    )
    counts["job_documents_redacted"] = connection.changes()
    counts["job_lines_redacted"] = _redact_lines(connection, world, names)
    counts["jobs_redacted"] = _redact_requests(connection, world, names)
    return {name: count for name, count in counts.items() if count}


def _redact_lines(connection: apsw.Connection, world: int, names: re.Pattern[str]) -> int:
    rows = fetch(
        connection,
        """SELECT l.job, l.number, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
           WHERE j.world = ?""",
        (world,),
    )
    changed = [(names.sub(_GONE, line), job, number) for job, number, line in rows]
    told = [one for one, row in zip(changed, rows, strict=True) if one[0] != row[2]]
    connection.executemany("UPDATE job_lines SET line = ? WHERE job = ? AND number = ?", told)
    return len(told)


def _redact_requests(connection: apsw.Connection, world: int, names: re.Pattern[str]) -> int:
    rows = fetch(
        connection, "SELECT request, key FROM jobs WHERE world = ? AND state = 'done'", (world,)
    )
    told = [(names.sub(_GONE, request), key) for request, key in rows if names.search(request)]
    connection.executemany("UPDATE jobs SET request = ? WHERE key = ?", told)
    return len(told)


def _names(connection: apsw.Connection, world: int, document: int) -> re.Pattern[str]:
    """Return a pattern of all that a document was ever called, longest first."""
    rows = fetch(
        connection,
        """SELECT d.doc_id, r.name, r.path, r.title FROM documents d
           LEFT JOIN revisions r ON r.document = d.key WHERE d.world = ? AND d.number = ?""",
        (world, document),
    )
    names = {name for row in rows for name in row if name}
    # In a request the names are part of JSON, which may spell them in its own way.
    names |= {json.dumps(name)[1:-1] for name in names}
    longest = sorted(names, key=len, reverse=True) or [_GONE]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest))})(?![\w-])")


def _queue(
    connection: apsw.Connection,
    kind: ErasureKind,
    now: float,
    world: str = "",
    generation: int = 0,
    profile: str = "",
    *,
    urgent: bool,
) -> None:
    connection.execute(
        """INSERT OR REPLACE INTO erasures (kind, world, generation, profile, urgent, queued_at)
           SELECT ?1, ?2, ?3, ?4, max(?5, coalesce((SELECT urgent FROM erasures WHERE kind = ?1
             AND world = ?2 AND generation = ?3 AND profile = ?4), 0)), ?6""",
        (kind, world, generation, profile, int(urgent), now),
    )


def _erasure(row: tuple) -> Erasure:
    number, kind, world, generation, profile, urgent = row
    known = generation_of(generation, profile, None).profile if profile else None
    return Erasure(number, ErasureKind(kind), WorldId(world), generation, known, bool(urgent))


def _texts(connection: apsw.Connection, revisions: list[int]) -> list[str]:
    """Return the texts of a few chunks, spread evenly over some revisions."""
    rows = fetch(
        connection,
        """SELECT rowid FROM chunks WHERE revision IN (SELECT value FROM json_each(?))
           ORDER BY rowid""",
        (json.dumps(revisions),),
    )
    step = max(1, len(rows) // _TRACES)
    return [
        fetch(connection, "SELECT text FROM chunks WHERE rowid = ?", row)[0][0]
        for row in rows[step // 2 :: step][:_TRACES]
    ]


def _stretch(text: str) -> str:
    middle = max(0, (len(text) - _TRACE_CHARACTERS) // 2)
    return text[middle : middle + _TRACE_CHARACTERS]


def _elsewhere(connection: apsw.Connection, stretch: str, revisions: list[int]) -> bool:
    """Say whether other texts of the library have a stretch too, so that finding it means nothing.

    Labels are looked through as well: a title may be what a chunk consists of.
    """
    others = "NOT IN (SELECT value FROM json_each(?2))"
    return bool(
        fetch(
            connection,
            f"""SELECT 1 FROM texts WHERE instr(text, ?1) AND revision {others}
                UNION ALL SELECT 1 FROM figures WHERE instr(description, ?1)
                  AND revision {others}
                UNION ALL SELECT 1 FROM revisions WHERE key {others} AND instr(
                  concat_ws(' ', name, path, title, metadata, derived, properties), ?1)
                LIMIT 1""",  # noqa: S608 -- the condition is written above
            (stretch, json.dumps(revisions)),
        )
    )
