"""Quotes of an answer against its sources: typography may differ, words may not."""

from typing import Any

from tests.support.rows import each_row
from tests.unit.sources import source
from truespan.answers.quotes import check_quotes, quotes_in
from truespan.answers.verbatim import fold, is_boundary
from truespan.types.answer import QuoteVerdict
from truespan.types.chunk import ChunkKind
from truespan.types.text import SentenceRange
from truespan.types.trust import Visible

TEXT = (
    "The spare key to the hut hangs on hook seven — nobody's to touch it…\n"
    "“Who took it?” asked the constable. It was the well-known landlady, she said. See [4]."
)


def sids(_chunk: Visible, last: int, start: int, end: int) -> SentenceRange:
    return SentenceRange(start, min(end, last * 1000))


def verified(answer: str, *sources: Visible) -> list[bool]:
    found = check_quotes(answer, sources or [source(TEXT, last_sid=9)], sids)
    return [quote.verified for quote in found.found]


@each_row("quote", [
    "“The spare key to the hut hangs on hook seven”", '"The spare key to the hut"',
    "«hangs on hook seven»", "„hangs on hook seven“", "»hangs on hook seven«",
    "‘hangs on hook seven’", "‚hangs on hook seven‘", "'hangs on hook seven'",
    "'seven — nobody's to touch it'", "‹hangs on hook seven›", "「hangs on hook seven」",
    "『hangs on hook seven』", "《hangs on hook seven》", "``hangs on hook seven''",
    "”hangs on hook seven”", "“it… “Who took it?” asked the constable”",
    "“hangs on hook seven \u30101\u3011”", "‘nobody’s to touch it’",
    "> The spare key to the hut hangs on hook seven",
    "> The spare key to the hut\n> hangs on hook seven", "“hook seven - nobody's to touch it...”",
    "“hook seven—nobody’s to touch it”", "“...hangs on hook seven...”", "“[…] hangs on hook seven”",
    "“touch it… 'Who took it?' asked the constable”".replace("'", '"'), "“well‑known landlady”",
    "“hangs \n on  hook\u00a0seven”", "“hangs on hook seven [1]”", "“See [4].”",
])  # fmt: skip
def test_verbatim_words_are_verified_in_any_typography(quote: str) -> None:
    assert verified(f"It is told {quote} [1]." if quote[0] != ">" else quote) == [True]


@each_row("quote", [
    "“The spare key to the hut hangs on hook eight”", "“the spare key”", "“The key to the hut”",
    "“The spare key … hangs on hook seven”", "“pare key to the hut”", "“hangs on hook sev”",
    "“hook seven, nobody's to touch it”", "“The landlady did it.”",
    "> The spare key to the hut\n> hung on hook seven", "「hangs on hook eight」",
    "『hangs on hook eight』", "《hangs on hook eight》", "‹hangs on hook eight›",
    "'hangs on hook eight'", "'it's on hook eight, nobody's'", "``hangs on hook eight''",
    "”hangs on hook eight”", "“hangs on hook eight",
    "He said: “hangs on hook seven, and so on.\n\nMore of it.", '"hangs on hook eight',
    "„hangs on hook eight", "「hangs on hook eight", "``hangs on hook eight",
    "“She said “hangs on hook seven” to him.”", '“the "spare key" lies “hangs on hook seven””',
])  # fmt: skip
def test_unmatched_words_are_not_verified(quote: str) -> None:
    found = check_quotes(quote, [source(TEXT)], sids)
    assert [one.verified for one in found.found] == [False]
    assert QuoteVerdict.VERBATIM not in [one.verdict for one in found.found]
    assert [notice.code for notice in found.warnings] == ["unverified_quote"]


@each_row(("answer", "count"), [
    ("It's the landlady's key, and Tom's.", 0), ("The ‘key’ hangs there.", 0),
    ('An inch (5") and a foot.', 0), ('“One” and "two" and «three».', 3), ('“” and "..."', 0),
    ("> one\n> two\n\ntext\n\n> three", 2), ("> she said “so”", 1),
    ("«eins» und «zwei», »drei« und »vier«, „fünf“ und „sechs“.", 6),
    ("In the '90s it was the landlady's and the two dogs' own hut.", 0),
    ("The landlords' hut and the keepers' own boat, that's all.", 0),
    ("“Unclosed, with “one” in it.", 2), ("“One.\n\n“Two.”\n\n“Three.", 3),
    ('A foot is 12" and a key `x` and ```code```.', 0),
])  # fmt: skip
def test_only_quotes_are_checked(answer: str, count: int) -> None:
    assert len(list(quotes_in(answer))) == count


