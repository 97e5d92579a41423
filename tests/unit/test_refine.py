"""The best candidates of a blended search, ranked again by their text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.state_embedder import StateEmbedder
from tests.support.worlds import make_library, other_profile, vector_of
from tests.unit.test_fused import TALES, Blind, sources
from truespan.errors import InvalidArgument
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.retrieval.fused import CandidateText, Refinement
from truespan.types.bundle import SearchResult
from truespan.types.profile import _SHIPPED, knows_well
from truespan.types.vectors import MAX_WORDS, STATE_SIZE, QueryStates, Vector, WordStates, pack_rows
from truespan.words.query import find_phrases, requires_phrases
from truespan.words.scoring import WordRarity
from truespan.words.terms import distinct_words

FILLER = "Then nothing else was said about anything by anyone at all. " * 3


def codes(found: SearchResult) -> set[str]:
    return {warning.code for warning in found.warnings}


@pytest.mark.recommended
def test_words_close_together_rank_higher(tmp_path: Path) -> None:
    texts = {
        "apart__txt": f"The lamp was old. {FILLER}A key lay there. {FILLER}",
        "close__txt": f"{FILLER}The key hung beside the lamp. {FILLER}",
    }
    lib = make_library(tmp_path, embedder=Blind())
    found = lib.world(**texts).search("key lamp", floor=0.0)
    assert sources(found) == ["close.txt", "apart.txt"]
    shares = [one.fused.window for one in found.passages if one.fused]
    assert shares == [1.0, pytest.approx(0.5)]


@pytest.mark.contract
def test_contract_world_ranks_by_the_blend_alone(tmp_path: Path) -> None:
    world = make_library(tmp_path, embedder=Blind()).world(**TALES)
    found = world.search("key harbour", floor=0.0, mode="hybrid")
    assert all(one.fused and one.fused.window is None for one in found.passages)
    assert not world.search('what is the "zebra" of harbours and keys', mode="hybrid").passages


@pytest.mark.recommended
def test_question_with_a_quoted_word_finds_other_passages(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)
    question = 'who hid the key that is called "zebra" near the harbour'
    found = world.search(question, floor=0.0)
    assert sources(found)[0] == "b.txt"
    assert "no_phrase_matches" in codes(found)
    assert not world.search(question, floor=0.0, mode="keyword").passages


@pytest.mark.recommended
def test_passage_with_the_quoted_text_ranks_higher(tmp_path: Path) -> None:
    # Without the phrase, the more frequent words of the first text would decide.
    texts = {
        "first__txt": "Night fell. The harbour and the lit lamp were seen, and the lamp and ship.",
        "second__txt": "The night harbour and the lit lamp were seen, and the ship was there too.",
    }
    world = make_library(tmp_path, embedder=Blind()).world(**texts)

    def search(place: str) -> SearchResult:
        return world.search(f"which ship was seen in {place} with a lit lamp", floor=0.0)

    assert sources(search("the night harbour")) == ["first.txt", "second.txt"]
    found = search('"the night harbour"')
    assert sources(found) == ["second.txt", "first.txt"]
    assert "phrases_not_required" in codes(found)


@pytest.mark.recommended
def test_passage_with_the_quoted_text_is_always_a_candidate(tmp_path: Path) -> None:
    # Every word of the question is frequent in the others, which are closer as well.
    other = "The lamp of the ship at the quay, the night, the lamp, the ship."
    texts = {f"t{n}__txt": f"{other} {n}" for n in range(70)}
    world = make_library(tmp_path).world(**texts, z__txt=f"The night quay. {FILLER * 4}")
    found = world.search('which lamp of the ship is at "night quay"', floor=0.0, top_k=80)
    places = sources(found)
    blends = [one.fused.blend for one in found.passages if one.fused]
    assert blends[places.index("z.txt")] is not None


@pytest.mark.parametrize(("query", "required"), [
    ('"the old lamp"', True), ('who lit "the old lamp"', True), ('"the old lamp" "a key"', True),
    ('what is the "lamp" in the harbour of the town', False), ('"lamp" harbour', False),
    ("wer zündete „die alte Lampe“ an", True), ("the old lamp", False),
])  # fmt: skip
def test_query_of_mostly_phrases_requires_them(query: str, required: bool) -> None:
    phrases = find_phrases(query)
    assert (bool(phrases) and requires_phrases(query, phrases)) is required


@pytest.mark.recommended
def test_words_weigh_more_in_languages_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def order(languages: frozenset[str] | None) -> list[Any]:
        # Not as a member: the profile is cached, and keeps what it has computed.
        monkeypatch.setitem(own.__dict__, "strong_languages", languages)
        found = world.search("harbour key", floor=0.0)
        return [one.fused.blend for one in found.passages if one.fused]

    world = make_library(tmp_path).world(**TALES)
    generation = world.access.record().generation
    assert generation is not None
    own = generation.profile
    trained = order(frozenset({"en"}))
    assert order(None) == trained
    assert order(frozenset({"de"})) != trained


class Synonyms(StateEmbedder):
    """A provider to which all texts are alike, and "ship" and "vessel" are one word."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [vector_of("same") for _ in texts]

    def embed_query(self, text: str) -> Vector:
        return vector_of("same")

    def embed_query_with_states(self, text: str) -> tuple[Vector, QueryStates]:
        vector, states = super().embed_query_with_states(text.replace("ship", "vessel"))
        return vector, replace(states, words=distinct_words(text, MAX_WORDS))


VESSELS = {
    "a__txt": "The baker sold bread. Nobody bought any.",
    "b__txt": "A vessel came into the bay. Nobody saw it.",
}


