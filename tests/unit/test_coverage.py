"""How much of a question's words a passage contains, weighted by rarity."""

from __future__ import annotations

import math

import numpy
import pytest

from tests.promises import proves
from truespan.words.bm25 import WordMatches, rarity_of
from truespan.words.coverage import WordRarity, measure_rarity
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


@proves("decision.coverage")
def test_coverage_is_the_share_of_the_words_weighted_by_rarity() -> None:
    measured = rarity("Who lit the lamps?")

    lit, lamp = rarity_of(4, 1), rarity_of(4, 2)
    assert lit > lamp
    assert measured.coverage(TEXTS[0]) == pytest.approx(1.0)
    assert measured.coverage(TEXTS[1]) == pytest.approx(lamp / (lit + lamp))
    assert measured.coverage(TEXTS[2]) == 0.0
    assert measured.coverage("") == 0.0


@proves("decision.coverage")
def test_a_word_that_occurs_nowhere_counts_most() -> None:
    measured = rarity("Did Huckleberry trim the lamp?")

    covered = measured.coverage("The lamp was lit.")
    assert covered is not None
    assert covered < 0.3
    [absent] = [rare for forms, rare in measured.words if ("huckleberri",) in forms.values()]
    assert absent == max(rare for _, rare in measured.words) == math.log(1 + 4.5 / 0.5)


def test_words_are_stemmed_and_each_counts_once() -> None:
    assert rarity("keepers keeper KEEPING").coverage("The keeper sleeps.") == rarity(
        "keepers keeping"
    ).coverage("keeper")
    assert rarity("ships ships lamp").words == rarity("ships lamp").words


@proves("decision.coverage")
def test_irregular_forms_cover_one_another() -> None:
    assert rarity("Who lights the lamps?").coverage("The keeper lit the lamp.") == 1.0
    assert rarity("Who founded the harbour?").coverage("We find the harbour.") != 1.0


def test_a_question_of_stop_words_has_no_coverage() -> None:
    for query in ("Who is he?", "", "?!"):
        assert rarity(query).coverage("Who is he? He is the keeper.") is None
