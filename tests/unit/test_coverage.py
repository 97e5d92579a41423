"""How much of a question's words a passage contains, weighted by rarity."""

import math
import random

import numpy
import pytest

from tests.promises import proves
from truespan.types.decision import Coverage
from truespan.words.query import Forms, parse_query
from truespan.words.scoring import (
    PRIOR_CHUNKS,
    WINDOW,
    WordMatches,
    WordRarity,
    count_whole_words,
    measure_rarity,
    rarity_of,
    window_share_at,
)
from truespan.words.terms import place_words, stemmer_of, terms, words

TEXTS = [
    "The keeper lit the lamp at dusk.", "The lamp burned all night.",
    "A storm drove the ship ashore.", "The keeper rowed out to the ship.",
]  # fmt: skip


def rarity(query: str, texts: list[str] = TEXTS, language: str = "en") -> WordRarity:
    found = [frozenset(terms(text, language)) for text in texts]

    def find(forms: Forms) -> WordMatches:
        wanted = {term for terms in forms.values() for term in terms}
        places = [i for i, own in enumerate(found) if own & wanted]
        return WordMatches(numpy.array(places, numpy.int64), numpy.ones(len(places), numpy.int64))

    name = {"en": "english", "ar": "arabic"}.get(language, "")
    return measure_rarity(parse_query(query, [name]), find, len(texts))


def cover(measured: WordRarity, text: str) -> Coverage:
    [covered] = measured.cover([text])
    return covered


@proves("decision.evidence")
def test_coverage_is_the_share_of_the_words_weighted_by_rarity() -> None:
    measured = rarity("Who lit the lamps?")
    lit, lamp = (rarity_of(4 + PRIOR_CHUNKS, count) for count in (1, 2))
    assert lit > lamp
    assert cover(measured, TEXTS[0]).share == pytest.approx(1.0)
    assert cover(measured, TEXTS[1]).share == pytest.approx(lamp / (lit + lamp))
    assert cover(measured, TEXTS[2]).share == 0.0
    assert cover(measured, "").share == 0.0


@proves("decision.evidence")
def test_rare_words_count_most() -> None:
    measured = rarity("Did Huckleberry trim the lamp?")
    assert cover(measured, "The lamp was lit.").share < 0.3
    [absent] = [rare for forms, rare in measured.words if ("huckleberri",) in forms.values()]
    assert absent == max(rare for _, rare in measured.words) == math.log(1 + 34.5 / 0.5)
    text = "Dogs are allowed in both courtyards."
    alone = cover(rarity("Are dogs brought?", [text]), text).share
    among = cover(rarity("Are dogs brought?", [text, *["Other text."] * 500]), text).share
    assert 0.4 < alone < among < 0.5


@proves("decision.evidence")
def test_coverage_counts_forms_once_and_stop_words_only_alone() -> None:
    assert cover(rarity("keepers keeper KEEPING"), "The keeper sleeps.") == cover(
        rarity("keepers keeping"), "keeper"
    )
    assert rarity("ships ships lamp").words == rarity("ships lamp").words

    assert cover(rarity("Who lights the lamps?"), "The keeper lit the lamp.").share == 1.0
    assert cover(rarity("Who founded the harbour?"), "We find the harbour.").share != 1.0

    assert cover(rarity("Who is he?"), "Who is he? The keeper.").share == 1.0
    assert cover(rarity("Who is he?"), "The keeper.").share == 0.0
    assert cover(rarity("Who is the keeper?"), "Who is he?").share == 0.0
    for query in ("", "?!"):
        assert cover(rarity(query), "Who is he?") == Coverage(0.0, 0.0)


@proves("decision.evidence")
def test_window_coverage_needs_words_close_together_in_any_order() -> None:
    measured = rarity("Who lit the lamp?")
    apart = f"The keeper lit it. {'Rain fell. ' * 10} The lamp burned."
    assert cover(measured, apart).share == 1.0
    assert 0.0 < cover(measured, apart).window < 1.0
    assert cover(measured, TEXTS[0]).window == 1.0
    query = "keeper lit lamp dusk storm ship night rowed ashore"
    measured = rarity(query)
    text = " ".join(reversed(query.split()))
    assert cover(measured, text).share == 1.0
    assert cover(measured, f"{text} {text}") == cover(measured, text)


@proves("decision.evidence")
def test_missing_names_the_rarest_words_without_a_text() -> None:
    measured = rarity("Did the keeper give insulin to the ship's Crews?")
    assert measured.missing("Did the keeper give insulin?", TEXTS, 3) == ("give", "insulin")
    assert measured.missing("Did the keeper give insulin?", TEXTS, 1) == ("give",)
    # Words of the query that are no stop words, in their order; those that some text has are found.
    assert measured.missing("insulin keeper insulin crews", TEXTS[:1], 9) == ("insulin", "crews")
    assert measured.missing("the", [], 9) == ()


