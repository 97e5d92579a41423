"""Quotes of an answer against the text it was made from: type may differ, words may not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sources import source
from truespan.answers.quotes import check_quotes, fold, quotes_in
from truespan.types.chunk import ChunkKind
from truespan.types.trust import Visible

TEXT = (
    "The spare key to the hut hangs on hook seven — nobody's to touch it…\n"
    "“Who took it?” asked the constable. It was the well-known landlady, she said. See [4]."
)


def sids(_chunk: Visible, last: int, start: int, end: int) -> tuple[int, int]:
    return start, min(end, last * 1000)


def verified(answer: str, *sources: Visible) -> list[bool]:
    found = check_quotes(answer, sources or [source(TEXT, last_sid=9)], sids)
    return [quote.verified for quote in found.found]


@pytest.mark.parametrize(
    "quote",
    [
        "“The spare key to the hut hangs on hook seven”",
        '"The spare key to the hut"',
        "«hangs on hook seven»",
        "„hangs on hook seven“",
        "»hangs on hook seven«",
        "‘hangs on hook seven’",
        "‚hangs on hook seven‘",
        "'hangs on hook seven'",
        "'seven — nobody's to touch it'",
        "‹hangs on hook seven›",
        "「hangs on hook seven」",
        "『hangs on hook seven』",
        "《hangs on hook seven》",
        "``hangs on hook seven''",
        "”hangs on hook seven”",
        "“it… “Who took it?” asked the constable”",
        "“hangs on hook seven \u30101\u3011”",
        "‘nobody’s to touch it’",
        "> The spare key to the hut hangs on hook seven",
        "> The spare key to the hut\n> hangs on hook seven",
        "“hook seven - nobody's to touch it...”",
        "“hook seven—nobody’s to touch it”",
        "“...hangs on hook seven...”",
        "“[…] hangs on hook seven”",
        "“touch it… 'Who took it?' asked the constable”".replace("'", '"'),
        "“well‑known landlady”",
        "“hangs \n on  hook\u00a0seven”",
        "“hangs on hook seven [1]”",
        "“See [4].”",
    ],
)
def test_words_that_stand_there_are_verified_whatever_their_type(quote: str) -> None:
    assert verified(f"It is told {quote} [1]." if quote[0] != ">" else quote) == [True]


@pytest.mark.parametrize(
    "quote",
    [
        "“The spare key to the hut hangs on hook eight”",
        "“the spare key”",
        "“The key to the hut”",
        "“The spare key … hangs on hook seven”",
        "“pare key to the hut”",
        "“hangs on hook sev”",
        "“hook seven, nobody's to touch it”",
        "“The landlady did it.”",
        "> The spare key to the hut\n> hung on hook seven",
        "「hangs on hook eight」",
        "『hangs on hook eight』",
        "《hangs on hook eight》",
        "‹hangs on hook eight›",
        "'hangs on hook eight'",
        "'it's on hook eight, nobody's'",
        "``hangs on hook eight''",
        "”hangs on hook eight”",
        "“hangs on hook eight",
        "He said: “hangs on hook seven, and so on.\n\nMore of it.",
        '"hangs on hook eight',
        "„hangs on hook eight",
        "「hangs on hook eight",
        "``hangs on hook eight",
        "“She said “hangs on hook seven” to him.”",
        '“the "spare key" lies “hangs on hook seven””',
    ],
)
def test_words_that_do_not_stand_there_so_are_not(quote: str) -> None:
    found = check_quotes(quote, [source(TEXT)], sids)

    assert [one.verified for one in found.found] == [False]
    assert [one.chunk_id for one in found.found] == [None]
    assert [notice.code for notice in found.warnings] == ["unverified_quote"]


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ("It's the landlady's key, and Tom's.", 0),
        ("The ‘key’ hangs there.", 0),
        ('An inch (5") and a foot.', 0),
        ('“One” and "two" and «three».', 3),
        ('“” and "..."', 0),
        ("> one\n> two\n\ntext\n\n> three", 2),
        ("> she said “so”", 1),
        ("«eins» und «zwei», »drei« und »vier«, „fünf“ und „sechs“.", 6),
        ("In the '90s it was the landlady's and the two dogs' own hut.", 0),
        ("The landlords' hut and the keepers' own boat, that's all.", 0),
        ("“Unclosed, with “one” in it.", 2),
        ("“One.\n\n“Two.”\n\n“Three.", 3),
        ('A foot is 12" and a key `x` and ```code```.', 0),
    ],
)
def test_only_quotes_are_taken_for_quotes(answer: str, count: int) -> None:
    assert len(list(quotes_in(answer))) == count


def test_a_verified_quote_says_where_it_stands() -> None:
    other = source("Nothing of the kind.", document=2)
    chunk = source(TEXT, start=500, last_sid=9)

    (quote,) = check_quotes("“hangs on hook seven”", [other, chunk], sids).found

    assert (quote.document, quote.chunk_id) == (1, chunk.chunk_id)
    begin = 500 + TEXT.index("hangs")
    assert (quote.first_sid, quote.last_sid) == (begin, begin + len("hangs on hook seven"))


def test_a_quote_may_reach_from_one_chunk_into_the_next_that_touches_it() -> None:
    first, second = source("The key hung on ho"), source("ok seven.", start=18)
    lapping = source("hung on hook seven.", start=8)

    assert verified("“key hung on hook seven”", first, second) == [True]
    assert verified("“The key hung on hook seven.”", lapping, first) == [True]


def test_a_quote_never_reaches_across_a_gap() -> None:
    first, second = source("He did "), source("kill her.", start=11)

    assert verified("“He did kill her.”", first, second) == [False]
    assert verified("“He did kill her.”", first, source("kill her.", start=7, document=2)) == [
        False
    ]


def test_words_about_a_figure_have_the_place_of_the_figure() -> None:
    figure = source("Two blue boats", kind=ChunkKind.FIGURE, first_sid=4, last_sid=5)

    (quote,) = check_quotes("“Two blue boats”", [figure], sids).found

    assert (quote.verified, quote.first_sid, quote.last_sid) == (True, 4, 5)


def test_folding_keeps_track_of_where_each_character_came_from() -> None:
    text = "  A …  —  b\u00adc\n\n“d”"
    folded, origins = fold(text)

    assert folded == 'A ...-bc "d"'
    assert len(origins) == len(folded)
    assert [text[origin] for origin in origins][:1] == ["A"]
    assert origins == sorted(origins)


def test_spans_that_are_words_of_a_source_are_told() -> None:
    answer = "So: “See [4].” but “no [5]”."

    found: Any = check_quotes(answer, [source(TEXT)], sids)

    assert [answer[start:end] for start, end in found.literal] == ["“See [4].”"]


@pytest.mark.parametrize(
    ("quote", "text", "stands"),
    [
        ("सीता", "सीताने पाहिले", False),
        ("सीत", "सीता गेली", False),
        ("सीता", "सीता गेली", True),
        ("cafe", "cafe\u0301 noir", False),
        ("鍵は", "その鍵は七番", True),
    ],
)
def test_the_marks_upon_a_letter_belong_to_its_word(quote: str, text: str, stands: bool) -> None:
    assert verified(f"“{quote}”", source(text)) == [stands]


@pytest.mark.parametrize(
    "mark", ["“", '"', "'", "``", "「", "„", "«", "”", "‘", "' a b c d", " 'a", "\n> “"]
)
def test_any_number_of_marks_is_read_in_a_moment(mark: str) -> None:
    answer = mark * 20_000

    assert len(list(quotes_in(answer + "x"))) <= 20_001


@pytest.mark.parametrize("inside", [" ", "[1] ", "…", "[", "[1 "])
def test_a_quote_of_any_length_is_checked_in_a_moment(inside: str) -> None:
    assert verified(f"“x {inside * 20_000}x”") == [False]
