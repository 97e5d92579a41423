"""Worlds and their generations: names, aliases and statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from unicodedata import normalize
from uuid import uuid4

from msgspec.structs import asdict

from truespan import errors
from truespan.protocols import Clock
from truespan.store.engines.session import (
    Database,
    DuplicateRow,
    Part,
    Row,
    Session,
    is_world_id,
    retry_on_conflict,
)
from truespan.store.integrity.checksums import generation_checksum, world_checksum
from truespan.store.tables.fragments import IS_NAMED
from truespan.types.audience import EVERYONE, Audience, audience_of, audience_text
from truespan.types.document import DomainRecord, GenerationRecord, KeptGeneration, WorldStatus
from truespan.types.ids import WorldId
from truespan.types.profile import (
    ChunkingProfile,
    EmbeddingProfile,
    chunking_from_json,
    chunking_to_json,
    profile_from_json,
)
from truespan.types.request import Defaults
from truespan.types.scope import Authority, Generation, GenerationSelector, Scope, Verb, World

_NAMED: Final = "WORLD_TEXT(d), d.name, d.created_at, d.defaults, d.audience, d.checksum"
_CELLS: Final = "w.changes, g.number, g.profile, g.chunking, g.profile_id, g.created_at, g.checksum"
_DEFAULT: Final = """
    LEFT JOIN generations g ON g.world_id = w.world_id AND g.number = w.generation
    WHERE w.world_id = :world
"""
_NUMBERED: Final = """
    JOIN generations g ON g.world_id = w.world_id AND g.number = :number
    WHERE w.world_id = :world AND (g.removed_at IS NULL OR :aliased)
