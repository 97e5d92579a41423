"""A token counter with the WordPiece tokenizer of the local model.

A text consists of atoms: words, and characters that the tokenizer always separates (punctuation,
ideographs). Each atom is tokenized by itself, so counts add up across atoms by construction, and
the count of an atom is cached. Only new atoms are tokenized, which makes counting several times
faster than tokenizing.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from truespan.providers.local import LocalModel
from truespan.providers.model_files import TOKENIZER_FILE
from truespan.types.text import WHITE_SPACE, TokenMap

_RULES = 1
"""Version of the counts; a new version whenever this module counts a text differently."""

_SPACES = WHITE_SPACE.pattern[1:-1]
_PUNCTUATION = "!-/:-@\\[-`{-~\u2010-\u2027\u2030-\u2043\u3001-\u3003\u3008-\u3011"
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
_ALONE = _PUNCTUATION + _IDEOGRAPHS
LONE = re.compile(f"[{_SPACES}{_ALONE}]")
"""White space, and characters that the tokenizer always separates."""
# A white space belongs to the word before it, which halves the atoms and changes no count.
_ATOM = re.compile(f"[^{_SPACES}{_ALONE}]+[{_SPACES}]?|[{_ALONE}][{_SPACES}]?|[{_SPACES}]{{1,512}}")
_MAX_WORD_LENGTH = 512
"""Maximum length of a tokenized word; longer words count as their bytes, as unknown words do."""
_LONG = re.compile(f"[^{_SPACES}{_ALONE}]{{{_MAX_WORD_LENGTH + 1},}}")
_SURROGATE = re.compile("[\ud800-\udfff]")

_BLOCK = 32_768
"""Characters processed at a time, so that memory does not grow with the text."""
_MEMORY = 400_000
"""Maximum number of characters of cached atoms: some tens of thousands of words."""


class _Units(NamedTuple):
    """Units of an atom: the start of each within the atom, and its weight."""

    offsets: Sequence[int]
    weights: bytes


# Shared by threads: atoms are only added to its memory, and each has one possible value; a memory
# that is full is replaced, and threads keep the cache that they use.
class WordPieceCounter:
    """A counter with weight 1 for a known token, and the UTF-8 bytes for an unknown one.

    WordPiece maps thousands of unknown characters to one token; with weight 1 they would evade
    every budget.
    """

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self._known: dict[str, _Units] = {}
        self._room = _MEMORY

    def __reduce__(self) -> tuple[type[WordPieceCounter], tuple[LocalModel]]:
        return WordPieceCounter, (self._model,)

    @property
    def name(self) -> str:
        """Return a name that changes whenever counts would, without loading anything."""
        return f"wordpiece-{_RULES}:{self._model.digests[TOKENIZER_FILE][:16]}"

    def count(self, text: str) -> int:
        total = 0
        for start, end in _blocks(text):
            atoms = _ATOM.findall(text, start, end)
            known = self._learn(atoms)
            total += sum(b"".join([known[atom].weights for atom in atoms]))
        return total

    def measure(self, text: str) -> TokenMap:
        starts, totals = array("I"), array("I", [0])
        for start, end in _blocks(text):
            atoms = _ATOM.findall(text, start, end)
            known = self._learn(atoms)
            units = [known[atom] for atom in atoms]
            places = accumulate(map(len, atoms), initial=start)
            # A generator, because the one atom of a block may be millions of characters long.
            starts.extend(
                place + offset
                for place, (offsets, _) in zip(places, units, strict=False)
                for offset in offsets
            )
            weights = b"".join([weights for _, weights in units])
            totals.extend(islice(accumulate(weights, initial=totals[-1]), 1, None))
        return TokenMap(text, starts, totals, self.count, LONE)

    def _learn(self, atoms: list[str]) -> dict[str, _Units]:
        """Return a mapping with all `atoms`, which stays valid for the caller."""
        # A full cache is replaced by an empty one; other threads keep the mapping they have.
        known = self._known
        if fresh := set(atoms).difference(known):
            long = list(filter(_LONG.match, fresh))
            known.update(zip(long, map(_count_bytes, long), strict=True))
            short = list(fresh.difference(long))
            known.update(zip(short, self._tokenize(short), strict=True))
            self._room -= sum(map(len, fresh))
            if self._room < 0:
                self._known, self._room = {}, _MEMORY
        return known

    def _tokenize(self, atoms: list[str]) -> list[_Units]:
        # Joined by white space the atoms need one call, which is far cheaper than one for each.
        joined = _SURROGATE.sub("\ufffd", " ".join(atoms))
        tokenizer = self._model.tokenizer()
        encoding = tokenizer.encode(joined, add_special_tokens=False)
        unknown = tokenizer.token_to_id("[UNK]")
        starts = list(accumulate((len(atom) + 1 for atom in atoms), initial=0))
        offsets: list[list[int]] = [[] for _ in atoms]
        weights = [bytearray() for _ in atoms]
        current = 0
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            while start >= starts[current + 1]:
                current += 1
            if token == unknown:
                # Split into characters, so that a text can be cut inside the word.
                offsets[current].extend(range(start - starts[current], end - starts[current]))
                weights[current].extend(map(_width, joined[start:end]))
            else:
                offsets[current].append(start - starts[current])
                weights[current].append(1)
        return list(map(_Units, map(tuple, offsets), map(bytes, weights)))


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of about `_BLOCK` characters that end between two atoms."""
    start, length = 0, len(text)
    while start < length:
        found = LONE.search(text, start + _BLOCK)
        end = found.end() if found else length
        yield start, end
        start = end


def _count_bytes(atom: str) -> _Units:
    word = WHITE_SPACE.sub("", atom)
    return _Units(range(len(word)), bytes(map(_width, word)))


def _width(character: str) -> int:
    return len(character.encode(errors="surrogatepass"))
