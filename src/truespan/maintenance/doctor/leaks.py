"""Check that no world can see another, in the index and store that are in use.

A few canary points are written to the index under new worlds, and always deleted again. If the
process dies before that, the next run finds them as points of unknown worlds.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from truespan.errors import TruespanError
from truespan.protocols import VectorIndex
from truespan.types.chunk import ChunkKind, Point, Vector
from truespan.types.ids import ChunkId, WorldId, chunk_id, hash_text
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import OWNER, Generation, Scope

if TYPE_CHECKING:
    from truespan.store import Store

MARK = "ca9a7e57"
"""The prefix of canary worlds, which tells a leftover of one from a lost world."""
_POSITION = 3
_MANY = 50

# Document, first sentence, last sentence, reach.
_POINTS = ((1, 0, 1, 2), (1, 2, 5, 9), (1, 7, 8, 9), (2, 0, 1, 2))
_READ, _SPLIT, _AHEAD, _OTHER = range(len(_POINTS))


@dataclass(frozen=True, slots=True)
class _Canary:
    """Canary points of one profile, their world, another world and another generation."""

    own: Scope
    other: Scope
    later: Scope
    points: Sequence[Point]

    @property
    def ids(self) -> list[ChunkId]:
        return [point.chunk_id for point in self.points]

    @property
    def vector(self) -> Vector:
        return self.points[0].vector


def try_index(index: VectorIndex, scope: Scope, new_id: Callable[[], str]) -> list[Check]:
    """Return the checks of the boundaries in the collection of the scope's profile."""
    try:
        found = leaks(index, scope, new_id)
    except TruespanError as error:
        return [_check(scope, Verdict.WARNING, f"could not be checked ({error.code})")]
    return found or [_check(scope, Verdict.OK, f"{len(_BOUNDARIES)} boundaries hold")]


def leaks(index: VectorIndex, scope: Scope, new_id: Callable[[], str]) -> list[Check]:
    """Return a failed check for each boundary of an index that does not hold.

    Raises:
        StorageFull, IndexUnavailable, IndexRefused: the boundaries could not be checked.
    """
    canary = _canary(scope, new_id)
    try:
        index.upsert(canary.own, canary.points)
        failed = [name for name, holds in _BOUNDARIES.items() if not holds(index, canary)]
    finally:
        for used in (canary.own, canary.other, canary.later):
            with suppress(TruespanError):
                index.drop(used)
    return [_check(scope, Verdict.PROBLEM, f"LEAK: {name}") for name in failed]


def try_store(store: Store, scopes: Sequence[Scope], new_id: Callable[[], str]) -> Check:
    """Check that no chunk of a world can be read through the scope of another."""
    foreign = WorldId(_canary_world(new_id))
    for place, scope in enumerate(scopes):
        sample = [chunk.chunk_id for chunk in _first(store.expected(scope))]
        others = [replace(scope, world=foreign, authority=OWNER)]
        if (previous := scopes[place - 1]).world != scope.world:
            others.append(replace(scope, world=previous.world, authority=OWNER))
        for other in others:
            if sample and (store.read_chunks(other, sample) or store.expected_among(other, sample)):
                return Check(
                    "separation of worlds in the store",
                    Verdict.PROBLEM,
                    "LEAK: chunks of one world can be read through another",
                    "Stop using this library and report the problem.",
                )
    return Check(
        "separation of worlds in the store",
        Verdict.OK,
        "no chunk can be read through another world",
    )


def is_canary(tenant: str) -> bool:
    """Return whether a tenant is that of a canary."""
    return tenant.startswith(f"{MARK}-")


def _none_elsewhere(index: VectorIndex, canary: _Canary, elsewhere: Scope) -> bool:
    return (
        not index.search(elsewhere, canary.vector, limit=_MANY, floor=None)
        and index.count(elsewhere) == 0
        and not any(index.scan(elsewhere))
        and not index.read(elsewhere, canary.ids)
    )


