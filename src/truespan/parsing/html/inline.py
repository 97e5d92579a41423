"""The text of one block while it is read: white space as a page shows it, and marks in it."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from truespan.types.text import Figure, Image, PictureCounts


class Picture(NamedTuple):
    """A picture as a page names it. `source` may be empty, an address, or the bytes themselves."""

    alt: str
    source: str


class Page(NamedTuple):
    """A place where a page of the printed book begins."""

    number: int


class Anchor(NamedTuple):
    """A place that a table of contents points to."""

    id: str


Mark = Picture | Page | Anchor


class PlacedMark(NamedTuple):
    """A mark at an offset of the text around it."""

    offset: int
    mark: Mark


class Flow(NamedTuple):
    """A text and the marks in it, in order."""

    text: str
    marks: tuple[PlacedMark, ...] = ()


class Spot(NamedTuple):
    """A place in a text that is being gathered: the block it is in, and the part it is before."""

    block: int
    part: int


# No page can hold a NUL, because whoever feeds the reading takes it out, so it is free to stand for
# a line break. The other sign is taken out here, in the few blocks that have marks.
_BREAK, PLACE = "\0", "\x01"
_SIGNED_RUN = re.compile(f"[ {_BREAK}{PLACE}]{{2,}}|[{_BREAK}{PLACE}]")
_EDGES = re.compile(f"\\A[ \n{PLACE}]+|[ \n{PLACE}]+\\Z")
_UNSEEN = f" \t\r\n\f{_BREAK}{PLACE}"
_MOST_PARTS = 16
_MOST_BREAKS = 2
"""Two line breaks are a blank line; more of them say nothing more."""


class Inline:
    """Text on its way into a block."""

    __slots__ = ("_marks", "_taken", "add", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        """What was gathered. It is public because to look whether it is empty must cost nothing."""
        self._marks: dict[int, Mark] = {}
        self._taken = 0
        self.add = self.parts.append
        """Take a piece of text as it stands in the source."""

    def break_line(self) -> None:
        """Begin a new line, as `<br>` does."""
        self.add(_BREAK)

    def begin_line(self) -> None:
        """Begin a new line unless one has just begun."""
        if self.parts and not self.parts[-1].endswith((_BREAK, "\n")):
            self.add(_BREAK)

    def mark(self, mark: Mark) -> None:
        """Put a mark at the current place."""
        self._marks[len(self.parts)] = mark
        self.add(PLACE)

    def here(self) -> Spot:
        """Return the current place, so that what follows it can be looked at again."""
        return Spot(self._taken, len(self.parts))

    def since(self, spot: Spot) -> str | None:
        """Return the text behind a place.

        None when its block has ended, when there are marks in it, or when it is in many parts: so
        that links within links, however many, are looked through in no time.
        """
        end = len(self.parts)
        if spot.block != self._taken or end - spot.part > _MOST_PARTS:
            return None
        if any(place in self._marks for place in range(spot.part, end)):
            return None
        return "".join(self.parts[spot.part :])

    def put_since(self, spot: Spot, text: str) -> None:
        """Put a text in the place of what `since` returns."""
        del self.parts[spot.part :]
        self.add(text)

    def is_blank_before(self, spot: Spot) -> bool:
        """Say whether a place is at the beginning of its block."""
        if spot.part > _MOST_PARTS:
            return False
        return not any(part.strip(_UNSEEN) for part in self.parts[: spot.part])

    def is_bracketed(self, spot: Spot) -> bool:
        """Say whether a bracket opens right before a place."""
        return spot.part > 0 and self.parts[spot.part - 1].endswith(("[", "("))

    def add_flow(self, flow: Flow) -> None:
        """Take text that has marks already."""
        done = 0
        for offset, mark in flow.marks:
            self.add(flow.text[done:offset])
            self.mark(mark)
            done = offset
        self.add(flow.text[done:])

    def take(self, *, breaks: bool = True) -> Flow:
        """Give out what was gathered, with white space collapsed, and begin anew.

        Without `breaks` a line break is white space like any other.
        """
        if not self.parts:
            return _NOTHING
        text = collapsed(self._joined())
        if not self._marks and _BREAK not in text:
            return Flow(text.strip(" "))
        text = _SIGNED_RUN.sub(lambda run: _shown(run[0], breaks), text)
        return self._placed(_EDGES.sub(lambda edge: PLACE * edge[0].count(PLACE), text))

    def take_plain(self) -> str | None:
        """Give out a text as `take` does; None, with nothing taken, if it has marks or breaks.

        Nearly all blocks are such, and they are by far the quicker to make.
        """
        if self._marks:
            return None
        parts = self.parts
        text = parts[0] if len(parts) == 1 else "".join(parts)
        if _BREAK in text:
            return None
        parts.clear()
        self._taken += 1
        return collapsed(text).strip(" ")

    def take_verbatim(self) -> Flow:
        """Give out what was gathered as it stands, without the line end that may open it."""
        text = self._joined().replace("\r\n", "\n").replace(_BREAK, "\n")
        return self._placed(text.removeprefix("\n"))

    def _joined(self) -> str:
        """Return all parts as one text; where there are marks, nothing else has their sign."""
        parts = self.parts
        if self._marks:
            for place, part in enumerate(parts):
                if PLACE in part and place not in self._marks:
                    parts[place] = part.replace(PLACE, "")
        text = "".join(parts)
        parts.clear()
        self._taken += 1
        return text

    def _placed(self, text: str) -> Flow:
        if not self._marks:
            return Flow(text)
        pieces, placed, offset = text.split(PLACE), [], 0
        for piece, mark in zip(pieces, self._marks.values(), strict=False):
            offset += len(piece)
            placed.append(PlacedMark(offset, mark))
        self._marks.clear()
        return Flow("".join(pieces), tuple(placed))


_NOTHING = Flow("")


def collapsed(text: str) -> str:
    """Return `text` with each run of spaces and line ends as one space.

    Other white space is left alone, as a page does. Each step halves what is left of the longest
    run, so even one of millions takes no longer than a few passes; an expression is far slower.
    """
    # Asked first and one by one, because most of the many short texts have none of them.
    if "\n" in text:
        text = text.replace("\n", " ")
    if "\t" in text:
        text = text.replace("\t", " ")
    if "\r" in text:
        text = text.replace("\r", " ")
    if "\f" in text:
        text = text.replace("\f", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _shown(run: str, breaks: bool) -> str:
    """Return what a page shows of a run of spaces, breaks and marks: its breaks, else one space."""
    white, room = ("\n", _MOST_BREAKS) if breaks and _BREAK in run else (" ", 1)
    shown: list[str] = []
    for sign in run:
        if sign == PLACE:
            shown.append(sign)
        elif room and (white == " " or sign == _BREAK):
            shown.append(white)
            room -= 1
    return "".join(shown)


Attributes = Mapping[str, str]
"""The attributes of an element, by their names in lower case and with the usual prefixes."""

NOTABLE = frozenset({"hidden", "aria-hidden", "style", "role", "epub:type"})
"""Attributes that change what an element is."""

KNOWN = ("id", "name", "hidden", "style", "role", "src", "alt", "title")
"""The least that is asked of an element with more attributes than any page has."""

_ATTRIBUTES_UNSEEN = re.compile(
    r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b", re.IGNORECASE
)
_BLOCK = re.compile(
    r"(?:^|[;\s])display\s*:\s*(?:block|flex|grid|list-item|table|flow-root)\b", re.IGNORECASE
)
_LONGEST_STYLE = 10_000
_ROLE_TAGS = {
    "main": "main",
    "navigation": "nav",
    "doc-toc": "nav",
    "menu": "nav",
    "menubar": "nav",
    "heading": "heading",
    "doc-pagebreak": "pagebreak",
    "doc-footnote": "footnote",
    "doc-endnote": "footnote",
    "list": "ul",
    "listitem": "li",
}
_TYPE_TAGS = {
    "pagebreak": "pagebreak",
    "footnote": "footnote",
    "endnote": "footnote",
    "rearnote": "footnote",
}
_KEEPS_ITS_TAG = frozenset({"ul", "ol", "li", "menu", "table"})
_PAGE_LABEL = re.compile(r"\s*(?:(?:page|p|pg)\b\.?)?\s*(\d{1,6})\s*\.?\s*", re.IGNORECASE)
_ONE_PIXEL = re.compile(r"\s*[01](?:px)?\s*", re.IGNORECASE)


def is_hidden(attributes: Attributes) -> bool:
    """Say whether a page does not show an element, or not to everyone."""
    # What waits for a search within the page is there for its readers.
    if "hidden" in attributes and attributes["hidden"].strip().lower() != "until-found":
        return True
    if attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    return bool(_ATTRIBUTES_UNSEEN.search(attributes.get("style", ""), 0, _LONGEST_STYLE))


def is_block(attributes: Attributes) -> bool:
    """Say whether an element stands on lines of its own by its style."""
    return bool(_BLOCK.search(attributes.get("style", ""), 0, _LONGEST_STYLE))


def played_tag(tag: str, attributes: Attributes) -> str:
    """Return the tag whose part an element plays, by its role or type; else its own."""
    for word in attributes.get("epub:type", "")[:200].lower().split():
        if word in _TYPE_TAGS:
            return _TYPE_TAGS[word]
    for word in attributes.get("role", "")[:200].lower().split():
        if word in _ROLE_TAGS:
            played = _ROLE_TAGS[word]
            return tag if tag in _KEEPS_ITS_TAG and played in _KEEPS_ITS_TAG else played
    return tag


def is_layout(attributes: Attributes) -> bool:
    """Say whether an element is there for the looks alone."""
    return attributes.get("role", "").strip().lower() in ("presentation", "none")


def page_number(label: str | None) -> int | None:
    """Return the number of a page by its label; None for Roman numbers and the like."""
    found = _PAGE_LABEL.fullmatch(label[:100]) if label else None
    return int(found[1]) if found and int(found[1]) else None


def picture_of(tag: str, attributes: Attributes) -> Picture | None:
    """Return the picture that an element shows; None when it is no part of the text."""
    if is_layout(attributes) or attributes.get("aria-hidden", "").strip().lower() == "true":
        return None
    if all(_ONE_PIXEL.fullmatch(attributes.get(side, "")[:20]) for side in ("width", "height")):
        return None
    source = next((attributes[name] for name in _SOURCES[tag] if attributes.get(name)), "")
    # A page that loads its pictures late names the real one apart from the stand-in.
    if source.startswith("data:") and attributes.get("data-src"):
        source = attributes["data-src"]
    alt = attributes.get("alt") or attributes.get("aria-label") or ""
    return Picture(" ".join(alt.split()), source)


_SOURCES = {
    "img": ("src", "data-src"),
    "input": ("src",),
    "image": ("xlink:href", "href"),
    "object": ("data",),
}


LARGEST_IMAGE = 32 << 20
_LONGEST_ORIGIN = 200
_EXTENSIONS = {
    "image/png": "png",
    "image/apng": "png",
    "image/jpeg": "jpg",
    "image/jpg": "jpg",
    "image/pjpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
    "image/svg+xml": "svg",
    "image/bmp": "bmp",
    "image/x-ms-bmp": "bmp",
    "image/tiff": "tif",
    "image/x-icon": "ico",
    "image/vnd.microsoft.icon": "ico",
}
_DATA = re.compile(
    r"\s*data:(?P<type>[\w.+/-]{0,80})(?P<options>[^,]{0,200}),", re.IGNORECASE | re.ASCII
)


class Member(NamedTuple):
    """Where in an archive a picture lies. `media_type` is what the archive says it is, if it does.

    `read` gives None when there is no such member.
    """

    name: str
    media_type: str
    read: Callable[[], bytes | None]
    exists: bool


Finder = Callable[[str], Member | None]
"""Finds the member that an address leads to; None when it leads out of the archive."""


@dataclass(slots=True)
class Pictures:
    """The pictures met so far. Bytes are read only if they are `wanted`, and once each."""

    wanted: bool
    find: Finder = lambda _: None
    images: list[Image] = field(default_factory=list)
    _known: dict[str, int | None] = field(default_factory=dict)
    _met: int = 0
    _sourced: int = 0
    _mapped: int = 0
    _missing: int = 0

    def figure(self, picture: Picture) -> Figure:
        """Count a picture, and return it as a figure."""
        self._met += 1
        source = picture.source.strip()
        if not source:
            return Figure(picture.alt)
        self._sourced += 1
        if found := _DATA.match(source):
            self._mapped += 1
            image = self._once(source, lambda: _embedded(found, source))
            return Figure(picture.alt, f"data:{found['type'].lower()}", image)
        member = self.find(source)
        if member is None:
            return Figure(picture.alt, source[:_LONGEST_ORIGIN])
        self._mapped += 1
        self._missing += not member.exists
        image = self._once(member.name, lambda: _packed(member))
        alt = "" if _is_name(picture.alt, member.name) else picture.alt
        return Figure(alt, member.name[:_LONGEST_ORIGIN], image)

    def counts(self) -> PictureCounts:
        """Return how the search for pictures went."""
        return PictureCounts(self._met, self._sourced, self._mapped, self._missing)

    def _once(self, key: str, read: Callable[[], Image | None]) -> int | None:
        if not self.wanted:
            return None
        if key not in self._known:
            image = read()
            self._known[key] = len(self.images) if image else None
            if image:
                self.images.append(image)
        return self._known[key]


def extension_of(media_type: str, name: str = "") -> str | None:
    """Return the ending for a type of picture, or the one that a name has; None for others."""
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type in _EXTENSIONS:
        return _EXTENSIONS[media_type]
    ending = name.rpartition(".")[2].lower()
    ending = {"jpeg": "jpg", "tiff": "tif"}.get(ending, ending)
    return ending if ending in _EXTENSIONS.values() else None


def _is_name(alt: str, member: str) -> bool:
    """Say whether a description is only the name of the file, with or without its folders."""
    named = alt.replace("\\", "/").lstrip("./").lower()
    return bool(named) and f"/{member.lower()}".endswith(f"/{named}")


def _packed(member: Member) -> Image | None:
    extension = extension_of(member.media_type, member.name)
    content = member.read() if extension else None
    return Image(extension, content) if extension and content else None


def _embedded(found: re.Match[str], source: str) -> Image | None:
    extension = extension_of(found["type"])
    if extension is None or "base64" not in found["options"].lower():
        return None
    if (len(source) - found.end()) * 3 // 4 > LARGEST_IMAGE:
        return None
    try:
        content = binascii.a2b_base64(unquote_to_bytes(source[found.end() :]))
    except ValueError:
        return None
    return Image(extension, content) if content else None
