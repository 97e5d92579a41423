"""Frequent English words, as a list."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


# Shared by threads: a cache of a set of words, which never changes.
@cache
def common_words() -> frozenset[str]:
    """Return frequent English words in lower case, with their inflections."""
    return frozenset(
        files("truespan.words").joinpath("english_words.txt").read_text("utf-8").split()
    )
