"""How much of a question's words a passage contains, weighted by rarity."""

from __future__ import annotations

import math
import random

import numpy
import pytest

from tests.promises import proves
from truespan.types.decision import Coverage
from truespan.words.bm25 import WordMatches, rarity_of
from truespan.words.coverage import WINDOW, WordRarity, measure_rarity, window_share
from truespan.words.query import Forms, parse_query
from truespan.words.terms import terms

TEXTS = [
    "The keeper lit the lamp at dusk.",
    "The lamp burned all night.",
    "A storm drove the ship ashore.",
    "The keeper rowed out to the ship.",
]


def rarity(query: str, texts: list[str] = TEXTS, language: str = "en") -> WordRarity:
    found = [frozenset(terms(text, language)) for text in texts]

    def find(forms: Forms) -> WordMatches:
        wanted = {term for terms in forms.values() for term in terms}
        places = [i for i, own in enumerate(found) if own & wanted]
        return WordMatches(numpy.array(places, numpy.int64), numpy.ones(len(places), numpy.int64))

    name = {"en": "english"}.get(language, "")
    return measure_rarity(parse_query(query, [name]), find, len(texts))


@proves("decision.evidence")
def test_coverage_is_the_share_of_the_words_weighted_by_rarity() -> None:
    measured = rarity("Who lit the lamps?")

    lit, lamp = rarity_of(4, 1), rarity_of(4, 2)
    assert lit > lamp
    assert measured.cover(TEXTS[0]).share == pytest.approx(1.0)
    assert measured.cover(TEXTS[1]).share == pytest.approx(lamp / (lit + lamp))
    assert measured.cover(TEXTS[2]).share == 0.0
    assert measured.cover("").share == 0.0


@proves("decision.evidence")
def test_a_word_that_occurs_nowhere_counts_most() -> None:
    measured = rarity("Did Huckleberry trim the lamp?")

    assert measured.cover("The lamp was lit.").share < 0.3
    [absent] = [rare for forms, rare in measured.words if ("huckleberri",) in forms.values()]
    assert absent == max(rare for _, rare in measured.words) == math.log(1 + 4.5 / 0.5)


def test_words_are_stemmed_and_each_counts_once() -> None:
    assert rarity("keepers keeper KEEPING").cover("The keeper sleeps.") == rarity(
        "keepers keeping"
    ).cover("keeper")
    assert rarity("ships ships lamp").words == rarity("ships lamp").words


@proves("decision.evidence")
def test_irregular_forms_cover_one_another() -> None:
    assert rarity("Who lights the lamps?").cover("The keeper lit the lamp.").share == 1.0
    assert rarity("Who founded the harbour?").cover("We find the harbour.").share != 1.0


def test_coverage_counts_stop_words_if_there_are_no_others() -> None:
    assert rarity("Who is he?").cover("Who is he? The keeper.").share == 1.0
    assert rarity("Who is he?").cover("The keeper.").share == 0.0
    assert rarity("Who is the keeper?").cover("Who is he?").share == 0.0
    for query in ("", "?!"):
        assert rarity(query).cover("Who is he?") == Coverage(0.0, 0.0)


@proves("decision.evidence")
def test_window_coverage_needs_words_close_together() -> None:
    measured = rarity("Who lit the lamp?")
    apart = f"The keeper lit it. {'Rain fell. ' * 10} The lamp burned."

    assert measured.cover(apart).share == 1.0
    assert 0.0 < measured.cover(apart).window < 1.0
    assert measured.cover(TEXTS[0]).window == 1.0


def test_coverage_does_not_depend_on_the_order_of_hashes() -> None:
    query = "keeper lit lamp dusk storm ship night rowed ashore"
    measured = rarity(query)
    text = " ".join(reversed(query.split()))

    assert measured.cover(text).share == 1.0
    assert measured.cover(f"{text} {text}") == measured.cover(text)


@proves("decision.evidence")
def test_missing_names_the_rarest_words_without_a_text() -> None:
    measured = rarity("Did the keeper give insulin to the ship's Crews?")

    assert measured.missing("Did the keeper give insulin?", TEXTS, 3) == ("give", "insulin")
    assert measured.missing("Did the keeper give insulin?", TEXTS, 1) == ("give",)
    # Words of the query that are no stop words, in their order; those that some text has are found.
    assert measured.missing("insulin keeper insulin crews", TEXTS[:1], 9) == ("insulin", "crews")
    assert measured.missing("the", [], 9) == ()


def test_missing_names_no_stop_words_of_an_english_query() -> None:
    query, texts = "When should the lamp be lit?", ["Der Leuchtturm steht auf der Klippe."]
    measured = rarity(query, texts, "de")

    assert measured.missing(query, texts, 9) == ("lamp", "lit")


# Window shares

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
