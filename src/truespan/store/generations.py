"""Generations of a world, and the aliases that name them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

from truespan.errors import DomainNotFound, GenerationInUse, GenerationNotFound
from truespan.store.erasure import queue_files
from truespan.store.rows import TAILS, read_generation
from truespan.store.session import Part, Session, retry_on_conflict
from truespan.types.document import DomainRecord, GenerationRecord, KeptGeneration
from truespan.types.ids import WorldId
from truespan.types.profile import ChunkingProfile, EmbeddingProfile, chunking_to_json
from truespan.types.scope import Authority, Generation, Scope

_DEFAULT: Final = ""
"""How the default of a world is named among the aliases that were moved."""

_OF_WORLD: Final = ("states", "repairs", "probes", "words")
_OF_REVISIONS: Final = ("chunks", "tallies", "tails", "tail_marks", "word_counts")
"""The tables with rows of a generation: of a world, or of a revision of it."""


class Generations(Part):
    """The part of the store that knows the generations of a world, and what names each one."""

    def generations(self, scope: Scope) -> list[GenerationRecord]:
        """Return every generation of the world, by number, with what it holds."""
        with self._db.read(scope, shared=True) as session:
            return _read_records(session)

    def kept_generations(self, scope: Scope) -> list[KeptGeneration]:
        """Return every generation of the world that is not being removed, by number."""
        with self._db.read(scope, shared=True) as session:
            rows = session.all(
                """SELECT g.number, g.profile, g.chunking,
                     g.number IS NOT DISTINCT FROM w.generation OR EXISTS
                       (SELECT 1 FROM aliases a
                         WHERE a.world_id = w.world_id AND a.generation = g.number)
                   FROM worlds w JOIN generations g ON g.world_id = w.world_id
                   WHERE w.world_id = :world AND g.removed_at IS NULL ORDER BY g.number"""
            )
        return [KeptGeneration(read_generation(*row[:3]), bool(row[3])) for row in rows]

    @retry_on_conflict
    def add_generation(
        self, scope: Scope, profile: EmbeddingProfile, chunking: ChunkingProfile | None
    ) -> Generation:
        """Begin another generation, which no alias names yet."""
        with self._db.write(scope) as session:
            number = session.value(
                """UPDATE worlds SET next_generation = next_generation + 1
                   WHERE world_id = :world RETURNING next_generation - 1"""
            )
            session.insert(
                "generations",
                number=number,
                profile_id=profile.id,
                profile=json.dumps(asdict(profile)),
                created_at=self._clock.now(),
                chunking=chunking_to_json(chunking) if chunking else None,
            )
        return Generation(number, profile, chunking)

    @retry_on_conflict
    def move_alias(self, scope: Scope, domain: str | None) -> bool:
        """Let an alias name the scope's generation, if that is complete at this moment."""
        to = scope.generation.number
        with self._db.write(scope, shared=True) as session:
            current = _find_named(session, domain)
            complete = {
                record.generation.number: record.complete for record in _read_records(session)
            }
            if not complete.get(to):
                return False
            if current == to:
                # No move: the generation before must stay the one to go back to.
                return True
            if domain is None:
                session.execute(
                    "UPDATE worlds SET generation = :number WHERE world_id = :world", number=to
                )
            else:
                # An alias that another world has taken meanwhile stays what it is.
                written = session.execute(
                    """INSERT INTO aliases (key, world_id, generation, moved_at)
                       VALUES (:key, :world, :generation, :now)
                       ON CONFLICT (key) DO UPDATE SET generation = excluded.generation,
                         moved_at = excluded.moved_at WHERE aliases.world_id = excluded.world_id""",
                    key=domain,
                    generation=to,
                    now=self._clock.now(),
                )
                if not written:
                    raise DomainNotFound(domain)
            session.insert(
                "alias_moves",
                alias=domain or _DEFAULT,
                came_from=current,
                went_to=to,
                moved_at=self._clock.now(),
            )
            session.touch_world()
        return True

    def previous_generation(self, scope: Scope, domain: str | None) -> int | None:
        """Return what an alias named before its last move, if that still exists."""
        row = self._db.at(scope).one(
            """SELECT m.came_from, EXISTS (SELECT 1 FROM generations g WHERE g.world_id = :world
                 AND g.number = m.came_from AND g.removed_at IS NULL)
               FROM alias_moves m WHERE m.world_id = :world AND m.alias = :alias
               ORDER BY m.number DESC LIMIT 1""",
            alias=domain or _DEFAULT,
        )
        return row[0] if row and row[1] else None

    def domains(self, authority: Authority) -> list[DomainRecord]:
        """Return the domains of the worlds an authority sees, by key."""
        rows = self._db.shared.all(
            """SELECT a.key, WORLD_TEXT(d), d.name, a.generation
               FROM aliases a JOIN directory d ON d.world_id = a.world_id ORDER BY a.key"""
        )
        return [DomainRecord(*row) for row in rows if authority.sees(WorldId(row[1]))]

    @retry_on_conflict
    def remove_domain(self, scope: Scope, key: str) -> None:
        """Remove the name of a domain; the generation stays."""
        with self._db.write(scope, shared=True) as session:
            removed = session.execute(
                "DELETE FROM aliases WHERE world_id = :world AND key = :key", key=key
            )
            if not removed:
                raise DomainNotFound(key)
            # A domain of that name that is made later has no past.
            session.execute(
                "DELETE FROM alias_moves WHERE world_id = :world AND alias = :key", key=key
            )
            session.touch_world()

    @retry_on_conflict
    def retire_generation(self, scope: Scope) -> None:
        """Let nothing name the scope's generation any more."""
        number = scope.generation.number
        with self._db.write(scope, shared=True) as session:
            names = _list_names(session, number)
            if names:
                raise GenerationInUse(number, ", ".join(names))
            found = session.execute(
                """UPDATE generations SET removed_at = coalesce(removed_at, :now)
                   WHERE world_id = :world AND number = :number""",
                now=self._clock.now(),
                number=number,
            )
            if not found:
                raise GenerationNotFound(number)
            session.touch_world()

    def retired_generations(self, scope: Scope) -> list[Generation]:
        """Return generations that were retired and whose rows remain."""
        rows = self._db.at(scope).all(
            """SELECT number, profile, chunking FROM generations
               WHERE world_id = :world AND removed_at IS NOT NULL ORDER BY number""",
        )
        return [read_generation(*row) for row in rows]

    @retry_on_conflict
    def remove_generation(self, scope: Scope) -> None:
        """Remove the rows of a retired generation, and the vectors that nothing else needs."""
        number = scope.generation.number
        with self._db.write(scope, shared=True) as session:
            session.disable_timeout()
            profile = session.value(
                """DELETE FROM generations
                   WHERE world_id = :world AND number = :number AND removed_at IS NOT NULL
                   RETURNING profile""",
                number=number,
            )
            if profile is None:
                return
            for table in _OF_REVISIONS:
                session.execute(
                    f"""DELETE FROM {table} WHERE generation = :number AND revision IN
                          (SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
                            WHERE d.world_id = :world)""",
                    number=number,
                )
            for table in _OF_WORLD:
                session.execute(
                    f"DELETE FROM {table} WHERE world_id = :world AND generation = :number",
                    number=number,
                )
            # What only this generation needed: vectors of its texts, and of its profile.
            session.execute(
                f"""DELETE FROM vectors WHERE world_id = :world AND (
                      profile_id NOT IN
                        (SELECT profile_id FROM generations WHERE world_id = :world)
                      OR (NOT EXISTS (SELECT 1 FROM states s WHERE s.world_id = :world
                            AND s.text_hash = vectors.text_hash)
                        AND NOT EXISTS (SELECT 1 FROM {TAILS}
                          AND t.text_hash = vectors.text_hash)))"""
            )
            queue_files(session, [profile], self._clock.now(), urgent=False)
            session.touch_world()


