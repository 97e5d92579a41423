"""Worlds and generations in SQLite."""

from __future__ import annotations

import json
from dataclasses import asdict
from uuid import uuid4

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.stored_rows import generation_of
from truespan.errors import WorldExists, WorldNotFound
from truespan.protocols import Clock
from truespan.types.document import WorldStatus
from truespan.types.ids import WorldId
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World

_COLUMNS = "SELECT w.id, w.name, w.changes, g.number, g.profile, g.chunking FROM worlds w"
_WORLD = _COLUMNS + " LEFT JOIN generations g ON g.world = w.key AND g.number = w.generation"
_DOMAIN = (
    _COLUMNS
    + """ JOIN aliases a ON a.world = w.key AND a.key = ?
          JOIN generations g ON g.world = w.key AND g.number = a.generation"""
)
_NUMBERED = (
    _COLUMNS + " JOIN generations g ON g.world = w.key AND g.number = ? AND g.removed_at IS NULL"
)
_NAMED = " WHERE w.id = ? OR w.name = ? ORDER BY w.id = ? DESC LIMIT 1"


class SqliteWorlds:
    """The part of the store that knows worlds."""

    _connections: Connections
    _clock: Clock

    def create_world(self, authority: Authority, name: str) -> World:
        """Make an empty world; it gets its generation with its first document."""
        world = WorldId(str(uuid4()))
        if not authority.may(Verb.ADMINISTER, world):
            raise WorldNotFound(name)
        try:
            with self._connections.writing() as connection:
                connection.execute(
                    "INSERT INTO worlds (id, name, created_at) VALUES (?, ?, ?)",
                    (world, name, self._clock.now()),
                )
        except apsw.ConstraintError as error:
            raise WorldExists(name) from error
        return World(world, name, None, 0)

    def worlds(self, authority: Authority) -> list[World]:
        """Return the worlds this authority may read, by name."""
        rows = self._connections.query(_WORLD + " ORDER BY w.name")
        found = [_world(row) for row in rows]
        return [world for world in found if authority.sees(world.id)]

    def find_world(
        self, authority: Authority, reference: str, aim: GenerationSelector = None
    ) -> World | None:
        """Return the world with this id or name, with the generation that is aimed at."""
        if aim is None:
            rows = self._connections.query(_WORLD + _NAMED, (reference,) * 3)
        else:
            chosen = _DOMAIN if isinstance(aim, str) else _NUMBERED
            rows = self._connections.query(chosen + _NAMED, (aim, *(reference,) * 3))
        world = _world(rows[0], aim) if rows else None
        return world if world and authority.sees(world.id) else None

    def find_domain(self, authority: Authority, key: str) -> World | None:
        """Return the world of a domain, with the generation its alias names."""
        rows = self._connections.query(_DOMAIN, (key,))
        world = _world(rows[0], key) if rows else None
        return world if world and authority.sees(world.id) else None

    def begin_generation(
        self, authority: Authority, world: WorldId, profile: EmbeddingProfile
    ) -> World:
        """Lock `profile` to the world's first generation, unless it has one already."""
        if not authority.may(Verb.WRITE, world):
            raise WorldNotFound(world)
        with self._connections.writing() as connection:
            row = fetch(connection, "SELECT key, generation FROM worlds WHERE id = ?", (world,))
            if not row:
                raise WorldNotFound(world)
            if row[0][1] is None:
                connection.execute(
                    """INSERT INTO generations (world, number, profile_id, profile, created_at)
                       VALUES (?, 1, ?, ?, ?)""",
                    (row[0][0], profile.id, json.dumps(asdict(profile)), self._clock.now()),
                )
                connection.execute(
                    "UPDATE worlds SET generation = 1, changes = changes + 1 WHERE key = ?",
                    (row[0][0],),
                )
        found = self.find_world(authority, world)
        if found is None:
            raise WorldNotFound(world)
        return found

    def status(self, scope: Scope) -> WorldStatus:
        """Count what the world holds."""
        with self._connections.reading() as connection:
            key = world_key(connection, scope)
            generation = scope.generation.number
            documents, chunks, embedded, quarantined = fetch(
                connection,
                """SELECT count(*), coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0),
                     coalesce(sum(t.quarantined), 0)
                   FROM documents d
                   JOIN revisions r ON r.document = d.key AND r.state = 'active'
                   LEFT JOIN tallies t ON t.revision = r.key AND t.generation = ?
                   WHERE d.world = ? AND d.deleted_at IS NULL""",
                (generation, key),
            )[0]
            repairs = _count(
                connection,
                "SELECT count(*) FROM repairs WHERE world = ? AND generation = ?",
                (key, generation),
            )
            vectors = _count(connection, "SELECT count(*) FROM vectors WHERE world = ?", (key,))
        return WorldStatus(
            documents=documents,
            chunks=chunks,
            embedded=embedded,
            pending=chunks - embedded - quarantined,
            quarantined=quarantined,
            repairs=repairs,
            vectors=vectors,
        )


def world_key(connection: apsw.Connection, scope: Scope) -> int:
    """Return the scope's world as the number that rows carry.

    Raises:
        WorldNotFound: it was deleted since the scope was made.
    """
    rows = fetch(connection, "SELECT key FROM worlds WHERE id = ?", (scope.world,))
    if not rows:
        raise WorldNotFound(scope.world)
    return rows[0][0]


def touch_world(connection: apsw.Connection, key: int) -> None:
    """Record that something a reader of the world could see has changed."""
    connection.execute("UPDATE worlds SET changes = changes + 1 WHERE key = ?", (key,))


def _count(connection: apsw.Connection, sql: str, bindings: tuple[int, ...]) -> int:
    return fetch(connection, sql, bindings)[0][0]


def _world(row: tuple, aim: GenerationSelector = None) -> World:
    world, name, changes, number, profile, chunking = row
    generation = generation_of(number, profile, chunking) if number is not None else None
    return World(WorldId(world), name, generation, changes, aim)
