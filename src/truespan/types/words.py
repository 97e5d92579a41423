"""How often words stand where: what the store keeps of them, and what a blend makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from truespan.types.document import RevisionRef
from truespan.types.ids import TextHash

FUSED_WEIGHT = 0.65
"""What words count for in a blend, of one; chosen on half of SciFact (`bench/fused.py`)."""


@dataclass(frozen=True, slots=True)
class FusedScore:
    """How the words of a query and its similarity together rank a chunk.

    `blend` is None for a chunk past the candidates that were blended: it follows by similarity.
    """

    bm25: float
    blend: float | None


@dataclass(frozen=True, slots=True)
class WordEntry:
    """A revision in force as word search sees it.

    `key` names it in postings. `recipe` says how its words were made, None when they were not
    counted; `fresh` is false when its chunks are not the ones that were counted.
    """

    key: int
    ref: RevisionRef
    language: str
    recipe: str | None
    fresh: bool
    lengths: Mapping[int, int]
    """Words of each chunk that is embedded, of kind text and counted, by its index."""


@dataclass(frozen=True, eq=False, weakref_slot=True, slots=True)
class WordCatalog:
    """The revisions in force of one state of a world, by document number; itself and no equal."""

    entries: tuple[WordEntry, ...]


@dataclass(frozen=True, slots=True)
class CountableChunk:
    """A chunk's bytes as they were read, and the hash they had when they were written."""

    index: int
    data: bytes
    text_hash: TextHash


@dataclass(frozen=True, slots=True)
class CountedRevision:
    """The words of a revision: for each term the chunks it stands in, and how often.

    `hashes` are the texts that were counted. A chunk whose bytes could not be trusted is in none
    of the three.
    """

    ref: RevisionRef
    recipe: str
    hashes: Mapping[int, TextHash]
    lengths: Mapping[int, int]
    terms: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a term stands: revisions by their keys, in how many chunks of each, and which.

    `packed` has six bytes for each of those chunks: its index in four, how often the term is in it
    in two, both little-endian.
    """

    keys: Sequence[int]
    chunks: Sequence[int]
    packed: bytes
