"""What a library is composed of."""

from __future__ import annotations

from dataclasses import dataclass, field

from truespan.ingest.prepare import Preparation
from truespan.ports import (
    AssetStore,
    Clock,
    Embedder,
    EmbeddingLimits,
    Processes,
    SourceFinder,
    SourceParser,
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
    parser: SourceParser
    assets: AssetStore
    processes: Processes
    clock: Clock
    limits: EmbeddingLimits = field(default_factory=EmbeddingLimits)
    preparation: Preparation = field(default_factory=Preparation)
    price: float | None = None
    """What the provider asks for a million tokens, where the operator says so."""
