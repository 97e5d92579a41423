"""Notes of a page: the marks that refer to them, the ways back, and the elements that hold them.

A mark is written in square brackets, against the word that it belongs to and with nothing between:
`word[1]`. So no word is changed by it, and none is moved away from the punctuation around it. The
mark that a note itself begins with has a space behind it: `[1] The note.` Ways back lead nowhere
in a text, and are left out.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from truespan.ingest.load.html.attributes import Attributes
from truespan.ingest.load.html.open import Closing, Open

_REFERENCES = frozenset({"noteref", "doc-noteref"})
_REFERENCE_CLASSES = frozenset({"footnote-ref", "sdfootnoteanc", "sdendnoteanc"})
_OWN_CLASSES = frozenset({"sdfootnotesym", "sdendnotesym"})
_WAYS_BACK = frozenset({"backlink", "doc-backlink"})
_NOTE_CLASSES = frozenset({"footnotes", "footnote"})
_NOTE_ID = re.compile(r"sd(?:foot|end)note\d{1,6}")

_RAISED_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_MARK = re.compile(
    r"(?P<open>[\[(])?\s*(?P<mark>\d{1,4}|[*†‡§¶]{1,4}|[ivxlc]{1,8}|[^\W\d_]{1,3})\s*(?(open)[\])])",
    re.IGNORECASE,
)
_BACK = re.compile("(?:[↩↑↵⤴][\ufe0e\ufe0f]?\\s*\\d{0,3}|\\^)[\ufe0e\ufe0f]?")
_LONGEST_MARK, _LONGEST_WAY_BACK = 20, 40
"""Characters beyond which a link is text, whatever it says of itself."""


class _Purpose(Enum):
    """What a link is for, as far as its attributes tell."""

    REFERENCE = auto()
    BACK = auto()
    WITHIN = auto()
    """It leads to a place in the document, which may be a note."""


def open_link(page: Open, _: str, attributes: Attributes) -> Closing:
    """Begin a link; where it ends, its text tells whether it is the mark of a note."""
    page.links += 1
    purpose = _purpose(attributes) if attributes and not page.code else None
    if purpose is None:
        return page.close_link
    inline, began, raisings = page.inline, page.inline.here(), page.raisings
    raised = page.raised > 0

    def close() -> None:
        page.links -= 1
        text = inline.since(began)
        if text is None:
            return
        at_start = inline.is_blank_before(began)
        meant = purpose is _Purpose.REFERENCE or raised or page.raisings > raisings
        written = _written(text, purpose, meant or (at_start and page.notes > 0), at_start)
        if written is not None and not inline.is_bracketed(began):
            inline.put_since(began, written)

    return close


def open_raised(page: Open, *_: object) -> Closing:
    """Begin what stands above the line."""
    page.raised += 1
    page.raisings += 1
    return page.close_raised


def holds_notes(attributes: Attributes) -> bool:
    """Say whether an element holds a note or several, by the names that writing programs give."""
    if not _NOTE_CLASSES.isdisjoint(_words(attributes, "class")):
        return True
    return bool(_NOTE_ID.fullmatch(attributes.get("id", "")[:40]))


def _purpose(attributes: Attributes) -> _Purpose | None:
    said = {*_words(attributes, "epub:type"), *_words(attributes, "role")}
    if said & _WAYS_BACK:
        return _Purpose.BACK
    called = _words(attributes, "class")
    if said & _REFERENCES or not (_REFERENCE_CLASSES | _OWN_CLASSES).isdisjoint(called):
        return _Purpose.REFERENCE
    address = attributes.get("href", "")[:1000]
    return _Purpose.WITHIN if "#" in address and "://" not in address else None


def _words(attributes: Attributes, name: str) -> list[str]:
    return attributes[name][:200].lower().split() if name in attributes else []


def _written(text: str, purpose: _Purpose, meant: bool, at_start: bool) -> str | None:
    """Return what a link reads as; None when it reads as it stands."""
    bare = text.strip()
    if len(bare) <= _LONGEST_MARK and _BACK.fullmatch(bare):
        return ""
    plain = bare.translate(_RAISED_DIGITS)
    found = _MARK.fullmatch(plain) if len(plain) <= _LONGEST_MARK else None
    if purpose is _Purpose.BACK and not (found and at_start):
        return "" if len(bare) <= _LONGEST_WAY_BACK else None
    if not found or not (meant or plain != bare or purpose is _Purpose.BACK):
        return None
    before = " " if text[0].isspace() else ""
    after = " " if at_start or text[-1].isspace() else ""
    return f"{before}[{found['mark']}]{after}"
