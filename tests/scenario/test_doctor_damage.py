"""Damage of every kind is found, and repaired unless the data is lost."""

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.damage import KINDS, is_text_lost
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, PreparedLibrary, make_library
from truespan.engine.world import World
from truespan.maintenance.doctor.plan import Finding, Plan

FILES = {"a__txt": story(60), "b__txt": story(40, "garden"), "c__txt": "The lamp was out."}
QUERIES = ("harbour by night", "the garden", "lamp")


def answers(world: World) -> list[object]:
    """Return all search results without their times."""
    found = [world.search(query, top_k=50, floor=0.0) for query in QUERIES]
    return [replace(result, processing_time_ms=0) for result in found]


def counts(plan: Plan) -> dict[Finding, int]:
    found: dict[Finding, int] = {}
    for item in plan.all_items():
        found[item.finding] = found.get(item.finding, 0) + item.count
    return found


Built = tuple[LibraryFixture, World, World]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedLibrary:
    def fill(lib: LibraryFixture) -> None:
        lib.world(**FILES)
        lib.world("other", **FILES)

    return PreparedLibrary(tmp_path_factory.mktemp("damage"), fill)


@pytest.fixture
def built(prepared: PreparedLibrary) -> Iterator[Built]:
    lib = prepared.restore()
    yield lib, lib.library.world("world"), lib.library.world("other")
    lib.library.close()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Return the search results of an undamaged library."""
    return shown(make_library(tmp_path_factory.mktemp("fresh")).world(**FILES))


_BEFORE: list[list[object]] = []


@pytest.fixture
def before(prepared: PreparedLibrary, built: Built) -> list[list[object]]:
    """Return the search results of both worlds before any damage."""
    if not _BEFORE or not prepared.has_same_ids:
        _BEFORE[:] = [answers(world) for world in built[1:]]
    return _BEFORE


@proves("index.scrub")
@pytest.mark.parametrize("seed", range(in_test_or_prove(2, 8)))
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_found_and_repaired_or_stays_reported(
    built: Built, before: list[list[object]], kind: str, seed: int
) -> None:
    lib, world, other = built
    damage = KINDS[kind]
    damage.plant(lib, world, random.Random(f"{kind} {seed}"))

    plan = lib.library.doctor()
    treatment = lib.library.maintenance.apply_plan(plan)

    assert damage.found in counts(plan)
    assert plan["other"].healthy
    assert counts(lib.library.doctor()) == counts(treatment.left)
    if damage.lost:
        assert set(counts(treatment.left)) <= {Finding.QUARANTINED, Finding.LOST_DOCUMENT}
        assert not treatment.left.healthy
        world.ingest(str(lib.folder / "files" / "world"))
    assert lib.library.doctor().healthy
    assert damage.lost or answers(world) == before[0]
    assert answers(other) == before[1]


@proves("index.scrub")
@pytest.mark.parametrize("kind", [name for name, damage in KINDS.items() if not damage.lost])
def test_single_damage_has_exactly_its_own_finding(built: Built, kind: str) -> None:
    lib, world, _ = built
    damage = KINDS[kind]
    damage.plant(lib, world, random.Random(kind))

    assert set(counts(lib.library.doctor())) == {damage.found}


@proves("index.scrub")
@pytest.mark.parametrize("seed", range(in_test_or_prove(15, 60)))
def test_mixed_damage_is_found_and_repaired_to_fresh_results(
    built: Built, fresh: list[object], seed: int
) -> None:
    lib, world, _ = built
    rng = random.Random(seed)
    mendable = [name for name, damage in KINDS.items() if not damage.lost]
    chosen = rng.sample(mendable, rng.randrange(2, 7))
    for kind in chosen:
        KINDS[kind].plant(lib, world, rng)
    is_lost = is_text_lost(lib)

    # If both a stored vector and its point are wrong, only the model can tell.
    plan = lib.library.doctor(embed_sample=1000)
    treatment = lib.library.maintenance.apply_plan(plan)

    assert counts(plan)
    if is_lost:
        assert Finding.LOST_TEXT in counts(plan)
        assert set(counts(treatment.left)) == {Finding.QUARANTINED, Finding.LOST_DOCUMENT}
        world.ingest(str(lib.folder / "files" / "world"))
        treatment = lib.library.maintenance.apply_plan(lib.library.doctor())
    assert counts(treatment.left) == {}, chosen
    assert shown(world) == fresh, chosen


def shown(world: World) -> list[object]:
    """Return the rows that two libraries of the same sources share: all but ids."""
    return [
        [(one.text, one.score, one.source, one.index, one.first_sid) for one in result.passages]
        for result in (world.search(query, top_k=50, floor=0.0) for query in QUERIES)
    ]
