"""Replacement: markers in place of values, and where offsets go when a text is edited."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence

from truespan.ingest.sanitize.audit import (
    CREDIT_CARD,
    EMAIL,
    IBAN,
    IP_ADDRESS,
    NATIONAL_ID,
    PHONE,
    Edit,
)
from truespan.ingest.sanitize.fold import fold

_DIGITS = 10
"""Hexadecimal digits of a pseudonym: two values of a million share one by chance in half of all
libraries, which tells nothing about either."""


def redaction(label: str) -> str:
    """Return the marker that says no more than what stood there."""
    return f"[{label}]"


def pseudonym(label: str, value: str, key: bytes) -> str:
    """Return the marker that is the same for equal values; without the key nobody can make it."""
    normal = _normal(label, fold(value))
    message = f"{label}\0{normal}".encode("utf-8", "surrogatepass")
    return f"[{label}:{hmac.digest(key, message, 'sha256').hex()[:_DIGITS]}]"


def _normal(label: str, value: str) -> str:
    """Return one spelling for all spellings of a value."""
    normalise = _SPELLINGS.get(label)
    return normalise(value) if normalise else value


def _compact(value: str) -> str:
    return "".join(filter(str.isalnum, value)).upper()


def _one_email(value: str) -> str:
    plain = re.sub(r" ?[\[({] ?(at|dot) ?[\])}] ?", _sign, value.casefold())
    return plain.replace("%40", "@")


def _sign(word: re.Match[str]) -> str:
    return "@" if word[1] == "at" else "."


def _one_phone(value: str) -> str:
    digits = "".join(filter(str.isdigit, value))
    international = value.lstrip("(").startswith(("+", "00"))
    return f"+{digits.removeprefix('00')}" if international else digits


def _one_address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        # A finding that was widened to settle holds more than the address.
        return value


_SPELLINGS: dict[str, Callable[[str], str]] = {
    EMAIL: _one_email,
    PHONE: _one_phone,
    CREDIT_CARD: _compact,
    IBAN: _compact,
    NATIONAL_ID: _compact,
    IP_ADDRESS: _one_address,
}


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with all edits made; they ascend and do not overlap."""
    parts: list[str] = []
    end = 0
    for edit in edits:
        parts += [text[end : edit.start], edit.replacement]
        end = edit.end
    return "".join([*parts, text[end:]])


def moved(offsets: Sequence[int], edits: Sequence[Edit]) -> list[int]:
    """Return where ascending offsets of a text are after its edits.

    An offset inside an edit goes to where its replacement begins.
    """
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
