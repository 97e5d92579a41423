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
    """Give where `passage` stands in `text[:stop]`, in order and without overlap.

    Any run of white space matches any other; so do the usual spellings of quotes and dashes.
    """
    words = passage.replace("...", "…").split()
    if not words:
        return
    pattern = r"\s+".join("".join(map(_alike, word)) for word in words)
    finder = re.compile(pattern)
    for found in finder.finditer(text, 0, len(text) if stop is None else stop):
        yield found.span()


def _alike(char: str) -> str:
    return _CLASSES.get(char) or re.escape(char)
