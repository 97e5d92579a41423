"""Lists of what lies ahead are recognised by their form and by what announces them."""

from __future__ import annotations

import pytest

from truespan.ingest.canonical import assemble
from truespan.parsing import load
from truespan.types.text import Block, BlockKind, PageStart, contents_start

PROSE = (
    "It had rained since the morning, and nobody in the house could remember when it had\n"
    "last been dry; the river stood in the garden, and the cat sat on the stairs and would\n"
    "not be talked to."
)


def lists_in(name: str, text: str | bytes) -> list[str]:
    """Return the text of the blocks that were taken for parts of a list."""
    data = text.encode() if isinstance(text, str) else text
    return [block.text for block in load(name, data).blocks if block.is_contents]


CHAPTERS = ["Chapter 1 THE RIVER", "Chapter 2 THE HILL", "Chapter 3 THE SEA"]
TEXTS: dict[str, tuple[list[str], int]] = {
    "announced": (["PETER PAN", "Contents:", *CHAPTERS, CHAPTERS[0], PROSE], 4),
    "in one paragraph": (["THE BOOK", "CONTENTS\n" + "\n".join(CHAPTERS), CHAPTERS[0], PROSE], 1),
    "below its title": (["THE BOOK", "CONTENTS", "\n".join(CHAPTERS), CHAPTERS[0], PROSE], 2),
    "titles only": (
        ["CONTENTS", "The River\nThe Hill\nThe Open Sea\nA Death", "THE RIVER", PROSE],
        2,
    ),
    "titles of one line": (["CONTENTS", "The River", "The Hill", "THE RIVER", PROSE], 3),
    "not announced": (["THE BOOK", *CHAPTERS, CHAPTERS[0], PROSE], 2),
    "lines, not announced": (["THE BOOK", "\n".join(CHAPTERS), CHAPTERS[0], PROSE], 1),
    "dots": (["The River ..... 1\nThe Hill . . . . . 7\nThe Sea ______ xii", PROSE], 1),
    "dots, a line each": (["The River ..... 1", "The Hill . . . . 7", "The Sea … … … 9", PROSE], 2),
    "a chapter with dots": (["THE BOOK", "Chapter 1 The River ........ 3", PROSE], 1),
    "plates": (["LIST OF PLATES", "He falls from the ship. 112", "She dies. 200", PROSE], 3),
    "sentences": (["ILLUSTRATIONS", "He falls from the ship.", "She dies of it.", PROSE], 3),
    "spaced letters": (["C O N T E N T S", "The River", PROSE], 2),
    "decorated": (["_Contents._", "The River", PROSE], 2),
    "German": (["Inhaltsverzeichnis", "Der Fluss", "Die Flut", PROSE], 3),
    "French": (["TABLE DES MATIÈRES", "Le Fleuve", "La Crue", PROSE], 3),
    "Russian": (["ОГЛАВЛЕНИЕ", "Глава 1", "Глава 2", PROSE], 3),
    "Japanese": (["目次", "一　川", "二　丘", PROSE], 3),
    "of a volume": (["CONTENTS OF THE SECOND VOLUME", "The River", PROSE], 2),
    "a name twice": (["CONTENTS", "The River", "Interlude", "The Hill", "Interlude", PROSE], 5),
    "no list": (["THE BOOK", CHAPTERS[0], PROSE, CHAPTERS[1], PROSE], 0),
    "speech after it": (["CONTENTS", "The River", "The Hill", "“Who is it?” she asked.", PROSE], 3),
    "prose after it": (["CONTENTS", "The River", "The Hill", "He said nothing to her.", PROSE], 3),
    "a dedication": (["CONTENTS", "The River", "The Hill\n\n\n", "To Ann", PROSE], 3),
    "the word in prose": (["He described the contents.", PROSE, "Contents may vary.", PROSE], 0),
    "a recipe": (["1. Mix the flour\n2. Add the eggs\n3. Bake", PROSE], 0),
    "verse": (["All the world’s a stage,\nAnd all the men\nAnd women merely players", PROSE], 0),
}


def test_lists_in_plain_text_are_recognised():
    wrong = {
        name: found
        for name, (paragraphs, count) in TEXTS.items()
        if len(found := lists_in("book.txt", "\n\n".join(paragraphs))) != count
    }

    assert wrong == {}


def test_whether_a_line_is_in_a_list_does_not_depend_on_what_follows():
    for name, (paragraphs, _) in TEXTS.items():
        whole = load("book.txt", "\n\n".join(paragraphs).encode()).blocks
        for count in range(1, len(paragraphs)):
            begun = load("book.txt", "\n\n".join(paragraphs[:count]).encode()).blocks
            same = [b.is_contents for b in begun] == [b.is_contents for b in whole[: len(begun)]]
            assert same, (name, count)


def paragraph(
    text: str, *pages: int, is_contents: bool = False, chapter: str | None = None
) -> Block:
    starts = tuple(PageStart(0, page) for page in pages)
    return Block(BlockKind.PARAGRAPH, text, chapter, pages=starts, is_contents=is_contents)


def test_lists_stand_at_the_end_of_the_text_and_keep_their_pages():
    canonical = assemble(
        [
            paragraph("Title.", 1),
            paragraph("One. Two.", 2, is_contents=True),
            paragraph("Three.", is_contents=True),
            paragraph("Dedication."),
            paragraph("Plates.", 3, is_contents=True),
            paragraph("Once.", 4, chapter="One"),
        ]
    )

    assert canonical.text == "Title.\n\nDedication.\n\nOnce.\n\nOne. Two.\n\nThree.\n\nPlates."
    found = {word: canonical.page_at(canonical.text.index(word)) for word in canonical.text.split()}
    assert found == {
        "Title.": 1, "Dedication.": 2, "Once.": 4, "One.": 2, "Two.": 2, "Three.": 2, "Plates.": 3
    }  # fmt: skip
    start = contents_start(zip(canonical.starts, canonical.places, strict=True))
    assert start == canonical.text.index("One. Two.")


@pytest.mark.parametrize("is_contents", [False, True])
def test_text_that_is_all_of_one_kind_stays_as_it_is(is_contents: bool):
    blocks = [paragraph(text, is_contents=is_contents) for text in ("One.", "Two.", "Three.")]

    canonical = assemble(blocks)

    assert canonical == assemble([paragraph(text) for text in ("One.", "Two.", "Three.")])
