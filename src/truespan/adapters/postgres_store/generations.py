"""Generations and the aliases that name them, in PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

from truespan.adapters.postgres_store.connection import (
    BOTH,
    Connections,
    Row,
    Session,
    again_on_conflict,
    be_patient,
    change,
    fetch,
)
from truespan.adapters.postgres_store.erasure_queue import queue_files
from truespan.adapters.postgres_store.worlds import lock_world, touch_world
from truespan.adapters.stored_rows import generation_of
from truespan.errors import DomainNotFound, GenerationInUse, GenerationNotFound
from truespan.protocols import Clock
from truespan.types.document import DomainRecord, GenerationRecord, KeptGeneration
from truespan.types.ids import WorldId
from truespan.types.profile import ChunkingProfile, EmbeddingProfile, spelled
from truespan.types.scope import Authority, Generation, Scope

_DEFAULT = ""
"""How a world's own default is spelled among the aliases that were moved."""

_RECORDS: Final = """
    SELECT g.number, g.profile, g.chunking, g.created_at, count(t.revision),
      coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0), coalesce(sum(t.quarantined), 0),
      count(r.key) - count(t.revision), g.number IS NOT DISTINCT FROM w.generation,
      ARRAY(SELECT a.key FROM truespan_shared.aliases a
        WHERE a.world_id = w.world_id AND a.generation = g.number ORDER BY 1)
    FROM generations g
    CROSS JOIN worlds w
    LEFT JOIN documents d ON d.deleted_at IS NULL
    LEFT JOIN revisions r ON r.document = d.key AND r.state = 'active'
    LEFT JOIN tallies t ON t.revision = r.key AND t.generation = g.number
    WHERE g.removed_at IS NULL
    GROUP BY g.world_id, g.number, w.world_id ORDER BY g.number
"""


class PostgresGenerations:
    """The part of the store that knows which builds of a world there are, and who names which."""

    _connections: Connections
    _clock: Clock

    def generations(self, scope: Scope) -> list[GenerationRecord]:
        """Return every generation of the world, by number, with what it holds."""
        with self._connections.reading(scope.world, BOTH) as session:
            return [_record(row) for row in fetch(session, _RECORDS)]

    def kept_generations(self, scope: Scope) -> list[KeptGeneration]:
        """Return every generation of the world that is not being removed, by number."""
        with self._connections.reading(scope.world, BOTH) as session:
            rows = fetch(
                session,
                """SELECT g.number, g.profile, g.chunking,
                     g.number IS NOT DISTINCT FROM w.generation OR EXISTS
                     (SELECT 1 FROM truespan_shared.aliases a
                       WHERE a.world_id = w.world_id AND a.generation = g.number)
                   FROM generations g CROSS JOIN worlds w
                   WHERE g.removed_at IS NULL ORDER BY g.number""",
            )
        return [KeptGeneration(generation_of(*row[:3]), row[3]) for row in rows]

    @again_on_conflict
    def add_generation(
        self, scope: Scope, profile: EmbeddingProfile, chunking: ChunkingProfile | None
    ) -> Generation:
        """Begin another generation, which no alias names yet."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            number = fetch(
                session,
                """UPDATE worlds SET next_generation = next_generation + 1
                   RETURNING next_generation - 1""",
            )[0][0]
            session.execute(
                """INSERT INTO generations (number, profile_id, profile, created_at, chunking)
                   VALUES (%s, %s, %s, %s, %s)""",
                (
                    number,
                    profile.id,
                    json.dumps(asdict(profile)),
                    self._clock.now(),
                    spelled(chunking) if chunking else None,
                ),
            )
        return Generation(number, profile, chunking)

    @again_on_conflict
    def move_alias(self, scope: Scope, domain: str | None) -> bool:
        """Let an alias name the scope's generation, if that is complete at this moment."""
        to = scope.generation.number
        with self._connections.writing(scope.world, BOTH) as session:
            lock_world(session, scope.world)
            current = _named_by(session, scope.world, domain)
            if not _is_complete(session, to):
                return False
            if current == to:
                # No move: the one before must stay the one to go back to.
                return True
            if domain is None:
                session.execute("UPDATE worlds SET generation = %s", (to,))
            else:
                _point(session, scope.world, domain, to, self._clock.now())
            session.execute(
                """INSERT INTO alias_moves (alias, came_from, went_to, moved_at)
                   VALUES (%s, %s, %s, %s)""",
                (domain or _DEFAULT, current, to, self._clock.now()),
            )
            touch_world(session)
        return True

    def previous_generation(self, scope: Scope, domain: str | None) -> int | None:
        """Return what an alias named before its last move, if that is still there."""
        rows = self._connections.query(
            scope.world,
            """SELECT m.came_from, EXISTS (SELECT 1 FROM generations g
                 WHERE g.number = m.came_from AND g.removed_at IS NULL)
               FROM alias_moves m WHERE m.alias = %s ORDER BY m.number DESC LIMIT 1""",
            (domain or _DEFAULT,),
        )
        return rows[0][0] if rows and rows[0][1] else None

    def domains(self, authority: Authority) -> list[DomainRecord]:
        """Return the domains of the worlds an authority sees, by key."""
        rows = self._connections.query_shared(
            """SELECT a.key, d.world_id::text, d.name, a.generation
               FROM truespan_shared.aliases a
               JOIN truespan_shared.directory d USING (world_id) ORDER BY a.key"""
        )
        return [DomainRecord(*row) for row in rows if authority.sees(WorldId(row[1]))]

    @again_on_conflict
    def remove_domain(self, scope: Scope, key: str) -> None:
        """Forget a domain's name; the generation stays."""
        with self._connections.writing(scope.world, BOTH) as session:
            lock_world(session, scope.world)
            gone = change(
                session,
                "DELETE FROM truespan_shared.aliases WHERE key = %s AND world_id = %s",
                (key, scope.world),
            )
            if not gone:
                raise DomainNotFound(key)
            # One of that name that is made later has no past.
            session.execute("DELETE FROM alias_moves WHERE alias = %s", (key,))
            touch_world(session)

    @again_on_conflict
    def retire_generation(self, scope: Scope) -> None:
        """Let nothing name the scope's generation any more."""
        number = scope.generation.number
        with self._connections.writing(scope.world, BOTH) as session:
            lock_world(session, scope.world)
            names = _names_of(session, scope.world, number)
            if names:
                raise GenerationInUse(number, ", ".join(names))
            found = change(
                session,
                "UPDATE generations SET removed_at = coalesce(removed_at, %s) WHERE number = %s",
                (self._clock.now(), number),
            )
            if not found:
                raise GenerationNotFound(number)
            touch_world(session)

    def retired_generations(self, scope: Scope) -> list[Generation]:
        """Return generations that were retired and whose rows remain."""
        rows = self._connections.query(
            scope.world,
            """SELECT number, profile, chunking FROM generations
               WHERE removed_at IS NOT NULL ORDER BY number""",
        )
        return [generation_of(*row) for row in rows]

    @again_on_conflict
    def remove_generation(self, scope: Scope) -> None:
        """Remove the rows of a retired generation, and the vectors that nothing else needs."""
        number = scope.generation.number
        with self._connections.writing(scope.world, BOTH) as session:
            lock_world(session, scope.world)
            be_patient(session)
            profiles = fetch(
                session,
                """DELETE FROM generations WHERE number = %s AND removed_at IS NOT NULL
                   RETURNING profile""",
                (number,),
            )
            if not profiles:
                return
            for statement in _ROWS:
                session.execute(statement, (number,))
            now = self._clock.now()
            queue_files(session, [row[0] for row in profiles], now, urgent=False)
            # What only this generation needed: vectors of its texts, and of its profile.
            session.execute(
                """DELETE FROM vectors v WHERE v.profile_id NOT IN
                     (SELECT profile_id FROM generations)
                   OR (NOT EXISTS (SELECT 1 FROM states s WHERE s.text_hash = v.text_hash)
                     AND NOT EXISTS (SELECT 1 FROM tails t WHERE t.text_hash = v.text_hash))"""
            )
            touch_world(session)