"""
_DEFAULT_GENERATION: Final = f"SELECT {_CELLS} FROM worlds w {_DEFAULT}"
_NUMBERED_GENERATION: Final = f"SELECT {_CELLS} FROM worlds w {_NUMBERED}"
_WHOLE: Final = (
    f"SELECT {_NAMED}, {_CELLS} FROM directory d JOIN worlds w ON w.world_id = d.world_id"
)
_WITH_DEFAULT: Final = f"{_WHOLE} {_DEFAULT}"
_WITH_NUMBERED: Final = f"{_WHOLE} {_NUMBERED}"

_MAX_IDS: Final = 10_000
"""Maximum number of names whose ids are cached."""


# Shared by threads: ids of worlds by name are hints, which each use compares with the row.
class Worlds(Part):
    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self._ids_by_name: dict[str, str] = {}

    def library_id(self) -> str:
        """Return the random id of this library; it is created on first use."""
        wanted = "SELECT id FROM identity WHERE name = 'library'"
        found = self._db.shared.value(wanted)
        if found is None:
            with self._db.write_shared() as session:
                session.execute(
                    """INSERT INTO identity (name, id) VALUES ('library', :id)
                       ON CONFLICT DO NOTHING""",
                    id=str(uuid4()),
                )
                found = session.value(wanted)
        return found

    def create(
        self,
        authority: Authority,
        name: str,
        defaults: Defaults = Defaults.CONTRACT,
        audience: Audience | None = (EVERYONE,),
    ) -> World:
        """Create an empty world; it gets its first generation with its first document."""
        world = WorldId(str(uuid4()))
        if not authority.may(Verb.ADMINISTER, world):
            raise errors.NotFound("world", name)
        try:
            with self._db.write_every_world() as session:
                cells = name, self._clock.now(), defaults, _labels_text(audience)
                session.create_world(world, *cells, world_checksum(world, *cells))
        except DuplicateRow as error:
            raise errors.Conflict(code="world_exists", name=name) from error
        return World(world, name, None, 0, defaults=defaults, audience=audience)

    @retry_on_conflict
    def set_defaults(
        self,
        authority: Authority,
        world: WorldId,
        defaults: Defaults,
        audience: Audience | None = (EVERYONE,),
    ) -> None:
        """Change the defaults of a world, and the audience of new documents that declare none."""
        if not authority.may(Verb.ADMINISTER, world) or self.find(authority, world) is None:
            raise errors.NotFound("world", world)
        labels = _labels_text(audience)
        with self._db.write(world, shared=True) as session:
            [(name, created_at)] = session.all(
                "SELECT name, created_at FROM directory WHERE world_id = :world"
            )
            session.execute(
                """UPDATE directory SET defaults = :defaults, audience = :audience,
                     checksum = :checksum WHERE world_id = :world""",
                defaults=str(defaults),
                audience=labels,
                checksum=world_checksum(world, name, created_at, defaults, labels),
            )
            session.touch_world()

    def all(self, authority: Authority) -> list[World]:
        """Return the worlds that this authority may read, by name."""
        with self._db.read_every_world() as session:
            named = session.all(f"SELECT {_NAMED} FROM directory d ORDER BY d.name")
            named = [row for row in named if authority.sees(WorldId(row[0]))]
            found = session.in_each([world for world, *_ in named], _DEFAULT_GENERATION)
        for *own, recorded in named:
            if recorded != world_checksum(*own):
                raise _damaged_name(own[0])
        return [
            _read_world(own, row)
            for (*own, _), rows in zip(named, found, strict=True)
            for row in rows
        ]

    def find(
        self, authority: Authority, reference: str, selector: GenerationSelector = None
    ) -> World | None:
        """Return the world with this id or name, with the selected generation.

        The authority is checked before anything of the world is read. A name with accents is found
        in either form of Unicode.
        """
        is_id = is_world_id(reference)
        known = reference if is_id else self._ids_by_name.get(reference)
        if known is None or isinstance(selector, str) or not authority.sees(WorldId(known)):
            return self._find_named(authority, reference, selector, is_id=is_id)
        statement = _WITH_DEFAULT if selector is None else _WITH_NUMBERED
        row = self._db.at(known, shared=True, number=selector, aliased=False).one(statement)
        found = None if row is None else _read_intact(row, selector)
        # A cached id only saves a statement: the name may belong to another world by now.
        if found is not None and reference in (found.id, found.name):
            return found
        return self._find_named(authority, reference, selector, is_id=is_id)

    def _find_named(
        self, authority: Authority, reference: str, selector: GenerationSelector, *, is_id: bool
    ) -> World | None:
        """Return the world with this id or name, found in the directory of all worlds."""
        with self._db.read_every_world() as session:
            named = session.one(
                # An id wins over a name, and the exact name over its normal form.
                f"""SELECT {_NAMED}
                   FROM directory d
                   WHERE IS_WORLD(d, :id) OR d.name IN (:reference, :normal)
                   ORDER BY coalesce(IS_WORLD(d, :id), false) DESC, d.name = :reference DESC
                   LIMIT 1""",
                id=reference if is_id else None,
                reference=reference,
                normal=normalize("NFC", reference),
            )
            if named is None or not authority.sees(WorldId(named[0])):
                return None
            *named, recorded = named
            if recorded != world_checksum(*named):
                raise _damaged_name(named[0])
            if len(self._ids_by_name) >= _MAX_IDS:
                self._ids_by_name.clear()
            self._ids_by_name[named[1]] = named[0]
            if isinstance(selector, str):
                return _find_aliased(session, named, selector)
            statement = _DEFAULT_GENERATION if selector is None else _NUMBERED_GENERATION
            [rows] = session.in_each([named[0]], statement, number=selector, aliased=False)
        return _read_world(named, rows[0], selector) if rows else None

    def is_unchanged(self, world: World) -> bool:
        """Return whether a world exists and is unchanged since it was read."""
        changes = self._db.at(world.id).value("SELECT changes FROM worlds WHERE world_id = :world")
        return changes == world.changes

    def find_domain(self, authority: Authority, key: str) -> World | None:
        """Return the world of a domain, with the generation that its alias names."""
        world = self._db.shared.value(
            """SELECT WORLD_TEXT(d) FROM aliases a JOIN directory d ON d.world_id = a.world_id
               WHERE a.key = :key""",
            key=key,
        )
        return None if world is None else self.find(authority, world, key)

    @retry_on_conflict
    def begin_generation(
        self, authority: Authority, world: WorldId, profile: EmbeddingProfile
    ) -> World:
        """Lock `profile` to the world's first generation, unless it has one already."""
        if not authority.may(Verb.WRITE, world):
            raise errors.NotFound("world", world)
        with self._db.write(world) as session:
            if session.value("SELECT generation FROM worlds WHERE world_id = :world") is None:
                insert_generation(session, world, 1, profile, None, self._clock.now())
                session.execute("UPDATE worlds SET generation = 1 WHERE world_id = :world")
                session.touch_world()
        found = self.find(authority, world)
        if found is None:
            raise errors.NotFound("world", world)
        return found

    def status(self, scope: Scope) -> WorldStatus:
        with self._db.read(scope) as session:
            [(documents, chunks, embedded, quarantined)] = session.all(
                """SELECT count(*), coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0),
                     coalesce(sum(t.quarantined), 0)
                   FROM documents d
                   JOIN revisions r ON r.document = d.key AND r.state = 'active'
                   LEFT JOIN tallies t ON t.revision = r.key AND t.generation = :generation
                   WHERE d.world_id = :world AND d.deleted_at IS NULL"""
            )
            repairs = session.value(
                "SELECT count(*) FROM repairs WHERE world_id = :world AND generation = :generation"
            )
            vectors = session.value("SELECT count(*) FROM vectors WHERE world_id = :world")
            states = session.value("SELECT count(*) FROM word_states WHERE world_id = :world")
        pending = chunks - embedded - quarantined
        return WorldStatus(
            documents=documents,
            chunks=chunks,
            embedded=embedded,
            pending=pending,
            quarantined=quarantined,
            repairs=repairs,
            vectors=vectors,
            word_states=states,
        )

    def generations(self, scope: Scope) -> list[GenerationRecord]:
        """Return all generations of the world, by number, with their statistics."""
        with self._db.read(scope, shared=True) as session:
            return read_records(session)

    def kept_generations(self, scope: Scope) -> list[KeptGeneration]:
        """Return the generations of the world that are not being removed, by number."""
        with self._db.read(scope, shared=True) as session:
            rows = session.all(
                f"""SELECT g.number, g.profile, g.chunking, {IS_NAMED}
                   FROM worlds w JOIN generations g ON g.world_id = w.world_id
                   WHERE w.world_id = :world AND g.removed_at IS NULL ORDER BY g.number"""
            )
        return [KeptGeneration(_read_generation(*row[:3]), bool(row[3])) for row in rows]

    def domains(self, authority: Authority) -> list[DomainRecord]:
        """Return the domains of all worlds that the authority sees, by key."""
        rows = self._db.shared.all(
            """SELECT a.key, WORLD_TEXT(d), d.name, a.generation
               FROM aliases a JOIN directory d ON d.world_id = a.world_id ORDER BY a.key"""
        )
        return [DomainRecord(*row) for row in rows if authority.sees(WorldId(row[1]))]

    def retired_generations(self, scope: Scope) -> list[Generation]:
        """Return the retired generations that still have rows."""
        rows = self._db.at(scope).all(
            """SELECT number, profile, chunking FROM generations
               WHERE world_id = :world AND removed_at IS NOT NULL ORDER BY number"""
        )
        return [_read_generation(*row) for row in rows]


