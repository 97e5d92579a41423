"""Windows of words: the best share of a query's words that stand close together."""

from __future__ import annotations

import random

import pytest

from truespan.words.window import WINDOW, window_share

RARITY = {"ferry": 3.0, "lamp": 1.0}


def test_words_within_the_window_count_together() -> None:
    near = ["ferry", *["x"] * (WINDOW - 2), "lamp"]
    assert window_share(near, RARITY) == 1.0


def test_words_farther_apart_count_alone() -> None:
    far = ["lamp", *["x"] * (WINDOW - 1), "ferry"]
    assert window_share(far, RARITY) == 0.75


def test_repeated_word_counts_once() -> None:
    assert window_share(["lamp"] * 9, RARITY) == 0.25


def test_text_or_query_without_words_has_no_share() -> None:
    assert window_share(["x", "y"], RARITY) == 0.0
    assert window_share(["ferry"], {}) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_share_is_that_of_the_best_window(seed: int) -> None:
    dice = random.Random(seed)
    rarity = {name: dice.uniform(0.5, 4) for name in "abcde"}
    terms = [dice.choice("abcdexxxxxxyyyyyyy") for _ in range(120)]
    windows = (set(terms[start : start + 7]) for start in range(len(terms)))
    best = max(sum(rarity.get(term, 0.0) for term in window) for window in windows)
    assert window_share(terms, rarity, 7) == pytest.approx(best / sum(rarity.values()))
