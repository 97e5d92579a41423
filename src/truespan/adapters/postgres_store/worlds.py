"""Worlds and generations in PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final
from uuid import UUID, uuid4

import psycopg

from truespan.adapters.postgres_store.connection import (
    BOTH,
    Connections,
    Row,
    Session,
    again_on_conflict,
    enter,
    fetch,
)
from truespan.adapters.stored_rows import generation_of
from truespan.errors import WorldExists, WorldNotFound
from truespan.protocols import Clock
from truespan.types.document import WorldStatus
from truespan.types.ids import WorldId
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World

_COLUMNS: Final = "SELECT w.changes, g.number, g.profile, g.chunking FROM worlds w"
_DEFAULT: Final = f"{_COLUMNS} LEFT JOIN generations g ON g.number = w.generation"
_NUMBERED: Final = f"{_COLUMNS} JOIN generations g ON g.number = %s AND g.removed_at IS NULL"
_ALIASED: Final = f"{_COLUMNS} JOIN generations g ON g.number = %s"


class PostgresWorlds:
    """The part of the store that knows worlds."""

    _connections: Connections
    _clock: Clock

    def create_world(self, authority: Authority, name: str) -> World:
        """Make an empty world; it gets its generation with its first document."""
        world = WorldId(str(uuid4()))
        if not authority.may(Verb.ADMINISTER, world):
            raise WorldNotFound(name)
        try:
            with self._connections.writing(world, BOTH) as session:
                session.execute(
                    """INSERT INTO truespan_shared.directory (world_id, name, created_at)
                       VALUES (%s, %s, %s)""",
                    (world, name, self._clock.now()),
                )
                session.execute("INSERT INTO worlds DEFAULT VALUES")
        except psycopg.errors.UniqueViolation as error:
            raise WorldExists(name) from error
        return World(world, name, None, 0)

    def worlds(self, authority: Authority) -> list[World]:
        """Return the worlds this authority may read, by name."""
        with self._connections.surveying() as session:
            listed = fetch(
                session, "SELECT world_id::text, name FROM truespan_shared.directory ORDER BY name"
            )
            seen = [(world, name) for world, name in listed if authority.sees(WorldId(world))]
            # One after the other, but sent together: there may be many.
            with session.pipeline():
                asked = [_default(session, world) for world, _ in seen]
            return [
                _world(world, name, row)
                for (world, name), cursor in zip(seen, asked, strict=True)
                for row in cursor
            ]

    def find_world(
        self, authority: Authority, reference: str, aim: GenerationSelector = None
    ) -> World | None:
        """Return the world with this id or name, with the generation that is aimed at.

        Whether the authority sees it is known before anything of the world is read.
        """
        with self._connections.surveying() as session:
            named = _named(session, reference)
            if named is None or not authority.sees(WorldId(named[0])):
                return None
            world, name = named
            if isinstance(aim, str):
                return _aliased(session, world, name, aim)
            enter(session, world)
            rows = fetch(session, _DEFAULT) if aim is None else fetch(session, _NUMBERED, (aim,))
        return _world(world, name, rows[0], aim) if rows else None

    def find_domain(self, authority: Authority, key: str) -> World | None:
        """Return the world of a domain, with the generation its alias names."""
        with self._connections.surveying() as session:
            rows = fetch(
                session,
                """SELECT d.world_id::text, d.name FROM truespan_shared.aliases a
                   JOIN truespan_shared.directory d USING (world_id) WHERE a.key = %s""",
                (key,),
            )
            if not rows or not authority.sees(WorldId(rows[0][0])):
                return None
            world, name = rows[0]
            return _aliased(session, world, name, key)

    @again_on_conflict
    def begin_generation(
        self, authority: Authority, world: WorldId, profile: EmbeddingProfile
    ) -> World:
        """Lock `profile` to the world's first generation, unless it has one already."""
        if not authority.may(Verb.WRITE, world):
            raise WorldNotFound(world)
        with self._connections.writing(world) as session:
            lock_world(session, world)
            if fetch(session, "SELECT generation IS NULL FROM worlds")[0][0]:
                session.execute(
                    """INSERT INTO generations (number, profile_id, profile, created_at)
                       VALUES (1, %s, %s, %s)""",
                    (profile.id, json.dumps(asdict(profile)), self._clock.now()),
                )
                session.execute("UPDATE worlds SET generation = 1, changes = changes + 1")
        found = self.find_world(authority, world)
        if found is None:
            raise WorldNotFound(world)
        return found

    def status(self, scope: Scope) -> WorldStatus:
        """Count what the world holds."""
        generation = scope.generation.number
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            documents, chunks, embedded, quarantined = fetch(
                session,
                """SELECT count(*), coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0),
                     coalesce(sum(t.quarantined), 0)
                   FROM documents d
                   JOIN revisions r ON r.document = d.key AND r.state = 'active'
                   LEFT JOIN tallies t ON t.revision = r.key AND t.generation = %s
                   WHERE d.deleted_at IS NULL""",
                (generation,),
            )[0]
            repairs = fetch(
                session, "SELECT count(*) FROM repairs WHERE generation = %s", (generation,)
            )[0][0]
            vectors = fetch(session, "SELECT count(*) FROM vectors")[0][0]
        return WorldStatus(
            documents=documents,
            chunks=chunks,
            embedded=embedded,
            pending=chunks - embedded - quarantined,
            quarantined=quarantined,
            repairs=repairs,
            vectors=vectors,
        )


