"""The text of a block while it is read, with white space as browsers show it, and its pictures."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from truespan.types.text import Figure, Image, PictureCounts


class Picture(NamedTuple):
    """A picture in a page. `source` may be empty, an address, or a data URL."""

    alt: str
    source: str


class Page(NamedTuple):
    """The position where a page of the printed book begins."""

    number: int


class Anchor(NamedTuple):
    """The position that a table of contents points to."""

    id: str


Mark = Picture | Page | Anchor


class PlacedMark(NamedTuple):
    """A mark at an offset of the text around it."""

    offset: int
    mark: Mark


class Flow(NamedTuple):
    """Text and the marks in it, in order."""

    text: str
    marks: tuple[PlacedMark, ...] = ()


class Position(NamedTuple):
    """A position in the text of an `Inline`: the number of the block, and the index of the part."""

    block: int
    part: int


# A NUL stands for a line break: no page can hold one, because the parser removes them. The sign for
# a mark is removed from the text here, in the few blocks that have marks.
_BREAK, MARK_SIGN = "\0", "\x01"
_SPECIAL_RUN = re.compile(f"[ {_BREAK}{MARK_SIGN}]{{2,}}|[{_BREAK}{MARK_SIGN}]")
_EDGES = re.compile(f"\\A[ \n{MARK_SIGN}]+|[ \n{MARK_SIGN}]+\\Z")
_INVISIBLE = f" \t\r\n\f{_BREAK}{MARK_SIGN}"
_MOST_PARTS = 16
_MOST_BREAKS = 2
"""Two line breaks are a blank line; more of them mean the same."""


class Inline:
    """Collects the text of a block."""

    __slots__ = ("_marks", "_taken", "add", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        """The text so far; public, because the check whether it is empty must cost nothing."""
        self._marks: dict[int, Mark] = {}
        self._taken = 0
        self.add = self.parts.append
        """Add text as it is in the source."""

    def break_line(self) -> None:
        """Begin a new line, as `<br>` does."""
        self.add(_BREAK)

    def begin_line(self) -> None:
        """Begin a new line unless the text is at the beginning of one."""
        if self.parts and not self.parts[-1].endswith((_BREAK, "\n")):
            self.add(_BREAK)

    def mark(self, mark: Mark) -> None:
        """Put a mark at the current position."""
        self._marks[len(self.parts)] = mark
        self.add(MARK_SIGN)

    def position(self) -> Position:
        """Return the current position, for `text_since`."""
        return Position(self._taken, len(self.parts))

    def text_since(self, position: Position) -> str | None:
        """Return the text after a position.

        None if its block has ended, if it contains marks, or if it has many parts: the limit keeps
        deeply nested links from taking quadratic time.
        """
        end = len(self.parts)
        if position.block != self._taken or end - position.part > _MOST_PARTS:
            return None
        if any(place in self._marks for place in range(position.part, end)):
            return None
        return "".join(self.parts[position.part :])

    def replace_since(self, position: Position, text: str) -> None:
        """Replace the text that `text_since` returns."""
        del self.parts[position.part :]
        self.add(text)

    def is_blank_before(self, position: Position) -> bool:
        """Return whether a position is at the beginning of its block."""
        if position.part > _MOST_PARTS:
            return False
        return not any(part.strip(_INVISIBLE) for part in self.parts[: position.part])

    def is_bracketed(self, position: Position) -> bool:
        """Return whether a bracket opens right before a position."""
        return position.part > 0 and self.parts[position.part - 1].endswith(("[", "("))

    def add_flow(self, flow: Flow) -> None:
        """Add text with its marks."""
        done = 0
        for offset, mark in flow.marks:
            self.add(flow.text[done:offset])
            self.mark(mark)
            done = offset
        self.add(flow.text[done:])

    def take(self, *, breaks: bool = True) -> Flow:
        """Return the text with white space collapsed, and start a new block.

        Without `breaks` a line break is white space like any other.
        """
        if not self.parts:
            return _EMPTY
        text = collapse_spaces(self._join_parts())
        if not self._marks and _BREAK not in text:
            return Flow(text.strip(" "))
        text = _SPECIAL_RUN.sub(lambda run: _collapse_run(run[0], breaks), text)
        return self._place_marks(
            _EDGES.sub(lambda edge: MARK_SIGN * edge[0].count(MARK_SIGN), text)
        )

    def take_plain(self) -> str | None:
        """Do the same as `take`, but return None and keep the text if it has marks or line breaks.

        Nearly all blocks have neither, and this is much faster.
        """
        if self._marks:
            return None
        parts = self.parts
        text = parts[0] if len(parts) == 1 else "".join(parts)
        if _BREAK in text:
            return None
        parts.clear()
        self._taken += 1
        return collapse_spaces(text).strip(" ")

    def take_verbatim(self) -> Flow:
        """Return the text unchanged, without a line break at its start, and start a new block."""
        text = self._join_parts().replace("\r\n", "\n").replace(_BREAK, "\n")
        return self._place_marks(text.removeprefix("\n"))

    def _join_parts(self) -> str:
        """Return all parts as one text; signs for marks are removed from text that has marks."""
        parts = self.parts
        if self._marks:
            for place, part in enumerate(parts):
                if MARK_SIGN in part and place not in self._marks:
                    parts[place] = part.replace(MARK_SIGN, "")
        text = "".join(parts)
        parts.clear()
        self._taken += 1
        return text

    def _place_marks(self, text: str) -> Flow:
        if not self._marks:
            return Flow(text)
        pieces, placed, offset = text.split(MARK_SIGN), [], 0
        for piece, mark in zip(pieces, self._marks.values(), strict=False):
            offset += len(piece)
            placed.append(PlacedMark(offset, mark))
        self._marks.clear()
        return Flow("".join(pieces), tuple(placed))


_EMPTY = Flow("")


def collapse_spaces(text: str) -> str:
    """Replace each run of spaces and line breaks with one space.

    Other white space stays, as in a browser. Each step halves the longest run, so that even a run
    of millions takes only a few passes; a regular expression is far slower.
    """
    # Checked first, because most of the many short texts have none of them.
    for sign in "\n\t\r\f":
        if sign in text:
            text = text.replace(sign, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _collapse_run(run: str, breaks: bool) -> str:
    """Return what a browser shows of a run of spaces, breaks and marks: its breaks or one space."""
    white, room = ("\n", _MOST_BREAKS) if breaks and _BREAK in run else (" ", 1)
    result: list[str] = []
    for sign in run:
        if sign == MARK_SIGN:
            result.append(sign)
        elif room and (white == " " or sign == _BREAK):
            result.append(white)
            room -= 1
    return "".join(result)


Attributes = Mapping[str, str]
"""The attributes of an element by name, in lower case and with the usual prefixes."""

MEANINGFUL = frozenset({"hidden", "aria-hidden", "style", "role", "epub:type"})
"""Attributes that can change the meaning of an element."""

BASIC = ("id", "name", "hidden", "style", "role", "src", "alt", "title")
"""The attributes that are read of an element with very many attributes."""

_HIDING_STYLE = re.compile(
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
    """Return whether a browser or a screen reader does not show an element."""
    # "until-found" hides text that readers can find with the search of the browser.
    if "hidden" in attributes and attributes["hidden"].strip().lower() != "until-found":
        return True
    if attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    return bool(_HIDING_STYLE.search(attributes.get("style", ""), 0, _LONGEST_STYLE))


def is_block(attributes: Attributes) -> bool:
    """Return whether the style of an element makes it a block."""
    return bool(_BLOCK.search(attributes.get("style", ""), 0, _LONGEST_STYLE))


def effective_tag(tag: str, attributes: Attributes) -> str:
    """Return the tag that the role or type of an element stands for; else its own."""
    for word in attributes.get("epub:type", "")[:200].lower().split():
        if word in _TYPE_TAGS:
            return _TYPE_TAGS[word]
    for word in attributes.get("role", "")[:200].lower().split():
        if word in _ROLE_TAGS:
            role_tag = _ROLE_TAGS[word]
            return tag if tag in _KEEPS_ITS_TAG and role_tag in _KEEPS_ITS_TAG else role_tag
    return tag


def is_layout(attributes: Attributes) -> bool:
    """Return whether the role of an element says that it is only layout."""
    return attributes.get("role", "").strip().lower() in ("presentation", "none")


def page_number(label: str | None) -> int | None:
    """Return the number in the label of a page; None for Roman numbers and other labels."""
    found = _PAGE_LABEL.fullmatch(label[:100]) if label else None
    return int(found[1]) if found and int(found[1]) else None


def read_picture(tag: str, attributes: Attributes) -> Picture | None:
    """Return the picture of an element; None if it is decoration or a tracking pixel."""
    if is_layout(attributes) or attributes.get("aria-hidden", "").strip().lower() == "true":
        return None
    if all(_ONE_PIXEL.fullmatch(attributes.get(side, "")[:20]) for side in ("width", "height")):
        return None
    source = next((attributes[name] for name in _SOURCES[tag] if attributes.get(name)), "")
    # Pages that load pictures lazily put a placeholder into `src`.
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
    """A picture in an archive. `media_type` may be empty.

    `read` returns None if the archive has no such member.
    """

    name: str
    media_type: str
    read: Callable[[], bytes | None]
    exists: bool


Finder = Callable[[str], Member | None]
"""Resolves an address to a member; None if it leads out of the archive."""


@dataclass(slots=True)
class Pictures:
    """The pictures found so far. Bytes are read only if `wanted`, and once for each picture."""

    wanted: bool
    find: Finder = lambda _: None
    images: list[Image] = field(default_factory=list)
    _indexes: dict[str, int | None] = field(default_factory=dict)
    _total: int = 0
    _sourced: int = 0
    _mapped: int = 0
    _missing: int = 0

    def figure(self, picture: Picture) -> Figure:
        """Count a picture and return it as a figure."""
        self._total += 1
        source = picture.source.strip()
        if not source:
            return Figure(picture.alt)
        self._sourced += 1
        if found := _DATA.match(source):
            self._mapped += 1
            image = self._add_image(source, lambda: _decode_data_url(found, source))
            return Figure(picture.alt, f"data:{found['type'].lower()}", image)
        member = self.find(source)
        if member is None:
            return Figure(picture.alt, source[:_LONGEST_ORIGIN])
        self._mapped += 1
        self._missing += not member.exists

        def read_member() -> Image | None:
            extension = extension_of(member.media_type, member.name)
            content = member.read() if extension else None
            return Image(extension, content) if extension and content else None

        image = self._add_image(member.name, read_member)
        # An alternative text that is only the name of the file, with or without folders, is noise.
        file_name = picture.alt.replace("\\", "/").lstrip("./").lower()
        is_name = file_name and f"/{member.name.lower()}".endswith(f"/{file_name}")
        return Figure("" if is_name else picture.alt, member.name[:_LONGEST_ORIGIN], image)

    def counts(self) -> PictureCounts:
        """Return the number of pictures found, with a source, resolved and missing."""
        return PictureCounts(self._total, self._sourced, self._mapped, self._missing)

    def _add_image(self, key: str, read: Callable[[], Image | None]) -> int | None:
        if not self.wanted:
            return None
        if key not in self._indexes:
            image = read()
            self._indexes[key] = len(self.images) if image else None
            if image:
                self.images.append(image)
        return self._indexes[key]


def extension_of(media_type: str, name: str = "") -> str | None:
    """Return the file extension for a media type, or that of the name; None if not a picture."""
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type in _EXTENSIONS:
        return _EXTENSIONS[media_type]
    ending = name.rpartition(".")[2].lower()
    ending = {"jpeg": "jpg", "tiff": "tif"}.get(ending, ending)
    return ending if ending in _EXTENSIONS.values() else None


def _decode_data_url(found: re.Match[str], source: str) -> Image | None:
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
