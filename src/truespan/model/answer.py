"""An answer with all that it rests on, and the events of one that comes piece by piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from truespan.model.bundle import Notice, WhyNot
from truespan.model.chunk import ChunkKind
from truespan.model.decision import AnswerMode, SourcesUsed, UsedModel
from truespan.model.ids import ChunkId

PREVIEW_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the answer names by its number, and where that stands.

    All but the number is None where the answer names a number that no source had: it is kept, so
    that a made-up citation shows as one.
    """

    number: int
    document: int | None = None
    source: str | None = None
    title: str | None = None
    chapter: str | None = None
    section: str | None = None
    page: int | None = None
    first_sid: int | None = None
    last_sid: int | None = None
    chunk_id: ChunkId | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """Words that the answer puts between quotation marks, and where they stand if they do."""

    text: str
    verified: bool
    chunk_id: ChunkId | None = None
    document: int | None = None
    first_sid: int | None = None
    last_sid: int | None = None


@dataclass(frozen=True, slots=True)
class RetrievedNote:
    """A retrieved chunk: where it stands, how its text begins, and what became of it.

    `verdict` is `returned` where the chunk was chosen for the model, else why it was not.
    """

    chunk_id: ChunkId
    similarity: float
    document: int
    source: str
    chapter: str
    section: str
    page: int | None
    kind: ChunkKind
    text: str
    verdict: WhyNot


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gets: words, what they rest on, and how that was decided.

    `retrieved_chunks_metadata` is sorted by similarity; `used_chunks` are those of them that the
    answer was made from. `record` is the id in the usage log; None where nothing was written there.
    """

    answer: str
    mode: AnswerMode
    citations: tuple[Citation, ...]
    quotes: tuple[Quote, ...]
    retrieved_chunks_metadata: tuple[RetrievedNote, ...]
    used_chunks: tuple[ChunkId, ...]
    sources_used: SourcesUsed
    decision_explain: dict[str, Any]
    warnings: tuple[Notice, ...]
    record: str | None
    processing_time_ms: int


@dataclass(frozen=True, slots=True)
class Started:
    """The first event: mode and speaker are settled and do not change any more."""

    mode: AnswerMode
    used_llm: UsedModel


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more of the answer; all pieces joined are the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event: the whole answer, checked."""

    answer: Answer


AnswerEvent: TypeAlias = Started | Piece | Finished


def preview(text: str) -> str:
    """Return how a text begins, in one line of at most 200 characters, cut after a word."""
    line = " ".join(text.split())
    if len(line) <= PREVIEW_CHARACTERS:
        return line
    kept = line[:PREVIEW_CHARACTERS]
    whole_word = line[PREVIEW_CHARACTERS] == " "
    return kept if whole_word or " " not in kept else kept[: kept.rindex(" ")]