def _read_records(session: Session) -> list[GenerationRecord]:
    rows = session.all(
        """SELECT g.number, g.profile, g.chunking, g.created_at, count(t.revision),
             coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0),
             coalesce(sum(t.quarantined), 0), count(r.key) - count(t.revision),
             g.number IS NOT DISTINCT FROM w.generation
           FROM worlds w
           JOIN generations g ON g.world_id = w.world_id
           LEFT JOIN documents d ON d.world_id = w.world_id AND d.deleted_at IS NULL
           LEFT JOIN revisions r ON r.document = d.key AND r.state = 'active'
           LEFT JOIN tallies t ON t.revision = r.key AND t.generation = g.number
           WHERE w.world_id = :world AND g.removed_at IS NULL
           GROUP BY w.world_id, w.generation, g.number, g.profile, g.chunking, g.created_at
           ORDER BY g.number"""
    )
    names = session.all("SELECT generation, key FROM aliases WHERE world_id = :world ORDER BY key")
    records = []
    for row in rows:
        number, profile, chunking, created = row[:4]
        documents, chunks, embedded, quarantined, missing, is_default = row[4:]
        records.append(
            GenerationRecord(
                generation=read_generation(number, profile, chunking),
                created_at=created,
                documents=documents,
                chunks=chunks,
                embedded=embedded,
                pending=chunks - embedded - quarantined,
                quarantined=quarantined,
                missing=missing,
                is_default=bool(is_default),
                domains=tuple(key for named, key in names if named == number),
            )
        )
    return records


def _find_named(session: Session, domain: str | None) -> int | None:
    """Return the generation that an alias names at this moment."""
    if domain is None:
        return session.value("SELECT generation FROM worlds WHERE world_id = :world")
    row = session.one(
        "SELECT world_id = :world, generation FROM aliases WHERE key = :key", key=domain
    )
    if row and not row[0]:
        raise DomainNotFound(domain)
    return row[1] if row else None


def _list_names(session: Session, number: int) -> list[str]:
    """Return what names a generation, in words for a message."""
    default = session.one(
        "SELECT 1 FROM worlds WHERE world_id = :world AND generation = :number", number=number
    )
    rows = session.all(
        "SELECT key FROM aliases WHERE world_id = :world AND generation = :number ORDER BY key",
        number=number,
    )
    return [*(["the world itself"] if default else []), *(f"domain {row[0]!r}" for row in rows)]