def _found(index: VectorIndex, canary: _Canary, scope: Scope) -> set[ChunkId]:
    return {hit.chunk_id for hit in index.search(scope, canary.vector, limit=_MANY, floor=None)}


def _own_points(index: VectorIndex, canary: _Canary) -> bool:
    scanned = {point.chunk_id for page in index.scan(canary.own) for point in page}
    return _found(index, canary, canary.own) == scanned == set(canary.ids)


def _documents(index: VectorIndex, canary: _Canary) -> bool:
    only = _found(index, canary, canary.own.narrow(documents=[2]))
    none = _found(index, canary, canary.own.narrow(documents=[]))
    return only == {canary.ids[_OTHER]} and not none


def _position(index: VectorIndex, canary: _Canary) -> bool:
    reader = canary.own.for_reader(1, 1, _POSITION)
    return _found(index, canary, reader) == {canary.ids[_READ]}


def _nothing_read(index: VectorIndex, canary: _Canary) -> bool:
    return not _found(index, canary, canary.own.for_reader(1, 1, -1))


def _chapters(index: VectorIndex, canary: _Canary) -> bool:
    ahead = _found(index, canary, canary.own.narrow(chapter="Chapter 2"))
    return ahead == {canary.ids[_AHEAD]}


def _deletion(index: VectorIndex, canary: _Canary) -> bool:
    index.delete(canary.other, canary.ids)
    index.delete_stale(canary.other, [(point.chunk_id, point.text_hash) for point in canary.points])
    index.drop(canary.later)
    return index.count(canary.own) == len(canary.points)


_BOUNDARIES: dict[str, Callable[[VectorIndex, _Canary], bool]] = {
    "a world does not find its own points": _own_points,
    "a world finds points of another": lambda i, c: _none_elsewhere(i, c, c.other),
    "a generation finds points of another": lambda i, c: _none_elsewhere(i, c, c.later),
    "a filter on documents lets others pass": _documents,
    "a filter on chapters lets others pass": _chapters,
    "a reader finds what lies past the position": _position,
    "a reader who has read nothing finds something": _nothing_read,
    "a world deletes points of another": _deletion,
}
"""The checks by what is wrong if they fail; the last one may change the points."""


def _canary(scope: Scope, new_id: Callable[[], str]) -> _Canary:
    first = Generation(1, scope.profile)
    own, other = (Scope(OWNER, WorldId(_canary_world(new_id)), first) for _ in range(2))
    later = replace(own, generation=Generation(2, scope.profile))
    return _Canary(own, other, later, [_point(own, number) for number in range(len(_POINTS))])


def _canary_world(new_id: Callable[[], str]) -> str:
    return MARK + new_id()[len(MARK) :]


def _point(scope: Scope, number: int) -> Point:
    document, start, end, reach = _POINTS[number]
    return Point(
        chunk_id=chunk_id(scope.world, 1, document, 1, number),
        vector=_vector(scope.profile.dimensions),
        text_hash=hash_text(f"canary {number}"),
        document=document,
        pos_start=start,
        pos_end=end,
        pos_reach=reach,
        kind=ChunkKind.TEXT,
        chapter="Chapter 2" if number == _AHEAD else "Chapter 1",
        section="Section",
    )


def _vector(dimensions: int) -> Vector:
    """Return a vector with equal components."""
    numbers = array("f", [1.0 / math.sqrt(dimensions)] * dimensions)
    return Vector(numbers.tobytes())


def _first(pages: Iterable[list]) -> list:
    return next(iter(pages), [])[:_MANY]


def _check(scope: Scope, verdict: Verdict, says: str) -> Check:
    remedy = "Stop using this index and report the problem." if verdict is Verdict.PROBLEM else ""
    return Check(
        f"separation of worlds in the index of {scope.profile.model}", verdict, says, remedy
    )
