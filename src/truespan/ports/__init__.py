"""What the engine needs from outside, by role.

Owns: the protocols, and what every implementation owes its callers.
Does not own: any technology; that is in `adapters`.
Must hold: every call that touches a world takes its scope.
"""

from __future__ import annotations

from truespan.ports.backup import Backups
from truespan.ports.calibration import CalibrationStore
from truespan.ports.chat import ChatModel, ChatModels
from truespan.ports.embedding import Cooldowns, Embedder, Embedders, EmbeddingLimits, TokenCounter
from truespan.ports.erasure import ErasureStore, Remains
from truespan.ports.golden import GoldenFiles
from truespan.ports.index import VectorIndex
from truespan.ports.machine import Clock, Environment, Processes
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
from truespan.ports.tokens import Randomness, TokenStore
from truespan.ports.words import WordStore

__all__ = [
    "AssetStore",
    "Backups",
    "CalibrationStore",
    "ChatModel",
    "ChatModels",
    "ChunkStore",
    "Clock",
    "Cooldowns",
    "DocumentStore",
    "Embedder",
    "Embedders",
    "EmbeddingLimits",
    "Environment",
    "ErasureStore",
    "GoldenFiles",
    "JobStore",
    "Processes",
    "QueryCache",
    "Randomness",
    "ReaderStore",
    "Remains",
    "SourceFinder",
    "SourceParser",
    "TokenCounter",
    "TokenStore",
    "TrustedStore",
    "UpkeepStore",
    "VectorIndex",
    "WordStore",
    "WorldStore",
]
