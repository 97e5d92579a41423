"""Finding a passage in a text although white space, quotes and dashes may differ."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ALIKE = (
    '"“”„‟«»″',
    "'‘’‚‛′`",
    "-‐‑‒–—―−",
    "…",
)
_CLASSES = {char: f"[{re.escape(group)}]" for group in _ALIKE for char in group}
_CLASSES["…"] = r"(?:…|\.\.\.)"


def occurrences(passage: str, text: str, *, stop: int | None = None) -> Iterator[tuple[int, int]]:
    """Give where `passage` stands in `text[:stop]`, in order; places may overlap.

    Any run of white space matches any other; so do the usual spellings of quotes and dashes.
    """
    words = passage.replace("...", "…").split()
    if not words:
        return
    pattern = r"\s+".join("".join(map(_alike, word)) for word in words)
    finder = re.compile(pattern)
    start, last = 0, len(text) if stop is None else stop
    while found := finder.search(text, start, last):
        yield found.span()
        # From the next character on: what overlaps itself stands there more than once.
        start = found.start() + 1


def _alike(char: str) -> str:
    return _CLASSES.get(char) or re.escape(char)
