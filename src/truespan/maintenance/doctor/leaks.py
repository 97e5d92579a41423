"""Check that no world can see another, in the index and store that are in use.

A few canary points are written to the index under new worlds, and always deleted again. If the
process dies before that, the next run finds them as points of unknown worlds.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import TruespanError
from truespan.protocols import VectorIndex
from truespan.types.chunk import ChunkKind, Point
from truespan.types.ids import ChunkId, WorldId, chunk_id, hash_text
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import OWNER, Generation, Scope
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.store import Store

MARK = "ca9a7e57"
"""The prefix of canary worlds, which distinguishes their leftovers from a lost world."""
_POSITION = 3
_MANY = 50

# Document, first sentence, last sentence, reach.
_POINTS = ((1, 0, 1, 2), (1, 2, 5, 9), (1, 7, 8, 9), (2, 0, 1, 2))
_READ, _SPLIT, _AHEAD, _OTHER = range(len(_POINTS))


class _Canary(Struct, frozen=True):
    """Canary points of one profile, their world, another world and another generation."""

    index: VectorIndex
    own: Scope
    other: Scope
    later: Scope
    points: Sequence[Point]

    @property
    def ids(self) -> list[ChunkId]:
        return [point.chunk_id for point in self.points]

    def found(self, scope: Scope) -> set[ChunkId]:
        hits = self.index.search(scope, self.points[0].vector, limit=_MANY, floor=None)
        return {hit.chunk_id for hit in hits}

    def finds_its_own(self) -> bool:
        scanned = {point.chunk_id for page in self.index.scan(self.own) for point in page}
        return self.found(self.own) == scanned == set(self.ids)

    def is_hidden_from(self, scope: Scope) -> bool:
        return (
            not self.found(scope)
            and self.index.count(scope) == 0
            and not any(self.index.scan(scope))
            and not self.index.read(scope, self.ids)
        )

    def filters_documents(self) -> bool:
        only = self.found(self.own.narrow(documents=[2]))
        return only == {self.ids[_OTHER]} and not self.found(self.own.narrow(documents=[]))

    def survives_deletion(self) -> bool:
        hashes = [(point.chunk_id, point.text_hash) for point in self.points]
        self.index.delete(self.other, self.ids)
        self.index.delete_stale(self.other, hashes)
        self.index.drop(self.later)
        return self.index.count(self.own) == len(self.points)


_BOUNDARIES: dict[str, Callable[[_Canary], bool]] = {
    "a world does not find its own points": _Canary.finds_its_own,
    "a world finds points of another": lambda it: it.is_hidden_from(it.other),
    "a generation finds points of another": lambda it: it.is_hidden_from(it.later),
    "a filter on documents lets others pass": _Canary.filters_documents,
    "a filter on chapters lets others pass": lambda it: (
        it.found(it.own.narrow(chapter="Chapter 2")) == {it.ids[_AHEAD]}
    ),
    "a reader finds text past the position": lambda it: (
        it.found(it.own.for_reader(1, 1, _POSITION)) == {it.ids[_READ]}
    ),
    "a reader who has read nothing finds something": lambda it: (
        not it.found(it.own.for_reader(1, 1, -1))
    ),
    "a world deletes points of another": _Canary.survives_deletion,
}
"""The checks by the meaning of their failure; the last one may change the points."""


def try_index(index: VectorIndex, scope: Scope) -> list[Check]:
    """Return the checks of the boundaries in the collection of the scope's profile."""
    try:
        found = leaks(index, scope)
    except TruespanError as error:
        return [_check(scope, Verdict.WARNING, f"could not be checked ({error.code})")]
    return found or [_check(scope, Verdict.OK, f"{len(_BOUNDARIES)} boundaries hold")]


def leaks(index: VectorIndex, scope: Scope) -> list[Check]:
    """Return a failed check for each boundary of an index that does not hold. Raises `StorageFull`
    or `IndexUnavailable` or `IndexRefused`: the boundaries could not be checked."""
    own, other = (Scope(OWNER, _canary_world(), Generation(1, scope.profile)) for _ in range(2))
    later = replace(own, generation=Generation(2, scope.profile))
    points = [_point(own, number) for number in range(len(_POINTS))]
    canary = _Canary(index, own, other, later, points)
    try:
        index.upsert(own, points)
        failed = [name for name, holds in _BOUNDARIES.items() if not holds(canary)]
    finally:
        for used in (own, other, later):
            with suppress(TruespanError):
                index.drop(used)
    return [_check(scope, Verdict.PROBLEM, f"LEAK: {name}") for name in failed]


def try_store(store: Store, scopes: Sequence[Scope]) -> Check:
    """Check that no chunk of a world can be read through the scope of another."""
    name, foreign = "separation of worlds in the store", _canary_world()
    for place, scope in enumerate(scopes):
        page = next(iter(store.chunks.expected(scope)), [])
        sample = [chunk.chunk_id for chunk in page[:_MANY]]
        for world in {foreign, scopes[place - 1].world} - {scope.world}:
            other = replace(scope, world=world, authority=OWNER)
            if sample and (
                store.chunks.read(other, sample) or store.scrub.expected_among(other, sample)
            ):
                says = "LEAK: chunks of one world can be read through another"
                remedy = "Stop using this library and report the problem."
                return Check(name, Verdict.PROBLEM, says, remedy)
    return Check(name, Verdict.OK, "no chunk can be read through another world")


def is_canary(tenant: str) -> bool:
    return tenant.startswith(f"{MARK}-")


def _canary_world() -> WorldId:
    return WorldId(MARK + str(uuid4())[len(MARK) :])


def _point(scope: Scope, number: int) -> Point:
    document, start, end, reach = _POINTS[number]
    dimensions = scope.profile.dimensions
    equal = array("f", [1.0 / math.sqrt(dimensions)] * dimensions)
    return Point(
        chunk_id=chunk_id(scope.world, 1, document, 1, number),
        vector=Vector(equal.tobytes()),
        text_hash=hash_text(f"canary {number}"),
        document=document,
        pos_start=start,
        pos_end=end,
        pos_reach=reach,
        kind=ChunkKind.TEXT,
        chapters=("Chapter 2" if number == _AHEAD else "Chapter 1",),
        sections=("Section",),
    )


def _check(scope: Scope, verdict: Verdict, says: str) -> Check:
    remedy = "Stop using this index and report the problem." if verdict is Verdict.PROBLEM else ""
    return Check(
        f"separation of worlds in the index of {scope.profile.model}", verdict, says, remedy
    )