def test_verified_quotes_have_places_and_literal_spans() -> None:
    other = source("Nothing of the kind.", document=2)
    chunk = source(TEXT, start=500, last_sid=9)
    (quote,) = check_quotes("“hangs on hook seven”", [other, chunk], sids).found
    assert (quote.document, quote.chunk_id) == (1, chunk.chunk_id)
    begin = 500 + TEXT.index("hangs")
    assert (quote.first_sid, quote.last_sid) == (begin, begin + len("hangs on hook seven"))

    figure = source("Two blue boats", kind=ChunkKind.FIGURE, first_sid=4, last_sid=5)
    (quote,) = check_quotes("“Two blue boats”", [figure], sids).found
    assert (quote.verified, quote.first_sid, quote.last_sid) == (True, 4, 5)

    answer = "So: “See [4].” but “no [5]”."
    found: Any = check_quotes(answer, [source(TEXT)], sids)
    assert [answer[start:end] for start, end in found.literal] == ["“See [4].”"]


def test_quotes_span_adjacent_chunks_and_no_gap() -> None:
    first, second = source("The key hung on ho"), source("ok seven.", start=18)
    lapping = source("hung on hook seven.", start=8)
    assert verified("“key hung on hook seven”", first, second) == [True]
    assert verified("“The key hung on hook seven.”", lapping, first) == [True]

    first, second = source("He did "), source("kill her.", start=11)
    assert verified("“He did kill her.”", first, second) == [False]
    # A gap of one character.
    near = source("kill her.", start=8)
    assert verified("“He did kill her.” “kill her.” “He did”", first, near) == [False, True, True]
    assert verified("“He did kill her.”", first, source("kill her.", start=7, document=2)) == [
        False
    ]


def test_folding_keeps_the_origin_of_each_character() -> None:
    text = "  A …  —  b\u00adc\n\n“d”"
    folded, origins = fold(text)
    assert folded == 'A ...-bc "d"'
    assert len(origins) == len(folded)
    assert [text[origin] for origin in origins][:1] == ["A"]
    assert origins == sorted(origins)


@each_row(("quote", "text", "stands"), [
    ("सीता", "सीताने पाहिले", False), ("सीत", "सीता गेली", False),
    ("सीता", "सीता गेली", True), ("cafe",
    "cafe\u0301 noir", False), ("鍵は", "その鍵は七番", True),
])  # fmt: skip
def test_combining_marks_belong_to_their_word(quote: str, text: str, stands: bool) -> None:
    assert verified(f"“{quote}”", source(text)) == [stands]


@each_row("mark", ["“", '"', "'", "``", "「", "„", "«", "”", "‘", "' a b c d", " 'a", "\n> “"])
def test_many_combining_marks_are_read_quickly(mark: str) -> None:
    assert len(list(quotes_in((mark * 20_000) + "x"))) <= 20_001


@each_row("inside", [" ", "[1] ", "…", "[", "[1 "])
def test_long_quote_is_checked_quickly(inside: str) -> None:
    assert verified(f"“x {inside * 20_000}x”") == [False]


