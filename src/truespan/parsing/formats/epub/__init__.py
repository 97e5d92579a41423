"""EPUB 2 and 3 parser: the pages of a book in reading order, with chapters from its contents.

Auxiliary pages stay in the order of the spine, so that nothing is lost. A navigation document that
is a page is kept without its lists, which name later text.

The table of contents determines where chapters and sections begin. A label must occur in the text
at that place, since a label of the contents may reveal more. Headings of a page apply before its
first entry in the contents, and on pages without entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote

from msgspec.structs import replace

from truespan.errors import SourceBroken, SourceRefused, SourceUnsafe
from truespan.parsing.archive import Archive
from truespan.parsing.formats.epub.package import (
    PAGE_ENDING,
    BookFiles,
    BookPlaces,
    Entry,
    Item,
    read_package,
)
from truespan.parsing.formats.html import Pictures, read_page, to_block
from truespan.parsing.formats.html.elements import PageReader
from truespan.parsing.formats.html.inline import Picture, PlacedMark
from truespan.parsing.formats.html.structure import Piece
from truespan.text.contents import ContentsFinder
from truespan.types.text import Block, BlockKind, Loaded, PageStart


def load_epub(name: str, data: bytes, *, images: bool) -> Loaded:
    """Parse a book or raise `SourceRefused`."""
    book = _Book(BookFiles(name, Archive(name, data)), images)
    blocks = tuple(book.read_blocks())
    if not book.readable:
        raise SourceBroken(name)
    warnings = (
        f"{'1 page is' if count == 1 else f'{count} pages are'} {reason}"
        for count, reason in (
            (book.missing, "listed in the book and missing."),
            (book.unreadable, "unreadable and left out."),
        )
        if count
    )
    properties = book.package.properties
    return Loaded(
        blocks=blocks,
        title=properties.title,
        properties=properties,
        images=tuple(book.pictures.images),
        pictures=book.pictures.counts(),
        warnings=tuple(warnings),
    )


class _Book:
    """Reads a book page by page, with one page tree in memory."""

    def __init__(self, files: BookFiles, images: bool) -> None:
        self.package = read_package(files)
        self.pictures = Pictures(images, files.archive, self.package.media_types)
        self.readable = 0
        """Number of pages that could be read."""
        self._files = files
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.package.entries:
            self._entries[entry.member].append(entry)
        self._passed: set[str] = set()
        self.missing = self.unreadable = 0
        self._cover_done = False

    def read_blocks(self) -> Iterator[Block]:
        """Yield the blocks of all pages, and before them a cover that the first page lacks."""
        places, contents = BookPlaces(), ContentsFinder()
        pending: tuple[PageStart, ...] = ()
        for item in self.package.spine:
            entries = self._entries.pop(item.member or "", []) if item else []
            places.begin_page(entries)
            contents.end()
            for piece in self._read_pieces(item, entries):
                yield from self._separate_cover(piece)
                is_contents = piece.belongs_to(contents, in_book=True)
                place = places.skip(piece) if is_contents else places.enter(piece)
                block = to_block(piece, place.chapter, place.section, self.pictures, is_contents)
                if not block.text and not block.figures:
                    # A page start without content moves to the next block.
                    pending += tuple(start._replace(offset=0) for start in block.pages)
                    continue
                yield replace(block, pages=pending + block.pages) if pending else block
                pending = ()

    def _is_later(self, base: str, address: str) -> bool | None:
        """Return whether an address points to a page after `base`; None if to `base` itself.

        Whether the page exists must not matter, since that would depend on later text.
        """
        member = self._files.find_member(base, address)
        if member == base:
            return None
        return bool(member and PAGE_ENDING.search(member)) and member not in self._passed

    def _separate_cover(self, piece: Piece) -> Iterator[Block]:
        """Yield the cover before the first piece of the book, unless the piece shows it.

        Whether a later page shows it must not matter, because figures are numbered from the start.
        """
        sources = [mark.source for _, mark in piece.marks if isinstance(mark, Picture)]
        if self._cover_done or not (piece.text or sources):
            return
        self._cover_done = True
        find, cover = self.pictures.find, self.package.cover
        members = {find(source.strip()) for source in sources}
        if cover and cover.member and cover.member not in members:
            self.pictures.find = str
            yield to_block(_picture_piece(cover.member), None, None, self.pictures)
            self.pictures.find = find

    def _read_pieces(self, item: Item | None, entries: list[Entry]) -> list[Piece]:
        """Read a page; an unreadable page is skipped."""
        if item is None or item.member is None or item.member not in self._files.archive.names:
            self.missing += 1
            return []
        base = item.member
        self.pictures.find = partial(self._files.find_member, base)
        image_page = [_picture_piece("/" + quote(base))] if item.is_image else []
        if item.is_image and item.media_type != "image/svg+xml":
            self.readable += 1
            return image_page
        if not item.is_page and not item.is_image:
            self.unreadable += 1
            return []
        self._passed.add(base)
        reader = PageReader(
            frozenset(entry.fragment for entry in entries if entry.fragment),
            partial(self._is_later, base),
        )
        try:
            content = self._files.archive.read(base) or b""
            read_page(self._files.name, content, reader, xhtml=item.media_type != "text/html")
        except SourceUnsafe:
            raise
        except SourceRefused:
            self.unreadable += 1
            return []
        self.readable += 1
        is_navigation = base == self.package.navigation
        pieces = [
            piece
            for piece in reader.close()
            if not piece.region.fallback and not (is_navigation and piece.region.navigation)
        ]
        return pieces or image_page


def _picture_piece(source: str) -> Piece:
    return Piece(BlockKind.PARAGRAPH, "", marks=(PlacedMark(0, Picture("", source)),))