@pytest.mark.recommended
def test_words_are_compared_by_their_states(tmp_path: Path) -> None:
    world = make_library(tmp_path, embedder=Synonyms()).world(**VESSELS)
    found = world.search("which ship", floor=0.0)
    assert sources(found) == ["b.txt", "a.txt"]
    late = [one.fused.late for one in found.passages if one.fused]
    assert late[0] == pytest.approx(1.0, abs=0.01)
    assert late[1] is not None
    assert late[1] < 0.6


@pytest.mark.recommended
def test_damaged_states_of_a_chunk_gain_nothing(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=Synonyms())
    world = lib.world(**VESSELS)
    lib.sql("UPDATE word_states SET states = zeroblob(length(states))")
    found = world.search("which ship", floor=0.0)
    assert sources(found) == ["a.txt", "b.txt"]
    assert [one.fused.late for one in found.passages if one.fused] == [None, None]


@pytest.mark.recommended
def test_reader_compares_words_of_the_tail_by_their_states(tmp_path: Path) -> None:
    world = make_library(tmp_path, embedder=Synonyms()).world(
        book__txt="The baker sold bread. A vessel came into the bay. Nobody saw it. The end."
    )
    reader = world.reader("ana")
    reader.set_position("book.txt", sentence=1)
    bundle = reader.retrieve("which ship", book="book.txt")
    assert "vessel" in bundle.retrieved_chunks[0].content
    fused = bundle.metadata.sources[0].fused
    assert fused is not None
    assert fused.late == pytest.approx(1.0, abs=0.01)


@pytest.mark.recommended
def test_part_of_the_ranking_can_be_left_out_of_an_evaluation(tmp_path: Path) -> None:
    world = make_library(tmp_path, embedder=Synonyms()).world(**VESSELS)
    golden = [GoldenQuery("ship", "which ship", (Expected("b.txt"),))]

    def reciprocal_rank(*parts: str) -> float | None:
        return world.evaluation.run(golden, without=parts).totals.metrics.reciprocal_rank

    assert reciprocal_rank() == reciprocal_rank("window") == 1.0
    assert reciprocal_rank("late") == 0.5
    with pytest.raises(InvalidArgument, match="window, late"):
        world.evaluation.run(golden, without=["early"])


def test_gains_of_long_queries_are_smaller() -> None:
    def gain(count: int) -> float:
        words = tuple(({"english": (f"word{n}",)}, 1.0) for n in range(count))
        refinement = Refinement(WordRarity(words, unseen=2.0))
        text = " ".join(f"word{n}" for n in range(count))
        [found] = refinement.gains([CandidateText(text, "en", None)])
        assert found.window == 1.0
        return found.total

    assert gain(1) == gain(6) == pytest.approx(0.2)
    assert gain(12) == pytest.approx(0.1)


def test_gain_is_never_negative() -> None:
    rows = pack_rows(np.eye(1, STATE_SIZE))
    states = QueryStates(("lamp",), rows)
    opposite = WordStates(pack_rows(-np.eye(1, STATE_SIZE)))
    refinement = Refinement(WordRarity((({"english": ("lamp",)}, 1.0),), unseen=2.0), states)
    [same] = refinement.gains([CandidateText("nothing", "en", WordStates(rows))])
    [found] = refinement.gains([CandidateText("nothing", "en", opposite)])
    assert (same.late, found.late, found.total) == (1.0, 0.0, 0.0)


def test_late_interaction_counts_replaced_words() -> None:
    lamp, quay = pack_rows(np.eye(1, STATE_SIZE)), pack_rows(np.eye(1, STATE_SIZE, 1))
    states = QueryStates(("lamp", "quya"), lamp + quay)
    searched = WordRarity((({"english": ("lamp",)}, 1.0), ({"english": ("quay",)}, 1.0)))
    written = WordRarity((({"english": ("lamp",)}, 1.0), ({"english": ("quya",)}, 3.0)))
    refinement = Refinement(searched, states, written=written)
    [found] = refinement.gains([CandidateText("lamp", "en", WordStates(lamp))])
    assert found.late == pytest.approx(0.25)


@pytest.mark.recommended
def test_reader_compares_words_of_stored_chunks_by_their_states(tmp_path: Path) -> None:
    text = f"A vessel came into the bay. {FILLER * 12}The end."
    world = make_library(tmp_path, embedder=Synonyms()).world(book__txt=text)
    reader = world.reader("ana")
    reader.set_position("book.txt", sentence=36)
    bundle = reader.retrieve("which ship", book="book.txt")
    late = [note.fused.late for note in bundle.metadata.sources if note.fused]
    assert "vessel" in bundle.retrieved_chunks[0].content
    assert len(late) > 1
    assert max(late[0] or 0, late[1] or 0) == pytest.approx(1.0, abs=0.01)


@pytest.mark.recommended
def test_words_weigh_more_for_a_reader_of_such_a_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blends(*, trained: bool) -> list[Any]:
        monkeypatch.setattr(
            "truespan.retrieval.reading.book.knows_well", lambda _profile, _language: trained
        )
        bundle = reader.retrieve("harbour key", book="book.txt")
        return [note.fused.blend for note in bundle.metadata.sources if note.fused]

    text = "".join(f"{tale} {FILLER * 4}" for tale in TALES.values())
    world = make_library(tmp_path).world(book__txt=f"{text}The end.")
    reader = world.reader("ana")
    reader.set_position("book.txt", sentence=50)
    assert blends(trained=True) != blends(trained=False)


def test_multilingual_model_knows_some_languages_well() -> None:
    [key] = [key for key in _SHIPPED if key[0] == "multilingual"]
    profile = other_profile(provider=key[0], model=key[1], revision=key[2])
    languages = ("de", "en-GB", "th", "zh-TW", "el")
    assert [knows_well(profile, name) for name in languages] == [True, True, False, False, False]
    assert knows_well(other_profile(), "th")
