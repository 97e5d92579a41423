"""How two lines of a PDF become one: with a space, without, or with a hyphen mended.

A hyphen at the end of a line goes when a small letter follows, or when capitals stand on both
sides. It stays, without a space, where it is the word's own:

- the next line begins with a capital or a number ("Anglo-Saxon", "1914-1918");
- one letter stands before it ("e-mail"), or the word has a hyphen already ("state-of-the-art");
- the part before it is one that is written with a hyphen ("self-made");
- the document writes the word with a hyphen in the middle of a line somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_HYPHENS = "\u2010-"
_BROKEN = re.compile(rf"(?P<before>[\w’'{_HYPHENS}]*\w)[{_HYPHENS}]$")
_FIRST_PART = re.compile(r"[^\W_]+")
# From the beginning of a word and without a way back: a long word would be tried at each letter.
_WITH_HYPHEN = re.compile(rf"(?<![^\W\d_])[^\W\d_]++[{_HYPHENS}][^\W\d_]++")
_KEEPING = frozenset({"all", "ex", "half", "ill", "quasi", "self", "so", "vice", "well"})
_UNSPACED = re.compile(
    "[\u2e80-\u2fdf\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60]"
)


def words_with_hyphen(lines: Iterable[str]) -> frozenset[str]:
    """Return the words that stand with a hyphen in the middle of some line."""
    return frozenset(word.casefold() for line in lines for word in _WITH_HYPHEN.findall(line))


def joined(before: str, after: str, with_hyphen: frozenset[str]) -> tuple[str, str]:
    """Return what the text before becomes, and what is put between it and the next line."""
    if not before:
        return before, ""
    broken = _BROKEN.search(before, max(0, len(before) - 100))
    following = _FIRST_PART.match(after)
    if broken and following:
        mended = _is_broken_word(broken["before"], following[0], with_hyphen)
        return (before[:-1] if mended else before), ""
    unspaced = _UNSPACED.match(before[-1]) and _UNSPACED.match(after)
    return before, "" if unspaced else " "


def _is_broken_word(before: str, after: str, with_hyphen: frozenset[str]) -> bool:
    """Say whether the hyphen between two parts is there only because the line ended."""
    last = re.split(rf"[{_HYPHENS}]", before)[-1]
    if last != before or len(before) < 2 or not (before[-1].isalpha() and after[0].isalpha()):
        return False
    shouted = before.isupper() and after.isupper()
    if after[0].isupper() and not shouted:
        return False
    whole = f"{before}-{after}".casefold()
    return before.casefold() not in _KEEPING and whole not in with_hyphen
