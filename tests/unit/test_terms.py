"""Terms: what of a text is counted as a word, in any script."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import pytest

from truespan.retrieval.terms import LONGEST, recipe_of, stem_function, stemmer_of, terms, words

THREADS = 8
ROOTS = {
    "en": "nation connect general hope run relat organ beauti univers that began sky agree",
    "de": "haus lauf freund sprech arbeit könig bürger kind hoff mensch",
    "ru": "книг работ красив говор человек москв учител",
}
ENDINGS = {
    "en": " s ed ing al ally ation ations izer ized fulness ousness ivity ment able ies yed",
    "de": " e en er es isch keit heit ung ungen lich end igung",
    "ru": " а ы ой ами ого ему ость остью ение ениями ла",
}


@pytest.fixture
def _switch_threads_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("The Cells were RUNNING.", "en", ["the", "cell", "were", "run"]),
        ("die Häuser laufen", "de-AT", ["die", "haus", "lauf"]),
        ("Die Häuser laufen", "en", ["die", "häuser", "laufen"]),
        ("naïve Ångström", "", ["naïve", "ångström"]),
        ("COVID-19, 3.5 x_y", "", ["covid", "19", "3", "5", "x", "y"]),
        ("ﬁne ＦＵＬＬ Straße", "", ["fine", "full", "strasse"]),
        ("東京都庁 は 猫", "ja", ["東京", "京都", "都庁", "は", "猫"]),
        ("東京tower", "ja", ["東京", "tower"]),
        ("한국어 말", "ko", ["한국", "국어", "말"]),
        ("भाषा हिन्दी", "", ["भाषा", "हिन्दी"]),
        ("café cafe\u0301", "", ["café", "café"]),
        ("שָׁלוֹם", "he", ["שָׁלוֹם"]),
        (" \n—…!", "en", []),
        ("", "en", []),
    ],
)
def test_words_are_folded_and_stemmed_as_their_language_is(
    text: str, language: str, expected: list[str]
) -> None:
    from unicodedata import normalize

    assert terms(text, language) == [normalize("NFKC", term) for term in expected]


def test_what_is_no_word_takes_no_more_room_than_one() -> None:
    assert list(words("A" * 20_000)) == ["a" * LONGEST]


def test_every_language_that_names_a_stemmer_has_one() -> None:
    from truespan.retrieval import terms as module

    assert all(terms("word", language) for language in module._STEMMERS)


def test_terms_that_would_come_out_otherwise_have_another_recipe() -> None:
    assert stemmer_of("en_GB") == stemmer_of("EN") == "english"
    assert stemmer_of("zh") == ""
    assert len({recipe_of("en"), recipe_of("de"), recipe_of("zh")}) == 3
    assert recipe_of("ja") == recipe_of("zh")


@pytest.mark.usefixtures("_switch_threads_often")
def test_many_threads_make_the_same_terms_as_one() -> None:
    for language, roots in ROOTS.items():
        vocabulary = [
            root + "".join(pair)
            for root in roots.split()
            for pair in product(ENDINGS[language].split(" "), repeat=2)
        ]
        expected = dict(zip(vocabulary, terms(" ".join(vocabulary), language), strict=True))
        stem_function.cache_clear()
        start = Barrier(THREADS)

        def make_terms(
            number: int,
            language: str = language,
            vocabulary: list[str] = vocabulary,
            start: Barrier = start,
        ) -> dict[str, str]:
            # Each thread starts elsewhere, so that they seldom find a word stemmed already.
            first = number * len(vocabulary) // THREADS
            mine = vocabulary[first:] + vocabulary[:first]
            start.wait()
            return dict(zip(mine, terms(" ".join(mine), language), strict=True))

        with ThreadPoolExecutor(THREADS) as pool:
            for found in pool.map(make_terms, range(THREADS)):
                assert found == expected, language
        # What the threads left in the shared cache is right as well.
        again = dict(zip(vocabulary, terms(" ".join(vocabulary), language), strict=True))
        assert again == expected, language
