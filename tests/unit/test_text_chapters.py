"""Plain text: paragraphs, and chapters from headings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.support.rows import each_row
from truespan.parsing.formats.text import load_text
from truespan.types.text import Block, BlockKind

PROSE = (
    "It had rained since the morning, and nobody in the house could remember when it had\n"
    "last been dry; the river stood in the garden, and the cat sat on the stairs and would\n"
    "not be talked to."
)


def blocks_of(*paragraphs: str) -> tuple[Block, ...]:
    """Load paragraphs that are separated by one blank line."""
    return load_text("\n\n".join(paragraphs)).blocks


def headings_of(*paragraphs: str) -> list[str]:
    """Return the paragraphs that were detected as headings."""
    return [block.text for block in blocks_of(*paragraphs) if block.kind is BlockKind.HEADING]


def chapters_of(text: str) -> list[str | None]:
    """Return the chapters in order with their starts."""
    chapters = [block.chapter for block in load_text(text).blocks]
    return [one for place, one in enumerate(chapters) if place == 0 or one != chapters[place - 1]]


def test_paragraphs_are_kept_line_by_line():
    text = "\n\n  First line\n\tsecond line  \n   \n\n\nNext.\n"
    assert [block.text for block in load_text(text).blocks] == [
        "  First line\n\tsecond line  ",
        "Next.\n",
    ]


@pytest.mark.parametrize("heading", [
    "Chapter 1", "CHAPTER IV.", "CHAPTER XLII. The Whiteness of the Whale",
    "Chapter 3 COME AWAY, COME AWAY!", "Chapter 12: On the stairs", "Chapter Twenty-One",
    "CHAPTER THE LAST", "Part Two", "PART II. _The Country of the Saints._", "Book I",
    "BOOK THE FIRST", "Letter 1", "Stave One", "Kapitel 7", "Глава 3",
    "CHAPTER I\nThe Boy Who Lived Elsewhere",
    "CHAPTER 56. Of the Less Erroneous Pictures of Whales, and the True\nPictures of Scenes.",
    "Prologue", "EPILOGUE", "TRANSLATOR’S PREFACE", "PREFACE TO THE SECOND EDITION",
    "Epilogue: Years Later", "Appendix B",
])  # fmt: skip
def test_separate_heading_is_detected(heading: str):
    blocks = blocks_of(PROSE, heading, PROSE)
    label = " ".join(heading.split())
    assert [block.kind for block in blocks] == ["paragraph", "heading", "paragraph"]
    assert [block.chapter for block in blocks] == [None, label, label]


@pytest.mark.parametrize("line", [
    "Part II, The Country of the Saints, deals much with the river.", "Chapter and verse.",
    "Chapter 3 of the book describes a flood.", "Part of the garden was under water.",
    "Book one, please.", "Part one of it was over.", "Letters came.",
    "Introduction of the railways", "Conclusion of the speech was met with silence.", "I.",
    "I. A Fast-Fish belongs to the party fast to it.", "IV", "chapter mix",
    "CHAPTER I\nIt was a dark night, and he said so.\nNobody listened to him, and it rained.",
    "Prefaces are dull.", f"Chapter 1. {PROSE}", "12", "TOM!",
])  # fmt: skip
def test_text_that_resembles_a_heading_is_not_one(line: str):
    assert headings_of(PROSE, line, PROSE) == []


def test_title_below_a_bare_heading_belongs_to_it():
    blocks = blocks_of("CHAPTER I", "Down the River", PROSE)
    assert blocks[0].text == "CHAPTER I\n\nDown the River"
    assert [block.chapter for block in blocks] == ["CHAPTER I Down the River"] * 2


@pytest.mark.parametrize(
    "first", ["TOM!", "No answer.", "“MY DEAR MR PIP:--", "the river", "(A letter)"]
)
def test_first_words_of_a_chapter_are_not_its_title(first: str):
    assert [block.chapter for block in blocks_of("CHAPTER I", first, PROSE)] == ["CHAPTER I"] * 3


def test_roman_numbers_below_an_epilogue_are_its_sections():
    blocks = blocks_of("EPILOGUE", "I", PROSE, "II", PROSE, "IV", PROSE)
    assert [block.chapter for block in blocks] == ["EPILOGUE"] * 7
    assert [block.section for block in blocks] == [None, "I", "I", "II", "II", "II", "II"]


ENTRIES = ["CHAPTER I. The River", "CHAPTER II. The Hill", "CHAPTER III. The Sea"]
LONG = f"CHAPTER I. Rain--Rain again--The River is told to leave--It does\n{'--More Rain' * 12}"


@each_row(("paragraphs", "headings"), [
    ([f"{PROSE}\nCHAPTER I\n{PROSE}"], []),
    (["Contents:", *ENTRIES[:2], ENTRIES[0], PROSE, ENTRIES[1], PROSE], ENTRIES[:2]),
    (["CONTENTS", "PART I", "CHAPTER I", "CHAPTER II", "PART II", "CHAPTER I", "PART I",
      "CHAPTER I", PROSE], ["PART I", "CHAPTER I"]),
    (["CONTENTS", "\n".join(ENTRIES), ENTRIES[0], PROSE], ENTRIES[:1]),
    (["\n".join(ENTRIES), PROSE], []),
    (["CONTENTS", LONG, "CHAPTER II. The Sun", "CHAPTER I", PROSE], ["CHAPTER I"]),
    # A list announces headings that have no number.
    (["CONTENTS", "ETYMOLOGY.", "EXTRACTS (Supplied by a Librarian) . . . 7",
      "CHAPTER 1. Rain", PROSE, "ETYMOLOGY. (By an Usher.)", PROSE, "EXTRACTS.", PROSE,
      "Extracts", PROSE], ["ETYMOLOGY. (By an Usher.)", "EXTRACTS."]),
])  # fmt: skip
def test_lists_of_contents_are_not_headings(paragraphs: list[str], headings: list[str]):
    assert headings_of(*paragraphs) == headings


@each_row(("paragraphs", "chapters"), [
    (["PART I. THE RIVER", "CHAPTER I", PROSE, "CHAPTER II", PROSE, "PART II", "CHAPTER I",
      PROSE, "EPILOGUE", PROSE],
     ["PART I. THE RIVER", "PART I, CHAPTER I", "PART I, CHAPTER II", "PART II",
      "PART II, CHAPTER I", "EPILOGUE"]),
    (["BOOK ONE", "PART I", "CHAPTER I", PROSE, "PART II", "CHAPTER I", PROSE, "BOOK TWO",
      "CHAPTER I", PROSE],
     ["BOOK ONE", "BOOK ONE, PART I", "BOOK ONE, PART I, CHAPTER I", "BOOK ONE, PART II",
      "BOOK ONE, PART II, CHAPTER I", "BOOK TWO", "BOOK TWO, CHAPTER I"]),
    (["PREFACE", PROSE, "\nI.\nTHE RIVER", PROSE, "II. THE HILL.", PROSE],
     ["PREFACE", "I. THE RIVER", "II. THE HILL."]),
    ([*ENTRIES, ENTRIES[0], PROSE, ENTRIES[1], PROSE, ENTRIES[2], PROSE], ENTRIES),
    (["CONTENTS", "CHAPTER I. Rain--Floods\nand Cats", "EPILOGUE", "ILLUSTRATIONS",
      "The Cat", "Jim\n\n\n", "PREFACE", PROSE, "CHAPTER I", PROSE, "Jim", PROSE],
     [None, "PREFACE", "CHAPTER I"]),
])  # fmt: skip
def test_chapters_carry_their_parts_and_begin_after_lists(
    paragraphs: list[str], chapters: list[str | None]
):
    assert chapters_of("\n\n".join(paragraphs)) == chapters


HEADINGS = (
    "Contents|PART I|PART II|CHAPTER I|CHAPTER II|CHAPTER III. Rain|I|II|III|EPILOGUE|PREFACE"
)
LINES = st.sampled_from(
    [*HEADINGS.split("|"), "The River", "“No.”", "Rain.", "It was late.", PROSE, PROSE]
)


@examples(300)
@given(st.lists(st.tuples(LINES, st.integers(2, 6)), min_size=1, max_size=14))
def test_text_labels_do_not_depend_on_later_text(lines: list[tuple[str, int]]):
    whole = load_text("".join("\n" * gap + line for line, gap in lines)).blocks
    for count in range(1, len(lines)):
        begun = load_text("".join("\n" * gap + line for line, gap in lines[:count])).blocks
        # The last block may still be growing: a title may come to stand below it.
        settled = begun[:-1] if begun[-1].text != whole[len(begun) - 1].text else begun
        assert settled == whole[: len(settled)]
