"""What the doctor is told: flaws in the store, and how the machine around a library stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from truespan.model.document import RevisionRef
from truespan.model.ids import ChunkId


class Verdict(StrEnum):
    """How one check came out."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the machine, the settings or a boundary; `remedy` where there is one."""

    name: str
    verdict: Verdict
    says: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class TextFlaw:
    """A chunk row that is missing or whose bytes are not the recorded ones.

    `seen` names the bytes that were found; `restorable` when canonical text gives the right ones.
    """

    chunk_id: ChunkId
    seen: str
    restorable: bool


class RevisionPart(StrEnum):
    """What of a revision does not match what was recorded of it."""

    TEXT = "text"
    SENTENCES = "sentences"


@dataclass(frozen=True, slots=True)
class TallyFlaw:
    """A count of a revision's chunks in a generation that is not what its chunks are.

    `seen` names what was recorded, and what was counted instead.
    """

    revision: RevisionRef
    generation: int
    seen: str


@dataclass(frozen=True, slots=True)
class RevisionFlaw:
    """A revision whose canonical text or sentences cannot be believed."""

    revision: RevisionRef
    part: RevisionPart
    seen: str
    restorable: bool
