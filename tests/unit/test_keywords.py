"""Keywords of a text: the same, whichever way its words are found."""

from __future__ import annotations

import random

import pytest

from tests.support.sample_texts import story
from truespan.ingest import metadata
from truespan.ingest.metadata import keywords

ODD = ("it's", "well-known", "x", "ab", "4th", "a_b", "_under", "-dash", "O'Brien's", "3d-print")
ODD += ("[FIGURE:doc-1]", "Lamp", "LAMP", "lamp", "don't-", "--", "e.g.", "co-op", "1984", "Z9")


def random_text(seed: int) -> str:
    choose = random.Random(seed)
    words = [*ODD, *story(seed % 7 + 3).split()]
    marks = (" ", " ", " ", "\n", ", ", ". ", "\t", "/", "\x1f")
    count = choose.choice((5, 60, 900, 6000))
    return "".join(f"{choose.choice(words)}{choose.choice(marks)}" for _ in range(count))


@pytest.mark.parametrize("seed", range(24))
def test_keywords_of_ascii_are_those_of_the_rule_for_any_text(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = random_text(seed).encode("ascii", "ignore").decode()
    found = keywords(text)
    monkeypatch.setattr(metadata, "_ascii_words", metadata._words)
    assert found == keywords(text)


def test_a_text_that_repeats_few_words_has_keywords_that_it_uses_once() -> None:
    # The words of one part, because the others are empty.
    assert keywords("lamp Lamp harbour keeper" + " " * 2000) == ["Lamp", "harbour", "keeper"]
