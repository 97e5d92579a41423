"""Rows of generations: adding, retiring and removing them, their aliases and calibrations."""

from __future__ import annotations

from typing import Final

from truespan import errors
from truespan.store.engines.session import Part, retry_on_conflict
from truespan.store.integrity.erasure import queue_files
from truespan.store.tables.fragments import TAILS
from truespan.store.tables.worlds import insert_generation, read_records
from truespan.types.profile import ChunkingProfile, EmbeddingProfile
from truespan.types.scope import Generation, Scope

_WORLD_ALIAS: Final = ""
"""Name of the default of a world in `alias_moves`."""

_OF_WORLD: Final = ("states", "repairs", "probes", "words")
_OF_REVISIONS: Final = ("chunks", "tallies", "tails", "tail_marks", "word_counts")
"""Tables with rows of a generation: of its world, or of a revision."""


class GenerationRows(Part):
    """The generations of worlds beside the first, their aliases, and kept calibrations."""

    @retry_on_conflict
    def add_generation(
        self, scope: Scope, profile: EmbeddingProfile, chunking: ChunkingProfile | None
    ) -> Generation:
        """Add a generation, which no alias names yet."""
        with self._db.write(scope) as session:
            number = session.value(
                """UPDATE worlds SET next_generation = next_generation + 1
                   WHERE world_id = :world RETURNING next_generation - 1"""
            )
            insert_generation(session, scope.world, number, profile, chunking, self._clock.now())
        return Generation(number, profile, chunking)

    @retry_on_conflict
    def move_alias(self, scope: Scope, domain: str | None) -> bool:
        """Point an alias to the scope's generation, if that is complete; return whether it is."""
        to = scope.generation.number
        with self._db.write(scope, shared=True) as session:
            if domain is None:
                current = session.value("SELECT generation FROM worlds WHERE world_id = :world")
            else:
                alias = session.one(
                    "SELECT generation, world_id = :world FROM aliases WHERE key = :key", key=domain
                )
                current, own = alias or (None, True)
                if not own:
                    raise errors.NotFound("domain", domain)
            complete = {
                record.generation.number: record.complete for record in read_records(session)
            }
            if not complete.get(to):
                return False
            if current == to:
                # No move, so that a rollback still leads to the previous generation.
                return True
            if domain is None:
                session.execute(
                    "UPDATE worlds SET generation = :number WHERE world_id = :world", number=to
                )
            else:
                # An alias that another world has taken meanwhile is not changed.
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
                    raise errors.NotFound("domain", domain)
            session.insert(
                "alias_moves",
                alias=domain or _WORLD_ALIAS,
                came_from=current,
                went_to=to,
                moved_at=self._clock.now(),
            )
            session.touch_world()
        return True

    def previous_generation(self, scope: Scope, domain: str | None) -> int | None:
        """Return the previous generation of an alias, if that still exists."""
        row = self._db.at(scope, alias=domain or _WORLD_ALIAS).one(
            """SELECT m.came_from, EXISTS (SELECT 1 FROM generations g WHERE g.world_id = :world
                 AND g.number = m.came_from AND g.removed_at IS NULL)
               FROM alias_moves m WHERE m.world_id = :world AND m.alias = :alias
               ORDER BY m.number DESC LIMIT 1"""
        )
        return row[0] if row and row[1] else None

    @retry_on_conflict
    def remove_domain(self, scope: Scope, key: str) -> None:
        """Remove the name of a domain; the generation stays."""
        with self._db.write(scope, shared=True) as session:
            removed = session.execute(
                "DELETE FROM aliases WHERE world_id = :world AND key = :key", key=key
            )
            if not removed:
                raise errors.NotFound("domain", key)
            # A later domain of that name must not inherit them.
            session.execute(
                "DELETE FROM alias_moves WHERE world_id = :world AND alias = :key", key=key
            )
            session.touch_world()

    @retry_on_conflict
    def retire_generation(self, scope: Scope) -> None:
        """Mark the scope's generation as being removed; from then on nothing can name it."""
        number = scope.generation.number
        with self._db.write(scope, shared=True) as session:
            default = session.value("SELECT generation FROM worlds WHERE world_id = :world")
            rows = session.all(
                """SELECT key FROM aliases
                   WHERE world_id = :world AND generation = :generation ORDER BY key"""
            )
            names = ["the world itself"] if default == number else []
            if names := [*names, *(f"domain {key!r}" for (key,) in rows)]:
                raise errors.Conflict(
                    code="generation_in_use", number=number, names=", ".join(names)
                )
            found = session.execute(
                """UPDATE generations SET removed_at = coalesce(removed_at, :now)
                   WHERE world_id = :world AND number = :generation""",
                now=self._clock.now(),
            )
            if not found:
                raise errors.NotFound("generation", number)
            session.touch_world()

    @retry_on_conflict
    def remove_generation(self, scope: Scope) -> None:
        """Remove the rows of a retired generation, and vectors that nothing else needs."""
        with self._db.write(scope, shared=True) as session:
            session.disable_timeout()
            profile = session.value(
                """DELETE FROM generations
                   WHERE world_id = :world AND number = :generation AND removed_at IS NOT NULL
                   RETURNING profile"""
            )
            if profile is None:
                return
            for table in _OF_REVISIONS:
                session.execute(
                    f"""DELETE FROM {table} WHERE generation = :generation AND revision IN
                          (SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
                            WHERE d.world_id = :world)"""
                )
            for table in _OF_WORLD:
                session.execute(
                    f"DELETE FROM {table} WHERE world_id = :world AND generation = :generation"
                )
            # Vectors of texts and of profiles that no other generation has.
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

    @retry_on_conflict
    def forget_calibration(self, scope: Scope) -> bool:
        """Remove the calibration of the scope's profile; return whether there was one."""
        with self._db.write(scope) as session:
            removed = session.execute(
                "DELETE FROM calibrations WHERE world_id = :world AND profile_id = :profile",
                profile=scope.profile.id,
            )
            if removed:
                session.touch_world()
        return removed > 0
