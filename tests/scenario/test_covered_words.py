"""Answers of recommended worlds: the evidence of passages decides."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.answer_worlds import QUESTION, ScoreEmbedder, Scripted, Study, scored, study
from tests.support.observers import Recorder
from tests.support.worlds import WordEmbedder, make_library, other_profile
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import StoreDamaged
from truespan.protocols import ChatModels
from truespan.retrieval.background import Cohort, CohortVectors
from truespan.types import profile
from truespan.types.bundle import NOTHING_CLOSE
from truespan.types.decision import evidence_rules
from truespan.types.profile import Calibration, CalibrationOrigin
from truespan.types.request import Defaults
from truespan.types.telemetry import Request, Stage
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
GERMAN = (
    "Der Müller hatte den zweiten Schlüssel zu der Hütte, und das ist der Grund, aus dem er in der "
    "Nacht nicht zu dem Fluss ging und auch nicht mit den anderen in das Dorf kam, das an der "
    "Straße lag und in dem sich alle über ihn und über seinen Hund wunderten."
)
OTHER = "Rain fell on the harbour."


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ship a calibration with the model of these tests, so that readers have it too."""
    own = other_profile(dimensions=4)
    monkeypatch.setitem(profile._SHIPPED, (own.provider, own.model, own.revision), MEASURED)
    # Cached profiles keep their calibration and their languages.
    profile.profile_from_json.cache_clear()
    yield
    profile.profile_from_json.cache_clear()


BACKGROUND = 0.5
"""Similarity of every question to the texts of the cohort."""


def made(folder: Path, defaults: str = "recommended", **files: str) -> Study:
    built = study(
        folder, embedder=ScoreEmbedder(profile=other_profile(dimensions=4)), defaults=defaults
    )
    texts = tuple(scored(BACKGROUND, f"Text {number}.") for number in range(20))
    cohort = CohortVectors(Cohort("of a test", lambda: texts))
    built.library = Library(replace(built.library._components, cohort=cohort))
    built.world = built.library.world("world")
    built.add(**files)
    return built


def decided(world: World, question: str = QUESTION, **options: Any) -> tuple[str, str]:
    explained = world.answer(question, **options).decision_explain
    return explained["mode"], explained["reason"]


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_recommended_world_answers_if_the_words_are_covered(tmp_path: Path) -> None:
    answering = {"a__txt": scored(0.6, ANSWERING), "b__txt": scored(0.6, OTHER)}
    absent = {"a__txt": scored(0.635, OTHER), "b__txt": scored(0.6, "Snow lay on the hills.")}

    good, bad = made(tmp_path / "a", **answering).world, made(tmp_path / "b", **absent).world
    # Also for those who search in another way.
    for mode in (None, "vector", "keyword"):
        assert decided(good, mode=mode) == ("rag", "enough_evidence")
    for mode in (None, "vector"):
        assert decided(bad, mode=mode) == ("fallback", "too_little_evidence")
    assert decided(bad, "Where was rain on the harbour?") == ("rag", "enough_evidence")
    for world in (good, bad):
        world.set_defaults(Defaults.CONTRACT)
        explained = world.answer(QUESTION).decision_explain
        assert explained["gates"] == []
        assert not {"evidence", "missing_words"} & explained.keys()
        assert decided(world, mode="hybrid") == ("rag", "reached_high")


@proves("decision.used-among-retrieved")
@pytest.mark.usefixtures("calibrated")
def test_sources_without_a_word_of_the_question_come_last(tmp_path: Path) -> None:
    other, answering = scored(0.95, OTHER, long=False), scored(0.6, "The miller held it.")
    built, model = made(tmp_path, a__txt=other, b__txt=answering), Scripted("He did [1].")
    found = built.world.search(QUESTION).passages

    quoted = built.world.answer(QUESTION)
    asked = Library(replace(built.library._components, chat=ChatModels(model))).world("world")
    asked.answer(QUESTION)

    assert found[0].text.startswith(OTHER)
    assert [quote.text[:10] for quote in quoted.quotes] == ["The miller", OTHER[:10]]
    assert model.prompt.index("The miller") < model.prompt.index(OTHER)


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_only_passages_with_evidence_are_compared_with_the_words(tmp_path: Path) -> None:
    others = {f"p{n}__txt": scored(0.56, f"Rain fell on hut {n}.") for n in range(14)}
    built = made(tmp_path, a__txt=scored(0.63, ANSWERING), **others)

    answer = built.world.answer("Who held the spare key to the hut by night?")

    [record] = built.world.usage()
    assert record.evidence is not None
    covered = ["coverage" in part for part in record.evidence["candidates"]]
    assert (answer.mode, len(covered), sum(covered)) == ("rag", 15, 10)
    assert "missing_words" not in answer.decision_explain


FAR = "Which dose of insulin is safe?"


