"""Quotes that do not occur in the cited source: each failure has a name and an explanation."""

from tests.promises import proves
from tests.support.rows import each_row
from tests.unit.sources import source
from truespan.answers.quotes import check_quotes
from truespan.types.answer import Quote, QuoteVerdict
from truespan.types.text import SentenceRange
from truespan.types.trust import Visible

RENT = "The rent is 950 crowns a month, due on the first day. A tenant may keep one small dog."
KEYS = "The spare key to the hut hangs on hook seven, and nobody but the warden may touch it."
CHINESE = "灯塔在夜里每十二秒闪一次，守塔人名叫陈海。"


def sids(_chunk: Visible, _last: int, start: int, end: int) -> SentenceRange:
    return SentenceRange(start, end)


def passages() -> list[Visible]:
    return [
        source(RENT, document=1, last_sid=9),
        source(KEYS, document=2, last_sid=9),
        source(CHINESE, document=3, last_sid=9),
    ]


def check(answer: str) -> Quote:
    [quote] = check_quotes(answer, passages(), sids).found
    return quote


@proves("answer.quote-verdicts")
@each_row("answer", [
    "It says “The rent is 950 crowns a month” [1].",
    "It says “A tenant may keep one small dog.” [1]",
    "It says “The rent is 950 crowns a month [1]”.",
    "It says “The rent is 950 crowns a month”, nobody knows where [2].",
    "It says “The rent is 950 crowns a month”.", "It says “The rent is 950 crowns a month” [9].",
    "It says “The rent is 950 crowns a month” [2, 1].",
])  # fmt: skip
def test_quote_in_its_cited_source_is_verbatim(answer: str) -> None:
    assert check(answer).verdict is QuoteVerdict.VERBATIM


@proves("answer.quote-verdicts")
@each_row("answer", [
    "It says “The rent is 950 crowns a month” [2].",
    "It says “The rent is 950 crowns a month [2]”.",
    "It says “A tenant may keep one small dog.” [2, 3]",
])  # fmt: skip
def test_quote_of_another_source_is_misattributed(answer: str) -> None:
    found = check_quotes(answer, passages(), sids)
    [quote] = found.found
    assert (quote.verdict, quote.verified) == (QuoteVerdict.MISATTRIBUTED, True)
    assert quote.document == 1
    assert [notice.code for notice in found.warnings] == ["misattributed_quote"]


@proves("answer.quote-verdicts")
@each_row(("words", "only_source", "only_quote"), [
    ("The rent is 960 crowns a month", ["950"], ["960"]),
    ("the rent is 950 crowns a month", ["The"], ["the"]),
    ("The rent is crowns a month, due on the first day", ["950"], []),
    ("The rent is only 950 crowns a month", [], ["only"]),
    ("nobody but the tenant may touch it", ["warden"], ["tenant"]),
    ("灯塔在夜里每十五秒闪一次", ["二"], ["五"]),
])  # fmt: skip
def test_changed_quote_shows_the_difference(
    words: str, only_source: list[str], only_quote: list[str]
) -> None:
    quote = check(f"It says “{words}” [1].")
    assert (quote.verdict, quote.verified) == (QuoteVerdict.CHANGED, False)
    assert quote.first_sid is not None
    assert [part.text for part in quote.difference if part.only_in == "source"] == only_source
    assert [part.text for part in quote.difference if part.only_in == "quote"] == only_quote
    quoted = "".join(part.text for part in quote.difference if part.only_in != "source")
    assert quoted.replace(" ", "") == words.replace(" ", "")


@proves("answer.quote-verdicts")
@each_row(("words", "documents"), [
    ("The rent is 950 crowns a month and nobody but the warden may touch it", [1, 2]),
    ("A tenant may keep hangs on hook seven", [1, 2]),
    ("The rent is 950 crowns … A tenant may keep one small dog", [1, 1]),
    ("The spare key to the hut [...] may touch it", [2, 2]),
])  # fmt: skip
def test_stitched_quote_lists_its_places(words: str, documents: list[int]) -> None:
    quote = check(f"It says “{words}” [1].")
    assert (quote.verdict, quote.verified) == (QuoteVerdict.STITCHED, False)
    assert [part.document for part in quote.parts] == documents
    for part in quote.parts:
        assert part.text in RENT + KEYS


@each_row(
    "words", ["The lighthouse keeper sold his boat to a sailor", "of the", "rent month dog key"]
)
def test_quote_without_anything_alike_is_not_found(words: str) -> None:
    quote = check(f"It says “{words}” [1].")
    assert (quote.verdict, quote.difference, quote.parts) == (QuoteVerdict.NOT_FOUND, (), ())
    assert quote.chunk_id is None
