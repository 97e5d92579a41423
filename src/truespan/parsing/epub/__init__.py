"""EPUB 2 and 3: the pages of a book in the order of reading, with the chapters its contents name.

Pages that the spine calls auxiliary stay where the spine has them, so that nothing is lost. The
navigation document, where it is itself a page, is kept without its lists: they name what lies
ahead.

A label of the contents is shown from the place on that it points to, and what a place is called
never depends on what follows it. So where the contents have said nothing of a page yet, its own
headings speak, as they do in a page that the contents leave out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

from truespan.errors import SourceBroken, SourceRefused, SourceUnsafe
from truespan.parsing.archive import Archive
from truespan.parsing.epub.contents import BookPlaces, Entry, Paths
from truespan.parsing.epub.package import Item, Package, read_package
from truespan.parsing.html import PageReader, read_page, to_block
from truespan.parsing.html.inline import Member, Picture, Pictures, PlacedMark
from truespan.parsing.html.structure import Piece
from truespan.types.text import Block, BlockKind, Loaded, PageStart

_DRAWING = "image/svg+xml"


def load_epub(shown: str, data: bytes, *, images: bool) -> Loaded:
    """Return the blocks of a book.

    Raises:
        SourceBroken: it is no book, or none of its pages can be read.
        SourceEncrypted: its pages are encrypted.
        SourceRefused: it is too large, or built to do harm.
    """
    archive = Archive(shown, data)
    paths = Paths(archive)
    book = _Book(shown, archive, paths, read_package(shown, archive, paths), images)
    blocks = tuple(book.blocks())
    if not book.read:
        raise SourceBroken(shown)
    properties = book.package.properties
    return Loaded(
        blocks=blocks,
        title=properties.title,
        properties=properties,
        images=tuple(book.pictures.images),
        pictures=book.pictures.counts(),
        warnings=tuple(book.warnings()),
    )


class _Book:
    """A book while it is read, page by page, so that only one of them is in memory as a tree."""

    def __init__(
        self, shown: str, archive: Archive, paths: Paths, package: Package, images: bool
    ) -> None:
        self.package, self.pictures = package, Pictures(wanted=images)
        self.read = 0
        """How many pages could be read."""
        self._shown, self._archive, self._paths = shown, archive, paths
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        for entry in package.entries:
            self._entries[entry.member].append(entry)
        self._missing = self._unreadable = 0
        self._begun = False

    def blocks(self) -> Iterator[Block]:
        """Give the blocks of all pages, and before them a cover that does not begin the first."""
        places = BookPlaces()
        turned: tuple[PageStart, ...] = ()
        for item in self.package.spine:
            entries = self._entries.pop(item.member or "", []) if item else []
            places.begin_page(entries)
            for piece in self._pieces(item, entries):
                yield from self._loose_cover(piece)
                place = places.enter(piece)
                block = to_block(piece, place.chapter, place.section, self.pictures)
                if not block.text and not block.figures:
                    # Nothing of the printed page stands here, so it begins with what follows.
                    turned += tuple(PageStart(0, start.page) for start in block.pages)
                    continue
                yield replace(block, pages=turned + block.pages) if turned else block
                turned = ()

    def _loose_cover(self, piece: Piece) -> Iterator[Block]:
        """Give the cover before the first piece of the book, unless that shows it.

        Whether a later page shows it must not be told: figures and images are counted from here.
        """
        shown = [mark.source for _, mark in piece.marks if isinstance(mark, Picture)]
        if self._begun or not (piece.text or shown):
            return
        self._begun = True
        find, cover = self.pictures.find, self.package.cover
        met = {member.name for source in shown if (member := find(source.strip()))}
        if cover and cover.member and cover.member not in met:
            self.pictures.find = self._member
            yield to_block(_picture_alone(cover.member), None, None, self.pictures)
            self.pictures.find = find

    def warnings(self) -> Iterator[str]:
        """Say what of the book could not be kept."""
        if self._missing:
            yield f"{_pages(self._missing)} named by the book and not in it."
        if self._unreadable:
            yield f"{_pages(self._unreadable)} not readable, and left out."

    def _pieces(self, item: Item | None, entries: list[Entry]) -> list[Piece]:
        if item is None or item.member is None or not self._archive.has(item.member):
            self._missing += 1
            return []
        base = item.member
        self.pictures.find = lambda address: self._find(base, address)
        if item.is_image and item.media_type != _DRAWING:
            self.read += 1
            return [_picture_alone(_address(base))]
        reading = PageReader(frozenset(entry.fragment for entry in entries if entry.fragment))
        if not self._told(item, base, reading):
            self._unreadable += 1
            return []
        self.read += 1
        pieces = [piece for piece in reading.close() if self._is_shown(piece, base)]
        return pieces or ([_picture_alone(_address(base))] if item.is_image else [])

    def _told(self, item: Item, member: str, reading: PageReader) -> bool:
        """Read one page; say whether that went well. One bad page does not spoil a book."""
        if not item.is_page and not item.is_image:
            return False
        try:
            content = self._archive.read(member)
            read_page(self._shown, content or b"", reading, xhtml=item.media_type != "text/html")
        except SourceUnsafe:
            raise
        except SourceRefused:
            return False
        return True

    def _is_shown(self, piece: Piece, member: str) -> bool:
        listed = piece.region.navigation and member == self.package.navigation
        return not listed and not piece.region.fallback

    def _find(self, base: str, address: str) -> Member | None:
        name = self._paths.member(base, address)
        return self._member(name) if name else None

    def _member(self, name: str) -> Member:
        media_type = self.package.media_types.get(name, "")
        return Member(name, media_type, lambda: self._image(name), self._archive.has(name))

    def _image(self, name: str) -> bytes | None:
        try:
            return self._archive.read(name)
        except SourceUnsafe:
            raise
        except SourceRefused:
            return None


def _picture_alone(source: str) -> Piece:
    return Piece(BlockKind.PARAGRAPH, "", marks=(PlacedMark(0, Picture("", source)),))


def _address(member: str) -> str:
    """Return an address that leads to a member from any page."""
    return "/" + quote(member)


def _pages(count: int) -> str:
    return "1 page is" if count == 1 else f"{count} pages are"