def insert_generation(
    session: Session,
    world: WorldId,
    number: int,
    profile: EmbeddingProfile,
    chunking: ChunkingProfile | None,
    created_at: float,
) -> None:
    """Insert the row of a generation with its checksum."""
    cells = {
        "number": number,
        "profile": json.dumps(asdict(profile)),
        "chunking": chunking_to_json(chunking) if chunking else None,
        "profile_id": profile.id,
        "created_at": created_at,
    }
    own = generation_checksum(world, *cells.values())
    session.insert("generations", **cells, checksum=own)


def _damaged_name(world: str) -> errors.StoreDamaged:
    return errors.StoreDamaged(
        f"The name or the defaults of the world {world} do not match their checksum."
    )


def _find_aliased(session: Session, named: Sequence[Any], key: str) -> World | None:
    """Return a world with the generation that one of its domains names."""
    world = named[0]
    number = session.value(
        """SELECT a.generation FROM aliases a JOIN directory d ON d.world_id = a.world_id
           WHERE a.key = :key AND IS_WORLD(d, :id)""",
        key=key,
        id=world,
    )
    if number is None:
        return None
    [rows] = session.in_each([world], _NUMBERED_GENERATION, number=number, aliased=True)
    return _read_world(named, rows[0], key) if rows else None


def _read_world(named: Sequence[Any], row: Row, selector: GenerationSelector = None) -> World:
    world, name, _, defaults, audience = named
    changes, *cells, recorded = row
    number, profile, chunking = cells[:3]
    if number is not None and recorded != generation_checksum(world, *cells):
        raise errors.StoreDamaged(f"The record of generation {number} does not match its checksum.")
    generation = _read_generation(number, profile, chunking) if number is not None else None
    return World(
        id=WorldId(world),
        name=name,
        generation=generation,
        changes=changes,
        selector=selector,
        defaults=Defaults(defaults),
        audience=None if audience is None else audience_of(audience),
    )


# Shared by threads: an `lru_cache`, which locks, of rows and of records that nothing changes.
@lru_cache(maxsize=256)
def _read_intact(row: Row, number: int | None) -> World | None:
    """Return the world of a row of `_WHOLE`; None if its name does not match its checksum.

    Cached by all cells, because most requests read the row that the request before them read.
    """
    return _read_world(row[:5], row[6:], number) if row[5] == world_checksum(*row[:5]) else None


def _labels_text(audience: Audience | None) -> str | None:
    return None if audience is None else audience_text(audience)


def _read_generation(number: int, profile: str, chunking: str | None) -> Generation:
    chunks = chunking_from_json(chunking) if chunking else None
    return Generation(number, profile_from_json(profile), chunks)


def read_records(session: Session) -> list[GenerationRecord]:
    """Return all generations of the session's world, by number, with their statistics."""
    rows = session.all(
        """SELECT g.number, g.profile, g.chunking, g.created_at, count(t.revision),
             coalesce(sum(t.chunks), 0), coalesce(sum(t.embedded), 0),
             coalesce(sum(t.chunks - t.embedded - t.quarantined), 0),
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
    return [
        GenerationRecord(
            generation=_read_generation(number, profile, chunking),
            created_at=created_at,
            documents=documents,
            chunks=chunks,
            embedded=embedded,
            pending=pending,
            quarantined=quarantined,
            missing=missing,
            is_default=bool(is_default),
            domains=tuple(key for named, key in names if named == number),
        )
        for number, profile, chunking, created_at, *counts, is_default in rows
        for documents, chunks, embedded, pending, quarantined, missing in [counts]
    ]
