"""Canonical text from blocks, with the offsets of figures and pages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rows import each_row
from truespan.ingest.canonical import assemble
from truespan.text.clean import clean
from truespan.types.chunk import figure_id_of, marker
from truespan.types.text import (
    Block,
    BlockKind,
    CanonicalText,
    Figure,
    PageStart,
    Place,
    PlacedFigure,
    join_locations,
    name_place,
)


def paragraph(text: str, *figures: int, pages: tuple[PageStart, ...] = ()) -> Block:
    placed = tuple(PlacedFigure(offset, Figure(alt=f"at {offset}")) for offset in figures)
    return Block(BlockKind.PARAGRAPH, text, figures=placed, pages=pages)


def shown(number: int) -> str:
    return marker(figure_id_of("doc", number))


ONE, TWO = shown(1), shown(2)


@pytest.mark.parametrize(("block", "expected"), [
    (paragraph("Left right.", 4), f"Left {ONE} right."),
    (paragraph("Leftright.", 4), f"Left {ONE} right."), (paragraph("Before.", 0), f"{ONE} Before."),
    (paragraph("After.", 6), f"After. {ONE}"), (paragraph("", 0), ONE),
    (paragraph("Both.", 5, 5), f"Both. {ONE} {TWO}"), (paragraph("ab", 1, 1), f"a {ONE} {TWO} b"),
    (paragraph("  \n\nIndented.", 4), f"{ONE} Indented."),
])  # fmt: skip
def test_marker_is_at_the_place_of_its_figure(block: Block, expected: str) -> None:
    canonical = assemble([block], shown)
    assert canonical.text == expected
    for number, spot in enumerate(canonical.figures, 1):
        assert canonical.text.startswith(shown(number), spot.offset)


def test_text_without_markers_ignores_figures() -> None:
    blocks = [paragraph("One two.", 3), paragraph("", 0), paragraph("Three.", 6)]
    bare = [paragraph("One two."), paragraph(""), paragraph("Three.")]
    assert assemble(blocks).text == assemble(bare).text
    assert [spot.offset for spot in assemble(blocks).figures] == [3, 10, 16]


def test_figures_outside_blocks_have_the_following_place() -> None:
    canonical = assemble([paragraph("One."), paragraph("", 0), paragraph("Two.")])
    [spot] = canonical.figures
    assert (spot.offset, spot.follows) == (6, 6)
    assert canonical.text[spot.follows :] == "Two."
    canonical = assemble([paragraph("One."), paragraph("", 0)])
    [spot] = canonical.figures
    assert (spot.offset, spot.follows) == (4, 4)


def test_pages_begin_within_paragraphs_and_are_compared_by_unit() -> None:
    pages = (PageStart(0, 3), PageStart(5, 4))
    canonical = assemble([paragraph("Left right.", pages=pages), paragraph("Next.")])
    assert canonical.page_at(0) == 3
    assert canonical.text[canonical.pages[1].offset :].startswith("right.")
    assert canonical.page_at(canonical.text.index("right")) == 4
    assert canonical.page_at(len(canonical.text) - 1) == 4

    blocks = [
        paragraph("One.", pages=(PageStart(0, 1),)),
        paragraph("", pages=(PageStart(0, 2),)),
        paragraph("Three.", pages=(PageStart(0, 3),)),
    ]
    assert [start.page for start in assemble(blocks).pages] == [1, 3]

    assert assemble([paragraph("One.")]).page_at(2) is None


def test_pages_are_compared_within_a_unit() -> None:
    blocks = [
        paragraph("One.", pages=(PageStart(0, 1),)),
        paragraph("Two.", pages=(PageStart(0, 1, "slide"),)),
        paragraph("Three.", pages=(PageStart(0, 1, "slide"), PageStart(2, 2, "no\x00unit"))),
    ]
    canonical = assemble(blocks)
    assert canonical.pages == (PageStart(0, 1), PageStart(6, 1, "slide"))
    assert (canonical.page_at(0), canonical.page_at(6)) == (1, None)


@each_row("pages, expected", [
    # The pages of "ab cd ef gh", each from its offset on, and the label from 3 to 8.
    ((), None), (((8, 2),), None), (((0, 1),), "page 1"), (((4, 2),), "page 2"),
    (((0, 1), (8, 2)), "page 1"), (((0, 1), (3, 2), (7, 3)), "pages 2-3"),
    (((3, 7, "slide"),), "slide 7"), (((0, 12, "line"), (6, 30, "line")), "lines 12-30"),
    (((3, 4, "cell"),), "cell 4"),
    (((0, 4, "row A:F"), (3, 5, "row A:F"), (6, 9, "row A:F")), "A5:F9"),
    (((3, 5, "row B:B"),), "B5"), (((3, 5, "row B:B"), (6, 6, "row B:B")), "B5:B6"),
    (((3, 5, "row A:F"), (6, 1, "row H:J")), "A5:F5, H1:J1"),
    (((3, 1, "row B:B"), (5, 3, "row B:C"), (6, 4, "row A:AB")), "A1:AB4"),
    (((3, 1, "row A:C"), (5, 1, "row D:E"), (6, 2, "row D:E")), "A1:C1, D1:E2"),
    (((3, 9), (6, 2), (7, 3)), "page 9, pages 2-3"),
    (((3, 9), (4, 7), (5, 5), (6, 3)), "page 9, page 7, page 5, …"),
    (((0, 1), (3, 1, "slide")), "slide 1"),
])  # fmt: skip
def test_location_names_the_pages_of_a_text(
    pages: tuple[tuple[Any, ...], ...], expected: str | None
) -> None:
    canonical = CanonicalText("ab cd ef gh", pages=tuple(PageStart(*row) for row in pages))
    assert canonical.location(3, 8) == expected


def test_rows_of_another_sheet_are_not_in_a_location() -> None:
    starts = (PageStart(0, 1, "row A:B"), PageStart(3, 2, "row A:B"), PageStart(6, 7, "row A:B"))
    places = (Place("Budget", None), Place("Budget", "Total"), Place("Costs", None))
    canonical = CanonicalText("ab cd ef gh", (0, 3, 6), places, pages=starts)
    assert canonical.location(0, 11) == "A1:B2"
    assert canonical.location(6, 11) == "A7:B7"


@each_row("labels, expected", [
    ((), None), ((None, "page 3"), "page 3"), (("page 3", "page 3"), "page 3"),
    (("pages 3-5", "pages 4-6"), "pages 3-6"), (("lines 1-9", "line 4"), "lines 1-9"),
    (("A5:F9", "A10:F10"), "A5:F10"), (("A5", "A6"), "A5:A6"), (("A1", "A3:F9", "B5"), "A1:F9"),
    (("A5:F9, H1", "H2"), "A5:F9, H1:H2"), (("slide 9", "slide 2"), "slide 9, slide 2"),
    (("page 9, page 7, page 5, …", "page 1"), "page 9, page 7, page 5, …"),
])  # fmt: skip
def test_adjacent_locations_can_be_joined(
    labels: tuple[str | None, ...], expected: str | None
) -> None:
    assert join_locations(labels) == expected


@each_row("labels, location, expected", [
    (("Deck", None, "Costs"), "slide 2", "Deck › Costs, slide 2"),
    (("Deck", "Deck", "Slide 3"), "slide 3", "Deck › Slide 3"),
    (("Sums", "Bud\nget", "Bud get"), "A5:F9", "Sums › Bud get, A5:F9"),
    (("Note", "", None), None, "Note"),
])  # fmt: skip
def test_place_is_printed_on_a_single_line(
    labels: tuple[str | None, ...], location: str | None, expected: str
) -> None:
    assert name_place(labels, location) == expected


def test_cleaning_moves_figures_and_pages() -> None:
    text = "\u200bOne\r\n\x00two."
    at = text.index("two")
    block = paragraph(text, at, pages=(PageStart(0, 1), PageStart(at, 2)))
    canonical = assemble([block], shown)
    assert canonical.text == f"One\n{ONE} two."
    assert canonical.page_at(canonical.text.index("two")) == 2
    assert canonical.page_at(0) == 1


@given(
    st.lists(
        st.tuples(st.text("ab \n\u200b\r.", max_size=12), st.lists(st.integers(0, 12), max_size=3)),
        max_size=5,
    )
)
def test_removing_markers_restores_the_words(drawn: list[tuple[str, list[int]]]) -> None:
    blocks = [
        paragraph(text, *sorted(min(offset, len(text)) for offset in offsets))
        for text, offsets in drawn
    ]
    canonical = assemble(blocks, shown)
    without = canonical.text
    for number in range(1, len(canonical.figures) + 1):
        assert without.count(shown(number)) == 1
        without = without.replace(shown(number), " ")

    assert "".join(without.split()) == "".join(clean("".join(t for t, _ in drawn)).split())
    assert clean(canonical.text.replace("[FIGURE:", "")) == canonical.text.replace("[FIGURE:", "")
    assert [canonical.text.find(shown(n)) for n in range(1, len(canonical.figures) + 1)] == [
        spot.offset for spot in canonical.figures
    ]
