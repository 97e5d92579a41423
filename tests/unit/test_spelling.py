"""Terms that are spelt like a misspelt word: similarity, choice and notice."""

from collections.abc import Mapping
from random import Random

import pytest

from tests.promises import proves
from truespan.types.document import Vocabulary
from truespan.words.query import Forms, QueryWord, parse_query
from truespan.words.spelling import (
    MIN_SIMILARITY,
    count_slips,
    index_terms,
    index_vocabulary,
    name_similar,
    suggest_terms,
)
from truespan.words.terms import fold_diacritics

ENGLISH, GERMAN = "english", "german"


def trigrams(term: str) -> set[str]:
    padded = f"  {term}  "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def dice(one: str, other: str) -> float:
    common = len(trigrams(one) & trigrams(other))
    return 2 * common / (len(trigrams(one)) + len(trigrams(other)))


def test_similar_terms_are_those_with_half_of_the_trigrams() -> None:
    rng = Random(3)
    for letters in ("ab", "abcdef", "aäжа̄港𝄞"):
        terms = tuple({"".join(rng.choices(letters, k=rng.randint(1, 8))) for _ in range(300)})
        index = index_terms(terms)
        for word in [*terms[:20], "zzzz", "a", "abab", "ab" * 30]:
            folded = fold_diacritics(word)
            expected = {term: dice(folded, fold_diacritics(term)) for term in terms}
            expected = {t: found for t, found in expected.items() if found >= MIN_SIMILARITY}
            assert index.similar_terms(word) == pytest.approx(expected)


@proves("search.similar-words")
def test_diacritics_do_not_affect_spelling_similarity() -> None:
    terms = ("temür", "dvořák", "łódź", "café", "темный")
    for query, term in zip(("temur", "dvorak", "lodz", "cafe"), terms, strict=False):
        similar = index_terms(terms).similar_terms(query)
        assert similar == {term: 1.0}
        # "cafe" is a common English word, which no other spelling would join.
        assert suggest(query, similar, {term: 1}) == [{ENGLISH: (term,)}]
    assert fold_diacritics("ёлка") == "ёлка"


def test_vocabulary_is_indexed_once_and_may_be_empty() -> None:
    assert index_terms(()).similar_terms("lamp") == {}
    vocabulary = Vocabulary(("lamp",))
    assert index_vocabulary(vocabulary) is index_vocabulary(vocabulary)
    assert index_vocabulary(Vocabulary(("lamp",))) is not index_vocabulary(vocabulary)


def suggest(
    query: str,
    similar: Mapping[str, float],
    counts: Mapping[str, int],
    stemmers: tuple[str, ...] = (ENGLISH,),
) -> list[Forms]:
    def count(forms: Forms) -> int:
        return max(counts.get(term, 0) for terms in forms.values() for term in terms)

    words = parse_query(query, stemmers).words
    return [suggest_terms(word, lambda _: similar, count) for word in words]


SIMILAR = {"latern": 0.9, "lantern": 0.8, "lattern": 0.8, "lanter": 0.8, "lent": 0.6}


@proves("search.similar-words")
@pytest.mark.parametrize(("counts", "expected"), [
    (dict.fromkeys(SIMILAR, 1), ("latern", "lanter")),
    ({"lattern": 2, "lantern": 1, "lanter": 1}, ("lattern", "lanter")),
    ({"lattern": 2, "lantern": 1, "latern": 1}, ("latern", "lattern")),
    ({"lanter": 7}, ("lanter",)), ({"lent": 7}, None), ({}, None),
])  # fmt: skip
def test_two_most_similar_existing_terms_are_suggested(
    counts: dict[str, int], expected: tuple[str, ...] | None
) -> None:
    assert suggest("lantren", SIMILAR, counts) == [{ENGLISH: expected} if expected else {}]


@proves("search.similar-words")
@pytest.mark.parametrize("query", ["lam", "lantern7", '"lantren"', "them", "２０２４"])
def test_correctly_spelt_words_get_no_suggestion(query: str) -> None:
    assert suggest(query, SIMILAR, dict.fromkeys(SIMILAR, 1)) == [{}]


def test_terms_are_suggested_under_the_stemmer_of_their_texts() -> None:
    [word] = parse_query("schiffen", (ENGLISH, GERMAN)).words
    assert word.forms == {ENGLISH: ("schiffen",), GERMAN: ("schiff",)}
    similar = {"schiffen": {"stiffen": 0.6}, "schiff": {"schilf": 0.7}}
    found = suggest_terms(word, similar.__getitem__, len)
    assert found == {ENGLISH: ("stiffen",), GERMAN: ("schilf",)}


def test_notice_shows_words_of_the_found_texts() -> None:
    query = parse_query("pasengers lantren", (ENGLISH,))
    misspelt: list[QueryWord] = [
        QueryWord("pasengers", {ENGLISH: ("passeng", "passag")}, 1, frozenset(), misspelt=True),
        query.words[1],
    ]
    notice = name_similar(type(query)(tuple(misspelt), ()), ["Two PASSENGERS, one passenger."])

    assert notice is not None
    assert notice.code == "similar_words"
    assert notice.message == (
        "No passage that was searched contains 'pasengers'. "
        "Also searched for 'passengers' and 'passag'."
    )
    assert name_similar(query, ["Two passengers."]) is None


@pytest.mark.parametrize(("word", "other", "slips"), [
    ("lantern", "lantern", 0), ("lantren", "lantern", 1), ("lanern", "lantern", 1),
    ("lanntern", "lantern", 1), ("lentern", "lantern", 1), ("balanc", "glanc", 2),
    ("configur", "figur", 3), ("", "abc", 3),
])  # fmt: skip
def test_slips_are_edits_and_swaps(word: str, other: str, slips: int) -> None:
    assert count_slips(word, other) == count_slips(other, word) == slips


def test_correctly_spelt_word_has_no_similar_words() -> None:
    def suggest(text: str) -> Forms:
        [word] = parse_query(text, ["english"]).words
        return suggest_terms(word, lambda _: {"fill": 0.6, "lantern": 0.6}, len)

    assert suggest("killed") == suggest("dosed") == {}
    assert suggest("lantren") == {"english": ("lantern",)}


def test_stop_word_has_no_similar_words() -> None:
    [word] = parse_query("hund", (ENGLISH, GERMAN)).words
    similar = {"und": 0.8, "bund": 0.6}
    found = suggest_terms(word, lambda _: similar, len)
    assert found == {ENGLISH: ("und", "bund"), GERMAN: ("bund",)}
