"""Terms: the counted words of a text, in any script."""

import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import pytest

from truespan.types.profile import MULTILINGUAL_LANGUAGES
from truespan.words import term_counts
from truespan.words.stop_words import STOP_WORDS, guess_stemmer
from truespan.words.term_counts import count_terms
from truespan.words.terms import (
    MAX_TERM_CHARS,
    recipe_of,
    stem_function,
    stemmer_of,
    terms,
    word_spans,
    words,
)

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


@pytest.mark.parametrize(("text", "language", "expected"), [
    ("The Cells were RUNNING.", "en", ["the", "cell", "were", "run"]),
    ("die Häuser laufen", "de-AT", ["die", "haus", "lauf"]),
    ("Die Häuser laufen", "en", ["die", "häuser", "laufen"]),
    ("naïve Ångström", "", ["naïve", "ångström"]),
    ("COVID-19, 3.5 x_y", "", ["covid", "19", "3", "5", "x", "y"]),
    ("ﬁne ＦＵＬＬ Straße", "", ["fine", "full", "strasse"]),
    ("東京都庁 は 猫", "ja", ["東京", "京都", "都庁", "は", "猫"]),
    ("東京tower", "ja", ["東京", "tower"]), ("한국어 말", "ko", ["한국", "국어", "말"]),
    ("สวัสดี 東京ไป", "th", ["สวั", "วัส", "ัสด", "สดี", "東京", "ไป"]), ("น้ำ", "th", ["น้ำ"]),
    ("Самолёт самолет", "ru", ["самол", "самол"]),
    ("كِتَابٌ كــتاب الكتاب والكتاب", "ar", ["كتاب"] * 4),
    ("مدرسة مدرسه أحمد احمد", "ar", ["مدرس", "مدرس", "احمد", "احمد"]),
    ("Işık IŞIK ışık", "tr", ["işik"] * 3), ("İstanbul istanbul ISTANBUL", "tr", ["istan"] * 3),
    ("государство государственный", "ru", ["госуд"] * 2),
    ("państwo państwowego", "pl", ["państ"] * 2),
    ("12345678 abc1234567", "ru", ["12345678", "abc1234567"]),
    ("Schlüssel Schluessel", "de", ["schlussel"] * 2), ("भाषा हिन्दी", "", ["भाषा", "हिन्दी"]),
    ("café cafe\u0301", "", ["café", "café"]), ("שָׁלוֹם", "he", ["שָׁלוֹם"]), (" \n—…!", "en", []),
    ("", "en", []),
])  # fmt: skip
def test_words_are_folded_and_stemmed_by_language(
    text: str, language: str, expected: list[str]
) -> None:
    from unicodedata import normalize

    assert terms(text, language) == [normalize("NFC", term) for term in expected]


def test_whole_terms_keep_letters_and_are_limited() -> None:
    assert terms("İstanbul'daki okullar", "tr", whole=True) == ["istanbul", "daki", "okul"]
    assert terms("państwo państwowego", "pl", whole=True) == ["państw", "państwow"]
    assert stem_function("russian", whole=True)("государственный") == "государствен"
    assert list(words("A" * 20_000)) == ["a" * MAX_TERM_CHARS]


def test_byte_table_splits_like_the_general_path() -> None:
    from truespan.words.terms import _split_any, fold_bytes, split_words

    every = [bytes([code]).decode("cp1252", errors="ignore") for code in range(256)]
    texts = [f"{one}{two}a{one} b{two}" for one in every for two in every]
    assert [text for text in texts if split_words(text) != _split_any(text)] == []
    assert fold_bytes("“Déjà” – vu…") is not None
    assert split_words("Straße ½ ŁÓDŹ") == ["strasse", "1", "2", "łódź"]


@pytest.mark.parametrize("mix", [None, 0, 1, 0xC634036B9BF9D03])
@pytest.mark.parametrize("few", [None, 0])
def test_terms_of_many_texts_equal_those_of_each(
    monkeypatch: pytest.MonkeyPatch, few: int | None, mix: int | None
) -> None:
    # With `_FEW` of 0, arrays are used for all. With a poor mix, words look alike; the last one
    # gives "abcdefgha" the greatest number that a long word can have.
    for name, value in (("_FEW", few), ("_MIX", mix)):
        if value is not None:
            monkeypatch.setattr(term_counts, name, value)
    texts = [
        "The lamps of the harbour, and the lamp; a lamp!", "", "Straße, naïve ½ café — “quoted”…",
        "東京都の港 and the otters",
        "ananotherwordoftwentyfourletters bnanotherwordaoftwentyfourletters " + "x" * 70,
        "abcdefgha bbcdefghb hbcdefgha abcdefghabcdefgh abcdefghabcdefghi",
        "café CAFÉ œuvre élégante élégantes étaient étaient œuvres " * 40,
        "otters lighthouses abcdefgha otter abcdefghb lighthouse x y z xy" * 30,
        "y" * 64 + " " + "y" * 63 + "z",
    ]  # fmt: skip
    for chosen in (texts, texts[:1], texts[:3], texts[1:2], [], texts[5:], texts[5:6], texts[6:]):
        found = count_terms(chosen, "en")
        assert found.sizes == [len(terms(text, "en")) for text in chosen]
        assert found.terms == sorted(set(found.terms))
        counts = [dict[str, int]() for _ in chosen]
        for term, place, count in zip(found.term, found.text, found.count, strict=True):
            counts[place][found.terms[term]] = int(count)
        assert counts == [dict(Counter(terms(text, "en"))) for text in chosen]


def test_stemmers_are_all_that_snowball_has() -> None:
    from Stemmer import algorithms

    from truespan.words.terms import _STEMMERS

    # The others are earlier algorithms for English and Dutch.
    assert {*algorithms()} - {"porter", "dutch_porter"} == {*_STEMMERS.values()}


def test_stemmers_have_stop_words_and_recipes() -> None:
    assert [code for code in MULTILINGUAL_LANGUAGES if stemmer_of(code) not in STOP_WORDS] == []
    assert stemmer_of("en_GB") == stemmer_of("EN") == "english"
    assert stemmer_of("zh-TW") == stemmer_of("zh") == "chinese"
    assert stemmer_of("xx") == ""
    assert len({recipe_of("en"), recipe_of("de"), recipe_of("zh")}) == 3


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


@pytest.mark.parametrize("text", [
    "The Cells' “café”—RUNNING, x_y 3.5", "ﬁne ＦＵＬＬ Straße İstanbul", "東京都庁 は 猫 tower",
    "भाषा हिन्दी cafe\u0301", "น้ำใจ สวัสดี ນ້ຳ", "x" * (MAX_TERM_CHARS + 1), "ß", " \n—…!", "",
])  # fmt: skip
def test_word_spans_are_the_places_of_the_words(text: str) -> None:
    spans = word_spans(text)
    assert [span.word for span in spans] == [*words(text)]
    assert [[*words(text[start:end])] for _, start, end in spans] == [[word] for word, *_ in spans]
    assert spans == sorted(spans, key=lambda span: span.start)


def test_word_spans_share_a_place_split_by_nfkc() -> None:
    assert word_spans("猫½") == [("猫", 0, 1), ("1", 1, 2), ("2", 1, 2)]


def test_stemmer_is_guessed_from_enough_stop_words() -> None:
    german = {*words("Der Hund ist in dem Haus und nicht auf der Straße.")}
    assert guess_stemmer(german) == "german"
    for short in ({"sea"}, {"die", "war", "man"}, set[str]()):
        assert guess_stemmer(short) == "english"
