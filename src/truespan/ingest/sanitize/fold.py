"""The text as the rules see it: look-alike characters as plain ones, and what is done out of sight.

Every function here keeps the length of a text, so that offsets in what the rules see are offsets in
the text itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from truespan.ingest.sanitize.audit import Finding

Words = Mapping[str, Sequence[str]]
"""Words to look for, under a part of them without which there is none."""

HIDDEN = "\ufdd0"
"""Stands for what no rule may look at. Clean text never holds it, for it is no character."""

_SPACES = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_DASHES = "\u2010-\u2013\u2212\ufe58\ufe63"
_SMALL = "\u2024\ufe52\ufe55\ufe66\ufe6b"
_WIDE = "\uff01-\uff5e\U0001d400-\U0001d7ff"
_DIGITS = (
    "\u0660-\u0669\u06f0-\u06f9\u07c0-\u07c9\u0966-\u096f\u09e6-\u09ef\u0a66-\u0a6f\u0ae6-\u0aef"
    "\u0b66-\u0b6f\u0be6-\u0bef\u0c66-\u0c6f\u0ce6-\u0cef\u0d66-\u0d6f\u0de6-\u0def\u0e50-\u0e59"
    "\u0ed0-\u0ed9\u0f20-\u0f29\u1040-\u1049\u17e0-\u17e9\u1810-\u1819"
)
_LOOK_ALIKE = re.compile(f"[{_SPACES}{_DASHES}{_SMALL}{_WIDE}{_DIGITS}]")
_DASH = re.compile(f"[{_DASHES}]")


def fold(text: str) -> str:
    """Return `text` with full-width letters, digits of any script and odd spaces made plain."""
    return text if text.isascii() else _LOOK_ALIKE.sub(_plain, text)


def _plain(found: re.Match[str]) -> str:
    char = found[0]
    if _DASH.match(char):
        return "-"
    digit = unicodedata.decimal(char, None)
    plain = unicodedata.normalize("NFKC", char) if digit is None else str(digit)
    return plain if len(plain) == 1 else char


def hide(view: str, spans: Iterable[Finding]) -> str:
    """Return `view` with each span out of sight; spans ascend and do not overlap."""
    parts: list[str] = []
    end = 0
    for span in spans:
        parts += [view[end : span.start], HIDDEN * (span.end - span.start)]
        end = span.end
    return "".join([*parts, view[end:]])


def hide_markers(text: str, view: str, labels: Iterable[str]) -> str:
    """Return `view` without the markers that an earlier run left in `text`."""
    # Not compiled anew each time: the module keeps what it compiled.
    marker = re.compile(rf"\[(?:{'|'.join(labels)})(?::[0-9a-f]{{10}})?\]")
    spans = [Finding(found.start(), found.end(), "", "") for found in marker.finditer(text)]
    return hide(view, spans)


def lowered(view: str) -> str:
    """Return `view` in lower case, as long as before."""
    lower = view.lower()
    if len(lower) == len(view):
        return lower
    return "".join(low if len(low := char.lower()) == 1 else char for char in view)


def by_part(words: Iterable[str], parts: Sequence[str]) -> Words:
    """Sort words by the first of some parts that they hold; the empty part takes the rest."""
    sorted_in: dict[str, list[str]] = {part: [] for part in (*parts, "")}
    for word in words:
        sorted_in[next(part for part in (*parts, "") if part in word)].append(word)
    return {part: tuple(found) for part, found in sorted_in.items()}


def places(view: str, words: Words) -> Iterator[tuple[int, str]]:
    """Give where each of some words stands, and which it is; this is faster than any pattern."""
    for part, each in words.items():
        if part in view:
            for word in each:
                if word in view:
                    yield from _places_of(view, word)


def _places_of(view: str, word: str) -> Iterator[tuple[int, str]]:
    at = view.find(word)
    while at >= 0:
        yield at, word
        at = view.find(word, at + 1)


def before(view: str, start: int, width: int) -> str:
    """Return up to `width` characters before `start`, none of them from behind a hidden value.

    How much a hidden value measures must not matter: its marker has another length.
    """
    text = view[max(start - width, 0) : start]
    return text[text.rfind(HIDDEN) + 1 :]
