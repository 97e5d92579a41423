"""Answers of recommended worlds: covered words decide where similarity cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.answer_worlds import QUESTION, ScoreEmbedder, Study, scored, study
from tests.support.worlds import WordEmbedder, make_library, other_profile
from truespan.answers.decide import replay_record
from truespan.engine.world import World
from truespan.errors import StoreDamaged
from truespan.types import profile
from truespan.types.profile import Calibration, CalibrationOrigin
from truespan.types.request import Defaults
from truespan.wire.serialize import to_json

MEASURED = Calibration(
    calibrated_floor=0.5,
    threshold_low=0.56,
    threshold_high=0.64,
    short_query_threshold_low=0.57,
    short_query_threshold_high=0.65,
    min_similarity_for_hybrid=0.63,
    unrelated_high=0.5,
    measured_on="a test",
)
ANSWERING = "The miller held the spare key to the hut."
OTHER = "Rain fell on the harbour."


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ship a calibration with the model of these tests, so that readers have it too."""
    own = other_profile(dimensions=4)
    monkeypatch.setitem(profile._SHIPPED, (own.provider, own.model, own.revision), MEASURED)


def made(folder: Path, defaults: str = "recommended", **files: str) -> Study:
    built = study(
        folder, embedder=ScoreEmbedder(profile=other_profile(dimensions=4)), defaults=defaults
    )
    built.add(**files)
    return built


def decided(world: World, question: str = QUESTION, **options: Any) -> tuple[str, list[str]]:
    explained = world.answer(question, **options).decision_explain
    return explained["mode"], [gate["name"] for gate in explained["gates"] if not gate["held"]]


@proves("decision.coverage")
@pytest.mark.usefixtures("calibrated")
def test_a_recommended_world_asks_whether_the_words_are_covered(tmp_path: Path) -> None:
    answering = {"a__txt": scored(0.6, ANSWERING), "b__txt": scored(0.6, OTHER)}
    absent = {"a__txt": scored(0.635, OTHER), "b__txt": scored(0.6, "Snow lay on the hills.")}
    similarity, coverage = ["min_similarity_for_hybrid"], ["min_coverage"]

    good, bad = made(tmp_path / "a", **answering).world, made(tmp_path / "b", **absent).world
    assert decided(good) == ("hybrid", [])
    assert decided(bad) == ("fallback", coverage)
    # Whoever searches by similarity alone is judged by similarity alone.
    assert decided(good, mode="vector") == ("fallback", similarity)
    # A question without words that could be covered, too.
    assert decided(bad, "Who is he to be so, and why?") == ("hybrid", [])
    for world in (good, bad):
        world.set_defaults(Defaults.CONTRACT)
        assert world.answer(QUESTION).decision_explain["gates"] == []
        assert decided(world, mode="hybrid") == ("rag", [])


@proves("decision.coverage")
@pytest.mark.usefixtures("calibrated")
def test_the_coverage_is_recorded_and_the_decision_can_be_replayed(tmp_path: Path) -> None:
    built = made(tmp_path, a__txt=scored(0.6, ANSWERING), b__txt=scored(0.6, OTHER))
    built.world.answer("Who has the spare key to the hut?")

    [record] = built.world.usage()
    assert replay_record(record).same
    shares = {entry.get("coverage") for entry in record.evidence["candidates"]}
    assert max(shares) == 1.0
    assert min(shares) == 0.0


@proves("decision.coverage")
@pytest.mark.usefixtures("calibrated")
def test_rarity_for_a_reader_depends_on_nothing_unread(tmp_path: Path) -> None:
    read = scored(0.6, "The miller locked the hut. He kept the spare one.") + "\n\n"
    unread = [
        "The key. The key! The key? A key, keys.\n\n" * 40,
        "Rain fell on the harbour.\n\n" * 90,
    ]
    seen = []
    for number, rest in enumerate(unread):
        built = made(tmp_path / str(number))
        built.world.ingest(built.lib.write("book.txt", read + rest), kind="book")
        reader = built.world.reader("ann")
        reader.set_position("1", sentence=2)
        answer = reader.answer(QUESTION, book="1")
        seen.append(to_json(answer.decision_explain))
        assert answer.decision_explain["gates"]
    assert seen[0] == seen[1]
    assert '"min_coverage"' in seen[0]


# Calibration from the world's own chunks


def chapters(count: int, start: int = 0) -> dict[str, str]:
    """Return documents of two chunks each, whose chunks share words."""
    return {
        f"d{n}__txt": "\n\n".join(
            f"{' '.join(f'word{n}x{i % 9}' for i in range(110))} part{part}." for part in (1, 2)
        )
        for n in range(start, start + count)
    }


@proves("calibration.from-documents")
def test_a_model_that_nobody_measured_is_calibrated_from_the_documents(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=WordEmbedder(), defaults="recommended")
    world = lib.world(**chapters(30))
    found = world.evaluation.calibration()

    assert found is not None
    assert found.origin is CalibrationOrigin.DOCUMENTS
    assert found.chunks == lib.store.status(lib.scope(world)).embedded
    assert found.threshold_low < found.threshold_high
    assert lib.embedder.queries == []
    explained = world.answer("Which word is in part one of them all?").decision_explain
    assert explained["thresholds"]["low"] == found.threshold_low

    # Little growth changes nothing; a lot does.
    add(lib, world, chapters(5, 30))
    assert world.evaluation.calibration() == found
    add(lib, world, chapters(30, 35))
    grown = world.evaluation.calibration()
    assert grown is not None
    assert grown.chunks >= 2 * found.chunks

    # What was measured with queries stays.
    scope = lib.scope(world)
    lib.store.keep_calibration(scope, MEASURED)
    add(lib, world, chapters(80, 70))
    assert world.evaluation.calibration() == MEASURED


@proves("calibration.from-documents")
def test_contract_worlds_and_readers_are_not_calibrated_from_documents(tmp_path: Path) -> None:
    lib = make_library(tmp_path, defaults="contract")
    world = lib.world(**chapters(30))
    assert world.evaluation.calibration() is None

    world.set_defaults(Defaults.RECOMMENDED)
    add(lib, world, chapters(1, 30))
    assert world.evaluation.calibration() is not None
    reader = world.reader("ann")
    reader.set_position("1", sentence=0)
    explained = reader.answer("Which word is in part one of them all?", book="1").decision_explain
    assert explained["thresholds"] == {"low": 0.25, "high": 0.55}


@proves("calibration.from-documents")
def test_a_world_is_measured_again_only_after_it_has_grown_a_lot(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=ScoreEmbedder(), watched=True, defaults="recommended")
    world = lib.world(**chapters(30))
    assert world.evaluation.calibration() is None

    def measured(count: int, start: int) -> bool:
        lib.journal.clear()
        add(lib, world, chapters(count, start))
        return "store.embedded_revisions" in lib.journal

    # Nothing was found, since all vectors are alike; nothing is looked for until it has doubled.
    assert [measured(10, 30), measured(10, 40), measured(10, 50)] == [False, False, True]
    assert not measured(10, 60)


@proves("calibration.from-documents")
def test_a_damaged_calibration_does_not_fail_an_ingestion(tmp_path: Path) -> None:
    lib = make_library(tmp_path, defaults="recommended")
    world = lib.world(**chapters(30))
    lib.sql("UPDATE calibrations SET kept_at = kept_at + 1")

    add(lib, world, chapters(40, 30))

    with pytest.raises(StoreDamaged):
        world.evaluation.calibration()


def add(lib: Any, world: World, files: dict[str, str]) -> None:
    world.ingest([lib.write(name.replace("__", "."), text) for name, text in files.items()])
