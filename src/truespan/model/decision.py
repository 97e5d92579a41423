"""How an answer is decided: what the decision is made from, and the decision as a value.

There is no text in here. A candidate says how close a verified, visible chunk is and how many
characters it has; the query is a number of words and, for the record, an opaque string.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from truespan.errors import InvalidSettings
from truespan.model.bundle import WhyNot
from truespan.model.chunk import ChunkKind
from truespan.model.decision_settings import DecisionSettings, ScoreMode
from truespan.model.ids import ChunkId
from truespan.model.profile import Distance
from truespan.model.scale import shortest

CHOSEN = WhyNot.RETURNED
"""The verdict on a chunk that is handed to the primary model."""


class AnswerMode(StrEnum):
    """What an answer rests on; also the value of the header `X-Answer-Mode`."""

    RAG = "rag"
    HYBRID = "hybrid"
    FALLBACK = "fallback"


class ModelOutcome(StrEnum):
    """What became of asking a model. A failure of its provider is an error, and none of these."""

    NOT_RUN = "not_run"
    ABSENT = "absent"
    """No such model is configured, so that none will run."""
    ANSWERED = "answered"
    BLANK = "blank"
    NO_CONTEXT = "no_context"


class UsedModel(StrEnum):
    """Whose words the answer is; none when no model ran, and when its reply was not taken."""

    PRIMARY = "primary"
    FALLBACK = "fallback"
    NONE = "none"


class SourcesUsed(StrEnum):
    """How much of what was retrieved the answer rests on."""

    ALL = "all"
    PARTIAL = "partial"
    NONE = "none"


class DecisionReason(StrEnum):
    """Why it is this mode, in the order in which it is asked."""

    NOTHING_FOUND = "nothing_found"
    NOTHING_USABLE = "nothing_usable"
    BELOW_LOW = "below_low"
    GATE_FAILED = "gate_failed"
    PRIMARY_BLANK = "primary_blank"
    PRIMARY_NO_CONTEXT = "primary_no_context"
    REACHED_HIGH = "reached_high"
    GATES_HELD = "gates_held"


class Refusal(StrEnum):
    """Why there is no answer at all although the mode is fallback."""

    READING = "reading"
    """A fallback model would speak of the book from memory, past the reader's position."""
    NO_FALLBACK_MODEL = "no_fallback_model"
    FALLBACK_SILENT = "fallback_silent"


class Step(StrEnum):
    """What is to be done next with a decision."""

    ASK_PRIMARY = "ask_primary"
    ASK_FALLBACK = "ask_fallback"
    QUOTE = "quote"
    """No primary model is configured: the answer is the chosen passages themselves."""
    DELIVER = "deliver"
    REFUSE = "refuse"


class GateName(StrEnum):
    """The gates of hybrid mode, named as their settings."""

    SIMILARITY = "min_similarity_for_hybrid"
    CHUNKS = "min_chunks_for_hybrid"
    CHARACTERS = "min_total_context_chars"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A verified chunk that this caller may see, without its text.

    `similarity` is on the scale that all distances share, and not clamped. `start` is where its
    characters begin in the document's canonical text; None for words that do not stand there, as
    the description of a figure.
    """

    chunk_id: ChunkId
    similarity: float
    characters: int
    kind: ChunkKind = ChunkKind.TEXT
    document: int = 0
    index: int = 0
    start: int | None = None
    place: int | None = None
    """Where words counted as well, its turn to be chosen. The mode never depends on it."""

    def __post_init__(self) -> None:
        number = self.similarity
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InvalidSettings("A similarity must be a number.")
        if not math.isfinite(number):
            raise InvalidSettings("A similarity must be finite.")
        for name, value in (
            ("characters", self.characters),
            ("start", self.start or 0),
            ("place", self.place or 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidSettings(f"The {name} of a candidate must count from 0.")


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a decision is made from; equal evidence gives an equal decision, at any time.

    `effective_query` is carried to the explanation and decides nothing: the caller hashes it first.
    """

    settings: DecisionSettings
    query_words: int
    candidates: tuple[Candidate, ...] = ()
    reading: bool = False
    primary: ModelOutcome = ModelOutcome.NOT_RUN
    fallback: ModelOutcome = ModelOutcome.NOT_RUN
    retrieval_target: str = ""
    effective_query: str = ""

    def __post_init__(self) -> None:
        words = self.query_words
        if isinstance(words, bool) or not isinstance(words, int) or words < 0:
            raise InvalidSettings("query_words must be a count of words.")
        if len({one.chunk_id for one in self.candidates}) < len(self.candidates):
            raise InvalidSettings("A chunk can be a candidate only once.")

    def after(
        self, *, primary: ModelOutcome | None = None, fallback: ModelOutcome | None = None
    ) -> Evidence:
        """Return the same evidence with what has become known since of the models."""
        return replace(self, primary=primary or self.primary, fallback=fallback or self.fallback)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds in force for one request, on the scale of its score mode."""

    low: float
    high: float
    short_query_active: bool


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of hybrid mode: what it needs, what was found, and whether that is enough."""

    name: GateName
    needed: float
    found: float
    held: bool

    def explained(self) -> dict[str, Any]:
        """Return the gate for JSON."""
        return {
            "name": self.name.value,
            "needed": _shown(self.needed),
            "found": _shown(self.found),
            "held": self.held,
        }


