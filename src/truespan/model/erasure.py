"""What has to be done until something deleted is gone for good, and what was found of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from truespan.model.ids import WorldId
from truespan.model.profile import EmbeddingProfile


class ErasureKind(StrEnum):
    """Where something deleted may be left, in the order in which it is removed there."""

    POINTS = "points"
    ASSETS = "assets"
    INDEX = "index"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Erasure:
    """One piece of work that waits. `urgent` ones were asked for by a deletion."""

    number: int
    kind: ErasureKind
    world: WorldId
    generation: int
    profile: EmbeddingProfile | None
    urgent: bool


class Trace(NamedTuple):
    """A stretch of bytes that only the deleted thing has: of its text, or of a vector."""

    is_vector: bool
    content: bytes


class Remnant(NamedTuple):
    """What a look through all files gave: how much was looked through, and how much was found."""

    traces: int
    files: int
    bytes: int
    found: int


class RemovedFiles(NamedTuple):
    """Files that were removed, and how large they were."""

    files: int
    bytes: int


NO_FILES = RemovedFiles(0, 0)