def lock_world(session: Session, world: str) -> None:
    """Have the world to oneself for writing until the transaction ends; others go on reading.

    Writers of one world so follow each other, as they do where there is one file; those of other
    worlds are not held up.

    Raises:
        WorldNotFound: it was deleted since the scope was made.
    """
    if not fetch(session, "SELECT 1 FROM worlds FOR NO KEY UPDATE"):
        raise WorldNotFound(world)


def require_world(session: Session, world: str) -> None:
    """Refuse to go on in a world that was deleted since the scope was made."""
    if not fetch(session, "SELECT 1 FROM worlds"):
        raise WorldNotFound(world)


def touch_world(session: Session) -> None:
    """Record that something a reader of the world could see has changed."""
    session.execute("UPDATE worlds SET changes = changes + 1")


def each_world(session: Session) -> list[str]:
    """Return the ids of all worlds, in the order in which whoever locks several must do so."""
    rows = fetch(session, "SELECT world_id::text FROM truespan_shared.directory ORDER BY world_id")
    return [row[0] for row in rows]


def _named(session: Session, reference: str) -> tuple[str, str] | None:
    """Return id and name of the world that is called this; an id wins over a name."""
    rows = fetch(
        session,
        """SELECT world_id::text, name FROM truespan_shared.directory
           WHERE world_id = %(id)s::uuid OR name = %(name)s
           ORDER BY coalesce(world_id = %(id)s::uuid, false) DESC LIMIT 1""",
        {"id": _as_id(reference), "name": reference},
    )
    return (rows[0][0], rows[0][1]) if rows else None


def _default(session: Session, world: str) -> psycopg.Cursor[Row]:
    enter(session, world)
    return session.execute(_DEFAULT)


def _as_id(reference: str) -> str | None:
    try:
        return reference if str(UUID(reference)) == reference else None
    except ValueError:
        return None


def _aliased(session: Session, world: str, name: str, key: str) -> World | None:
    """Return a world with the generation that one of its domains names."""
    rows = fetch(
        session,
        "SELECT generation FROM truespan_shared.aliases WHERE key = %s AND world_id = %s",
        (key, world),
    )
    if not rows:
        return None
    enter(session, world)
    found = fetch(session, _ALIASED, rows[0])
    return _world(world, name, found[0], key) if found else None


def _world(world: str, name: str, row: Row, aim: GenerationSelector = None) -> World:
    changes, number, profile, chunking = row
    generation = generation_of(number, profile, chunking) if number is not None else None
    return World(WorldId(world), name, generation, changes, aim)
