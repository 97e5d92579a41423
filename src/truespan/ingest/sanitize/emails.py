"""E-mail addresses, found from their @ outwards. A text without one costs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from truespan.ingest.sanitize.audit import EMAIL, Finding
from truespan.ingest.sanitize.fold import HIDDEN, places

_LOCAL_WIDTH = 64
_LABELS = 9
_LETTERS = "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u024f\u0370-\u03ff\u0400-\u052f"
_LABEL = f"[0-9{_LETTERS}-]{{1,63}}"
# A name that goes on after its label's dot; the two share no character, so nothing is tried twice.
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{1,{_LABELS}}}")
_WIDE_DOMAIN = re.compile(rf"[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,{_LABELS}}}")
_LOCAL = re.compile(rf"[0-9{_LETTERS}._%+'!#$*~^-]")
_SIGNS = {"": ("@", "%40")}
_EDGE = "._%+'!#$*~^-"
_ENDINGS = (
    "png jpg jpeg gif svg webp bmp tif tiff ico heic css js jsx tsx json html htm xml yaml toml"
    " txt pdf docx xlsx pptx csv mp3 mp4 wav exe dll"
)
_NO_TOP_LEVEL = frozenset(_ENDINGS.split())
"""Endings of files: `logo@2x.png` is a picture. None of them is a top-level domain."""

_SPELLED = re.compile(
    rf"(?<![0-9A-Za-z._%+-])([0-9A-Za-z][0-9A-Za-z._%+-]{{0,63}}) ?[\[({{] ?at ?[\])}}] ?"
    rf"([0-9A-Za-z-]{{1,63}}(?:(?: ?[\[({{] ?dot ?[\])}}] ?|\.)[0-9A-Za-z-]{{1,63}})"
    rf"{{1,{_LABELS}}})",
    re.IGNORECASE,
)
_SPELLED_AT = re.compile(r"[\[({] ?at ?[\])}]", re.IGNORECASE)


def scan_emails(view: str) -> Iterator[Finding]:
    """Give the addresses of a text, those too that are written in the way of URLs or spelled."""
    for at, sign in places(view, _SIGNS):
        start, end = _local_start(view, at), _domain_end(view, at + len(sign))
        if start < at and end:
            yield Finding(start, end, EMAIL, "email")
    if _SPELLED_AT.search(view):
        for found in _SPELLED.finditer(view):
            yield Finding(found.start(), found.end(), EMAIL, "email.spelled")


def _local_start(view: str, at: int) -> int:
    """Return where the part before the sign begins; `at` when there is none."""
    if view[at - 1 : at] == '"':
        opening = view.rfind('"', max(at - _LOCAL_WIDTH, 0), at - 1)
        between = view[opening:at] if opening >= 0 else "\n"
        return at if "\n" in between or HIDDEN in between else opening
    start = at
    while at - start < _LOCAL_WIDTH and start and _LOCAL.match(view, start - 1):
        start -= 1
    if start == at:
        while at - start < _LOCAL_WIDTH and start and view[start - 1].isalnum():
            start -= 1
    while start < at and view[start] in _EDGE:
        start += 1
    return start


def _domain_end(view: str, start: int) -> int:
    """Return where the longest domain that begins at `start` ends; 0 when none does."""
    found = _DOMAIN.match(view, start) or _WIDE_DOMAIN.match(view, start)
    labels = found[0].split(".") if found else []
    while len(labels) > 1:
        last = _top_level(labels[-1])
        if last and all(label.strip("-") for label in labels[:-1]):
            return start + sum(map(len, labels[:-1])) + len(labels) - 1 + len(last)
        labels.pop()
    return 0


def _top_level(label: str) -> str:
    """Return the part of a label that can be a top-level domain; empty when none can."""
    if label.lower().startswith("xn--") and len(label.rstrip("-")) > 4:
        return label.rstrip("-")
    name = label.split("-")[0]
    usable = 2 <= len(name) <= 24 and name.isalpha() and name.lower() not in _NO_TOP_LEVEL
    return name if usable else ""
