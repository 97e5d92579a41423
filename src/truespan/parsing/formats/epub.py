"""EPUB 2 and 3 parser: the pages of a book in reading order, with chapters from its contents.

Auxiliary pages stay in the order of the spine, so that nothing is lost. A navigation document that
is a page is kept without its lists, which name later text.

The table of contents determines where chapters and sections begin. A label must occur in the text
at that place, since a label of the contents may reveal more. Headings of a page apply before its
first entry in the contents, and on pages without entries.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import quote, unquote

import lxml.etree as etree
from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import SourceRefused
from truespan.parsing.archive import Archive, resolve_path
from truespan.parsing.formats.html import Pictures, read_page, to_block
from truespan.parsing.formats.html.elements import PageReader
from truespan.parsing.formats.html.inline import Anchor, Picture, PlacedMark
from truespan.parsing.formats.html.structure import Piece, one_line
from truespan.parsing.xml import local, parse_xhtml
from truespan.text.contents import ContentsFinder
from truespan.text.headings import HeadingPlaces, first_words, letters_of
from truespan.types.text import Block, BlockKind, Loaded, PageStart, Place, Properties

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_NCX = "application/x-dtbncx+xml"
_PAGES = frozenset(
    {"application/xhtml+xml", "application/xml", "application/x-dtbook+xml"}
    | {"text/html", "text/x-oeb1-document", "text/xml"}
)
PAGE_ENDING = re.compile(r"\.(?:x?html?|xml)$", re.IGNORECASE)
_MARKUP = re.compile("<[^<>]*>")
_MAX_FALLBACKS = 8
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_TYPE = "{http://www.idpf.org/2007/ops}type"


def load_epub(name: str, data: bytes, *, images: bool) -> Loaded:
    book = _Book(BookFiles(name, Archive(name, data)), images)
    blocks = tuple(book.read_blocks())
    if not book.readable:
        raise SourceRefused("source_broken", name)
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
        """Return whether an address points to a page after `base`; None if to `base` itself."""
        # Whether the page exists must not matter, since that would depend on later text.
        member = self._files.find_member(base, address)
        if member == base:
            return None
        return bool(member and PAGE_ENDING.search(member)) and member not in self._passed

    def _separate_cover(self, piece: Piece) -> Iterator[Block]:
        """Yield the cover before the first piece of the book, unless the piece shows it."""
        # Whether a later page shows it must not matter, because figures are numbered from the
        # start.
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
        except SourceRefused as refused:
            if refused.code == "source_unsafe":
                raise
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


class Item(Struct, frozen=True):
    """A file of the book. `member` is None if it is outside of the archive."""

    id: str
    member: str | None
    media_type: str
    properties: frozenset[str]
    fallback: str

    @property
    def is_page(self) -> bool:
        has_ending = not self.media_type and PAGE_ENDING.search(self.member or "")
        return self.media_type in _PAGES or bool(has_ending)

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")


class Package(Struct, frozen=True):
    """The package and the contents of a book. In `spine`, None is a page that is not defined."""

    media_types: dict[str, str]
    spine: tuple[Item | None, ...]
    entries: tuple[Entry, ...]
    navigation: str | None
    cover: Item | None
    properties: Properties


class BookFiles:
    """The files of a book. It resolves the addresses in them to members of the archive."""

    def __init__(self, name: str, archive: Archive) -> None:
        self.name, self.archive = name, archive
        self._folded = {_fold(member): member for member in sorted(archive.names, reverse=True)}

    def find_member(self, base: str, href: str) -> str | None:
        """Return the member that `href` in the member `base` leads to; None if it leads elsewhere.

        An existing member is preferred: by the address as written, with percent signs decoded, in
        another Unicode normalization, or in another case. Else it is the name that the address
        should lead to.
        """
        path = re.split("[#?]", href.strip(), maxsplit=1)[0].replace("\\", "/")
        if not path:
            return base
        if _SCHEME.match(path):
            return None
        folder = base.rpartition("/")[0]
        written, decoded = resolve_path(folder, path), resolve_path(folder, unquote(path))
        # A question mark may be part of a name that was not encoded.
        literal = resolve_path(folder, href.strip())
        for name in (written, decoded, literal):
            if found := self.archive.find(name) or self._folded.get(_fold(name)):
                return found
        return decoded

    def parse(self, member: str | None) -> etree._Element | None:
        """Return the root of a member, parsed as leniently as a page; None if missing or broken."""
        content = self.archive.read(member) if member else None
        if content is None:
            return None
        try:
            return parse_xhtml(self.name, content)
        except SourceRefused as refused:
            if refused.code == "source_unsafe":
                raise
            return None


def _fold(name: str) -> str:
    return normalize("NFC", name).casefold()


def _tag(element: etree._Element) -> str:
    """Return the name of a tag in lower case, as in pages parsed as HTML."""
    return local(element).lower()


def _find_all(root: etree._Element | None, tag: str) -> Iterator[etree._Element]:
    if root is not None:
        yield from (element for element in root.iter() if _tag(element) == tag)


def read_package(files: BookFiles) -> Package:
    """Read the package of a book; it is refused if its pages are encrypted."""
    base = _find_package(files)
    root = files.parse(base)
    if root is None:
        raise SourceRefused("source_broken", files.name)
    listed = [
        Item(
            id=id,
            member=files.find_member(base, element.get("href", "")),
            media_type=element.get("media-type", "").partition(";")[0].strip().lower(),
            properties=frozenset(element.get("properties", "").split()),
            fallback=element.get("fallback", ""),
        )
        for element in _find_all(root, "item")
        if (id := element.get("id"))
    ]
    # Reversed, so that the first of several items with one id wins.
    items = {item.id: item for item in reversed(listed)}
    # Each page once, in reading order; auxiliary pages stay in place.
    ids = dict.fromkeys(element.get("idref", "") for element in _find_all(root, "itemref"))
    pages = [(id, _find_readable(items.get(id), items)) for id in ids]
    # A page with many ids is read once; otherwise it could fill the memory.
    spine = tuple({(page and page.member) or id: page for id, page in pages}.values())
    _refuse_encrypted(files, {item.member for item in spine if item})
    navigation = next((item.member for item in items.values() if "nav" in item.properties), None)
    cover = next((item for item in items.values() if "cover-image" in item.properties), None)
    if cover is None:
        covers = (meta for meta in _find_all(root, "meta") if meta.get("name") == "cover")
        named = items.get(next((meta.get("content", "") for meta in covers), ""))
        cover = named if named and named.is_image else None
    return Package(
        media_types={item.member: item.media_type for item in items.values() if item.member},
        spine=spine,
        entries=tuple(_read_contents(files, root, items, navigation)),
        navigation=navigation,
        cover=cover,
        properties=_read_properties(root),
    )


def _find_package(files: BookFiles) -> str:
    """Return the member of the package document; without a container, the first that exists."""
    for element in _find_all(files.parse(files.archive.find(_CONTAINER)), "rootfile"):
        if path := element.get("full-path"):
            member = files.find_member("", path)
            if member and member in files.archive.names:
                return member
    packages = sorted(name for name in files.archive.names if name.lower().endswith(".opf"))
    if not packages:
        raise SourceRefused("source_broken", files.name)
    return packages[0]


def _find_readable(item: Item | None, items: dict[str, Item]) -> Item | None:
    """Return the item, or its first fallback that is a page or a picture."""
    found = item
    for _ in range(_MAX_FALLBACKS):
        if found is None or found.is_page or found.is_image:
            return found or item
        found = items.get(found.fallback)
    return item


def _refuse_encrypted(files: BookFiles, pages: set[str | None]) -> None:
    """Raise if pages are encrypted. Obfuscated fonts are allowed: they hide no text."""
    root = files.parse(files.archive.find(_ENCRYPTION))
    algorithm = ""
    for element in root.iter() if root is not None else ():
        tag = _tag(element)
        if tag == "encrypteddata":
            algorithm = ""
        elif tag == "encryptionmethod":
            algorithm = algorithm or element.get("Algorithm") or element.get("algorithm") or "?"
        elif tag == "cipherreference" and algorithm not in _FONT_OBFUSCATION:
            uri = element.get("URI") or element.get("uri") or ""
            if files.find_member("", uri) in pages:
                raise SourceRefused(
                    "source_encrypted", files.name, advice="Its pages are encrypted by the seller."
                )


def _read_properties(root: etree._Element) -> Properties:
    fields: dict[str, list[str]] = {}
    for element in root.iter():
        name = _tag(element)
        if name == "manifest":
            break
        value = one_line(_MARKUP.sub(" ", element.text)) if element.text else None
        if not value:
            continue
        if name == "meta":
            name = element.get("property", "").lower()
        elif name == "date":
            events = (str(v) for k, v in element.attrib.items() if str(k).endswith("event"))
            name = "dcterms:modified" if next(events, "") == "modification" else name
        fields.setdefault(name, []).append(value)
    first = {name: values[0] for name, values in fields.items()}
    return Properties(
        title=first.get("title"),
        authors=tuple(dict.fromkeys(fields.get("creator", ()))),
        language=first.get("language"),
        created=first.get("date"),
        modified=first.get("dcterms:modified"),
        keywords=tuple(dict.fromkeys(fields.get("subject", ()))),
        description=first.get("description"),
        publisher=first.get("publisher"),
    )


class Entry(NamedTuple):
    """A line of the contents: its depth, its label, and the position that it points to."""

    depth: int
    label: str
    member: str
    fragment: str


class _Line(NamedTuple):
    depth: int
    label: str
    href: str


def _read_contents(
    files: BookFiles, root: etree._Element, items: dict[str, Item], navigation: str | None
) -> list[Entry]:
    """Read the table of contents: the navigation document of EPUB 3, else the NCX of EPUB 2."""
    navs = [
        (element.get(_TYPE) or element.get("epub:type") or "", element)
        for element in _find_all(files.parse(navigation), "nav")
    ]
    tables = [nav for types, nav in navs if "toc" in types.split()]
    untyped = [nav for types, nav in navs if not types]
    for nav in [*tables, *untyped][:1]:
        if entries := _place_entries(_nav_lines(nav), navigation or "", files):
            return entries
    ncx = next((item.member for item in items.values() if item.media_type == _NCX), None)
    spines = (items.get(element.get("toc", "")) for element in _find_all(root, "spine"))
    if item := next(filter(None, spines), None):
        ncx = item.member
    for element in _find_all(files.parse(ncx), "navmap"):
        return _place_entries(_ncx_lines(element), ncx or "", files)
    return []


def _place_entries(lines: Iterator[_Line], base: str, files: BookFiles) -> list[Entry]:
    """Resolve the position of each line. A line without one begins at the next line's position."""
    entries: list[Entry] = []
    pending: list[_Line] = []
    for line in lines:
        pending = [above for above in pending if above.depth < line.depth]
        if not line.href:
            pending.append(line)
        elif member := files.find_member(base, line.href):
            fragment = unquote(line.href.strip().partition("#")[2])
            for depth, label, _ in (*pending, line):
                if label:
                    entries.append(Entry(depth, label, member, fragment))
            pending = []
    return entries


