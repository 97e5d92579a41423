"""The self-test detects every leak of a faulty index, and cleans up."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.errors import IndexUnavailable, PromotionRefused, StorageFull, TruespanError
from truespan.maintenance.doctor.leaks import MARK
from truespan.maintenance.doctor.plan import Finding
from truespan.types.chunk import IndexedPoint, Point
from truespan.types.ids import ChunkId, TextHash
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import UNLIMITED, Scope
from truespan.types.trust import Hit
from truespan.types.vectors import Vector


class Leaky(MemoryIndex):
    """An index that returns other results than requested."""

    def __init__(self, leak: str) -> None:
        super().__init__()
        self.leak = leak

    def _everything(self, scope: Scope) -> dict[ChunkId, Point]:
        return {
            chunk_id: point
            for (profile, _), points in self.points.items()
            if profile == scope.profile.id
            for chunk_id, point in points.items()
        }

    def _generations(self, scope: Scope) -> dict[ChunkId, Point]:
        return {
            chunk_id: point
            for (_, tenant), points in self.points.items()
            if tenant.startswith(scope.world)
            for chunk_id, point in points.items()
        }

    def _of(self, scope: Scope) -> dict[ChunkId, Point]:
        if self.leak == "generations":
            return self._generations(scope)
        return super()._of(scope)

    def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        super()._of(scope).update({point.chunk_id: point for point in points})

    def search(self, scope: Scope, vector: Vector, *, limit: int, floor: float | None) -> list[Hit]:
        if self.leak == "search":
            found = self._everything(scope).values()
            return [Hit(point.chunk_id, 1.0, point.text_hash) for point in found][:limit]
        if self.leak == "blind":
            return []
        loosened: dict[str, Any] = {
            "documents": {"documents": UNLIMITED},
            "empty": {"documents": scope.documents or UNLIMITED},
            "chapters": {"chapter": None},
            "position": {"position": None},
        }.get(self.leak, {})
        return super().search(replace(scope, **loosened), vector, limit=limit, floor=floor)

    def scan(self, scope: Scope) -> Iterator[list[IndexedPoint]]:
        if self.leak == "scan":
            yield super().read(scope, []) or [
                IndexedPoint(ChunkId("x"), None, point.vector)
                for point in self._everything(scope).values()
            ]
            return
        yield from super().scan(scope)

    def read(self, scope: Scope, ids: Sequence[ChunkId]) -> list[IndexedPoint]:
        if self.leak == "read":
            everything = self._everything(scope)
            return [
                IndexedPoint(chunk_id, None, everything[chunk_id].vector)
                for chunk_id in ids
                if chunk_id in everything
            ]
        return super().read(scope, ids)

    def count(self, scope: Scope) -> int:
        return len(self._everything(scope)) if self.leak == "count" else super().count(scope)

    def delete(self, scope: Scope, ids: Sequence[ChunkId]) -> None:
        if self.leak == "delete":
            for points in self.points.values():
                for chunk_id in ids:
                    points.pop(chunk_id, None)
        super().delete(scope, ids)

    def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
        if self.leak == "delete_stale":
            for points in self.points.values():
                for chunk_id, _ in stale:
                    points.pop(chunk_id, None)
        super().delete_stale(scope, stale)


LEAKS = {
    "search": "points of another", "generations": "generation finds",
    "documents": "filter on documents", "empty": "filter on documents",
    "chapters": "filter on chapters", "position": "past the position", "scan": "points of another",
    "read": "points of another", "count": "points of another", "delete": "deletes points",
    "delete_stale": "deletes points", "blind": "its own points",
}  # fmt: skip


def tried(lib: LibraryFixture) -> list[Check]:
    return lib.library.doctor(self_test=True).self_test


def tenants(lib: LibraryFixture) -> set[str]:
    return {tenant for (_, tenant), points in lib.index.points.items() if points}


@pytest.mark.parametrize("leak", LEAKS)
def test_each_leak_fails_its_own_check(tmp_path: Path, leak: str) -> None:
    index = Leaky("")
    lib = make_library(tmp_path, index=index)
    lib.world(a__txt="The harbour light.")
    index.leak = leak
    failed = [check.says for check in tried(lib) if check.verdict is Verdict.PROBLEM]
    assert any(LEAKS[leak] in says for says in failed), failed


def test_correct_index_passes_and_is_left_unchanged(lib: LibraryFixture) -> None:
    lib.world(a__txt="The harbour light.")
    lib.world("other", a__txt="The garden wall.")
    before = tenants(lib)
    checks = tried(lib)
    assert [check.verdict for check in checks] == [Verdict.OK] * 2
    assert tenants(lib) == before


def test_canary_is_removed_when_the_index_fails(tmp_path: Path) -> None:
    class Failing(MemoryIndex):
        failing = False

        def search(
            self, scope: Scope, vector: Vector, *, limit: int, floor: float | None
        ) -> list[Hit]:
            if self.failing:
                raise IndexUnavailable("The index did not answer.")
            return super().search(scope, vector, limit=limit, floor=floor)

    index = Failing()
    lib = make_library(tmp_path, index=index)
    lib.world(a__txt="The harbour light.")
    before = tenants(lib)
    index.failing = True

    checks = tried(lib)

    assert [check.verdict for check in checks] == [Verdict.WARNING, Verdict.OK]
    assert tenants(lib) == before


def test_canary_of_a_dead_process_is_removed_by_the_next(tmp_path: Path) -> None:
    class Dying(MemoryIndex):
        dying = False

        def search(
            self, scope: Scope, vector: Vector, *, limit: int, floor: float | None
        ) -> list[Hit]:
            if self.dying:
                raise SystemExit
            return super().search(scope, vector, limit=limit, floor=floor)

        def drop(self, scope: Scope) -> None:
            if not self.dying:
                super().drop(scope)

    index = Dying()
    lib = make_library(tmp_path, index=index)
    lib.world(a__txt="The harbour light.")
    before = tenants(lib)
    index.dying = True
    with pytest.raises(SystemExit):
        tried(lib)
    index.dying = False
    assert any(tenant.startswith(MARK) for tenant in tenants(lib))

    plan = lib.library.doctor(apply=True)

    assert {item.finding for item in plan.leftovers} == {Finding.UNKNOWN_WORLD}
    assert tenants(lib) == before
    assert lib.library.doctor().healthy


def test_store_that_ignores_the_world_fails_the_check(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The harbour light.")
    own = lib.scope(world)
    honest = lib.store.chunks.read
    lib.store.chunks.read = lambda _scope, ids: honest(own, ids)  # type: ignore[method-assign]
    failed = [check.name for check in tried(lib) if check.verdict is Verdict.PROBLEM]
    assert failed == ["separation of worlds in the store"]


@pytest.mark.parametrize("reason", [StorageFull(0, 1), IndexUnavailable("No answer.")])
def test_untestable_promotion_gives_its_reason_and_no_leak(
    lib: LibraryFixture, reason: TruespanError
) -> None:
    world = lib.world(a__txt="The harbour light.")
    world.generations.reindex()

    def refuse(_scope: Scope, _points: Sequence[Point]) -> None:
        raise reason

    lib.index.upsert = refuse

    with pytest.raises(type(reason)):
        world.generations.promote(2)


def test_generation_with_a_leaking_index_is_not_promoted(tmp_path: Path) -> None:
    index = Leaky("")
    lib = make_library(tmp_path, index=index)
    world = lib.world(a__txt="The harbour light.")
    world.generations.reindex()
    index.leak = "position"
    with pytest.raises(PromotionRefused, match="LEAK"):
        world.generations.promote(2)