WHOLE = """
    a 1.5 percent rise | 1.5 percent
    a 1.5 percent rise | percent rise
    it was -5 degrees | -5 degrees
    it was \u22125 degrees | -5 degrees
    it was warm \u2013 5 degrees | 5 degrees
    it was warm \u2014 5 degrees | warm - 5 degrees
    she saw five\u2014no, six | no, six
    word--word of honour | word of honour
    they came -- 5 men | 5 men
    at 1,500 euros | 1,500 euros
    at 1 500 euros | 1 500 euros
    in 1914 500 men left | 500 men left
    for $5 million | $5 million
    the well-known landlady | well-known landlady
    two- and three-year plans | two
    she can't go | can't go
    the dogs' hut | the dogs
    l'homme est l\u00e0 | homme est
    all\u2019ombra del faro | ombra del faro
    (5 men) came | 5 men
    chapter 5, page 3 | page 3
    chapter 5. Three men | chapter 5
    it ends...5 men | 5 men
    and/or else | or else
    no. 5 and no.6 | 5 and
    \u7d045\u5ea6\u3067\u3059 | 5\u5ea6
    \u305d\u306e\u9375\u306f\u4e03\u756a | \u9375\u306f
    \u0e01\u0e38\u0e0d\u0e41\u0e08\u0e2d\u0e22\u0e39\u0e48 | \u0e41\u0e08\u0e2d
    \U00020bb7\u91ce\u5bb6\u3067\u98df\u3079\u305f | \u91ce\u5bb6
    iPhone\u306e\u9375 | \u306e\u9375
    mis\u00adtrust him | mistrust him
    at 12:30 sharp | 12:30 sharp
    from 10-15 degrees | 10-15 degrees
    100\u4e07\u5186\u306e\u9375 | 100\u4e07\u5186
"""
CUT = """
    a 1.5 percent rise | 5 percent
    a 1.5 percent rise | a 1
    a 1.5 percent rise | .5 percent
    a 1.5 percent rise | a 1.
    a .5 percent rise | 5 percent
    a 1,5 percent rise | 5 percent
    a 1\u00b75 percent rise | 5 percent
    a 1\u066b5 percent rise | 5 percent
    it was -5 degrees | 5 degrees
    it was \u22125 degrees | 5 degrees
    it was \u20135 degrees | 5 degrees
    it was +5 degrees | 5 degrees
    it was \u00b15 degrees | 5 degrees
    (-5 degrees) | 5 degrees
    it was warm \u2013 5 degrees | warm -5 degrees
    fell by <5 percent | 5 percent
    fell by \u22655 percent | 5 percent
    at 1,500 euros | 500 euros
    at 1,500 euros | at 1
    at 1 500 euros | 500 euros
    at 1\u202f500 euros | 500 euros
    at 1'500 euros | 500 euros
    at 12 500 000 euros | 500 000 euros
    for $5 million | 5 million
    for -$5 million | $5 million
    for US$5 million | $5 million
    for 5\u20ac each | for 5
    up 5% a year | up 5
    at 5\u00b0 north | at 5
    from 10-15 degrees | 15 degrees
    from 10\u201315 degrees | 15 degrees
    at 12:30 sharp | 30 sharp
    use 1/2 cup | 2 cup
    on 2024-05-12 she | 12 she
    a part of it | art of it
    a part of it | a par
    a non-toxic gas | toxic gas
    a non\u2011toxic gas | toxic gas
    the well-known one | the well
    she can't go | she can
    she can\u2019t go | t go
    see O'Brien there | Brien there
    \u043f'\u044f\u0442\u044c \u0442\u0443\u0442 | \u044f\u0442\u044c \u0442\u0443\u0442
    mis\u00adtrust him | trust him
    call foo_bar now | bar now
    a cafe\u0301 noir | a cafe
    25\u5ea6\u3067\u3059 | 5\u5ea6\u3067\u3059
    1.5\u5ea6\u3067\u3059 | 5\u5ea6\u3067\u3059
    100\u4e07\u5186\u306e\u9375 | 100
"""


def rows(table: str) -> list[list[str]]:
    return [line.strip().split(" | ") for line in table.strip().splitlines()]


def test_quote_may_not_cut_words_or_numbers() -> None:
    wrong = [
        (text, quote, stands)
        for table, stands in ((WHOLE, True), (CUT, False))
        for text, quote in rows(table)
        if verified(f"\u201c{quote}\u201d", source(text)) != [stands]
    ]
    assert not wrong


def test_boundaries_skip_cut_numbers_and_exist_everywhere() -> None:
    text = "It rose by 1.5 percent and then by 5 percent."
    [quote] = check_quotes("\u201c5 percent\u201d", [source(text, last_sid=9)], sids).found
    assert quote.verified
    assert quote.first_sid == text.rindex("5 percent")
    for text in ("", "5", "-", "\u0301", "\u00ad", "a-", "-5", "5.", "'", "\u00ad\u00ad5"):
        assert is_boundary(text, 0)
        assert is_boundary(text, len(text))
