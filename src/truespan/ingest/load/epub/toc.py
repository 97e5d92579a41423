"""The table of contents of a book: the navigation document of EPUB 3, or the NCX of EPUB 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import lxml.etree as etree

from truespan.ingest.load.epub.paths import Paths, fragment_of
from truespan.ingest.load.html.head import one_line
from truespan.ingest.load.xml import local

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
