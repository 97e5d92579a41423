"""The text of a block with white space as browsers show it, attributes of elements, and links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple


class Picture(NamedTuple):
    """A picture in a page. `source` may be empty, an address, or a data URL."""

    alt: str
    source: str


class Page(NamedTuple):
    """The start of a page of the printed book."""

    number: int


class Anchor(NamedTuple):
    """A target of a table of contents."""

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


Position = tuple[int, int]
"""A position in the text of an `Inline`: the number of the block, and the index of the part."""

# NUL stands for a line break; the parser removes it from pages. The sign for a mark is removed from
# the text of blocks with marks.
_BREAK, MARK_SIGN = "\0", "\x01"
_SPECIAL_RUN = re.compile(f"[ {_BREAK}{MARK_SIGN}]{{2,}}|[{_BREAK}{MARK_SIGN}]")
_EDGES = re.compile(f"\\A[ \n{MARK_SIGN}]+|[ \n{MARK_SIGN}]+\\Z")
_INVISIBLE = f" \t\r\n\f{_BREAK}{MARK_SIGN}"
_MAX_PARTS = 16
_MAX_BREAKS = 2


class Inline:
    """Collects the text of a block."""

    __slots__ = ("_marks", "_taken", "add", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        """Parts of the text so far; public for a fast check whether it is empty."""
        self._marks: dict[int, Mark] = {}
        self._taken = 0
        self.add = self.parts.append

    def break_line(self) -> None:
        self.add(_BREAK)

    def begin_line(self) -> None:
        """Begin a new line unless the text is at the start of one."""
        if self.parts and not self.parts[-1].endswith((_BREAK, "\n")):
            self.add(_BREAK)

    def mark(self, mark: Mark) -> None:
        self._marks[len(self.parts)] = mark
        self.add(MARK_SIGN)

    def position(self) -> Position:
        return self._taken, len(self.parts)

    def text_since(self, position: Position) -> str | None:
        """Return the text after a position."""
        # None if its block has ended, or if the text has marks or many parts; the limit avoids
        # quadratic time for deeply nested links.
        end = len(self.parts)
        if position[0] != self._taken or end - position[1] > _MAX_PARTS:
            return None
        if any(place in self._marks for place in range(position[1], end)):
            return None
        return "".join(self.parts[position[1] :])

    def replace_since(self, position: Position, text: str) -> None:
        """Replace the text that `text_since` returns, unless a bracket opens right before it."""
        if not position[1] or not self.parts[position[1] - 1].endswith(("[", "(")):
            del self.parts[position[1] :]
            self.add(text)

    def is_blank_before(self, position: Position) -> bool:
        if position[1] > _MAX_PARTS:
            return False
        return not any(part.strip(_INVISIBLE) for part in self.parts[: position[1]])

    def add_flow(self, flow: Flow) -> None:
        done = 0
        for offset, mark in flow.marks:
            self.add(flow.text[done:offset])
            self.mark(mark)
            done = offset
        self.add(flow.text[done:])

    def take(self, *, breaks: bool = True) -> Flow:
        """Return the text and start a new block; without `breaks`, line breaks become spaces."""
        if not self.parts:
            return _EMPTY
        text = collapse_spaces(self._join_parts())
        if not self._marks and _BREAK not in text:
            return Flow(text.strip(" "))
        text = _SPECIAL_RUN.sub(lambda run: _collapse_run(run[0], breaks), text)
        return self._place_marks(
            _EDGES.sub(lambda edge: MARK_SIGN * edge[0].count(MARK_SIGN), text)
        )

    def take_verbatim(self) -> Flow:
        """Return the text unchanged, without a line break at its start, and start a new block."""
        text = self._join_parts().replace("\r\n", "\n").replace(_BREAK, "\n")
        return self._place_marks(text.removeprefix("\n"))

    def _join_parts(self) -> str:
        """Join the parts; in a block with marks, remove stray signs for marks."""
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
    """Replace each run of spaces and line breaks with one space."""
    # Other white space is kept, as in a browser. Each step halves the longest run, so that a run of
    # millions takes few passes; a regular expression is far slower.
    # Checked first, because most texts have none.
    for sign in "\n\t\r\f":
        if sign in text:
            text = text.replace(sign, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _collapse_run(run: str, breaks: bool) -> str:
    """Return the visible part of a run of spaces, breaks and marks: its breaks or one space."""
    white, room = ("\n", _MAX_BREAKS) if breaks and _BREAK in run else (" ", 1)
    result: list[str] = []
    for sign in run:
        if sign == MARK_SIGN:
            result.append(sign)
        elif room and (white == " " or sign == _BREAK):
            result.append(white)
            room -= 1
    return "".join(result)


Attributes = Mapping[str, str]
"""Attributes of an element by name, in lower case and with the usual prefixes."""

MEANINGFUL = frozenset({"hidden", "aria-hidden", "style", "role", "epub:type"})
"""Attributes that can change the meaning of an element."""

BASIC = ("id", "name", "hidden", "style", "role", "src", "alt", "title")
"""Attributes that are read of an element with very many attributes."""

_HIDING_STYLE = re.compile(
    r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b", re.IGNORECASE
)
_BLOCK = re.compile(
    r"(?:^|[;\s])display\s*:\s*(?:block|flex|grid|list-item|table|flow-root)\b", re.IGNORECASE
)
_MAX_STYLE_LENGTH = 10_000
_ROLE_TAGS = {
    "main": "main", "navigation": "nav", "doc-toc": "nav", "menu": "nav", "menubar": "nav",
    "heading": "heading", "doc-pagebreak": "pagebreak", "doc-footnote": "footnote",
    "doc-endnote": "footnote", "list": "ul", "listitem": "li",
}  # fmt: skip
_TYPE_TAGS = {
    "pagebreak": "pagebreak",
    **dict.fromkeys(("footnote", "endnote", "rearnote"), "footnote"),
}
_KEEPS_ITS_TAG = frozenset({"ul", "ol", "li", "menu", "table"})
_PAGE_LABEL = re.compile(r"\s*+(?:(?:page|p|pg)\b\.?\s*+)?(\d{1,6})\s*+(?:\.\s*+)?", re.IGNORECASE)
_SOURCES = {
    "img": ("src", "data-src"),
    "input": ("src",),
    "image": ("xlink:href", "href"),
    "object": ("data",),
}
_ONE_PIXEL = re.compile(r"\s*[01](?:px)?\s*", re.IGNORECASE)


def is_hidden(attributes: Attributes) -> bool:
    # Text with "until-found" can be found with the search of the browser.
    if "hidden" in attributes and attributes["hidden"].strip().lower() != "until-found":
        return True
    if attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    return bool(_HIDING_STYLE.search(attributes.get("style", ""), 0, _MAX_STYLE_LENGTH))


def is_block(attributes: Attributes) -> bool:
    return bool(_BLOCK.search(attributes.get("style", ""), 0, _MAX_STYLE_LENGTH))


def effective_tag(tag: str, attributes: Attributes) -> str:
    """Return the tag that corresponds to the role or type of an element; else its own tag."""
    for word in attributes.get("epub:type", "")[:200].lower().split():
        if word in _TYPE_TAGS:
            return _TYPE_TAGS[word]
    for word in attributes.get("role", "")[:200].lower().split():
        if word in _ROLE_TAGS:
            role_tag = _ROLE_TAGS[word]
            return tag if tag in _KEEPS_ITS_TAG and role_tag in _KEEPS_ITS_TAG else role_tag
    return tag


def is_layout(attributes: Attributes) -> bool:
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
    # Pages that load pictures lazily have a placeholder in `src`.
    if source.startswith("data:") and attributes.get("data-src"):
        source = attributes["data-src"]
    alt = attributes.get("alt") or attributes.get("aria-label") or ""
    return Picture(" ".join(alt.split()), source)


_AHEAD_TYPES = frozenset(
    {"toc", "toc-brief", "landmarks", "page-list", "loi", "lot", "loa", "lov", "index"}
    | {"promotional-copy", "doc-toc", "doc-index", "doc-pagelist"}
)
_AHEAD_IDS = frozenset({"toc", "table-of-contents", "tableofcontents", "table_of_contents"})
_AHEAD_CLASS = re.compile(
    r"(?:mw-)?toc(?:[-_]?(?:list|entry|item|line|level|chapter|section|part|body|page)s?)?[-_]?\d*"
    r"|table[-_]?of[-_]?contents|toctree-wrapper|blurb"
    r"|list[-_]?of[-_]?(?:illustrations|plates|figures|maps|tables)"
)


def is_contents_list(attributes: Attributes) -> bool:
    for name in ("epub:type", "role"):
        if name in attributes and any(
            word.rpartition(":")[2] in _AHEAD_TYPES for word in _split_words(attributes, name)
        ):
            return True
    if "id" in attributes and attributes["id"][:40].lower() in _AHEAD_IDS:
        return True
    if "class" not in attributes:
        return False
    names = attributes["class"][:200].lower()
    # Fast check: hardly any class contains one of these.
    if "toc" not in names and "of" not in names and "blurb" not in names:
        return False
    return any(_AHEAD_CLASS.fullmatch(word) for word in names.split())


_REFERENCES = frozenset({"noteref", "doc-noteref"})
_REFERENCE_CLASSES = frozenset(
    {"footnote-ref", "sdfootnoteanc", "sdendnoteanc", "sdfootnotesym", "sdendnotesym"}
)
_BACK_ROLES = frozenset({"backlink", "doc-backlink"})
_NOTE_CLASSES = frozenset({"footnotes", "footnote"})
_NOTE_ID = re.compile(r"sd(?:foot|end)note\d{1,6}")

_SUPERSCRIPT_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_MARK = re.compile(
    r"(?P<open>[\[(])?\s*(?P<mark>\d{1,4}|[*†‡§¶]{1,4}|[ivxlc]{1,8}|[^\W\d_]{1,3})\s*(?(open)[\])])",
    re.IGNORECASE,
)
_BACK = re.compile("(?:[↩↑↵⤴][\ufe0e\ufe0f]?\\s*\\d{0,3}|\\^)[\ufe0e\ufe0f]?")
_MAX_MARK_LENGTH, _MAX_BACK_LINK_LENGTH = 20, 40
"""Maximum length of links to and from notes; longer links are text."""


LinkPurpose = Literal["reference", "back", "within"]
"""Purpose of a link by its attributes. A link within the document may point to a note."""


def find_purpose(attributes: Attributes) -> LinkPurpose | None:
    roles = {*_split_words(attributes, "epub:type"), *_split_words(attributes, "role")}
    if roles & _BACK_ROLES:
        return "back"
    if roles & _REFERENCES or not _REFERENCE_CLASSES.isdisjoint(_split_words(attributes, "class")):
        return "reference"
    address = attributes.get("href", "")[:1000]
    return "within" if "#" in address and "://" not in address else None


def holds_notes(attributes: Attributes) -> bool:
    """Return whether an element contains notes, by the names that common programs write."""
    if not _NOTE_CLASSES.isdisjoint(_split_words(attributes, "class")):
        return True
    return bool(_NOTE_ID.fullmatch(attributes.get("id", "")[:40]))


def _split_words(attributes: Attributes, name: str) -> list[str]:
    return attributes[name][:200].lower().split() if name in attributes else []


def format_note_link(
    text: str, purpose: LinkPurpose, is_reference: bool, at_start: bool
) -> str | None:
    """Return the replacement of a link to or from a note; None to keep the link."""
    bare = text.strip()
    if len(bare) <= _MAX_MARK_LENGTH and _BACK.fullmatch(bare):
        return ""
    plain = bare.translate(_SUPERSCRIPT_DIGITS)
    found = _MARK.fullmatch(plain) if len(plain) <= _MAX_MARK_LENGTH else None
    if purpose == "back" and not (found and at_start):
        return "" if len(bare) <= _MAX_BACK_LINK_LENGTH else None
    if not found or not (is_reference or plain != bare or purpose == "back"):
        return None
    before = " " if text[0].isspace() else ""
    after = " " if at_start or text[-1].isspace() else ""
    return f"{before}[{found['mark']}]{after}"
