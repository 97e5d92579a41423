"""What some models write before they answer, between `<think>` and `</think>`.

It is neither checked nor meant for whoever asked, and what a model thinks of a book may tell how
it ends. So it is dropped as it comes. What is never closed is thought to the end.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from unicodedata import category

_NAMES = ("think", "thinking", "reasoning")
_LONGEST_TAG = 32


def without_thoughts(pieces: Generator[str, None, None]) -> Generator[str, None, None]:
    """Give the pieces of a reply from where it speaks; closing this closes them."""
    try:
        name, held, speaking = "", "", False
        for piece in pieces:
            if speaking:
                yield piece
                continue
            if not name and not held:
                # What nobody sees goes on at once: without end, it is a blank reply.
                yield " " * len(_unseen(piece))
            held += piece
            name, held, speaking = _passed(name, held)
            if speaking and held:
                yield held
        if held and not name and not speaking:
            yield held
    finally:
        pieces.close()


def _passed(name: str, held: str) -> tuple[str, str, bool]:
    """Go past all thoughts that are whole; say in which one this ends, with what of it to keep.

    The last member says whether the reply has begun. Only what may be the beginning of a tag is
    kept, so that thoughts of any length cost no room.
    """
    while True:
        if name:
            end, held = _closed(name, held)
            if not end:
                return name, held, False
        held = held[len(_unseen(held)) :]
        name, held, undecided = _opened(held)
        if not name:
            return "", held, not undecided


def _closed(name: str, held: str) -> tuple[bool, str]:
    """Return whether the tag is closed, and what stands behind it; else its possible beginning."""
    found = re.search(rf"</{name}\s*>", held, re.IGNORECASE)
    return (True, held[found.end() :]) if found else (False, held[-_LONGEST_TAG:])


def _opened(held: str) -> tuple[str, str, bool]:
    """Return the name of the tag that stands here, what is behind it, and whether one may come."""
    tag, closing, behind = held[:_LONGEST_TAG].partition(">")
    spelled = tag.lower().rstrip()
    if closing:
        name = spelled[1:] if spelled[:1] == "<" and spelled[1:] in _NAMES else ""
        return (name, behind + held[_LONGEST_TAG:], False) if name else ("", held, False)
    coming = len(held) < _LONGEST_TAG and any(f"<{one}".startswith(spelled) for one in _NAMES)
    return "", held, coming


def _unseen(text: str) -> str:
    """Return the white space, and what is as good as that, with which a text begins."""
    seen = (place for place, one in enumerate(text) if not one.isspace() and category(one) != "Cf")
    return text[: next(seen, len(text))]
