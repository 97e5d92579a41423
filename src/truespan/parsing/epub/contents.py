"""The table of contents of a book: the navigation document of EPUB 3, or the NCX of EPUB 2."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import unquote

import lxml.etree as etree

from truespan.parsing.archive import Archive
from truespan.parsing.headings import HeadingPlaces
from truespan.parsing.html.inline import Anchor
from truespan.parsing.html.structure import Piece, one_line
from truespan.parsing.xml import local
from truespan.types.text import Place

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class Paths:
    """The names of an archive's members, and the ways in which they are referred to."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._composed = {_folded(name): name for name in sorted(archive.names, reverse=True)}

    def member(self, base: str, href: str) -> str | None:
        """Return the name that `href` in the member `base` leads to; None when it leads elsewhere.

        The name is one that exists if there is any such: as it is written, with its percent signs
        decoded, in the other spelling of its accents, or in another case. Else it is the one that
        the address should lead to.
        """
        path = re.split("[#?]", href.strip(), maxsplit=1)[0].replace("\\", "/")
        if not path:
            return base
        if _SCHEME.match(path):
            return None
        written, decoded = _joined(base, path), _joined(base, unquote(path))
        # A sign that begins a query may also be a letter of a name that was never encoded.
        literal = _joined(base, href.strip())
        for name in (written, decoded, literal):
            if found := self._archive.find(name) or self._composed.get(_folded(name)):
                return found
        return decoded


def fragment_of(href: str) -> str:
    """Return the part of an address that names a place within a page."""
    return unquote(href.strip().partition("#")[2])


def _folded(name: str) -> str:
    return normalize("NFC", name).casefold()


def _joined(base: str, path: str) -> str:
    """Return `path` as seen from the folder of `base`; what would leave the archive stays in it."""
    whole = path if path.startswith("/") else f"{base.rpartition('/')[0]}/{path}"
    parts: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


_TYPE = "{http://www.idpf.org/2007/ops}type"


class Entry(NamedTuple):
    """A line of the contents: how deep it stands, what it says, and the place it points to."""

    depth: int
    label: str
    member: str
    fragment: str


class _Line(NamedTuple):
    depth: int
    label: str
    href: str


def navigation_entries(root: etree._Element, member: str, paths: Paths) -> list[Entry]:
    """Return the entries of a navigation document."""
    parts = [element for element in root.iter() if name_of(element) == "nav"]
    for part in parts:
        if "toc" in (part.get(_TYPE) or part.get("epub:type") or "").split():
            return _entries(_nav_lines(part), member, paths)
    untyped = [part for part in parts if not part.get(_TYPE) and not part.get("epub:type")]
    return _entries(_nav_lines(untyped[0]), member, paths) if untyped else []


def ncx_entries(root: etree._Element, member: str, paths: Paths) -> list[Entry]:
    """Return the entries of an NCX."""
    for element in root.iter():
        if name_of(element) == "navmap":
            return _entries(_ncx_lines(element), member, paths)
    return []


def name_of(element: etree._Element) -> str:
    """Return the name of a tag in lower case; pages read as HTML have no other."""
    return local(element).lower()


def _entries(lines: Iterator[_Line], base: str, paths: Paths) -> list[Entry]:
    """Give each line its place. One that has none begins where the next line does."""
    entries: list[Entry] = []
    waiting: list[_Line] = []
    for line in lines:
        waiting = [above for above in waiting if above.depth < line.depth]
        if not line.href:
            waiting.append(line)
        elif member := paths.member(base, line.href):
            place = member, fragment_of(line.href)
            entries += (
                Entry(one.depth, one.label, *place) for one in (*waiting, line) if one.label
            )
            waiting = []
    return entries


def _nav_lines(nav: etree._Element) -> Iterator[_Line]:
    depth, expected = 0, False
    for event, element in etree.iterwalk(nav, events=("start", "end")):
        name = name_of(element)
        if name == "ol":
            depth += 1 if event == "start" else -1
        elif name == "li":
            expected = event == "start"
        elif expected and name in ("a", "span"):
            expected = False
            yield _Line(depth, _label(element), element.get("href", ""))


@dataclass(slots=True)
class _Point:
    """A point of an NCX that is open. It is told once all is known that stands before its parts."""

    label: str = ""
    href: str = ""
    told: bool = False


def _ncx_lines(nav_map: etree._Element) -> Iterator[_Line]:
    points: list[_Point] = []
    for event, element in etree.iterwalk(nav_map, events=("start", "end")):
        name = name_of(element)
        if name == "navpoint":
            if points and not points[-1].told:
                points[-1].told = True
                yield _Line(len(points), points[-1].label, points[-1].href)
            if event == "start":
                points.append(_Point())
            else:
                points.pop()
        elif points and name == "text":
            points[-1].label = points[-1].label or _label(element)
        elif points and name == "content":
            points[-1].href = points[-1].href or element.get("src", "")


def _label(element: etree._Element) -> str:
    return one_line("".join(str(text) for text in element.itertext())) or ""


class BookPlaces:
    """The place that the reading has come to. It is given each page, and each piece of it."""

    def __init__(self) -> None:
        self._places = HeadingPlaces()
        self._due: list[Entry] = []
        """Entries that point to a place that was passed: the next piece is the first behind it."""
        self._anchored: dict[str, list[Entry]] = {}
        self._listed = self._titling = self._section_listed = False

    def begin_page(self, entries: Sequence[Entry]) -> None:
        """Begin a page to which these entries point."""
        self._due += (entry for entry in entries if not entry.fragment)
        self._anchored = defaultdict(list)
        for entry in entries:
            if entry.fragment:
                self._anchored[entry.fragment].append(entry)
        self._listed = self._titling = False

    def enter(self, piece: Piece) -> Place:
        """Take the next piece, and return its place."""
        here, later = self._reached(piece)
        for entry in (*self._due, *here):
            self._begin(entry, piece.level)
        if not here and not self._due:
            self._follow(piece)
        elif piece.text and not piece.level:
            self._titling = False
        self._due = later
        return Place(self._places.chapter, self._places.section)

    def _reached(self, piece: Piece) -> tuple[list[Entry], list[Entry]]:
        """Return the entries that point to this piece, and those that point into it.

        A label must not stand before its place, so it waits for the next piece, except where the
        place is within a heading: that is one sentence, and says of itself what begins.
        """
        here: list[Entry] = []
        later: list[Entry] = []
        for offset, mark in piece.marks:
            if isinstance(mark, Anchor):
                reached = here if offset == 0 or piece.level else later
                reached += self._anchored.pop(mark.id, ())
        return here, later

    def _begin(self, entry: Entry, level: int) -> None:
        self._listed = self._titling = True
        self._section_listed = entry.depth > 1
        if self._section_listed:
            self._places.begin_section(entry.label)
        else:
            self._places.begin_chapter(entry.label, level)

    def _follow(self, piece: Piece) -> None:
        """Take a piece that no entry points to."""
        if not piece.text:
            return
        if not self._listed:
            self._places.enter(piece.level, piece.text)
        elif not piece.level:
            self._titling = False
        elif self._titling:
            self._places.lead(piece.level)
        elif not self._section_listed and not self._says_the_same(piece.text):
            self._places.begin_section(piece.text)

    def _says_the_same(self, heading: str) -> bool:
        said, label = _words(heading), _words(self._places.chapter or "")
        return not said or said in label or (bool(label) and label in said)


def _words(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())
