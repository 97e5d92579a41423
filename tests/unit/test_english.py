"""Irregular forms of words: found together in queries, apart in texts."""

import numpy as np
import pytest

from truespan.words.english import _irregular_words, related_terms
from truespan.words.query import parse_query
from truespan.words.scoring import WordMatches, merge_matches
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import stem_function

ENGLISH = "english"


def forms(query: str, stemmer: str = ENGLISH) -> list[tuple[str, ...]]:
    return [word.forms[stemmer] for word in parse_query(query, [stemmer]).words]


@pytest.mark.parametrize(("word", "expected"), [
    ("find", {"found"}), ("finding", {"found"}), ("found", {"find"}), ("founded", set()),
    ("went", {"go", "goe", "gone"}), ("children", {"child"}), ("leaves", {"leaf"}),
    ("leave", {"left"}), ("rise", {"rose", "risen"}), ("rose", set()), ("lamp", set()),
])  # fmt: skip
def test_related_terms_are_other_forms_of_the_same_word(word: str, expected: set[str]) -> None:
    assert set(related_terms(word, ENGLISH)) == expected
    assert related_terms(word, "german") == ()


def test_irregular_table_has_each_form_once_and_no_stop_word() -> None:
    stem, seen = stem_function(ENGLISH), list[str]()
    stops = {stem(word) for word in STOP_WORDS[ENGLISH]} | STOP_WORDS[ENGLISH]
    for base, *irregular in _irregular_words():
        assert irregular
        assert stem(base) not in map(stem, irregular)
        assert stops.isdisjoint([base, *irregular, *map(stem, irregular)])
        seen += [base, *irregular]
    assert len(seen) == len(set(seen))


def test_query_counts_irregular_forms_unless_quoted() -> None:
    [word] = parse_query("find found finds", [ENGLISH]).words
    assert (word.forms[ENGLISH], word.count) == (("find", "found"), 3)
    assert forms("the founder found") == [("the",), ("founder",), ("find", "found")]
    assert forms('"found" lamp') == [("found",), ("lamp",)]
    assert forms('"lost and found" find')[2:] == [("found",), ("find", "found")]


def test_merged_matches_add_up_counts_of_shared_places() -> None:
    def matches(places: list[int], counts: list[int]) -> WordMatches:
        return WordMatches(np.array(places, np.int64), np.array(counts, np.int64))

    merged = merge_matches([matches([4, 1], [2, 1]), matches([1, 7], [3, 1]), matches([], [])])

    assert merged.places.tolist() == [1, 4, 7]
    assert merged.counts.tolist() == [4, 2, 1]
