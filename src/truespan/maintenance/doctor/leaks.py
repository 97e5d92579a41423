"""Whether one world can see another: tried out in the very index and store that are in use.

The index is given a few points under worlds that nobody else has. They are removed again whatever
happens; were the process to die first, the next run finds them as points of unknown worlds.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from truespan.errors import TruespanError
from truespan.protocols import TrustedStore, VectorIndex
from truespan.types.chunk import ChunkKind, Point, Vector
from truespan.types.ids import ChunkId, WorldId, chunk_id, hash_text
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import OWNER, Generation, Scope

MARK = "ca9a7e57"
"""How the ids of canary worlds begin, so that a leftover of one can be told from a lost world."""
_POSITION = 3
_MANY = 50

# Document, first sentence, last sentence, reach.
_POINTS = ((1, 0, 1, 2), (1, 2, 5, 9), (1, 7, 8, 9), (2, 0, 1, 2))
_READ, _SPLIT, _AHEAD, _OTHER = range(len(_POINTS))


@dataclass(frozen=True, slots=True)
class _Cage:
    """One profile's canary: its own world, another one, and its points."""

    own: Scope
    other: Scope
    later: Scope
    points: Sequence[Point]

    @property
    def ids(self) -> list[ChunkId]:
        return [point.chunk_id for point in self.points]

    @property
    def song(self) -> Vector:
        return self.points[0].vector


def try_index(index: VectorIndex, scope: Scope, fresh: Callable[[], str]) -> list[Check]:
    """Return how the boundaries of an index held, for the collection of the scope's profile."""
    try:
        found = leaks(index, scope, fresh)
    except TruespanError as error:
        return [_check(scope, Verdict.WARNING, f"could not be tried ({error.code})")]
    return found or [_check(scope, Verdict.OK, f"{len(_BOUNDARIES)} boundaries hold")]


def leaks(index: VectorIndex, scope: Scope, fresh: Callable[[], str]) -> list[Check]:
    """Return the boundaries of an index that do not hold; an error when they cannot be tried.

    Raises:
        StorageFull, IndexUnavailable, IndexRefused: nothing is known of them then.
    """
    cage = _cage(scope, fresh)
    try:
        index.upsert(cage.own, cage.points)
        failed = [name for name, holds in _BOUNDARIES.items() if not holds(index, cage)]
    finally:
        for caged in (cage.own, cage.other, cage.later):
            with suppress(TruespanError):
                index.drop(caged)
    return [_check(scope, Verdict.PROBLEM, f"LEAK: {name}") for name in failed]


def try_store(store: TrustedStore, scopes: Sequence[Scope], fresh: Callable[[], str]) -> Check:
    """Return whether chunks of one world can be read through another one's scope."""
    foreign = WorldId(_canary_world(fresh))
    for place, scope in enumerate(scopes):
        sample = [chunk.chunk_id for chunk in _first(store.expected(scope))]
        others = [replace(scope, world=foreign, authority=OWNER)]
        if (beside := scopes[place - 1]).world != scope.world:
            others.append(replace(scope, world=beside.world, authority=OWNER))
        for other in others:
            if sample and (store.read_chunks(other, sample) or store.expected_among(other, sample)):
                return Check(
                    "worlds apart in the store",
                    Verdict.PROBLEM,
                    "LEAK: chunks of one world are read through another",
                    "Stop using this library, and report it.",
                )
    return Check("worlds apart in the store", Verdict.OK, "nothing is read through another world")


def is_canary(tenant: str) -> bool:
    """Say whether points were left by a self-test that did not come to its end."""
    return tenant.startswith(f"{MARK}-")


def _none_elsewhere(index: VectorIndex, cage: _Cage, elsewhere: Scope) -> bool:
    return (
        not index.search(elsewhere, cage.song, limit=_MANY, floor=None)
        and index.count(elsewhere) == 0
        and not any(index.scan(elsewhere))
        and not index.read(elsewhere, cage.ids)
    )


def _found(index: VectorIndex, cage: _Cage, scope: Scope) -> set[ChunkId]:
    return {hit.chunk_id for hit in index.search(scope, cage.song, limit=_MANY, floor=None)}


def _own_points(index: VectorIndex, cage: _Cage) -> bool:
    scanned = {point.chunk_id for page in index.scan(cage.own) for point in page}
    return _found(index, cage, cage.own) == scanned == set(cage.ids)


def _documents(index: VectorIndex, cage: _Cage) -> bool:
    only = _found(index, cage, cage.own.narrow(documents=[2]))
    none = _found(index, cage, cage.own.narrow(documents=[]))
    return only == {cage.ids[_OTHER]} and not none


def _position(index: VectorIndex, cage: _Cage) -> bool:
    reader = cage.own.for_reader(1, 1, _POSITION)
    return _found(index, cage, reader) == {cage.ids[_READ]}


def _nothing_read(index: VectorIndex, cage: _Cage) -> bool:
    return not _found(index, cage, cage.own.for_reader(1, 1, -1))


def _chapters(index: VectorIndex, cage: _Cage) -> bool:
    ahead = _found(index, cage, cage.own.narrow(chapter="Chapter 2"))
    return ahead == {cage.ids[_AHEAD]}


def _deletion(index: VectorIndex, cage: _Cage) -> bool:
    index.delete(cage.other, cage.ids)
    index.delete_stale(cage.other, [(one.chunk_id, one.text_hash) for one in cage.points])
    index.drop(cage.later)
    return index.count(cage.own) == len(cage.points)


_BOUNDARIES: dict[str, Callable[[VectorIndex, _Cage], bool]] = {
    "a world does not find its own points": _own_points,
    "a world finds points of another": lambda i, c: _none_elsewhere(i, c, c.other),
    "a generation finds points of another": lambda i, c: _none_elsewhere(i, c, c.later),
    "a filter on documents lets others pass": _documents,
    "a filter on chapters lets others pass": _chapters,
    "a reader finds what lies past the position": _position,
    "a reader who has read nothing finds something": _nothing_read,
    "a world deletes points of another": _deletion,
}
"""What would be wrong, and what tells that it is not; the last one may change the points."""


def _cage(scope: Scope, fresh: Callable[[], str]) -> _Cage:
    first = Generation(1, scope.profile)
    own, other = (Scope(OWNER, WorldId(_canary_world(fresh)), first) for _ in range(2))
    later = replace(own, generation=Generation(2, scope.profile))
    return _Cage(own, other, later, [_point(own, number) for number in range(len(_POINTS))])


def _canary_world(fresh: Callable[[], str]) -> str:
    return MARK + fresh()[len(MARK) :]


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
    """Return a vector that is close to every other: all its numbers are equal."""
    numbers = array("f", [1.0 / math.sqrt(dimensions)] * dimensions)
    return Vector(numbers.tobytes())


def _first(pages: Iterable[list]) -> list:
    return next(iter(pages), [])[:_MANY]


def _check(scope: Scope, verdict: Verdict, says: str) -> Check:
    remedy = "Stop using this index, and report it." if verdict is Verdict.PROBLEM else ""
    return Check(f"worlds apart in the index of {scope.profile.model}", verdict, says, remedy)