def _nav_lines(nav: etree._Element) -> Iterator[_Line]:
    depth, expected = 0, False
    for event, element in etree.iterwalk(nav, events=("start", "end")):
        name = _tag(element)
        if name == "ol":
            depth += 1 if event == "start" else -1
        elif name == "li":
            expected = event == "start"
        elif expected and name in ("a", "span"):
            expected = False
            yield _Line(depth, _read_label(element), element.get("href", ""))


class _Point(Struct):
    """An open point of an NCX, complete at its first child or its end."""

    label: str = ""
    href: str = ""
    done: bool = False


def _ncx_lines(nav_map: etree._Element) -> Iterator[_Line]:
    points: list[_Point] = []
    for event, element in etree.iterwalk(nav_map, events=("start", "end")):
        name = _tag(element)
        if name == "navpoint":
            if points and not points[-1].done:
                points[-1].done = True
                yield _Line(len(points), points[-1].label, points[-1].href)
            if event == "start":
                points.append(_Point())
            else:
                points.pop()
        elif points and name == "text":
            points[-1].label = points[-1].label or _read_label(element)
        elif points and name == "content":
            points[-1].href = points[-1].href or element.get("src", "")


def _read_label(element: etree._Element) -> str:
    return one_line("".join(str(text) for text in element.itertext())) or ""


