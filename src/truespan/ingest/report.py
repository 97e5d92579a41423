"""What a run did, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that did not become a document, and why."""

    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come. `fraction` is of the bytes to read, the rest are counts so far."""

    fraction: float
    documents: int
    documents_total: int
    chunks: int
    embedded: int
    current: str
    reused: int = 0


@dataclass(slots=True)
class IngestReport:
    """What a run did."""

    ingested: list[str] = field(default_factory=list)
    unchanged: int = 0
    resumed: int = 0
    failures: list[Failure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    passed_over: int = 0
    """Files of other kinds that folders held."""
    unmatched: tuple[str, ...] = ()
    """Paths of a manifest that matched no file."""
    removed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    job: str = ""
    generation: int | None = None
    """The generation that an alias was moved to, where that was asked for."""


@dataclass(slots=True)
class Meter:
    """Counts along the way."""

    total: int = 0
    size: int = 0
    done: float = 0.0
    part: float = 0.0
    documents: int = 0
    chunks: int = 0

    def fraction(self) -> float:
        """Return the share of the work that is done."""
        return min((self.done + self.part) / self.size, 1.0) if self.size else 0.0
