"""The best candidates of a blended search, ranked again by their text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import make_library
from tests.unit.test_fused import TALES, Blind, sources
from truespan.types.bundle import SearchResult
from truespan.words.query import requires_phrases

FILLER = "Then nothing else was said about anything by anyone at all. " * 3


def codes(found: SearchResult) -> set[str]:
    return {warning.code for warning in found.warnings}


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


def test_question_with_a_quoted_word_finds_other_passages(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)
    question = 'who hid the key that is called "zebra" near the harbour'

    found = world.search(question, floor=0.0)
    assert sources(found)[0] == "b.txt"
    assert "no_phrase_matches" in codes(found)
    strict = world.search(question, floor=0.0, mode="keyword")
    assert not strict.passages


def test_passage_with_the_quoted_text_ranks_higher(tmp_path: Path) -> None:
    texts = {
        "first__txt": "The night harbour and the lit lamp were seen from the ship.",
        "second__txt": "The lamp lit the harbour at night, and the ship was seen.",
    }
    world = make_library(tmp_path, embedder=Blind()).world(**texts)

    plain = "which ship was seen by {} at the lit lamp"
    for phrase, first in (("night harbour", "first.txt"), ("harbour at night", "second.txt")):
        found = world.search(plain.format(f'"{phrase}"'), floor=0.0)
        assert sources(found)[0] == first
        assert len(found.passages) == 2
        assert "phrases_not_required" in codes(found)


@pytest.mark.parametrize(
    ("query", "required"),
    [
        ('"the old lamp"', True),
        ('who lit "the old lamp"', True),
        ('"the old lamp" "a key"', True),
        ('what is the "lamp" in the harbour of the town', False),
        ('"lamp" harbour', False),
        ("wer zündete „die alte Lampe“ an", True),
        ("the old lamp", False),
    ],
)
def test_query_of_hardly_more_than_phrases_requires_them(query: str, required: bool) -> None:
    assert requires_phrases(query) is required


def test_words_weigh_more_in_languages_of_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def order(languages: frozenset[str] | None) -> list[Any]:
        monkeypatch.setattr(
            "truespan.retrieval.candidates.trained_languages", lambda _profile: languages
        )
        found = world.search("harbour key", floor=0.0)
        return [one.fused.blend for one in found.passages if one.fused]

    world = make_library(tmp_path).world(**TALES)
    trained = order(frozenset({"en"}))
    assert order(None) == trained
    assert order(frozenset({"de"})) != trained
