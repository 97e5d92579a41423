"""Generations and the aliases that name them, in SQLite."""

from __future__ import annotations

import json
from dataclasses import asdict

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.erasure import queue_files
from truespan.adapters.sqlite_store.worlds import touch_world, world_key
from truespan.adapters.stored_rows import generation_of
from truespan.errors import DomainNotFound, GenerationInUse, GenerationNotFound
from truespan.protocols import Clock
from truespan.types.document import DomainRecord, GenerationRecord, KeptGeneration
from truespan.types.ids import WorldId
from truespan.types.profile import ChunkingProfile, EmbeddingProfile, spelled
from truespan.types.scope import Authority, Generation, Scope

_DEFAULT = ""
"""How a world's own default is spelled among the aliases that were moved."""

_RECORDS = """
    SELECT g.number, g.profile, g.chunking, g.created_at, count(t.revision),
      coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0), coalesce(sum(t.quarantined), 0),
      count(r.key) - count(t.revision), g.number IS w.generation,
      (SELECT json_group_array(a.key) FROM aliases a
        WHERE a.world = w.key AND a.generation = g.number)
    FROM generations g
    JOIN worlds w ON w.key = g.world
    LEFT JOIN documents d ON d.world = w.key AND d.deleted_at IS NULL
    LEFT JOIN revisions r ON r.document = d.key AND r.state = 'active'
    LEFT JOIN tallies t ON t.revision = r.key AND t.generation = g.number
    WHERE w.id = ? AND g.removed_at IS NULL GROUP BY g.number ORDER BY g.number
"""


class SqliteGenerations:
    """The part of the store that knows which builds of a world there are, and who names which."""

    _connections: Connections
    _clock: Clock

    def generations(self, scope: Scope) -> list[GenerationRecord]:
        """Return every generation of the world, by number, with what it holds."""
        return [_record(row) for row in self._connections.query(_RECORDS, (scope.world,))]

    def kept_generations(self, scope: Scope) -> list[KeptGeneration]:
        """Return every generation of the world that is not being removed, by number."""
        rows = self._connections.query(
            """SELECT g.number, g.profile, g.chunking, g.number IS w.generation OR EXISTS
                 (SELECT 1 FROM aliases a WHERE a.world = w.key AND a.generation = g.number)
               FROM generations g JOIN worlds w ON w.key = g.world
               WHERE w.id = ? AND g.removed_at IS NULL ORDER BY g.number""",
            (scope.world,),
        )
        return [KeptGeneration(generation_of(*row[:3]), bool(row[3])) for row in rows]

    def add_generation(
        self, scope: Scope, profile: EmbeddingProfile, chunking: ChunkingProfile | None
    ) -> Generation:
        """Begin another generation, which no alias names yet."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            number = fetch(
                connection,
                """UPDATE worlds SET next_generation = next_generation + 1 WHERE key = ?
                   RETURNING next_generation - 1""",
                (world,),
            )[0][0]
            connection.execute(
                """INSERT INTO generations
                     (world, number, profile_id, profile, created_at, chunking)
                   VALUES (?, ?, ?, ?, ?, ?)""",
                (
                    world,
                    number,
                    profile.id,
                    json.dumps(asdict(profile)),
                    self._clock.now(),
                    spelled(chunking) if chunking else None,
                ),
            )
        return Generation(number, profile, chunking)

    def move_alias(self, scope: Scope, domain: str | None) -> bool:
        """Let an alias name the scope's generation, if that is complete at this moment."""
        to = scope.generation.number
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            current = _named_by(connection, world, domain)
            if not _is_complete(connection, scope.world, to):
                return False
            if current == to:
                # No move: the one before must stay the one to go back to.
                return True
            if domain is None:
                connection.execute("UPDATE worlds SET generation = ? WHERE key = ?", (to, world))
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO aliases VALUES (?, ?, ?, ?)",
                    (domain, world, to, self._clock.now()),
                )
            connection.execute(
                """INSERT INTO alias_moves (world, alias, came_from, went_to, moved_at)
                   VALUES (?, ?, ?, ?, ?)""",
                (world, domain or _DEFAULT, current, to, self._clock.now()),
            )
            touch_world(connection, world)
        return True

    def previous_generation(self, scope: Scope, domain: str | None) -> int | None:
        """Return what an alias named before its last move, if that is still there."""
        rows = self._connections.query(
            """SELECT m.came_from, EXISTS (SELECT 1 FROM generations g WHERE g.world = w.key
                 AND g.number = m.came_from AND g.removed_at IS NULL)
               FROM alias_moves m JOIN worlds w ON w.key = m.world
               WHERE w.id = ? AND m.alias = ? ORDER BY m.number DESC LIMIT 1""",
            (scope.world, domain or _DEFAULT),
        )
        return rows[0][0] if rows and rows[0][1] else None

    def domains(self, authority: Authority) -> list[DomainRecord]:
        """Return the domains of the worlds an authority sees, by key."""
        rows = self._connections.query(
            """SELECT a.key, w.id, w.name, a.generation FROM aliases a
               JOIN worlds w ON w.key = a.world ORDER BY a.key"""
        )
        return [DomainRecord(*row) for row in rows if authority.sees(WorldId(row[1]))]

    def remove_domain(self, scope: Scope, key: str) -> None:
        """Forget a domain's name; the generation stays."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.execute("DELETE FROM aliases WHERE key = ? AND world = ?", (key, world))
            if not connection.changes():
                raise DomainNotFound(key)
            # One of that name that is made later has no past.
            connection.execute(
                "DELETE FROM alias_moves WHERE alias = ? AND world = ?", (key, world)
            )
            touch_world(connection, world)

    def retire_generation(self, scope: Scope) -> None:
        """Let nothing name the scope's generation any more."""
        number = scope.generation.number
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            names = _names_of(connection, world, number)
            if names:
                raise GenerationInUse(number, ", ".join(names))
            connection.execute(
                """UPDATE generations SET removed_at = coalesce(removed_at, ?)
                   WHERE world = ? AND number = ?""",
                (self._clock.now(), world, number),
            )
            if not connection.changes():
                raise GenerationNotFound(number)
            touch_world(connection, world)

    def retired_generations(self, scope: Scope) -> list[Generation]:
        """Return generations that were retired and whose rows remain."""
        rows = self._connections.query(
            """SELECT g.number, g.profile, g.chunking
               FROM generations g JOIN worlds w ON w.key = g.world
               WHERE w.id = ? AND g.removed_at IS NOT NULL ORDER BY g.number""",
            (scope.world,),
        )
        return [generation_of(*row) for row in rows]

    def remove_generation(self, scope: Scope) -> None:
        """Remove the rows of a retired generation, and the vectors that nothing else needs."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            profiles = fetch(
                connection,
                "SELECT profile FROM generations WHERE world = ? AND number = ?",
                (world, scope.generation.number),
            )
            if not _remove_rows(connection, world, scope.generation.number):
                return
            now = self._clock.now()
            queue_files(connection, [row[0] for row in profiles], now, urgent=False)
            # What only this generation needed: vectors of its texts, and of its profile.
            connection.execute(
                """DELETE FROM vectors WHERE world = ?1 AND (profile_id NOT IN
                     (SELECT profile_id FROM generations WHERE world = ?1)
                   OR (NOT EXISTS (SELECT 1 FROM states s WHERE s.world = ?1
                         AND s.text_hash = vectors.text_hash)
                     AND NOT EXISTS (SELECT 1 FROM tails t
                       WHERE t.text_hash = vectors.text_hash)))""",
                (world,),
            )
            touch_world(connection, world)


def _remove_rows(connection: apsw.Connection, world: int, number: int) -> bool:
    """Remove a retired generation's rows, its own among them; False when there is none."""
    connection.execute(
        "DELETE FROM generations WHERE number = ? AND world = ? AND removed_at IS NOT NULL",
        (number, world),
    )
    if not connection.changes():
        return False
    of_world = """revision IN (SELECT r.key FROM revisions r
        JOIN documents d ON d.key = r.document WHERE d.world = ?)"""
    for table in ("chunks", "tallies", "tails", "tail_marks", "word_counts"):
        connection.execute(
            f"DELETE FROM {table} WHERE generation = ? AND {of_world}",  # noqa: S608
            (number, world),
        )
    for table in ("states", "repairs", "probes", "words"):
        connection.execute(
            f"DELETE FROM {table} WHERE generation = ? AND world = ?",  # noqa: S608
            (number, world),
        )
    return True


