"""Profiles: what a vector was made with, and how a text was cut."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256

from truespan.errors import InvalidConfiguration


class Distance(StrEnum):
    """How two vectors are compared. No other distance is supported."""

    COSINE = "cosine"
    DOT = "dot"


@dataclass(frozen=True)
class EmbeddingProfile:
    """All that decides what a vector means. Locked to a generation; its id is its digest."""

    provider: str
    model: str
    revision: str
    dimensions: int
    distance: Distance
    document_mode: str
    query_mode: str
    input_limit: int
    """Most tokens of one text, special tokens not counted."""

    @cached_property
    def id(self) -> str:
        """Return a digest that two profiles share only when every field is equal."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model} ({self.dimensions} dimensions, {self.revision[:19]})"


class Strategy(StrEnum):
    """How a text is cut into chunks."""

    WINDOW = "window"
    SENTENCES = "sentences"
    TOKENS = "tokens"


class OverlapMode(StrEnum):
    """Whether a chunk's overlap is part of its text, or kept beside it and not embedded."""

    SHARED = "shared"
    SEPARATE = "separate"


_UNITS = {
    Strategy.WINDOW: "characters",
    Strategy.SENTENCES: "sentences",
    Strategy.TOKENS: "tokens",
}
_LINE_MINIMUM = 0.3
"""The least share of a chunk at which a break is accepted: overlap below it guarantees progress."""


@dataclass(frozen=True, slots=True)
class ChunkingProfile:
    """A named way of cutting; `size` and `overlap` count the strategy's own unit.

    With `pack` characters set, the `sentences` strategy fills a chunk with whole sentences up to
    that many characters instead of counting them; `overlap` still counts sentences.
    """

    name: str
    strategy: Strategy
    size: int
    overlap: int
    overlap_mode: OverlapMode = OverlapMode.SHARED
    pack: int | None = None
    dedupe: bool = False
    """Whether of chunks of a document with the same words only the first is kept."""

    def __post_init__(self) -> None:
        unit = _UNITS[self.strategy]
        for label, value in (("size", self.size), ("overlap", self.overlap)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidConfiguration(f"Chunk {label} must be a whole number of {unit}.")
        if self.size < 1:
            raise InvalidConfiguration(f"Chunk size must be at least 1, in {unit}.")
        if self.overlap < 0:
            raise InvalidConfiguration("Chunk overlap must not be negative.")
        if self.pack is not None and (self.strategy is not Strategy.SENTENCES or self.pack < 1):
            raise InvalidConfiguration("Only the 'sentences' strategy packs up to a size.")
        if self.strategy is Strategy.WINDOW and self.overlap >= _LINE_MINIMUM * self.size:
            raise InvalidConfiguration(
                f"An overlap of {self.overlap} {unit} is not under 30 % of the size {self.size}.",
                advice="Choose a smaller overlap or a larger size.",
            )
        if self.strategy is not Strategy.WINDOW and self.overlap >= self.size:
            raise InvalidConfiguration(
                f"An overlap of {self.overlap} {unit} leaves no progress at size {self.size}."
            )


def spelled(profile: ChunkingProfile) -> str:
    """Return a chunking profile as text that `read_chunking` reads."""
    return json.dumps(asdict(profile), sort_keys=True, separators=(",", ":"))


def read_chunking(stored: str) -> ChunkingProfile:
    """Return the chunking profile that `spelled` wrote."""
    fields = json.loads(stored)
    return ChunkingProfile(
        **{
            **fields,
            "strategy": Strategy(fields["strategy"]),
            "overlap_mode": OverlapMode(fields["overlap_mode"]),
        }
    )


WINDOW = ChunkingProfile("window", Strategy.WINDOW, size=1000, overlap=200)
SENTENCES = ChunkingProfile("sentences", Strategy.SENTENCES, size=8, overlap=2)
TOKENS = ChunkingProfile("tokens", Strategy.TOKENS, size=256, overlap=48)
STANDARD_CHUNKING = {profile.name: profile for profile in (WINDOW, SENTENCES, TOKENS)}
