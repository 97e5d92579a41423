"""Contract of the loaders for the treatise, for every program that can write it.

A test module derives a class from `TreatiseContract` and gives a fixture `made`, which returns the
bytes of a document of `DOCUMENTS`: one takes them from the folder of fixtures, the other has them
made on the spot.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

import pytest

from tests.support.sample_document import (
    AUTHOR,
    PIECES,
    REVIEWED,
    TITLE,
    Code,
    Heading,
    Items,
    Paragraph,
    Picture,
    Piece,
    Quote,
    Table,
    shown_words,
    told,
)
from tests.support.word_diff import compare, words_of
from truespan.parsing import load
from truespan.types.source import ParseOptions
from truespan.types.text import Block, BlockKind, Loaded

Made = Callable[["Document"], bytes]
Kind = TypeVar("Kind", bound=Piece)


class Holds(Enum):
    """The parts of a structure that a program keeps when it writes a format."""

    SECTIONS = auto()
    LISTS = auto()
    TABLES = auto()
    NOTES = auto()
    CODE = auto()
    INDENTS = auto()
    QUOTES = auto()
    PICTURES = auto()
    DESCRIPTIONS = auto()


@dataclass(frozen=True, slots=True)
class Document:
    """A file that a program makes. Up to `broken` words may be changed."""

    name: str
    holds: frozenset[Holds]
    pieces: tuple[Piece, ...] = PIECES
    broken: int = 0


_OF_ALL = frozenset(Holds)
_OF_WORD_PROCESSOR = _OF_ALL - {Holds.CODE, Holds.QUOTES}

DOCUMENTS = (
    Document("pandoc.docx", _OF_WORD_PROCESSOR),
    # EPUB 2 has no word for notes: they are the items of a list at the end of their chapter.
    Document("pandoc-2.epub", _OF_ALL - {Holds.NOTES}),
    Document("pandoc-3.epub", _OF_ALL),
    Document("pandoc.html", _OF_ALL),
    # Each line of code is a paragraph there, and its margin is white space at the paragraph's edge.
    Document("libreoffice.docx", _OF_WORD_PROCESSOR - {Holds.INDENTS}, PIECES + REVIEWED),
    # It writes headings, items and code as paragraphs, and a file name for a description.
    Document("libreoffice.epub", frozenset({Holds.TABLES, Holds.NOTES, Holds.PICTURES})),
    Document("libreoffice.html", _OF_ALL - {Holds.NOTES, Holds.DESCRIPTIONS}),
    # A page has no structure but its outline. Two words are always divided: one at its own hyphen,
    # and a ligature of two Arabic letters comes out in drawing order. Other fonts divide other
    # words, so a third one is allowed for.
    Document("libreoffice.pdf", frozenset({Holds.SECTIONS}), broken=3),
)


def each(*needs: Holds) -> pytest.MarkDecorator:
    fit = [document for document in DOCUMENTS if document.holds.issuperset(needs)]
    return pytest.mark.parametrize("document", fit, ids=lambda document: document.name)


def blocks_of(document: Document, made: Made) -> tuple[Block, ...]:
    return load(document.name, made(document)).blocks


def of_kind(document: Document, kind: type[Kind]) -> Iterator[Kind]:
    return (piece for piece in document.pieces if isinstance(piece, kind))


def plain(text: str) -> str:
    """Return the words of a piece as they are read."""
    return text.replace("*", "").replace("^", "")


def check_words(document: Document, loaded: Loaded) -> None:
    """Compare every word with the source: kept once, in order, with nothing between."""
    source = told(document.pieces)
    found = [word for block in loaded.blocks for word in shown_words(block.text)]
    apart = {*source.notes, *source.boxes}

    body = compare(source.body, [word for word in found if word not in apart])
    assert len(body.lost) <= document.broken, body
    assert len(body.added) <= document.broken, body
    assert (body.doubled, body.moved) == ((), 0)
    # A format may put these elsewhere, so that only their own order counts.
    assert [word for word in found if word in source.notes] == source.notes
    assert [word for word in found if word in source.boxes] == source.boxes


class TreatiseContract:
    @each()
    def test_every_word_is_kept_once_and_in_order(self, document: Document, made: Made) -> None:
        check_words(document, load(document.name, made(document)))

    @each()
    def test_title_and_author_are_found(self, document: Document, made: Made) -> None:
        loaded = load(document.name, made(document))

        assert loaded.title == TITLE
        assert loaded.properties.authors == (AUTHOR,)

    @each()
    def test_chapters_begin_at_their_headings(self, document: Document, made: Made) -> None:
        blocks = blocks_of(document, made)

        for heading in of_kind(document, Heading):
            if heading.level == 1:
                (block,) = [block for block in blocks if block.text == heading.text]
                assert block.chapter == heading.text

    @each(Holds.SECTIONS)
    def test_headings_name_their_chapters_and_sections(
        self, document: Document, made: Made
    ) -> None:
        headings = [b for b in blocks_of(document, made) if b.kind is BlockKind.HEADING]

        expected, chapter = [], None
        for heading in of_kind(document, Heading):
            chapter = heading.text if heading.level == 1 else chapter
            section = heading.text if heading.level == 2 else None
            expected.append((heading.text, chapter, section))
        found = [(b.text, b.chapter, b.section) for b in headings if b.text != TITLE]
        assert found == expected

    @each(Holds.LISTS)
    def test_items_have_their_marks_and_depth(self, document: Document, made: Made) -> None:
        notes = {*told(document.pieces).notes}
        blocks = [b for b in blocks_of(document, made) if b.kind is BlockKind.LIST]
        items = [block.text for block in blocks if not notes & {*shown_words(block.text)}]

        expected = []
        for piece in of_kind(document, Items):
            for number, (item, inner) in enumerate(piece.items, 1):
                expected.append(f"{number}. {item}" if piece.numbered else f"- {item}")
                expected += [f"  - {below}" for below in inner]
        assert items == expected

    @each(Holds.TABLES)
    def test_table_row_is_a_line(self, document: Document, made: Made) -> None:
        (found,) = [b for b in blocks_of(document, made) if b.kind is BlockKind.TABLE]
        (table,) = of_kind(document, Table)

        assert [words_of(line) for line in found.text.split("\n")] == [
            words_of(" ".join(row)) for row in table.rows
        ]

    @each(Holds.NOTES)
    def test_notes_are_distinguished(self, document: Document, made: Made) -> None:
        notes = [b.text for b in blocks_of(document, made) if b.kind is BlockKind.FOOTNOTE]

        expected = [piece.note for piece in of_kind(document, Paragraph) if piece.note]
        assert [shown_words(note) for note in notes] == [words_of(note) for note in expected]

    @each(Holds.CODE)
    def test_code_is_distinguished(self, document: Document, made: Made) -> None:
        (code,) = of_kind(document, Code)

        assert [b.text for b in blocks_of(document, made) if b.kind is BlockKind.CODE] == [
            code.text
        ]

    @each(Holds.INDENTS)
    def test_code_keeps_its_indentation(self, document: Document, made: Made) -> None:
        (code,) = of_kind(document, Code)

        assert code.text in "\n".join(block.text for block in blocks_of(document, made))

    @each(Holds.QUOTES)
    def test_quotation_is_distinguished(self, document: Document, made: Made) -> None:
        quotes = [b.text for b in blocks_of(document, made) if b.kind is BlockKind.QUOTE]

        assert quotes == [quote.text for quote in of_kind(document, Quote)]

    @each(Holds.PICTURES)
    def test_picture_keeps_its_place(self, document: Document, made: Made) -> None:
        blocks = blocks_of(document, made)
        (place,) = [number for number, block in enumerate(blocks) if block.figures]
        pieces = document.pieces
        (source,) = [n for n, piece in enumerate(pieces) if isinstance(piece, Picture)]

        before = [b.text for b in blocks[:place] if b.kind is not BlockKind.FOOTNOTE]
        assert shown_words(before[-1])[-9:] == _words_at(pieces[source - 1])[-9:]
        assert shown_words(blocks[place + 1].text) == _words_at(pieces[source + 1])

    @each(Holds.PICTURES, Holds.DESCRIPTIONS)
    def test_picture_has_its_description_and_bytes(self, document: Document, made: Made) -> None:
        loaded = load(document.name, made(document), ParseOptions(images=True))
        (placed,) = [placed for block in loaded.blocks for placed in block.figures]

        assert [placed.figure.alt] == [piece.alt for piece in of_kind(document, Picture)]
        if not document.name.endswith("html"):  # Beside a page, pictures are files of their own.
            assert placed.figure.image == 0
            assert loaded.images[0].data.startswith(b"\x89PNG")

    @each()
    def test_letters_of_every_language_are_kept(self, document: Document, made: Made) -> None:
        texts = [block.text for block in blocks_of(document, made)]

        for heading in ("Deutsch", "Français", "Ελληνικά", "Русский", "中文", "العربية"):
            place = document.pieces.index(Heading(2, heading))
            if document.broken and heading in ("Français", "العربية"):
                continue  # Here are the words that pages break.
            assert plain(document.pieces[place + 1].text) in texts  # type: ignore[union-attr]

    def test_deleted_text_is_removed_and_inserted_text_kept(self, made: Made) -> None:
        (document,) = [document for document in DOCUMENTS if told(document.pieces).struck]
        words = [word for b in blocks_of(document, made) for word in shown_words(b.text)]

        assert {"autumn", "gales"} <= {*words}
        assert not {"mainland", "pigeon"} & {*words}


def _words_at(piece: Piece) -> list[str]:
    assert isinstance(piece, Paragraph)
    return words_of(plain(piece.text))
