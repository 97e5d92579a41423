"""Lines of a PDF page with any text: nothing crashes, and no line of words is lost."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from truespan.parsing.formats.pdf.lines import Line, sort_lines
from truespan.parsing.formats.pdf.paragraphs import (
    Spelling,
    join_lines,
    join_paragraphs,
    place_lines,
)
from truespan.parsing.formats.pdf.running_heads import remove_running_heads
from truespan.parsing.formats.text import parse_heading
from truespan.text.headings import MAX_ROMAN, format_roman, parse_roman

MARKS = st.text("-\u2010\u2013_=*.·#| ivxlcdmIVXLCDM0123456789", min_size=1, max_size=8)
TEXTS = (MARKS | st.text(min_size=1, max_size=12)).filter(lambda text: bool(text.strip()))
"""Characters of a line; the reader of pages yields no line without a visible character."""
EDGES = st.sampled_from(
    ["-", "--", "- -", "\u2010", "ii", "- ii -", "-3-", "0", "I.", ".", "\u0661"]
)


def lines_of(texts: list[str], top: float = 760.0) -> list[Line]:
    return [
        Line(text, 72.0, 72.0 + 5 * len(text), top - 14 * number, top + 10.0 - 14 * number, 20.0)
        for number, text in enumerate(texts)
    ]


def words_of(texts: Iterable[str]) -> str:
    """Return the letters and digits of some texts: joining lines changes spaces and hyphens."""
    return "".join(char for text in texts for char in text if char.isalnum())


@given(st.lists(st.lists(TEXTS, max_size=6), max_size=6), EDGES, st.integers(1, 4))
@examples(100)
def test_pages_of_arbitrary_lines_become_paragraphs(
    pages: list[list[str]], edge: str, times: int
) -> None:
    # The same line at the edge of each page is what running heads are recognised by.
    edges = [edge] * times
    drawn = [
        sort_lines([*lines_of(edges), *lines_of(texts, 600.0), *lines_of(edges, 300.0)])
        for texts in pages
    ]

    labels = [str(number) for number, _ in enumerate(drawn, 1)]
    pages_left, _ = remove_running_heads(drawn, labels)
    paragraphs = list(join_paragraphs(place_lines(pages_left), set(), set()))

    for before, left in zip(drawn, pages_left, strict=True):
        # A head or foot has two lines at most, and everything between them stays.
        assert any(
            left == before[top : len(before) - foot] for top in range(3) for foot in range(3)
        )
    lines = [line.text for left in pages_left for line in left]
    assert words_of(lines) == words_of(paragraph.text for paragraph in paragraphs)
    firsts = [paragraph.first for paragraph in paragraphs]
    assert firsts == sorted(set(firsts))
    for paragraph in paragraphs:
        assert paragraph.text.strip()
        parse_heading(paragraph.text)


@given(st.text(max_size=12) | MARKS, st.text(max_size=12) | MARKS)
@examples(100)
def test_arbitrary_lines_can_be_joined_and_read_as_headings(before: str, after: str) -> None:
    join_lines(before, after, Spelling.of_lines([before, after]))
    parse_heading(before)
    assert parse_roman("") is None
    assert parse_roman(before) is None or set(before.lower()) <= set("ivxlcdm")


def test_every_roman_number_is_parsed() -> None:
    wrong = [n for n in range(1, MAX_ROMAN + 1) if parse_roman(format_roman(n)) != n]

    assert not wrong
