"""Where a text may be cut without splitting what a reader sees as one character.

An accent with its letter, an emoji with its skin colour, a family of emoji, a flag, a Korean
syllable in parts: each is several code points. This is the part of the rules of Unicode (UAX 29)
that a cut needs, without a table of its own.
"""

from __future__ import annotations

import unicodedata

LONGEST = 64
"""Code points that are looked back. Longer clusters are made up, and are cut like any text."""

MAX_FLAGS = 2000
"""Letters of flags in a row that are looked back, to see which of them belong together."""

_JOINER = "\u200d"
_VIRAMA = 9
"""The combining class of marks that join a letter to the next one."""


def cut_before(text: str, offset: int, least: int = 0) -> int:
    """Return the last place at or before `offset` where a text may be cut.

    It is `offset` itself if there is none after `least`.
    """
    place = min(offset, len(text))
    last = max(least, place - LONGEST)
    while place > last:
        if not _joins(text, place):
            return place
        place -= 1
    return min(offset, len(text))


def shorten(text: str, most: int, end: str = "") -> str:
    """Return a text of at most `most` code points; a longer one is cut and gets `end`."""
    return text if len(text) <= most else text[: cut_before(text, most - len(end))] + end


def _joins(text: str, place: int) -> bool:
    """Return whether the code points before and after a place belong together."""
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
        # Two of them make a flag: what counts is how many come before.
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
        # Vowels and final consonants of Korean syllables that are spelled in parts.
        or "\u1160" <= char <= "\u11ff"
        or "\ud7b0" <= char <= "\ud7fb"
    )


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
