"""What the engine needs from outside, by role.

Owns: the protocols, and what every implementation owes its callers.
Does not own: any technology; that is in `adapters`.
Must hold: every call that touches a world takes its scope.
"""

from __future__ import annotations

from truespan.ports.embedding import Cooldowns, Embedder, Embedders, EmbeddingLimits, TokenCounter
from truespan.ports.index import VectorIndex
from truespan.ports.machine import Clock, Processes
from truespan.ports.sources import AssetStore, SourceFinder, SourceParser
from truespan.ports.store import (
    ChunkStore,
    DocumentStore,
    JobStore,
    QueryCache,
    ReaderStore,
    TrustedStore,
    UpkeepStore,
    WorldStore,
)

__all__ = [
    "AssetStore",
    "ChunkStore",
    "Clock",
    "Cooldowns",
    "DocumentStore",
    "Embedder",
    "Embedders",
    "EmbeddingLimits",
    "JobStore",
    "Processes",
    "QueryCache",
    "ReaderStore",
    "SourceFinder",
    "SourceParser",
    "TokenCounter",
    "TrustedStore",
    "UpkeepStore",
    "VectorIndex",
    "WorldStore",
]