def _record(row: tuple) -> GenerationRecord:
    number, profile, chunking, created, documents, chunks, embedded, quarantined = row[:8]
    missing, is_default, domains = row[8:]
    return GenerationRecord(
        generation=generation_of(number, profile, chunking),
        created_at=created,
        documents=documents,
        chunks=chunks,
        embedded=embedded,
        pending=chunks - embedded - quarantined,
        quarantined=quarantined,
        missing=missing,
        is_default=bool(is_default),
        domains=tuple(sorted(json.loads(domains))),
    )


def _is_complete(connection: apsw.Connection, world: str, number: int) -> bool:
    records = [_record(row) for row in fetch(connection, _RECORDS, (world,))]
    return any(one.complete for one in records if one.generation.number == number)


def _named_by(connection: apsw.Connection, world: int, domain: str | None) -> int | None:
    if domain is None:
        return fetch(connection, "SELECT generation FROM worlds WHERE key = ?", (world,))[0][0]
    rows = fetch(connection, "SELECT world, generation FROM aliases WHERE key = ?", (domain,))
    if rows and rows[0][0] != world:
        raise DomainNotFound(domain)
    return rows[0][1] if rows else None


def _names_of(connection: apsw.Connection, world: int, number: int) -> list[str]:
    """Return what names a generation, in words for a message."""
    default = fetch(
        connection, "SELECT 1 FROM worlds WHERE key = ? AND generation = ?", (world, number)
    )
    rows = fetch(
        connection,
        "SELECT key FROM aliases WHERE world = ? AND generation = ? ORDER BY key",
        (world, number),
    )
    return [*(["the world itself"] if default else []), *(f"domain {row[0]!r}" for row in rows)]