@proves("decision.evidence")
@pytest.mark.parametrize("calibration", ["calibrated", None])
def test_bundle_says_if_nothing_is_close_without_a_second_search(
    tmp_path: Path, request: pytest.FixtureRequest, calibration: str | None
) -> None:
    if calibration:
        request.getfixturevalue(calibration)
    built, heard = made(tmp_path), Recorder()
    # Under thresholds, this similarity is enough for nothing but the words.
    built.add(a__txt=scored(0.51 if calibration else 0.2, f"{ANSWERING} {OTHER}"))
    watched = Library(replace(built.library._components, observer=heard))
    reader = watched.world("world").reader("ann")
    reader.set_position("a.txt", sentence=1)

    def find(query: str, mode: str | None = None, *, closeness: bool = True) -> bool:
        bundle = reader.retrieve(query, mode=mode, closeness=closeness)
        assert bundle.retrieved_chunks
        return NOTHING_CLOSE in bundle.metadata.warnings

    for mode in (None, "vector"):
        assert (find(QUESTION, mode), find(FAR, mode)) == (False, True)
        assert not find(FAR, mode, closeness=False)
    assert {one.name for one in heard.requests} == {Request.READING}
    assert {one.stages.count(Stage.HITS) for one in heard.requests} == {1}
    built.world.set_defaults(Defaults.CONTRACT)
    assert not find(FAR)


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_refusal_names_the_unmatched_words(tmp_path: Path) -> None:
    built = made(tmp_path, a__txt=scored(0.6, ANSWERING), b__txt=scored(0.6, OTHER))

    answer = built.world.answer("Which dose of insulin did the miller give?")
    text = "Nothing certain. There are similar passages, but none about 'dose', 'insulin' or 'give'"
    assert answer.answer.startswith(text)
    assert answer.decision_explain["missing_words"] == ["dose", "insulin", "give"]
    # The log has no word of a question, unless the operator wants its text.
    [record] = built.world.usage()
    assert "insulin" not in to_json(record)
    with_text = built.with_rules(log_queries=True)
    with_text.answer("Which dose of insulin did the miller give?")
    assert "insulin" in to_json(with_text.usage()[0])


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_evidence_of_a_decision_is_recorded(tmp_path: Path) -> None:
    built = made(tmp_path, a__txt=scored(0.6, ANSWERING), b__txt=scored(0.6, OTHER))
    built.world.answer("Who has the spare key to the hut?")

    [record] = built.world.usage()
    assert record.evidence["background"] == pytest.approx(BACKGROUND)
    assert record.evidence["cohort"] == "of a test"
    covered = [entry["coverage"] for entry in record.evidence["candidates"]]
    assert {"share": 1.0, "window": 1.0, "words": 3} in covered
    assert min(entry["share"] for entry in covered) < 0.1


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_background_rises_with_other_close_chunks_of_the_world(tmp_path: Path) -> None:
    def add(built: Study, count: int) -> float:
        built.add(**{f"p{n}__txt": scored(0.6, f"Passage {n}.") for n in range(count)})
        built.world.answer(QUESTION)
        return built.world.usage()[0].evidence["background"]

    built = made(tmp_path)
    assert add(built, 10) == pytest.approx(0.5)
    assert add(built, 20) == pytest.approx(0.55)
    assert add(built, 40) == pytest.approx(0.6)


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_evidence_for_a_reader_depends_on_nothing_unread(tmp_path: Path) -> None:
    read = scored(0.6, "The miller locked the hut. He kept the spare one.") + "\n\n"
    unread = [
        "The key. The key! The key? A key, keys.\n\n" * 40,
        "Rain fell on the harbour.\n\n" * 90,
        "".join(scored(0.62, f"Passage {number}.") + "\n\n" for number in range(60)),
        "It was Jonas who had the key of the hut. The miller was Jonas.\n\n" * 40,
    ]
    for mode in ("hybrid", "vector"):
        seen = []
        for number, rest in enumerate(unread):
            built = made(tmp_path / mode / str(number))
            built.world.ingest(built.lib.write("book.txt", read + rest), kind="book")
            reader = built.world.reader("ann")
            reader.set_position("1", sentence=2)
            answers = [
                reader.answer(question, book="1", mode=mode)
                for question in (QUESTION, "Where did Jonas keep the key?")
            ]
            explained = [answer.decision_explain for answer in answers]
            seen.append(([answer.answer for answer in answers], to_json(explained)))
            assert explained[0]["evidence"]["background"] == pytest.approx(BACKGROUND)
            assert explained[1]["evidence"]["has_names"] is False
        assert seen[0] == seen[1] == seen[2] == seen[3]


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_names_of_a_question_are_evidence_in_each_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = other_profile(dimensions=4)
    monkeypatch.setitem(profile._LANGUAGES, (own.provider, own.model), frozenset({"de", "en"}))

    def has_names(language: str, question: str, *, text: str = ANSWERING) -> bool | None:
        built = made(tmp_path / f"{language} {question}"[:40])
        path = built.lib.write("a.txt", scored(0.6, text, long=False))
        built.world.ingest(path, language=language)
        return built.world.answer(question).decision_explain["evidence"].get("has_names")

    named = "Jonas, the miller, held the spare key to the hut."
    assert has_names("en", "Which key did Jonas hold?", text=named) is True
    assert has_names("en-GB", "Which key did Miller hold?") is False
    assert has_names("en", "Which key did he hold?") is None
    assert has_names("de", "Which key did Jonas hold?", text=GERMAN) is False
    assert has_names("de", "Which key did the Müller hold?", text=GERMAN) is True
    assert has_names("de", "Which key did he hold?", text=GERMAN) is None
    assert has_names("de", "Wann hatte Jonas den zweiten Schlüssel?", text=GERMAN) is False
    assert has_names("de", "Wie hieß der Hund von Müller?", text=GERMAN) is True
    assert has_names("de", "Wer hatte den Schlüssel in der Nacht?", text=GERMAN) is None


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_passage_in_a_language_unknown_to_the_model_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = other_profile(dimensions=4)
    monkeypatch.setitem(profile._LANGUAGES, (own.provider, own.model), frozenset({"en"}))

    def is_foreign(language: str) -> tuple[bool, bool]:
        built = made(tmp_path / language)
        text = GERMAN if language == "de" else ANSWERING
        path = built.lib.write("book.txt", scored(0.6, text, long=language != "de"))
        built.world.ingest(path, kind="book", language=language)
        reader = built.world.reader("ann")
        # German rules divide this text into fewer sentences.
        reader.set_position("1", sentence=0 if language == "de" else 1)
        answers = built.world.answer(QUESTION), reader.answer(QUESTION, book="1")
        first, second = (one.decision_explain["evidence"].get("foreign", False) for one in answers)
        return first, second

    assert is_foreign("en-GB") == (False, False)
    assert is_foreign("de") == (True, True)


