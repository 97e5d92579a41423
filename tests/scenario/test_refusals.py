"""Refusals with the failed check and the closest passages, and the support check of answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.answer_worlds import (
    LONG,
    QUESTION,
    ScoreEmbedder,
    Scripted,
    Study,
    scored,
    study,
)
from tests.support.worlds import WordEmbedder, other_profile
from truespan.answers.respond import MAX_CHECKED
from truespan.errors import ProviderUnavailable
from truespan.tables import tables
from truespan.types.answer import PREVIEW_CHARACTERS, Answer
from truespan.types.vectors import Vector
from truespan.wire.serialize import to_json


def near(answer: Answer) -> list[tuple[str, float, str]]:
    return [(note.source, note.similarity, note.verdict) for note in answer.near_misses]


@proves("answers.refusal-explained")
def test_refusal_below_threshold_shows_closest_passages(tmp_path: Path) -> None:
    room = study(tmp_path)
    room.scores(0.1, 0.24, 0.05, 0.2)

    answer = room.world.answer(QUESTION)

    assert answer.answer == (
        "Nothing certain. No passage is close enough to the question: the best score is 0.240, and "
        "0.25 is needed."
    )
    assert near(answer) == [
        ("p1.txt", 0.24, "below_floor"),
        ("p3.txt", 0.2, "below_floor"),
        ("p0.txt", 0.1, "below_floor"),
    ]
    assert (answer.used_chunks, answer.citations, answer.sources_used) == ((), (), "none")


@proves("answers.refusal-explained")
def test_refusal_names_each_failed_gate(tmp_path: Path) -> None:
    room = study(tmp_path)
    room.scores(0.45)

    answer = room.with_rules(min_chunks_for_hybrid=2).answer(QUESTION)

    assert answer.answer == (
        "Nothing certain. The best similarity is 0.45, and 0.5 is needed; 1 passage was found, "
        "and 2 are needed."
    )
    assert near(answer) == [("p0.txt", 0.45, "returned")]


@proves("answers.refusal-explained")
def test_refusal_names_the_model_that_found_no_answer(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted("NO_CONTEXT"))
    room.scores(0.7, 0.6)

    answer = room.world.answer(QUESTION)

    assert answer.answer == "Nothing certain. The chat model found no answer in the passages."
    assert [note.source for note in answer.near_misses] == ["p0.txt", "p1.txt"]


@proves("answers.refusal-explained")
def test_refusal_of_empty_world_has_no_near_misses(tmp_path: Path) -> None:
    answer = study(tmp_path).world.answer(QUESTION)

    assert answer.answer == "Nothing certain. No passage was found."
    assert "near_misses" not in to_json(answer)


@proves("answers.refusal-explained")
def test_given_answer_has_no_near_misses(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted("On hook seven [1]."))
    room.scores(0.7)

    assert room.world.answer(QUESTION).near_misses == ()


@proves("answers.refusal-explained")
def test_near_miss_is_cut_around_the_sentence_of_the_question(tmp_path: Path) -> None:
    room = study(tmp_path)
    room.add(a__txt=f"{scored(0.2)} The spare key of the hut hung on hook seven. Then came rain.")

    [note] = room.world.answer(QUESTION).near_misses

    assert note.text == "The spare key of the hut hung on hook seven. Then came rain."

    room.add(a__txt=f"{scored(0.2)} The spare key of the hut hung there. {'It rained. ' * 30}")

    [note] = room.world.answer(QUESTION).near_misses

    assert note.text.startswith("The spare key of the hut hung there. It rained.")
    assert note.text.endswith(" …")
    assert len(note.text) <= PREVIEW_CHARACTERS


@proves("answers.refusal-explained", "reading.every-surface")
def test_reader_near_misses_stop_at_the_position(tmp_path: Path) -> None:
    room = study(tmp_path)
    reader = room.world.reader("ada")

    def ask(rest: str) -> Answer:
        text = f"The key hung there (score 0.2).{LONG} {rest}"
        room.world.ingest(room.lib.write("book.txt", text), kind="book")
        reader.set_position("book.txt", sentence=1)
        return replace(reader.answer(QUESTION), record=None, processing_time_ms=0)

    answer = ask("The butler took it (score 0.24).")

    assert "the best score is 0.200" in answer.answer
    assert [note.similarity for note in answer.near_misses] == [0.2]
    assert to_json(answer) == to_json(ask("Rain fell."))


def words_world(folder: Path, **options: Any) -> Study:
    room = study(folder, embedder=WordEmbedder(), **options)
    room.add(a__txt="The lamp burns oil. The keeper lights it.", b__txt="Rain fell all night.")
    return room


@proves("search.words-explained")
def test_words_without_a_match_are_explained(tmp_path: Path) -> None:
    room = words_world(tmp_path)
    chunk = room.world.search("lamp", floor=0.0).passages[0].chunk_id

    for query, code in (("zebra", "no_word_matches"), ('"oil lamp"', "no_phrase_matches")):
        mode = "keyword" if code == "no_word_matches" else "hybrid"
        result = room.world.search(query, mode=mode, floor=0.0)
        assert [notice.code for notice in result.warnings] == [code]
        assert result.passages == ()
        assert code in [n.code for n in room.world.retrieve(query, mode=mode).metadata.warnings]
        answer = room.world.answer(query, mode=mode)
        assert answer.answer.startswith("Nothing certain. No passage contains ")
    result = room.world.search("lamp", mode="keyword", floor=0.0)
    assert result.warnings == ()
    assert room.world.why_not(chunk, "oil", mode="keyword").code == "returned"

    query = "lamp oil keeper rain"
    rain = next(one for one in room.world.search(query, floor=0.0).passages if "Rain" in one.text)

    assert room.world.why_not(rain.chunk_id, "night lamp", mode="keyword").code == "returned"
    assert room.world.why_not(rain.chunk_id, "zebra rain", mode="keyword").code == "returned"
    assert room.world.why_not(rain.chunk_id, "all lamp", mode="keyword").code == "no_words"
    assert room.world.why_not(rain.chunk_id, '"night fell rain"', mode="hybrid").code == "no_words"


@proves("search.words-explained")
def test_reader_words_without_a_match_are_explained(tmp_path: Path) -> None:
    room = study(tmp_path, embedder=WordEmbedder())
    lines = " ".join(f"Sentence {n} is about the lamp." for n in range(30))
    room.world.ingest(room.lib.write("book.txt", lines), kind="book")
    reader = room.world.reader("ada")
    reader.set_position("book.txt", sentence=29)
    chunk = reader.retrieve("lamp", mode="keyword").retrieved_chunks[0].chunk_id

    assert [n.code for n in reader.retrieve("zebra", mode="keyword").metadata.warnings] == [
        "no_word_matches"
    ]
    assert reader.why_not(chunk, "zebra", mode="keyword").code == "no_words"
    assert "No passage contains a word" in reader.answer("zebra", mode="keyword").answer


@proves("search.words-explained")
def test_search_names_passages_over_its_budget(tmp_path: Path) -> None:
    room = words_world(tmp_path)

    for size in ("passage", "sentence"):
        result = room.world.search("lamp rain", floor=0.0, max_tokens=1, granularity=size)
        [notice] = result.warnings
        assert (result.passages, notice.code) == ((), "over_budget")
        assert "do not fit into the budget of 1 tokens" in notice.message
    assert room.world.search("lamp rain", floor=0.0, max_tokens=500).warnings == ()
    answer = room.world.answer("lamp rain", max_tokens=1)
    assert "No passage fits into the token budget" in answer.answer


FAR = "Guests dance under purple lanterns all evening [1]."


def room(folder: Path, reply: str, **parts: Any) -> Study:
    made = study(folder, primary=Scripted(reply), **parts)
    made.add(a__txt=scored(0.8, "The key hangs on hook seven. Anna Reed took it in 1904."))
    return made


def codes(answer: Answer) -> set[str]:
    return {notice.code for notice in answer.warnings}


@pytest.mark.needs_extension
@proves("support.sentences")
def test_unsupported_sentences_of_a_model_are_reported(tmp_path: Path) -> None:
    reply = "The key hangs on hook seven [1]. Otto Brand took it in 1904 [1]."
    answer = room(tmp_path, reply).world.answer(QUESTION)

    assert answer.support is not None
    assert (answer.support.score, answer.support.claims) == (0.5, 2)
    assert [part.supported for part in answer.support.sentences] == [True, False]
    assert answer.support.sentences[1].missing == ("Otto", "Brand")
    assert "unsupported_sentence" in codes(answer)
    assert "uncited_answer" not in codes(answer)
    assert msgspec.to_builtins(answer)["support"]["sentences"][1]["reasons"] == ("name_not_found",)


@proves("support.sentences")
def test_answer_without_the_support_check_says_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables(), "answer_checks", {})

    answer = room(tmp_path, "The key hangs on hook seven [1].").world.answer(QUESTION)

    assert answer.support is None
    assert "reply_not_checked" in codes(answer)


@pytest.mark.needs_extension
@proves("support.sentences")
def test_long_reply_is_checked_in_part(tmp_path: Path) -> None:
    reply = "It was on 3 May 1871. " * 800
    answer = room(tmp_path, reply).world.answer(QUESTION)

    assert answer.answer == reply.strip()
    assert "reply_checked_in_part" in codes(answer)
    assert answer.support is not None
    assert 0 < answer.support.sentences[-1].end <= MAX_CHECKED < len(reply)


@proves("support.sentences")
def test_answer_without_a_model_has_no_support(tmp_path: Path) -> None:
    made = study(tmp_path)
    made.add(a__txt=scored(0.8))

    for answer in (made.world.answer(QUESTION), study(tmp_path / "empty").world.answer(QUESTION)):
        assert answer.support is None
        assert "support" not in msgspec.to_builtins(answer)


@pytest.mark.needs_extension
@proves("support.sentences")
@pytest.mark.parametrize(
    ("reply", "warned"),
    [
        ("The key hangs on hook seven.", {"uncited_answer"}),
        ("The key hangs on hook seven [8].", {"uncited_answer", "unknown_citation"}),
        ("I do not know.", set()),
        ("It says “on hook nine” [1].", {"no_verified_quote", "unverified_quote"}),
        ("It says “on hook seven” [1], “on hook nine” [1].", {"unverified_quote"}),
    ],
)
def test_answer_without_valid_citations_or_quotes_is_marked(
    tmp_path: Path, reply: str, warned: set[str]
) -> None:
    found = codes(room(tmp_path, reply).world.answer(QUESTION))

    assert found - {"unsupported_sentence", "thresholds_not_calibrated"} == warned


@pytest.mark.needs_extension
@proves("support.sentences")
def test_answer_from_memory_has_no_support(tmp_path: Path) -> None:
    made = study(tmp_path, fallback=Scripted("Vienna is old. It lies on a river."))
    made.scores(0.1)

    answer = made.world.answer(QUESTION)

    assert answer.support is not None
    assert (answer.support.score, answer.support.claims) == (0.0, 2)
    assert {str(why) for part in answer.support.sentences for why in part.reasons} == {
        "cites_nothing"
    }


@pytest.mark.needs_extension
@proves("support.linear")
def test_only_a_measured_or_chosen_floor_embeds_sentences(tmp_path: Path) -> None:
    embedder = ScoreEmbedder(profile=other_profile(dimensions=4))
    made = room(tmp_path, FAR, embedder=embedder)
    ingested = len(embedder.documents)

    plain = made.world.answer(QUESTION).support
    assert len(embedder.documents) == ingested
    off = made.with_rules(support_floor=1.0).answer(QUESTION).support
    assert len(embedder.documents) == ingested
    # Both texts have the same vector under this embedder.
    near = made.with_rules(support_floor=0.5).answer(QUESTION).support
    assert embedder.documents[ingested] == FAR.replace(" [1]", "")

    assert plain is not None
    assert plain == off
    assert [str(why) for why in plain.sentences[0].reasons] == ["words_not_found"]
    assert near is not None
    assert near.score == 1.0


class Failing(ScoreEmbedder):
    """Embeds documents while they are ingested, and fails afterwards."""

    broken = False

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if self.broken:
            raise ProviderUnavailable("It is down.")
        return super().embed_documents(texts)


@pytest.mark.needs_extension
@proves("support.sentences")
def test_failed_embedder_withholds_no_answer(tmp_path: Path) -> None:
    embedder = Failing(profile=other_profile(dimensions=4))
    made = room(tmp_path, FAR, embedder=embedder)
    embedder.broken = True

    answer = made.with_rules(support_floor=0.5).answer(QUESTION)

    assert answer.answer == FAR
    assert "support_by_words" in codes(answer)
    assert answer.support is not None
    assert [str(why) for why in answer.support.sentences[0].reasons] == ["words_not_found"]
