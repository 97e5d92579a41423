"""Repetitions within a document: of chunks with the same words, the first is kept."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from truespan.model.chunk import CutChunk
from truespan.model.ids import TextHash, hash_text

_NOT_WORDS = re.compile(r"\W+")


def dedupe_hash(text: str) -> TextHash:
    """Return a hash that texts share which differ in case, punctuation and white space alone."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # A row of signs has no words to be told by.
    return hash_text(_NOT_WORDS.sub(" ", folded).strip() or folded.strip())


def first_of_equals(chunks: Sequence[CutChunk]) -> tuple[CutChunk, ...]:
    """Keep the first of chunks with one hash, and number what is left without a gap.

    Whether a chunk stays is decided by what stands before it, so a reader's chunks are the same
    whatever follows.
    """
    seen: set[TextHash] = set()
    kept: list[CutChunk] = []
    for chunk in chunks:
        found = dedupe_hash(chunk.text)
        if found in seen:
            continue
        seen.add(found)
        chunk.index, chunk.dedupe_hash = len(kept), found
        kept.append(chunk)
    return tuple(kept)