_WORDS = re.compile(r"\w+")


def _stands_in(label: str, piece: Piece, alts: str) -> bool:
    """Return whether a piece begins with a label, or a heading ends with it."""
    # `alts` are the alternative texts of the pictures before the piece.
    wanted = letters_of(label)
    if wanted and (letters_of(piece.text).startswith(wanted) or wanted in letters_of(alts)):
        return True
    words, heading = (" ".join(_WORDS.findall(text.casefold())) for text in (label, piece.text))
    return bool(words and piece.level) and f" {heading}".endswith(f" {words}")


class BookPlaces:
    """Tracks the current chapter and section. It receives each page and each piece in order."""

    def __init__(self) -> None:
        self._places = HeadingPlaces()
        self._due: list[Entry] = []
        """Entries whose position was passed; they apply to the next piece with text."""
        self._alts = ""
        """Alternative texts of the pictures since the last text."""
        self._by_fragment: dict[str, list[Entry]] = {}
        self._chapter_depth = 1
        """Maximum depth of entries that begin chapters; deeper entries begin sections."""
        self._has_entry = self._in_title = self._in_section = False
        self._only_contents = False

    def begin_page(self, entries: Sequence[Entry]) -> None:
        if self._only_contents:
            self._due.clear()
        self._due += (entry for entry in entries if not entry.fragment)
        self._by_fragment = defaultdict(list)
        for entry in entries:
            if entry.fragment:
                self._by_fragment[entry.fragment].append(entry)
        self._has_entry = self._in_title = self._only_contents = False

    def skip(self, piece: Piece) -> Place:
        """Skip a piece of a contents list, and the entries that point into it."""
        for _, mark in piece.marks:
            if isinstance(mark, Anchor):
                self._by_fragment.pop(mark.id, None)
        self._only_contents = not self._has_entry
        return Place(self._places.chapter, self._places.section)

    def enter(self, piece: Piece) -> Place:
        """Return the place of the next piece."""
        # A label must not apply before its position, so an entry that points into a piece applies
        # to the next piece, unless the piece is a heading.
        reached: list[Entry] = []
        later: list[Entry] = []
        for offset, mark in piece.marks:
            if isinstance(mark, Anchor):
                entries = reached if offset == 0 or piece.level else later
                entries += self._by_fragment.pop(mark.id, ())
            elif isinstance(mark, Picture):
                self._alts += f" {mark.alt}"
        self._due += reached
        if not piece.text:
            self._due += later
            return Place(self._places.chapter, self._places.section)
        self._only_contents = False
        due, self._due = self._due, later
        for entry, following in zip(due, [*due[1:], None], strict=False):
            self._has_entry = True
            # A label may reveal unread text, so it must occur here. If the label of a part does
            # not, its chapters have no part.
            is_read = _stands_in(entry.label, piece, self._alts)
            if not is_read and following and following.depth > entry.depth:
                self._chapter_depth = following.depth
                continue
            name = (
                entry.label if is_read else piece.text if piece.level else first_words(piece.text)
            )
            self._in_section = entry.depth > self._chapter_depth
            if self._in_section:
                self._places.begin_section(name)
            else:
                self._chapter_depth = entry.depth
                self._places.begin_chapter(name, piece.level)
        self._alts = ""
        if due:
            self._in_title = bool(piece.level)
        elif not self._has_entry:
            self._places.enter(piece.level, piece.text)
        elif not piece.level:
            self._in_title = False
        elif not self._in_section or self._in_title:
            heading, label = letters_of(piece.text), letters_of(self._places.chapter or "")
            if self._in_title:
                self._places.top_level = piece.level
            # A heading that repeats the label of the chapter is not a section.
            if heading and heading not in label and not (label and label in heading):
                self._places.begin_section(piece.text)
        return Place(self._places.chapter, self._places.section)
