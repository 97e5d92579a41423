"""Damage of every kind, planted in the store or the index of a small library, one at a time."""

import random
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from tests.support.worlds import LibraryFixture, other_profile, vector_of
from truespan.engine.world import World
from truespan.maintenance.doctor.plan import Finding
from truespan.types.chunk import ChunkKind, Point
from truespan.types.ids import ChunkId, TextHash, hash_bytes, hash_text
from truespan.types.scope import OWNER, Generation, Scope
from truespan.types.vectors import Vector


@dataclass(frozen=True, slots=True)
class Damage:
    """A damage, its expected finding, and whether data is lost permanently."""

    plant: Callable[[LibraryFixture, World, random.Random], object]
    found: Finding
    lost: bool = False
    sampled: bool = False
    """Whether only embedding texts again can tell."""


def flipped(vector: Vector, bit: int) -> Vector:
    data = bytearray(vector)
    data[bit // 8] ^= 1 << bit % 8
    return Vector(bytes(data))


def numbers(vector: Vector) -> list[float]:
    return list(array("f", vector))


def packed(values: list[float]) -> Vector:
    return Vector(struct.pack(f"<{len(values)}f", *values))


def any_point(
    lib: LibraryFixture, world: World, rng: random.Random
) -> tuple[dict[ChunkId, Point], Point]:
    points = lib.index._of(lib.scope(world))
    return points, points[rng.choice(sorted(points))]


def on_point(change: Callable[[Point, random.Random], dict[str, Any]]) -> Callable:
    def plant(lib: LibraryFixture, world: World, rng: random.Random) -> None:
        points, point = any_point(lib, world, rng)
        points[point.chunk_id] = replace(point, **change(point, rng))

    return plant


def on_kept(change: Callable[[Vector, random.Random], Vector]) -> Callable:
    def plant(lib: LibraryFixture, world: World, rng: random.Random) -> None:
        text_hash, vector = rng.choice(kept_vectors(lib, world))
        replace_vector(lib, world, text_hash, change(Vector(vector), rng))

    return plant


def replace_vector(lib: LibraryFixture, world: World, text_hash: str, vector: Vector) -> None:
    lib.sql(
        "UPDATE vectors SET vector = ? WHERE text_hash = ? AND world_id = "
        "(SELECT world_id FROM worlds WHERE id = ?)",
        bytes(vector),
        text_hash,
        world.id,
    )


def kept_vectors(lib: LibraryFixture, world: World) -> list[tuple[str, bytes]]:
    return sorted(
        lib.sql(
            "SELECT text_hash, vector FROM vectors WHERE world_id = "
            "(SELECT world_id FROM worlds WHERE id = ?)",
            world.id,
        )
    )


def on_row(statement: str, where: str = "position >= 0") -> Callable:
    """Run a statement on one chunk row of the world; it may use ?1 and ?2 as the row's key."""

    def plant(lib: LibraryFixture, world: World, rng: random.Random) -> None:
        rows = lib.sql(
            f"""SELECT s.revision, s.position FROM states s JOIN worlds w ON w.world_id = s.world_id
               WHERE w.id = ? AND {where} ORDER BY 1, 2""",
            world.id,
        )
        lib.sql(statement, *rng.choice(rows))

    return plant


def missing(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    points, point = any_point(lib, world, rng)
    del points[point.chunk_id]


def orphan(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    points, point = any_point(lib, world, rng)
    ghost = ChunkId(f"{rng.getrandbits(32):08x}-0000-5000-8000-000000000000")
    points[ghost] = replace(point, chunk_id=ghost)


def unknown_world(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    _, point = any_point(lib, world, rng)
    tenant = f"{rng.getrandbits(32):08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa.1"
    lib.index.points[lib.scope(world).profile.id, tenant] = {point.chunk_id: point}


def unknown_generation(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    _, point = any_point(lib, world, rng)
    scope = lib.scope(world)
    tenant = f"{scope.world}.{rng.randrange(2, 99)}"
    lib.index.points[scope.profile.id, tenant] = {point.chunk_id: point}


def unused_collection(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    _, point = any_point(lib, world, rng)
    profile = other_profile(revision=str(rng.random()))
    scope = Scope(OWNER, lib.scope(world).world, Generation(1, profile))
    lib.index.upsert(scope, [point])


def foreign_vectors(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    lib.sql(
        "INSERT INTO vectors SELECT world_id, ?, 'ab', x'00', x'00' FROM worlds WHERE id = ?",
        f"{rng.getrandbits(64):016x}",
        world.id,
    )


def two_in_one(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    """Damage a chunk's row and its canonical text, so that nothing can restore the text."""
    rows = lib.sql(
        """SELECT s.revision, s.position, s.start, s.finish - s.start FROM states s
           JOIN worlds w ON w.world_id = s.world_id WHERE w.id = ? ORDER BY 1, 2""",
        world.id,
    )
    revision, position, start, length = rng.choice(rows)
    lib.sql("UPDATE chunks SET text = 'x' WHERE revision = ? AND position = ?", revision, position)
    lib.sql(
        "UPDATE texts SET text = substr(text, 1, ?1) || ?3 || substr(text, ?1 + ?4 + 1) "
        "WHERE revision = ?2",
        start,
        revision,
        "x" * length,
        length,
    )


def set_aside_with_its_point(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    two_in_one(lib, world, rng)
    scope = lib.scope(world)
    for page in lib.store.scrub.text_flaws(scope):
        for flaw in page:
            lib.store.chunks.rebuild(scope, flaw.chunk_id)


def queued_repair(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    lib.sql(
        """INSERT INTO repairs (world_id, generation, chunk_id, kind, point_hash, queued_at)
           SELECT world_id, 1, ?, 'orphan_point', 'x', 0 FROM worlds WHERE id = ?""",
        f"{rng.getrandbits(32):08x}-0000-5000-8000-000000000000",
        world.id,
    )


def retired(lib: LibraryFixture, world: World, rng: random.Random) -> None:
    """Leave a deletion unfinished: hidden from readers, with points and rows still present."""
    world.ingest(lib.write(f"{world.name}/doomed.txt", f"Doomed words {rng.random()}."))
    lib.store.documents.tombstone(lib.scope(world), world.documents.get("doomed.txt").number)


def _scaled(vector: Vector, rng: random.Random) -> Vector:
    factor = rng.choice([0.5, 0.99, 1.01, 3.0, 1e30])
    return packed([number * factor for number in numbers(vector)])


def _sign(vector: Vector, _rng: random.Random) -> Vector:
    values = numbers(vector)
    largest = max(range(len(values)), key=lambda place: abs(values[place]))
    values[largest] = -values[largest]
    return packed(values)


def _with(value: float) -> Callable[[Vector, random.Random], Vector]:
    def change(vector: Vector, rng: random.Random) -> Vector:
        values = numbers(vector)
        values[rng.randrange(len(values))] = value
        return packed(values)

    return change


def vector_of_other_model(vector: Vector, rng: random.Random) -> Vector:
    return vector_of(f"of another model {rng.random()}", len(vector) // 4)


def _hash_copy(text: str | bytes) -> TextHash:
    # PostgreSQL stores texts as bytes.
    return hash_bytes(text) if isinstance(text, bytes) else hash_text(text)


def is_text_lost(lib: LibraryFixture) -> bool:
    """Return whether both copies of a chunk's text are damaged: its own and the document's."""
    copies = lib.sql(
        """SELECT s.text_hash, c.text, substr(t.text, s.start + 1, s.finish - s.start)
           FROM states s JOIN texts t ON t.revision = s.revision
           LEFT JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
             AND c.position = s.position"""
    )
    return any(
        all(copy is None or _hash_copy(copy) != text_hash for copy in texts)
        for text_hash, *texts in copies
    )


ZERO = packed([0.0] * 64)
NAN, INF = float("nan"), float("inf")
SHORT = packed([1.0] + [0.0] * 31)

IN_INDEX = {
    "missing": Damage(missing, Finding.MISSING_POINT),
    "stale": Damage(
        on_point(lambda _p, _r: {"text_hash": TextHash("f" * 64)}), Finding.STALE_POINT
    ),
    "bit flipped": Damage(
        on_point(lambda p, r: {"vector": flipped(p.vector, r.randrange(22))}),
        Finding.CHANGED_VECTOR,
    ),
    "sign flipped": Damage(
        on_point(lambda p, r: {"vector": _sign(p.vector, r)}), Finding.CHANGED_VECTOR
    ),
    "another's vector": Damage(
        on_point(lambda p, r: {"vector": vector_of_other_model(p.vector, r)}),
        Finding.CHANGED_VECTOR,
    ),
    "not a number": Damage(
        on_point(lambda p, r: {"vector": _with(NAN)(p.vector, r)}), Finding.NON_FINITE
    ),
    "infinite": Damage(
        on_point(lambda p, r: {"vector": _with(-INF)(p.vector, r)}), Finding.NON_FINITE
    ),
    "zero": Damage(on_point(lambda _p, _r: {"vector": ZERO}), Finding.NON_FINITE),
    "another size": Damage(on_point(lambda _p, _r: {"vector": SHORT}), Finding.MIXED_MODEL),
    "orphan": Damage(orphan, Finding.ORPHAN_POINT),
    "unknown world": Damage(unknown_world, Finding.UNKNOWN_WORLD),
    "unknown generation": Damage(unknown_generation, Finding.UNKNOWN_WORLD),
    "unused collection": Damage(unused_collection, Finding.UNUSED_COLLECTION),
} | {
    f"misplaced {field}": Damage(on_point(change), Finding.MISPLACED_POINT)
    for field, change in {
        "document": lambda p, r: {"document": p.document + r.randrange(1, 9)},
        "pos_start": lambda p, r: {"pos_start": p.pos_start + r.randrange(1, 9)},
        "pos_end": lambda p, r: {"pos_end": p.pos_end - r.randrange(1, 9)},
        "pos_reach": lambda p, r: {"pos_reach": p.pos_reach - r.randrange(1, 9)},
        "chapter": lambda _p, r: {"chapters": (f"Chapter {r.random()}",)},
        "section": lambda _p, _r: {"sections": ()},
        "kind": lambda _p, _r: {"kind": ChunkKind.FIGURE},
    }.items()
}

_TEXT = "UPDATE chunks SET text = {} WHERE revision = ?1 AND position = ?2"
_CANONICAL = "UPDATE texts SET text = {} WHERE revision = ?1 AND ?2 >= 0"
_SENTENCES = "UPDATE sentences SET {} WHERE revision = ?1 AND sid = ?2"

IN_STORE = {
    "text longer": Damage(on_row(_TEXT.format("text || '!'")), Finding.DAMAGED_TEXT),
    "text other": Damage(on_row(_TEXT.format("'x' || substr(text, 2)")), Finding.DAMAGED_TEXT),
    "text forged": Damage(
        on_row(
            "UPDATE chunks SET text = 'a', text_hash = "
            "'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb' "
            "WHERE revision = ?1 AND position = ?2"
        ),
        Finding.DAMAGED_TEXT,
    ),
    "row gone": Damage(
        on_row("DELETE FROM chunks WHERE revision = ?1 AND position = ?2"), Finding.DAMAGED_TEXT
    ),
    "document other": Damage(
        on_row(_CANONICAL.format("'x' || substr(text, 2)")), Finding.DAMAGED_DOCUMENT
    ),
    "document blanked": Damage(
        on_row(_CANONICAL.format("replace(text, 'night', 'NIGHT')")), Finding.DAMAGED_DOCUMENT
    ),
    "sentence digest": Damage(
        on_row(_SENTENCES.format("text_hash = zeroblob(32)")), Finding.LOST_DOCUMENT, lost=True
    ),
    "sentence moved": Damage(
        on_row(_SENTENCES.format("finish = finish + 1")), Finding.LOST_DOCUMENT, lost=True
    ),
    "sentence gone": Damage(
        on_row("DELETE FROM sentences WHERE revision = ?1 AND sid = ?2"),
        Finding.LOST_DOCUMENT,
        lost=True,
    ),
    "text and document": Damage(two_in_one, Finding.LOST_TEXT, lost=True),
    "set aside": Damage(set_aside_with_its_point, Finding.ORPHAN_POINT, lost=True),
    "kept vector gone": Damage(
        lambda lib, world, rng: lib.sql(
            "DELETE FROM vectors WHERE text_hash = ? AND world_id = "
            "(SELECT world_id FROM worlds WHERE id = ?)",
            rng.choice(kept_vectors(lib, world))[0],
            world.id,
        ),
        Finding.NO_VECTOR,
    ),
    "kept short": Damage(on_kept(lambda _v, _r: SHORT), Finding.MIXED_MODEL),
    "kept empty": Damage(on_kept(lambda _v, _r: Vector(b"")), Finding.MIXED_MODEL),
    "kept zero": Damage(on_kept(lambda _v, _r: ZERO), Finding.NON_FINITE),
    "kept not a number": Damage(on_kept(_with(NAN)), Finding.NON_FINITE),
    "kept infinite": Damage(on_kept(_with(INF)), Finding.NON_FINITE),
    "kept scaled": Damage(on_kept(_scaled), Finding.CHANGED_VECTOR),
    "kept sign flipped": Damage(on_kept(_sign), Finding.CHANGED_VECTOR),
    "kept of another model": Damage(on_kept(vector_of_other_model), Finding.CHANGED_VECTOR),
    "foreign vectors": Damage(foreign_vectors, Finding.FOREIGN_VECTORS),
    "pending": Damage(
        lambda lib, world, rng: lib.store.chunks.mark_pending(
            lib.scope(world), [any_point(lib, world, rng)[1].chunk_id]
        ),
        Finding.PENDING,
    ),
    "tally": Damage(
        on_row("UPDATE tallies SET embedded = embedded - 1 WHERE revision = ?1 AND ?2 >= 0"),
        Finding.WRONG_TALLY,
    ),
    "tally gone": Damage(
        on_row("DELETE FROM tallies WHERE revision = ?1 AND ?2 >= 0"), Finding.WRONG_TALLY
    ),
    "queued repair": Damage(queued_repair, Finding.QUEUED_REPAIR),
    "retired": Damage(retired, Finding.RETIRED),
}

KINDS = IN_INDEX | IN_STORE
