"""Findings, edits, audit records and markers, and the view of a text that the rules search.

A view has plain characters instead of look-alikes, and hides found values. It has the same length
as the text, so offsets are equal.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

EMAIL, PHONE, CREDIT_CARD, IBAN = "EMAIL", "PHONE", "CREDIT_CARD", "IBAN"
NATIONAL_ID, IP_ADDRESS, API_KEY = "NATIONAL_ID", "IP_ADDRESS", "API_KEY"
PASSWORD = "PASSWORD"  # noqa: S105 - the name of a label, not a password

LABELS = (EMAIL, PHONE, CREDIT_CARD, IBAN, NATIONAL_ID, IP_ADDRESS, API_KEY, PASSWORD)
"""The built-in labels."""


class Mode(StrEnum):
    """Mode of the sanitizer: off, report only, or replace."""

    OFF = "off"
    SHADOW = "shadow"
    """Values are counted; the text does not change."""
    ON = "on"


class Style(StrEnum):
    """Form of a replacement."""

    REDACT = "redact"
    """The label alone: `[EMAIL]`."""
    PSEUDONYM = "pseudonym"
    """The label and a keyed hash: `[EMAIL:1a2b3c4d5e]`, the same for equal values."""


class Finding(NamedTuple):
    """A value at `text[start:end]`, and the rule that found it."""

    start: int
    end: int
    label: str
    rule: str


class Edit(NamedTuple):
    """The replacement of `text[start:end]`; offsets refer to the original text."""

    start: int
    end: int
    replacement: str


Counts: TypeAlias = "Counter[tuple[str, str]]"
"""Number of findings by label and rule; nothing in it is derived from a value."""


class Sanitized(Struct, frozen=True):
    """A sanitised text and its edits, which ascend and do not overlap."""

    text: str
    edits: tuple[Edit, ...] = ()
    counts: Counts = field(default_factory=Counter)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits, which ascend and do not overlap."""
    parts: list[str] = []
    end = 0
    for edit in edits:
        parts += [text[end : edit.start], edit.replacement]
        end = edit.end
    return "".join([*parts, text[end:]])


def move_offsets(offsets: Sequence[int], edits: Sequence[Edit]) -> list[int]:
    """Map ascending offsets to offsets after edits; an offset within an edit maps to its start."""
    found: list[int] = []
    at = shift = 0
    for offset in offsets:
        while at < len(edits) and edits[at].end <= offset:
            edit = edits[at]
            shift += len(edit.replacement) - (edit.end - edit.start)
            at += 1
        inside = at < len(edits) and edits[at].start < offset
        found.append((edits[at].start if inside else offset) + shift)
    return found


_PSEUDONYM_DIGITS = 10
"""Number of hexadecimal digits of a pseudonym. Among a million values, the probability that two
share a pseudonym is one half; a collision reveals nothing about either value."""

HIDDEN = "\ufdd0"
"""Replaces hidden values. Clean text never holds it, because it is not a character."""

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
    """Replace full-width letters, digits of other scripts and unusual spaces with plain ones."""
    return text if text.isascii() else _LOOK_ALIKE.sub(_plain, text)


def _plain(found: re.Match[str]) -> str:
    char = found[0]
    if _DASH.match(char):
        return "-"
    digit = unicodedata.decimal(char, None)
    plain = unicodedata.normalize("NFKC", char) if digit is None else str(digit)
    return plain if len(plain) == 1 else char


def hide(view: str, spans: Iterable[Finding]) -> str:
    """Hide each span of a view; spans ascend and do not overlap."""
    return apply_edits(view, (Edit(s.start, s.end, HIDDEN * (s.end - s.start)) for s in spans))


def hide_markers(text: str, view: str, labels: Iterable[str]) -> str:
    """Hide the markers that an earlier run left in `text`."""
    # The `re` module caches the compiled pattern.
    marker = re.compile(rf"\[(?:{'|'.join(labels)})(?::[0-9a-f]{{{_PSEUDONYM_DIGITS}}})?\]")
    return hide(view, (Finding(*found.span(), "", "") for found in marker.finditer(text)))


def to_lower(view: str) -> str:
    """Return `view` in lower case, with the same length."""
    lower = view.lower()
    if len(lower) != len(view):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in view)
    return lower


def group_words(words: Iterable[str], parts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Group words for `find_words` by the first of some parts that they contain, or by ""."""
    grouped: dict[str, list[str]] = {part: [] for part in (*parts, "")}
    for word in words:
        grouped[next(part for part in grouped if part in word)].append(word)
    return grouped


def find_words(view: str, words: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, str]]:
    """Yield each position of some words with the word; this is faster than any pattern."""
    for part, group in words.items():
        if part in view:
            for word in group:
                at = view.find(word)
                while at >= 0:
                    yield at, word
                    at = view.find(word, at + 1)


def text_before(view: str, start: int, width: int) -> str:
    """Return up to `width` characters before `start`, but only those after a hidden value.

    The length of a hidden value must not matter, because its marker has another length.
    """
    text = view[max(start - width, 0) : start]
    return text[text.rfind(HIDDEN) + 1 :]


def pseudonym(label: str, value: str, key: bytes) -> str:
    """Return the marker for a value: the same for all its spellings, not computable without key."""
    message = f"{label}\0{_normalize(label, fold(value))}".encode("utf-8", "surrogatepass")
    return f"[{label}:{hmac.digest(key, message, 'sha256').hex()[:_PSEUDONYM_DIGITS]}]"


def compact(value: str) -> str:
    return "".join(filter(str.isalnum, value)).upper()


def _normalize(label: str, value: str) -> str:
    """Return the normal form that all spellings of a value share."""
    if label == EMAIL:
        signs = {"at": "@", "dot": "."}
        value = re.sub(r" ?[\[({] ?(at|dot) ?[\])}] ?", lambda w: signs[w[1]], value.casefold())
        return value.replace("%40", "@")
    if label == PHONE:
        digits = "".join(filter(str.isdigit, value))
        international = value.lstrip("(").startswith(("+", "00"))
        return f"+{digits.removeprefix('00')}" if international else digits
    if label == IP_ADDRESS:
        # A widened finding contains more than the address.
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(value))
    return compact(value) if label in (CREDIT_CARD, IBAN, NATIONAL_ID) else value