@dataclass(frozen=True, slots=True)
class Considered:
    """A retrieved chunk, and why it is not handed to the primary model; `CHOSEN` if it is."""

    candidate: Candidate
    verdict: WhyNot


@dataclass(frozen=True, slots=True)
class Decision:
    """Which mode answers, on what grounds, and what is to be done next.

    `retrieved` is the order of `retrieved_chunks_metadata`. `max_similarity` is that of the best
    chunk a model may be given, and None without one; `max_score` is the same on the scale of the
    thresholds. `context_characters` counts each character of the chosen chunks once.
    """

    mode: AnswerMode
    reason: DecisionReason
    step: Step
    refusal: Refusal | None
    used_llm: UsedModel
    thresholds: Thresholds
    score_mode: ScoreMode
    distance: Distance
    max_similarity: float | None
    max_score: float | None
    gates: tuple[Gate, ...]
    """Empty unless the best score lies between the thresholds: otherwise nobody asks them."""
    retrieved: tuple[Considered, ...]
    context_characters: int
    reading: bool
    primary: ModelOutcome
    fallback: ModelOutcome
    retrieval_target: str
    effective_query: str

    @property
    def chosen(self) -> tuple[ChunkId, ...]:
        """Return what the primary model is given if it is asked, best first."""
        return tuple(one.candidate.chunk_id for one in self.retrieved if one.verdict is CHOSEN)

    @property
    def used_chunks(self) -> tuple[ChunkId, ...]:
        """Return what the answer rests on: nothing in fallback, which is given no context."""
        return () if self.mode is AnswerMode.FALLBACK else self.chosen

    @property
    def sources_used(self) -> SourcesUsed:
        """Tell whether the answer rests on all that was retrieved, on some of it, or on nothing."""
        used = len(self.used_chunks)
        if not used:
            return SourcesUsed.NONE
        return SourcesUsed.ALL if used == len(self.retrieved) else SourcesUsed.PARTIAL

    @property
    def left_out(self) -> dict[str, int]:
        """Return how many retrieved chunks were not chosen, by reason."""
        counts: dict[str, int] = {}
        for one in self.retrieved:
            if one.verdict is not CHOSEN:
                counts[one.verdict.value] = counts.get(one.verdict.value, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def counts(self) -> dict[str, int]:
        """Return how many chunks were retrieved, chosen for the model and used in the answer."""
        return {
            "retrieved": len(self.retrieved),
            "chosen": len(self.chosen),
            "used": len(self.used_chunks),
            "context_characters": self.context_characters,
        }

    def explained(self) -> dict[str, Any]:
        """Return `decision_explain`: plain values for JSON, without text and without chunk ids.

        A number is the shortest that is the same as a float32, so that comparing what is shown
        gives what was decided.
        """
        return {
            "mode": self.mode.value,
            "reason": self.reason.value,
            "refusal": None if self.refusal is None else self.refusal.value,
            "used_llm": self.used_llm.value,
            "sources_used": self.sources_used.value,
            "thresholds": {
                "low": shortest(self.thresholds.low),
                "high": shortest(self.thresholds.high),
            },
            "short_query_active": self.thresholds.short_query_active,
            "score_mode": self.score_mode.value,
            "distance": self.distance.value,
            "max_similarity": _shown(self.max_similarity),
            "max_score": _shown(self.max_score),
            "gates": [gate.explained() for gate in self.gates],
            "counts": self.counts,
            "left_out": self.left_out,
            "models": {"primary": self.primary.value, "fallback": self.fallback.value},
            "reading": self.reading,
            "retrieval_target": self.retrieval_target,
            "effective_query": self.effective_query,
        }


def _shown(number: float | None) -> float | None:
    """Return a score as it is compared; counts and the lack of a score stay what they are."""
    return number if number is None or isinstance(number, int) else shortest(number)
