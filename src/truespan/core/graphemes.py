"""Boundaries of grapheme clusters, where a text may be cut.

A letter with an accent, an emoji with a skin colour, a flag or a decomposed Korean syllable is
several code points. This is the part of Unicode's rules (UAX 29) that cutting needs.
"""

from __future__ import annotations

import unicodedata

MAX_CLUSTER_LENGTH = 64
"""Maximum number of code points searched backwards. Longer clusters are cut like any text."""

MAX_FLAGS = 2000
"""Maximum number of flag letters searched backwards, to find which of them form pairs."""

_JOINER = "\u200d"
_VIRAMA = 9
"""Combining class of marks that join a letter to the next one."""


def cut_before(text: str, offset: int, least: int = 0) -> int:
    """Return the last cluster boundary at or before `offset`.

    Returns `offset` if there is no boundary after `least`.
    """
    place = min(offset, len(text))
    last = max(least, place - MAX_CLUSTER_LENGTH)
    while place > last:
        if not _joins(text, place):
            return place
        place -= 1
    return min(offset, len(text))


def shorten(text: str, most: int, end: str = "") -> str:
    """Return a text of at most `most` code points; a longer text is cut and ends with `end`."""
    return text if len(text) <= most else text[: cut_before(text, most - len(end))] + end


def _joins(text: str, place: int) -> bool:
    """Return whether the code points around an offset are in one cluster."""
    if place <= 0 or place >= len(text):
        return False
    before, after = text[place - 1], text[place]
    if after < "\u0300":
        return after == "\n" and before == "\r"
    if _extends(after) or before == _JOINER:
        return True
    if unicodedata.combining(before) == _VIRAMA and unicodedata.category(after) == "Lo":
        return True
    if _is_flag_letter(before) and _is_flag_letter(after):
        # Two flag letters form a flag, so the number of letters before the offset decides.
        first = place
        while first > max(place - MAX_FLAGS, 0) and _is_flag_letter(text[first - 1]):
            first -= 1
        return (place - first) % 2 == 1
    return False


def _extends(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or char in ("\u200c", _JOINER)
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        # Vowels and final consonants of decomposed Korean syllables.
        or "\u1160" <= char <= "\u11ff"
        or "\ud7b0" <= char <= "\ud7fb"
    )


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
