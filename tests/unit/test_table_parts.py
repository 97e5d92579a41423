"""Parts of long tables, each with the header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.support.worlds import WordCounter
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer, sanitize_document
from truespan.ingest.canonical import assemble
from truespan.ingest.draft import Preparation
from truespan.text.sentences import split_sentences
from truespan.types.chunk import figure_id_of, marker
from truespan.types.profile import chunking_from_json, chunking_to_json
from truespan.types.request import Defaults
from truespan.types.source import DocumentOptions
from truespan.types.text import Block, BlockKind, Figure, Loaded, PageStart, PlacedFigure

HEADER = "Meal | Limit"


def table(count: int, header: str = HEADER, **fields) -> Block:
    rows = [header, *(f"Meal number {number} of the day | {number} EUR" for number in range(count))]
    block = Block(BlockKind.TABLE, "\n".join(rows), header_rows=header.count("\n") + 1)
    return structs.replace(block, **fields)


def parts_of(block: Block) -> list[str]:
    return assemble([block], divide_tables=True).text.split("\n\n")


def test_each_part_of_a_long_table_begins_with_the_header():
    parts = parts_of(table(100))
    assert len(parts) > 3
    assert all(part.startswith(f"{HEADER}\n") for part in parts)
    assert all(len(part) <= 700 for part in parts)
    rows = [row for part in parts for row in part.split("\n")[1:]]
    assert "\n".join([HEADER, *rows]) == table(100).text


def test_several_header_rows_are_repeated_together():
    header = "Meals | Limits\nname | in EUR"
    assert all(part.startswith(f"{header}\n") for part in parts_of(table(60, header)))


def test_tables_are_divided_only_with_the_option_and_if_long():
    assert assemble([table(5)], divide_tables=True) == assemble([table(5)])
    assert assemble([table(100)]).text == table(100).text
    block = table(100, is_contents=True)
    assert assemble([block], divide_tables=True).text == block.text


@pytest.mark.parametrize("block", [table(100, header_rows=0), table(100, "a long name | b" * 30)])
def test_missing_or_long_table_header_is_not_repeated(block: Block):
    parts = parts_of(block)
    assert len(parts) > 3
    assert "\n".join(parts) == block.text


def test_long_rows_stay_whole_and_headers_need_rows():
    long = f"Wine | {'very ' * 300}good"
    block = Block(BlockKind.TABLE, f"{HEADER}\nTea | 1\n{long}\nJuice | 2", header_rows=1)
    assert parts_of(block) == [f"{HEADER}\nTea | 1", f"{HEADER}\n{long}", f"{HEADER}\nJuice | 2"]
    long = f"Wine | {'very ' * 300}good"
    assert parts_of(Block(BlockKind.TABLE, f"{HEADER}\n{long}", header_rows=1)) == [
        f"{HEADER}\n{long}"
    ]


def test_table_parts_do_not_depend_on_later_rows():
    whole = assemble([table(100)], divide_tables=True).text
    for count in range(1, 100):
        assert whole.startswith(assemble([table(count)], divide_tables=True).text)


def test_repeated_header_has_no_figure_placeholder():
    block = table(100)
    offsets = [5, block.text.index("Meal number 40"), block.text.index("Meal number 99")]
    placed = tuple(PlacedFigure(offset, Figure(f"at {offset}")) for offset in offsets)

    def show(number: int) -> str:
        return marker(figure_id_of("doc", number))

    plain = assemble([structs.replace(block, figures=placed)], divide_tables=True)
    shown = assemble([structs.replace(block, figures=placed)], show, divide_tables=True)

    assert plain.text[plain.figures[0].offset - 5 :].startswith(HEADER)
    assert plain.text[plain.figures[1].offset :].startswith("Meal number 40 ")
    assert plain.text[plain.figures[2].offset :].startswith("Meal number 99 ")
    for number, spot in enumerate(shown.figures, 1):
        assert shown.text.count(show(number)) == 1
        assert shown.text.startswith(show(number), spot.offset)
    assert shown.text.count("\n\nMeal | Limit\n") == plain.text.count("\n\nMeal | Limit\n") > 3


def test_rows_keep_their_page_and_a_repeated_header_has_none():
    block = table(100)
    starts = [0, *(at + 1 for at, char in enumerate(block.text) if char == "\n")]
    pages = tuple(PageStart(start, number) for number, start in enumerate(starts, 1))

    canonical = assemble([structs.replace(block, pages=pages)], divide_tables=True)

    for number in range(100):
        assert canonical.page_at(canonical.text.index(f"Meal number {number} ")) == number + 2
    for part in canonical.text.split("\n\n")[1:]:
        start, rows = canonical.text.index(part), part.split("\n")[1:]
        first, last = (int(row.split()[2]) + 2 for row in (rows[0], rows[-1]))
        assert canonical.page_at(start) is None
        assert canonical.location(start, start + len(part)) == f"pages {first}-{last}"


def test_repeated_table_header_is_a_sentence():
    canonical = assemble([table(100)], divide_tables=True)
    texts = [canonical.text[start:end] for _, start, end in split_sentences(canonical)]
    assert texts == [row for row in canonical.text.split("\n") if row]


def test_blocks_after_a_divided_table_keep_their_offset():
    after = Block(BlockKind.PARAGRAPH, "After it.", "Chapter")
    caption = Block(BlockKind.CAPTION, "Below.", "Chapter")
    canonical = assemble([table(100), after, caption], divide_tables=True)
    assert canonical.text[canonical.starts[-1] :] == "After it.\n\nBelow."
    assert canonical.text[canonical.captions[0] :] == "Below."
    assert canonical.text[canonical.block_starts[-2] :] == "After it.\n\nBelow."


def test_sanitised_header_is_repeated_sanitised():
    block = table(100, "Meal of ada@example.com | Limit")
    kept, _ = sanitize_document(Loaded((block,)), Sanitizer(Mode.ON))
    parts = parts_of(kept.blocks[0])
    assert len(parts) > 3
    assert all(part.startswith("Meal of [EMAIL] | Limit\n") for part in parts)


@given(
    st.lists(st.lists(st.text("ab \u200b.", max_size=400), min_size=2, max_size=4), min_size=2),
    st.integers(0, 3),
)
def test_no_row_is_lost_or_changed(cells: list[list[str]], header_rows: int):
    rows = [" | ".join(row) for row in cells]
    block = Block(BlockKind.TABLE, "\n".join(rows), header_rows=min(header_rows, len(rows) - 1))
    whole = assemble([block]).text
    header = whole.split("\n")[: block.header_rows]
    parts = parts_of(block)
    rest = [row for part in parts[1:] for row in part.split("\n")]
    if len(parts) > 1 and 0 < len("\n".join(header)) <= 300:
        assert all(part.split("\n")[: len(header)] == header for part in parts)
        rest = [row for part in parts[1:] for row in part.split("\n")[len(header) :]]
    assert "\n".join([parts[0], *rest]) == whole


def test_tables_are_divided_in_recommended_worlds_only():
    usual, options, counter = Preparation(), DocumentOptions(), WordCounter()
    other, contract = (usual.for_world(defaults) for defaults in Defaults)

    assert contract.plain
    assert not other.plain
    assert contract.recipe(options, counter) == usual.recipe(options, counter)
    assert other.recipe(options, counter) != usual.recipe(options, counter)
    assert other.chunking_for(options).whole_rows
    assert other.chunking_named("tokens").whole_rows
    assert not contract.chunking_named("tokens").whole_rows
    assert other.chunking_for(options).whole_words
    assert not contract.chunking_for(options).whole_words
    for profile in (contract.chunking_for(options), other.chunking_for(options)):
        assert chunking_from_json(chunking_to_json(profile)) == profile
