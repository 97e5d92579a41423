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


class FileFate(StrEnum):
    """What became of files that held something deleted."""

    GONE = "gone"
    """They are written anew; nothing deleted is left in them."""
    REQUESTED = "requested"
    """They are a server's. It was asked to write them anew, and nobody here can look into them."""
    LEFT = "left_to_operator"
    """They are a server's, which does not let us ask for that."""


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
