"""What the engine needs from outside, by role.

Owns: the protocols, and what every implementation owes its callers.
Does not own: any technology; that is in `adapters`.
Must hold: every call that touches a world takes its scope.
"""

from __future__ import annotations

from truespan.ports.backup import Backups
from truespan.ports.calibration import CalibrationStore
from truespan.ports.chat import ChatModel, ChatModels
from truespan.ports.embedding import (
    Cooldowns,
    Embedder,
    Embedders,
    EmbeddingLimits,
    Paces,
    TokenCounter,
)
from truespan.ports.erasure import ErasureStore, Remains
from truespan.ports.golden import GoldenFiles
from truespan.ports.index import VectorIndex
from truespan.ports.jobs import JobQueue, JobStore, JobWorker, ShareStore
from truespan.ports.machine import Clock, Environment, Processes
from truespan.ports.pages import PageStore
from truespan.ports.sources import AssetStore, SourceFinder, SourceParser, UploadStore
from truespan.ports.store import (
    ChunkStore,
    DocumentStore,
    QueryCache,
    ReaderStore,
    TrustedStore,
    UpkeepStore,
    WorldStore,
)
from truespan.ports.tokens import Randomness, TokenStore
from truespan.ports.watch import UNWATCHED, Course, Watch
from truespan.ports.watching import StageListener, joined
from truespan.ports.words import WordStore

__all__ = [
    "UNWATCHED",
    "AssetStore",
    "Backups",
    "CalibrationStore",
    "ChatModel",
    "ChatModels",
    "ChunkStore",
    "Clock",
    "Cooldowns",
    "Course",
    "DocumentStore",
    "Embedder",
    "Embedders",
    "EmbeddingLimits",
    "Environment",
    "ErasureStore",
    "GoldenFiles",
    "JobQueue",
    "JobStore",
    "JobWorker",
    "Paces",
    "PageStore",
    "Processes",
    "QueryCache",
    "Randomness",
    "ReaderStore",
    "Remains",
    "ShareStore",
    "SourceFinder",
    "SourceParser",
    "StageListener",
    "TokenCounter",
    "TokenStore",
    "TrustedStore",
    "UpkeepStore",
    "UploadStore",
    "VectorIndex",
    "Watch",
    "WordStore",
    "WorldStore",
    "joined",
]
