"""Tallies are counts of states: a wrong one is found and counted again."""

from pathlib import Path

import pytest

from tests.support.failures import raises_code
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library, other_profile
from truespan.engine.world import World
from truespan.maintenance.doctor.plan import Action, Finding

TALLIES = "SELECT * FROM tallies ORDER BY 1, 2"


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    made = make_library(
        tmp_path, others={"second": WordEmbedder(profile=other_profile(revision="2"))}
    )
    world = made.world(a__txt=story(60), b__txt=story(30, "garden"))
    world.generations.reindex(model="second")
    return made


def the_world(lib: LibraryFixture) -> World:
    return lib.library.world("world")


@pytest.mark.parametrize("statement", [
    "UPDATE tallies SET embedded = embedded - 1 WHERE generation = 2 AND revision = 1",
    "UPDATE tallies SET embedded = embedded + 1 WHERE generation = 1 AND revision = 2",
    "UPDATE tallies SET chunks = chunks + 1 WHERE generation = 2 AND revision = 1",
    "UPDATE tallies SET quarantined = 1 WHERE generation = 2 AND revision = 1",
    "DELETE FROM tallies WHERE generation = 2 AND revision = 2",
    "INSERT INTO tallies VALUES (1, 0, 3, 3, 0, NULL)",
])  # fmt: skip
def test_wrong_tally_is_found_alone_and_recounted(lib: LibraryFixture, statement: str) -> None:
    right = lib.sql(TALLIES)
    lib.sql(statement)
    plan = lib.library.doctor()
    treatment = lib.library.maintenance.apply_plan(plan)
    assert plan["world"].counts() == {Finding.WRONG_TALLY: 1}
    assert treatment.done == {Action.COUNT_AGAIN: 1}
    assert treatment.left.healthy
    assert lib.sql(TALLIES) == right
    assert the_world(lib).generations.promote(2).generation == 2


def test_generation_with_wrong_tally_is_promoted_once_fixed(lib: LibraryFixture) -> None:
    lib.sql("UPDATE tallies SET embedded = embedded - 1 WHERE generation = 2 AND revision = 1")
    with raises_code("generation_incomplete", match=r"^Generation 2 lacks 1 vector\."):
        the_world(lib).generations.promote(2)
    lib.library.maintenance.apply_plan(lib.library.doctor())
    assert the_world(lib).generations.promote(2).generation == 2


def test_pending_chunks_are_found_despite_a_wrong_tally(lib: LibraryFixture) -> None:
    right = lib.sql(TALLIES)
    lost = lib.sql("UPDATE states SET state = 'pending' WHERE position = 1 RETURNING chunk_id")
    plan = lib.library.doctor()
    treatment = lib.library.maintenance.apply_plan(plan)
    assert plan["world"].counts() == {Finding.WRONG_TALLY: 4, Finding.PENDING: len(lost)}
    assert treatment.left.healthy
    assert lib.sql("SELECT count(*) FROM states WHERE state <> 'embedded'") == [(0,)]
    assert lib.sql(TALLIES) == right


def test_tally_counted_again_after_the_plan_is_left_alone(lib: LibraryFixture) -> None:
    lib.sql("UPDATE tallies SET embedded = embedded - 1 WHERE generation = 2 AND revision = 1")
    plan = lib.library.doctor()
    lib.sql("UPDATE tallies SET embedded = embedded - 1 WHERE generation = 2 AND revision = 1")
    treatment = lib.library.maintenance.apply_plan(plan)
    assert [item.finding for item in treatment.skipped] == [Finding.WRONG_TALLY]
    assert treatment.left["world"].counts() == {Finding.WRONG_TALLY: 1}


@pytest.mark.parametrize("lost", [
    "DELETE FROM states WHERE revision = 1 AND generation = 1 AND position = 1",
    "DELETE FROM states WHERE revision = 1",
    "UPDATE states SET reach = reach - 1, last_sid = 0 WHERE revision = 1 AND position = 1",
])  # fmt: skip
def test_lost_chunks_are_rebuilt_from_the_stored_text(lib: LibraryFixture, lost: str) -> None:
    every = "SELECT chunk_id, start, finish, last_sid, reach, checksum FROM states ORDER BY 1"
    whole = lib.sql(every)
    lib.sql(lost)
    assert Finding.LOST_CHUNKS in lib.library.doctor()["world"].counts()
    lib.library.maintenance.apply_plan(lib.library.doctor())
    assert lib.sql(every) == whole
    assert lib.library.doctor().healthy
