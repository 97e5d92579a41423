"""Terms: what of a text is counted as a word, in any script."""

from __future__ import annotations

import pytest

from truespan.query.terms import LONGEST, recipe_of, stemmer_of, terms, words


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
    from truespan.query import terms as module

    assert all(terms("word", language) for language in module._STEMMERS)


def test_terms_that_would_come_out_otherwise_have_another_recipe() -> None:
    assert stemmer_of("en_GB") == stemmer_of("EN") == "english"
    assert stemmer_of("zh") == ""
    assert len({recipe_of("en"), recipe_of("de"), recipe_of("zh")}) == 3
    assert recipe_of("ja") == recipe_of("zh")