def test_missing_names_no_stop_words_of_query_or_texts() -> None:
    query, texts = "When should the lamp be lit?", ["Der Leuchtturm steht auf der Klippe."]
    assert rarity(query, texts, "de").missing(query, texts, 9) == ("lamp", "lit")
    query = parse_query("Darf ich einen Hund halten?", ("english", "german"))
    measured = WordRarity(tuple((word.content_forms, 1.0) for word in query.words))
    assert measured.missing("Darf ich einen Hund halten?", TEXTS, 9) == ("darf", "hund", "halten")


@proves("decision.evidence")
def test_inflected_form_covers_a_word_in_part() -> None:
    texts = ["Paleoklimatologlar iklimi inceler.", "Havaliman\u0131 kalabal\u0131k."]
    measured = rarity("paleoklimatolojinin", texts, "tr")
    [alike, other] = measured.cover(texts)
    assert 0.3 < alike.share == alike.window < 1.0
    assert other == Coverage(0.0, 0.0)
    # The form itself covers all of the word, beside one that is alike.
    assert cover(measured, f"{texts[0]} Paleoklimatolojinin konusu.").share == 1.0


@proves("decision.evidence")
def test_short_words_and_numbers_match_only_themselves() -> None:
    for query, text in (
        ("1917", "In 1918 and 19171."), ("oar", "The oars roar."), ("B747", "B747s"),
    ):  # fmt: skip
        measured = rarity(query, [text], "xx")
        assert cover(measured, text) == Coverage(0.0, 0.0), query
        assert cover(measured, query).share == 1.0


@proves("decision.evidence")
def test_window_counts_the_best_form_of_each_word_once() -> None:
    measured = rarity("harbourmaster lighthouse", ["harbourmasters lighthouse"], "xx")
    near = cover(measured, "harbourmasters harbourmasters lighthouse")
    filler = "x " * WINDOW
    apart = cover(measured, f"harbourmasters {filler}lighthouse")
    assert near.share == near.window == apart.share < 1.0
    assert apart.window < near.window


# Window shares

RARITY = {"ferry": 3.0, "lamp": 1.0}


def share_of(terms: list[str], rarity: dict[str, float], size: int = WINDOW) -> float:
    places = [(place, term) for place, term in enumerate(terms) if term in rarity]
    return window_share_at(places, rarity, size)


def test_share_counts_each_word_once_within_the_window() -> None:
    assert share_of(["ferry", *["x"] * (WINDOW - 2), "lamp"], RARITY) == 1.0
    assert share_of(["lamp", *["x"] * (WINDOW - 1), "ferry"], RARITY) == 0.75
    assert share_of(["lamp"] * 9, RARITY) == 0.25
    assert share_of(["x", "y"], RARITY) == 0.0
    assert share_of(["ferry"], {}) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_share_is_that_of_the_best_window(seed: int) -> None:
    dice = random.Random(seed)
    rarity = {name: dice.uniform(0.5, 4) for name in "abcde"}
    terms = [dice.choice("abcdexxxxxxyyyyyyy") for _ in range(120)]
    windows = (set(terms[start : start + 7]) for start in range(len(terms)))
    best = max(sum(rarity.get(term, 0.0) for term in window) for window in windows)
    assert share_of(terms, rarity, 7) == pytest.approx(best / sum(rarity.values()))


def test_pairs_and_triples_of_characters_are_parts_of_words() -> None:
    def count(text: str, language: str) -> float:
        name = stemmer_of(language)
        return count_whole_words([({name: (term,)}, 1.0) for term in terms(text, language)])

    assert count("the keeper of the lamp", "en") == 5
    assert count("守灯塔的人在哪里", "zh") == 3.5
    assert count("ใครเป็นผู้ดูแลประภาคาร NFL", "th") == pytest.approx(1 + 20 / 7)


def test_window_has_as_many_words_in_scripts_without_spaces() -> None:
    for text, terms_of_a_word in (("ใครเป็นผู้ดูแลประภาคาร", 7), ("守灯塔的人在哪里", 2)):
        found = list(words(text))
        places = [at for at, _ in place_words(text, found)]
        assert places == pytest.approx([n / terms_of_a_word for n in range(len(found))])
    mixed = "Wei said 灯塔 很高 today"
    assert list(place_words(mixed, words(mixed)))[-1] == (3.0, "today")
    assert list(place_words("été où", words("été où"))) == [(0, "été"), (1, "où")]


def test_arabic_word_covers_with_and_without_a_particle() -> None:
    texts = ["وصل رواد ناسا إلى القمر.", "قال ذلك لناسا أيضاً.", "وصل هارلو إلى القمر."]
    for query in ("ناسا", "لناسا"):
        measured = rarity(query, texts, "ar")
        assert [cover(measured, text).share for text in texts] == [1.0, 1.0, 0.0], query
        missing = [bool(measured.missing(query, [text], 5)) for text in texts]
        assert missing == [False, False, True], query
