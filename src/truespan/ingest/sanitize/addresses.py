"""IP addresses, and the numbers that only look like one: versions, sections."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from truespan.ingest.sanitize.audit import IP_ADDRESS, Finding
from truespan.ingest.sanitize.fold import before

# Patterns that begin with one certain kind of character run fast over prose, so what stands before
# is asked for after it.
_V4 = re.compile(
    r"[0-9](?<![0-9A-Za-z_.][0-9])[0-9]{0,2}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"
    r"(?![0-9A-Za-z_]|[.-][0-9])"
)
_COLONS = re.compile(":[0-9A-Fa-f]{0,4}:")
_V6 = re.compile(
    r"(?<![0-9A-Za-z_:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f.]{0,15}(?![0-9A-Za-z_:])"
)
_FIRST_GROUP, _WIDEST = 4, 48
_BEFORE = 32
_OTHER_NUMBER = re.compile(
    r"(?:(?<![a-z])(?:v|vs|ver|versions?|releases?|rel|rev|revision|build|firmware|driver|patch|"
    r"update|sections?|sect|sec|chapters?|chap|clauses?|paragraphs?|para|articles?|art|items?|"
    r"figures?|fig|tables?|steps?|rules?|requirements?|appendix|annex|kapitel|abschnitte?|ziffer|"
    r"absatz|punkt|abb|tabelle|versión|sección|capítulo|versione|sezione|versão|seção|wersja|"
    r"versie|no|nr|oid|ec)|§|версия|раздел|版本|バージョン)"
    r"[.:]?[ \t\n]{0,2}(?:#|is|ist|=)?[ \t]?$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\.?[ \t]{1,8}[^\W\d_]")
_PLAIN_NUMBER = range(1, 31)
_LEAD = 12
"""The most marks and spaces that a heading begins with."""


def scan_addresses(view: str) -> Iterator[Finding]:
    """Give the addresses of both versions, but for those that every machine has for itself."""
    for found in _V4.finditer(view):
        if _is_v4(view, found.start(), found.end()):
            yield Finding(found.start(), found.end(), IP_ADDRESS, "ip_address.v4")
    for colons in _COLONS.finditer(view):
        # Of an address only its first colons are looked at; what ends before them is no part of it.
        first = max(colons.start() - _FIRST_GROUP, 0)
        found = _V6.search(view, first, colons.end() + _WIDEST)
        if found and found.start() <= colons.start() and _is_v6(value := found[0].rstrip(".")):
            yield Finding(found.start(), found.start() + len(value), IP_ADDRESS, "ip_address.v6")


def _is_v4(view: str, start: int, end: int) -> bool:
    try:
        address = ipaddress.IPv4Address(view[start:end])
    except ValueError:
        return False
    return (
        not (address.is_loopback or address.is_unspecified or address.packed[:2] == b"\xff\xff")
        and not _OTHER_NUMBER.search(before(view, start, _BEFORE))
        and not _names_a_package(view, start, address)
        and not _opens_a_section(view, start, end, address)
    )


def _names_a_package(view: str, start: int, address: ipaddress.IPv4Address) -> bool:
    """Say whether the number hangs on a name, as in `zlib-1.2.3.4`."""
    return (
        start > 1
        and view[start - 1] in "-_"
        and view[start - 2].isalpha()
        and address.packed[0] < 10
    )


def _opens_a_section(view: str, start: int, end: int, address: ipaddress.IPv4Address) -> bool:
    """Say whether small numbers open a line that goes on with a capital: `1.2.3.4 Scope`."""
    lead = f"\n{view[:start]}" if start < _LEAD else view[start - _LEAD : start]
    if not lead.rstrip(" \t#*").endswith("\n"):
        return False
    heading = _HEADING.match(view, end)
    small = all(number in _PLAIN_NUMBER for number in address.packed)
    return heading is not None and small and heading[0][-1].isupper()


def _is_v6(value: str) -> bool:
    """Say whether a value is an address, and no scope in a program, time or ratio."""
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return False
    groups = [group for group in value.split(":") if group]
    written = any(char.isdigit() for char in value) and len(groups) > 1
    return written and len(max(groups, key=len)) >= 3 and not address.is_loopback