_ROWS: Final = (
    "DELETE FROM chunks WHERE generation = %s",
    "DELETE FROM tallies WHERE generation = %s",
    "DELETE FROM tails WHERE generation = %s",
    "DELETE FROM tail_marks WHERE generation = %s",
    "DELETE FROM word_counts WHERE generation = %s",
    "DELETE FROM states WHERE generation = %s",
    "DELETE FROM repairs WHERE generation = %s",
    "DELETE FROM probes WHERE generation = %s",
    "DELETE FROM words WHERE generation = %s",
)
"""What belongs to a generation, and goes with it."""


def is_kept(session: Session, generation: int) -> bool:
    """Say whether a generation is there and not being removed."""
    return bool(
        fetch(
            session,
            "SELECT 1 FROM generations WHERE number = %s AND removed_at IS NULL",
            (generation,),
        )
    )


def _record(row: Row) -> GenerationRecord:
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
        is_default=is_default,
        domains=tuple(domains),
    )


def _is_complete(session: Session, number: int) -> bool:
    records = [_record(row) for row in fetch(session, _RECORDS)]
    return any(one.complete for one in records if one.generation.number == number)


def _named_by(session: Session, world: str, domain: str | None) -> int | None:
    if domain is None:
        return fetch(session, "SELECT generation FROM worlds")[0][0]
    rows = fetch(
        session,
        "SELECT world_id::text, generation FROM truespan_shared.aliases WHERE key = %s",
        (domain,),
    )
    if rows and rows[0][0] != world:
        raise DomainNotFound(domain)
    return rows[0][1] if rows else None


def _point(session: Session, world: str, domain: str, to: int, now: float) -> None:
    """Write an alias; one that another world took meanwhile stays what it is."""
    written = change(
        session,
        """INSERT INTO truespan_shared.aliases AS a (key, world_id, generation, moved_at)
           VALUES (%s, %s, %s, %s)
           ON CONFLICT (key) DO UPDATE SET generation = excluded.generation,
             moved_at = excluded.moved_at WHERE a.world_id = excluded.world_id""",
        (domain, world, to, now),
    )
    if not written:
        raise DomainNotFound(domain)


def _names_of(session: Session, world: str, number: int) -> list[str]:
    """Return what names a generation, in words for a message."""
    default = fetch(session, "SELECT 1 FROM worlds WHERE generation = %s", (number,))
    rows = fetch(
        session,
        """SELECT key FROM truespan_shared.aliases
           WHERE world_id = %s AND generation = %s ORDER BY key""",
        (world, number),
    )
    return [*(["the world itself"] if default else []), *(f"domain {row[0]!r}" for row in rows)]