@proves("decision.evidence")
@pytest.mark.usefixtures("calibrated")
def test_setting_replaces_the_derived_threshold(tmp_path: Path) -> None:
    built = made(tmp_path, a__txt=scored(0.6, ANSWERING), b__txt=scored(0.6, OTHER))
    assert decided(built.world)[0] == "rag"
    assert decided(built.with_rules(min_evidence=0.69))[0] == "rag"
    assert decided(built.with_rules(min_evidence=0.7))[0] == "fallback"


# Calibration from the world's own chunks


def chapters(count: int, start: int = 0) -> dict[str, str]:
    """Return documents of two chunks each, whose chunks share words."""
    return {
        f"d{n}__txt": "\n\n".join(
            f"{' '.join(f'word{n}x{i % 9}' for i in range(110))} part{part}." for part in (1, 2)
        )
        for n in range(start, start + count)
    }


@pytest.mark.needs_extension
@proves("calibration.from-documents")
def test_unmeasured_model_is_calibrated_from_the_documents(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=WordEmbedder(), defaults="recommended")
    world = lib.world(**chapters(30))
    found = world.evaluation.calibration()

    assert found is not None
    assert found.origin is CalibrationOrigin.DOCUMENTS
    assert found.chunks == lib.store.worlds.status(lib.scope(world)).embedded
    assert found.threshold_low < found.threshold_high
    assert lib.embedder.queries == []
    explained = world.answer("Which word is in part one of them all?").decision_explain
    threshold = evidence_rules(found).threshold
    assert explained["thresholds"] == {"low": threshold, "high": threshold}

    # Little growth changes nothing; a lot does.
    add(lib, world, chapters(5, 30))
    assert world.evaluation.calibration() == found
    add(lib, world, chapters(30, 35))
    grown = world.evaluation.calibration()
    assert grown is not None
    assert grown.chunks >= 2 * found.chunks

    # What was measured with queries stays.
    lib.store.records.keep_calibration(lib.scope(world), MEASURED)
    add(lib, world, chapters(80, 70))
    assert world.evaluation.calibration() == MEASURED


@pytest.mark.needs_extension
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


@pytest.mark.needs_extension
@proves("calibration.from-documents")
def test_world_is_measured_again_only_after_growing_a_lot(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=ScoreEmbedder(), watched=True, defaults="recommended")
    world = lib.world(**chapters(30))
    assert world.evaluation.calibration() is None

    def measured(count: int, start: int) -> bool:
        lib.journal.clear()
        add(lib, world, chapters(count, start))
        return "store.chunks.embedded_revisions" in lib.journal

    # Nothing was found, since all vectors are alike; nothing is looked for until it has doubled.
    assert [measured(10, 30), measured(10, 40), measured(10, 50)] == [False, False, True]
    assert not measured(10, 60)


@pytest.mark.needs_extension
@proves("calibration.from-documents")
def test_damaged_calibration_does_not_fail_an_ingestion(tmp_path: Path) -> None:
    lib = make_library(tmp_path, defaults="recommended")
    world = lib.world(**chapters(30))
    lib.sql("UPDATE calibrations SET kept_at = kept_at + 1")

    add(lib, world, chapters(40, 30))

    with pytest.raises(StoreDamaged):
        world.evaluation.calibration()


def add(lib: Any, world: World, files: dict[str, str]) -> None:
    world.ingest([lib.write(name.replace("__", "."), text) for name, text in files.items()])
