"""Plans of the doctor: content, library, and changes before they are applied."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.damage import KINDS, any_point, kept_vectors, vector_of_other_model
from tests.support.sample_texts import story
from tests.support.worlds import (
    LibraryFixture,
    MemoryIndex,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.engine.doctor import Doctor
from truespan.engine.world import World
from truespan.errors import InvalidArgument, ProviderUnavailable
from truespan.maintenance.doctor.examine import Examiner
from truespan.maintenance.doctor.plan import Action, Finding, Plan
from truespan.types.chunk import PointCounts
from truespan.types.ids import TextHash
from truespan.types.scope import OWNER, Authority, Scope, Verb
from truespan.types.vectors import Vector

MENDABLE = [name for name, damage in KINDS.items() if not damage.lost]


def damaged(tmp_path: Path, *kinds: str) -> tuple[LibraryFixture, World]:
    lib = make_library(tmp_path)
    world = lib.world(a__txt=story(60), b__txt=story(30, "garden"))
    rng = random.Random(7)
    for kind in kinds:
        KINDS[kind].plant(lib, world, rng)
    return lib, world


@pytest.mark.parametrize("kind", MENDABLE)
def test_plan_repairs_all_findings_and_nothing_when_repeated(tmp_path: Path, kind: str):
    lib, world = damaged(tmp_path, kind)
    plan = lib.library.doctor()
    treatment = lib.library.maintenance.apply_plan(plan)
    assert (treatment.skipped, treatment.left.healthy) == ([], True)
    before = lib.sql("SELECT * FROM states ORDER BY chunk_id"), lib.points(world)
    lib.library.maintenance.apply_plan(plan)
    assert (lib.sql("SELECT * FROM states ORDER BY chunk_id"), lib.points(world)) == before
    assert lib.library.doctor().healthy


def test_plan_of_another_library_is_refused(tmp_path: Path) -> None:
    lib, _ = damaged(tmp_path / "one", "missing")
    other, world = damaged(tmp_path / "two", "missing")
    before = other.points(world)
    with pytest.raises(InvalidArgument, match="another library"):
        other.library.maintenance.apply_plan(lib.library.doctor())
    assert other.points(world) == before


def test_generation_without_its_model_is_a_problem(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    second_generation(lib, world)
    # No alias names the second generation, so that its model is not checked.
    assert lib.library.doctor(machine=True).problems == []
    lib.embedder.profile = other_profile(revision="9")
    plan = lib.library.doctor(machine=True)
    assert [check.name for check in plan.problems] == ["model of world, generation 1"]
    assert not plan.healthy
    assert lib.embedder.profile.revision not in plan.problems[0].says


def test_items_changed_since_the_plan_are_skipped(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    points, point = any_point(lib, world, random.Random(1))
    whole = points[point.chunk_id]
    points[point.chunk_id] = replace(point, text_hash=TextHash("e" * 64))
    plan = lib.library.doctor()
    points[point.chunk_id] = replace(point, text_hash=TextHash("d" * 64))

    other_damage = lib.library.maintenance.apply_plan(plan)
    points[point.chunk_id] = whole
    mended = lib.library.maintenance.apply_plan(plan)

    assert [item.subject for item in other_damage.skipped] == [point.chunk_id]
    assert other_damage.done == {}
    assert not other_damage.left.healthy
    assert [item.subject for item in mended.skipped] == [point.chunk_id]
    assert mended.left.healthy


def test_point_claimed_after_the_plan_is_not_deleted(tmp_path: Path) -> None:
    """The world of the point is unknown when the plan is made, and known when it is applied."""
    lib, world = damaged(tmp_path, "unknown generation")
    plan = lib.library.doctor()
    [item] = plan.leftovers
    number = int(item.subject.rpartition(".")[2])
    lib.sql(
        """INSERT INTO generations (world_id, number, profile_id, profile, created_at, checksum)
           SELECT world_id, ?, profile_id, profile, 0, checksum FROM generations""",
        number,
    )

    assert lib.library.maintenance.apply_plan(plan).skipped == [item]
    tenant = item.subject.partition(" ")[2]
    assert lib.index.points[lib.scope(world).profile.id, tenant]


def test_document_added_during_a_check_is_not_damage(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    paths = [lib.write(f"late/{number}.txt", story(9, f"late{number}")) for number in range(2)]
    original = lib.index.scan

    def busy(scope: Scope):
        pages = list(original(scope))
        if paths:
            world.ingest(paths.pop())
            world.documents.delete("a.txt") if not paths else None
        yield from pages

    lib.index.scan = busy

    assert lib.library.doctor().healthy
    assert lib.library.doctor().healthy
    assert paths == []


def second_generation(lib: LibraryFixture, world: World) -> Scope:
    """Build another generation of the same model beside the first."""
    scope = lib.scope(world)
    generation = lib.store.generations.add_generation(scope, other_profile(revision="2"), None)
    own = replace(scope, generation=generation)
    from truespan.engine.ingestion import Ingestion
    from truespan.ingest.indexing import Indexer

    deps = replace(
        Ingestion(world.access.components, own).deps,
        embedder=WordEmbedder(profile=generation.profile),
    )
    Indexer(deps, own).fill(lib.store.revisions.missing_chunks(own))
    return own


def test_each_generation_is_checked_and_repaired_separately(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    own = second_generation(lib, world)
    assert lib.library.doctor().healthy
    points = lib.index._of(own)
    gone = sorted(points)[0]
    del points[gone]

    plan = lib.library.doctor()
    by_number = {one.number: one.counts() for one in plan["world"].generations}
    treatment = lib.library.maintenance.apply_plan(plan)

    assert by_number == {1: {}, 2: {Finding.MISSING_POINT: 1}}
    assert Examiner(lib.store, lib.index).generation(own).counts() == {}
    # Its model is not configured here, and was not needed: the vector was kept.
    assert treatment.failures == []
    assert gone in lib.index._of(own)


def test_generation_without_model_is_repaired_except_vectors(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    own = second_generation(lib, world)
    lib.index.drop(own)
    lost = lib.sql(
        "DELETE FROM vectors WHERE profile_id = ? AND text_hash = "
        "(SELECT min(text_hash) FROM vectors) RETURNING text_hash",
        own.profile.id,
    )
    asked = len(lib.embedder.documents)

    treatment = lib.library.maintenance.apply_plan(lib.library.doctor())

    assert len(lost) == 1
    assert len(treatment.failures) == 1
    assert len(lib.embedder.documents) == asked
    pending = [one.counts() for one in treatment.left["world"].generations if one.number == 2]
    assert set(pending[0]) == {Finding.PENDING}
    assert lib.index.count(own) > 0


def test_sample_reveals_vectors_of_another_model(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    scope = lib.scope(world)
    for text_hash, vector in kept_vectors(lib, world):
        other = vector_of_other_model(Vector(vector), random.Random(text_hash))
        lib.store.documents.keep_vectors(scope, {TextHash(text_hash): other})
    lib.store.chunks.mark_all_pending(scope)
    lib.index.reset(scope)
    world.repair()
    assert lib.library.doctor().healthy

    few = lib.library.doctor(embed_sample=None)
    everything = lib.library.doctor(embed_sample=1000)
    lib.library.maintenance.apply_plan(everything)

    assert few["world"].counts()[Finding.MIXED_MODEL] >= 1
    assert lib.library.doctor(embed_sample=1000).healthy


def test_sample_is_not_embedded_by_another_model(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    lib.embedder.profile = other_profile(revision="9")
    asked = len(lib.embedder.documents)
    assert lib.library.doctor(embed_sample=10)["world"].healthy
    assert len(lib.embedder.documents) == asked
    assert world.name == "world"


def test_sample_that_cannot_be_embedded_is_a_warning(tmp_path: Path) -> None:
    lib, _ = damaged(tmp_path)

    def fail() -> None:
        raise ProviderUnavailable("Nobody there.")

    lib.embedder.before = fail

    plan = lib.library.doctor(embed_sample=3)

    assert plan.healthy
    assert [check.verdict.value for check in plan.self_test] == ["warning"]


def test_large_generation_is_compared_in_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kinds = ("missing", "stale", "orphan", "misplaced chapter", "zero")
    lib, _ = damaged(tmp_path, *kinds)
    whole = lib.library.doctor()
    monkeypatch.setattr("truespan.maintenance.doctor.examine.POINTS_PER_PASS", 2)
    parts = lib.library.doctor()
    assert set(parts.all_items()) == set(whole.all_items())
    assert parts["world"].checked_points == whole["world"].checked_points
    assert parts["world"].checked_chunks == whole["world"].checked_chunks


def test_points_unreachable_by_filters_cause_a_rebuild(tmp_path: Path) -> None:
    class Littered(MemoryIndex):
        litter = 0

        def tenants(self, scope: Scope, *, limit: int) -> PointCounts:
            held = super().tenants(scope, limit=limit)
            return replace(held, points=held.points + self.litter)

        def reset(self, scope: Scope) -> None:
            super().reset(scope)
            self.litter = 0

    index = Littered()
    lib = make_library(tmp_path, index=index)
    world = lib.world(a__txt=story(40))
    count = index.count(lib.scope(world))
    index.litter = 3

    treatment = lib.library.maintenance.apply_plan(lib.library.doctor())

    assert treatment.done[Action.REBUILD] == 1
    assert treatment.left.healthy
    assert index.count(lib.scope(world)) == count


def test_partial_authority_reports_no_unclaimed_points(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path, "unknown world")
    narrow = Authority(frozenset([lib.scope(world).world]), frozenset(Verb))
    assert Doctor(lib.library._components, narrow).examine().leftovers == []
    assert Doctor(lib.library._components, OWNER).examine().leftovers != []


def test_readers_get_no_wrong_text_while_a_plan_is_applied(tmp_path: Path) -> None:
    lib, world = damaged(tmp_path)
    right = {one.text for one in world.search("night", top_k=50, floor=0.0).passages}
    wrong: list[str] = []
    looked: list[str] = []

    def look(name: str) -> None:
        looked.append(name)
        result = world.search("night", top_k=50, floor=0.0)
        wrong.extend(one.text for one in result.passages if one.text not in right)

    for name in ("upsert", "delete", "flush"):
        original = getattr(lib.index, name)

        def watched(*args, _original=original, _name=name, **kwargs):
            look(_name)
            _original(*args, **kwargs)
            look(_name)

        setattr(lib.index, name, watched)
    rng = random.Random(3)
    for kind in ("stale", "text other", "zero", "orphan", "kept zero"):
        KINDS[kind].plant(lib, world, rng)

    treatment = lib.library.maintenance.apply_plan(lib.library.doctor())

    assert wrong == []
    assert len(looked) > 4
    assert treatment.left.healthy


def test_plan_of_an_empty_library_is_empty(lib: LibraryFixture) -> None:
    lib.library.create_world("empty")
    plan = lib.library.doctor(self_test=True)
    assert plan.healthy
    assert not plan.actionable
    assert isinstance(lib.library.maintenance.apply_plan(plan).left, Plan)
