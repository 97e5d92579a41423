"""What a library is composed of."""

from __future__ import annotations

from dataclasses import dataclass, field

from truespan.ports import (
    Clock,
    Embedder,
    EmbeddingLimits,
    SourceFinder,
    TokenCounter,
    TrustedStore,
    VectorIndex,
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The store, the index, the provider and the rest, each behind its port."""

    store: TrustedStore
    index: VectorIndex
    embedder: Embedder
    counter: TokenCounter
    sources: SourceFinder
    clock: Clock
    limits: EmbeddingLimits = field(default_factory=EmbeddingLimits)
