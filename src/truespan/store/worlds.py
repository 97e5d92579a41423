"""Worlds: their names, the generation that readers of each one see, and what each holds."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final
from uuid import UUID, uuid4

from truespan.errors import WorldExists, WorldNotFound
from truespan.store.rows import read_generation
from truespan.store.session import DuplicateRow, Part, Row, Session, retry_on_conflict
from truespan.types.document import WorldStatus
from truespan.types.ids import WorldId
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World

_DEFAULT: Final = """
    SELECT w.changes, g.number, g.profile, g.chunking FROM worlds w
    LEFT JOIN generations g ON g.world_id = w.world_id AND g.number = w.generation
    WHERE w.world_id = :world
"""
_NUMBERED: Final = """
    SELECT w.changes, g.number, g.profile, g.chunking FROM worlds w
    JOIN generations g ON g.world_id = w.world_id AND g.number = :number
    WHERE w.world_id = :world AND (g.removed_at IS NULL OR :aliased)
"""


class Worlds(Part):
    """The part of the store that knows worlds."""

    def create_world(self, authority: Authority, name: str) -> World:
        """Make an empty world; it gets its first generation with its first document."""
        world = WorldId(str(uuid4()))
        if not authority.may(Verb.ADMINISTER, world):
            raise WorldNotFound(name)
        try:
            with self._db.write_every_world() as session:
                session.create_world(world, name, self._clock.now())
        except DuplicateRow as error:
            raise WorldExists(name) from error
        return World(world, name, None, 0)

    def worlds(self, authority: Authority) -> list[World]:
        """Return the worlds that this authority may read, by name."""
        with self._db.read_every_world() as session:
            named = session.all("SELECT WORLD_TEXT(d), d.name FROM directory d ORDER BY d.name")
            visible = [(world, name) for world, name in named if authority.sees(WorldId(world))]
            found = session.in_each([world for world, _ in visible], _DEFAULT)
        return [
            _read_world(world, name, row)
            for (world, name), rows in zip(visible, found, strict=True)
            for row in rows
        ]

    def find_world(
        self, authority: Authority, reference: str, selector: GenerationSelector = None
    ) -> World | None:
        """Return the world with this id or name, with the generation that is selected.

        The authority is checked before anything of the world is read.
        """
        with self._db.read_every_world() as session:
            named = session.one(
                # An id wins over a name.
                """SELECT WORLD_TEXT(d), d.name FROM directory d
                   WHERE IS_WORLD(d, :id) OR d.name = :reference
                   ORDER BY coalesce(IS_WORLD(d, :id), false) DESC LIMIT 1""",
                id=reference if _is_id(reference) else None,
                reference=reference,
            )
            if named is None or not authority.sees(WorldId(named[0])):
                return None
            if isinstance(selector, str):
                return _find_aliased(session, named, selector)
            if selector is None:
                [rows] = session.in_each([named[0]], _DEFAULT)
            else:
                [rows] = session.in_each([named[0]], _NUMBERED, number=selector, aliased=False)
        return _read_world(named[0], named[1], rows[0], selector) if rows else None

    def find_domain(self, authority: Authority, key: str) -> World | None:
        """Return the world of a domain, with the generation that its alias names."""
        with self._db.read_every_world() as session:
            named = session.one(
                """SELECT WORLD_TEXT(d), d.name FROM aliases a
                   JOIN directory d ON d.world_id = a.world_id WHERE a.key = :key""",
                key=key,
            )
            if named is None or not authority.sees(WorldId(named[0])):
                return None
            return _find_aliased(session, named, key)

    @retry_on_conflict
    def _begin_generation(self, world: WorldId, profile: EmbeddingProfile) -> None:
        with self._db.write(world) as session:
            if session.value("SELECT generation FROM worlds WHERE world_id = :world") is None:
                session.insert(
                    "generations",
                    number=1,
                    profile_id=profile.id,
                    profile=json.dumps(asdict(profile)),
                    created_at=self._clock.now(),
                )
                session.execute("UPDATE worlds SET generation = 1 WHERE world_id = :world")
                session.touch_world()

    def begin_generation(
        self, authority: Authority, world: WorldId, profile: EmbeddingProfile
    ) -> World:
        """Lock `profile` to the world's first generation, unless it has one already."""
        if not authority.may(Verb.WRITE, world):
            raise WorldNotFound(world)
        self._begin_generation(world, profile)
        found = self.find_world(authority, world)
        if found is None:
            raise WorldNotFound(world)
        return found

    def status(self, scope: Scope) -> WorldStatus:
        """Count what the world holds."""
        generation = scope.generation.number
        with self._db.read(scope) as session:
            [(documents, chunks, embedded, quarantined)] = session.all(
                """SELECT count(*), coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0),
                     coalesce(sum(t.quarantined), 0)
                   FROM documents d
                   JOIN revisions r ON r.document = d.key AND r.state = 'active'
                   LEFT JOIN tallies t ON t.revision = r.key AND t.generation = :generation
                   WHERE d.world_id = :world AND d.deleted_at IS NULL""",
                generation=generation,
            )
            repairs = session.value(
                "SELECT count(*) FROM repairs WHERE world_id = :world AND generation = :generation",
                generation=generation,
            )
            vectors = session.value("SELECT count(*) FROM vectors WHERE world_id = :world")
        return WorldStatus(
            documents=documents,
            chunks=chunks,
            embedded=embedded,
            pending=chunks - embedded - quarantined,
            quarantined=quarantined,
            repairs=repairs,
            vectors=vectors,
        )


def _find_aliased(session: Session, named: Row, key: str) -> World | None:
    """Return a world with the generation that one of its domains names."""
    world, name = named
    number = session.value(
        """SELECT a.generation FROM aliases a JOIN directory d ON d.world_id = a.world_id
           WHERE a.key = :key AND IS_WORLD(d, :id)""",
        key=key,
        id=world,
    )
    if number is None:
        return None
    [rows] = session.in_each([world], _NUMBERED, number=number, aliased=True)
    return _read_world(world, name, rows[0], key) if rows else None


def _is_id(reference: str) -> bool:
    try:
        return str(UUID(reference)) == reference
    except ValueError:
        return False


def _read_world(world: str, name: str, row: Row, selector: GenerationSelector = None) -> World:
    changes, number, profile, chunking = row
    generation = read_generation(number, profile, chunking) if number is not None else None
    return World(WorldId(world), name, generation, changes, selector)
