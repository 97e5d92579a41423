"""Every name that traces, metrics and logs have in common: requests, stages, tallies and events.

Whatever tells of the engine's work uses these and no others, so that a dashboard, a trace and a
line of the log speak of the same thing by the same word. None of them holds anything of a caller:
no text, no name of a world, reader or document, and no id.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache

import truespan.errors as errors
from truespan.types.bundle import BundleStatus, WhyNot
from truespan.types.decision import AnswerMode
from truespan.types.job import DocumentState
from truespan.types.trust import FlawKind

SYSTEM = "truespan"
"""What names of spans, attributes, metrics and loggers begin with."""
FIELDS = "truespan_fields"
"""The member of a line of the log that has our fields."""
ERROR_TYPE = "error.type"
"""The attribute of a span that failed; its value is the code of the error."""
OTHER = "other"
"""Stands for a code that nobody knows, so that the number of codes has a bound."""


class Request(StrEnum):
    """A whole call."""

    SEARCH = "search"
    RETRIEVE = "retrieve"
    WHY_NOT = "why_not"
    READING = "reading"
    READING_WHY_NOT = "reading_why_not"
    ANSWER = "answer"
    READING_ANSWER = "reading_answer"
    INGEST = "ingest"
    REINDEX = "reindex"
    REPAIR = "repair"
    DOCTOR = "doctor"
    DOOR = "door"
    """What came to a door and ended there as nobody foresaw, within a request or outside."""


class Stage(StrEnum):
    """A part of a call, named after what there is once it is done."""

    ADMITTED = "admitted"
    """The request is one that this caller may make."""
    SCOPED = "scoped"
    """What may be looked at is known, and how much of it there is."""
    VECTOR = "vector"
    TAIL = "tail"
    """What stands, for a reader, beside what the index has."""
    WORDS = "words"
    HITS = "hits"
    VERIFIED = "verified"
    ENOUGH = "enough"
    """It is known whether more has to be fetched."""
    VISIBLE = "visible"
    RANKED = "ranked"
    PACKED = "packed"
    NEAR_MISSES = "near_misses"
    LOCATED = "located"
    BUNDLE = "bundle"

    MODEL = "model"
    """A model has begun to answer, or will not."""
    CHECKED = "checked"
    """Quotes and citations were held against the sources."""

    SOURCE = "source"
    BLOCKS = "blocks"
    TEXT = "text"
    SENTENCES = "sentences"
    CHUNKS = "chunks"
    STAGED = "staged"
    VECTORS = "vectors"
    INDEX = "index"
    FLIPPED = "flipped"
    """Readers see the new revision."""
    METADATA = "metadata"
    REPAIRED = "repaired"


class CounterName(StrEnum):
    """Something that is counted."""

    FETCHED = "fetched"
    VERIFIED = "verified"
    RETURNED = "returned"
    SKIPPED = "skipped"
    CONTEXT_TOKENS = "context_tokens"
    BUNDLES = "bundles"
    QUERY_CACHE = "query_cache"
    ANSWERS = "answers"
    DOCUMENTS = "documents"
    CHUNKS = "chunks"
    VECTORS = "vectors"
    REPAIRS = "repairs"
    ERRORS = "errors"
    BUGS = "bugs"
    """Exceptions that nobody foresaw."""
    ABANDONED = "abandoned"
    """Answers whose listener went away."""


class CacheOutcome(StrEnum):
    """Whether the vector of a query was at hand."""

    HIT = "hit"
    MISS = "miss"


class VectorOrigin(StrEnum):
    """Where a chunk's vector came from."""

    EMBEDDED = "embedded"
    REUSED = "reused"


class RepairAction(StrEnum):
    """What a repair did to a chunk."""

    DELETED_POINT = "deleted_point"
    RESTORED_TEXT = "restored_text"
    QUARANTINED = "quarantined"
    REEMBEDDED = "reembedded"


class Event(StrEnum):
    """A line of the log."""

    REQUEST_FINISHED = "request_finished"
    REQUEST_FAILED = "request_failed"
    REQUEST_ABANDONED = "request_abandoned"
    REQUEST_BROKEN = "request_broken"
    """A bug of ours."""
    STAGE_FINISHED = "stage_finished"
    HTTP_ANSWERED = "http_answered"
    """A request over HTTP, whatever became of it."""
    INGEST_LINE = "ingest_line"
    FOREIGN = "foreign"
    """A line of a library that we use, without what was filled in."""


LABELS = {
    CounterName.SKIPPED: "code",
    CounterName.BUNDLES: "status",
    CounterName.QUERY_CACHE: "outcome",
    CounterName.ANSWERS: "mode",
    CounterName.DOCUMENTS: "state",
    CounterName.VECTORS: "origin",
    CounterName.REPAIRS: "deed",
    CounterName.ERRORS: "code",
}
"""What the code of a tally is called, for those that have codes."""


def known_code(tally: CounterName, code: str) -> str:
    """Return a code that may be told with a tally: itself, or `other` if it is not one of ours."""
    return code if not code or code in _codes()[tally] else OTHER


@cache
def _codes() -> dict[CounterName, frozenset[str]]:
    known: dict[CounterName, frozenset[str]] = {tally: frozenset() for tally in CounterName}
    return known | {
        CounterName.SKIPPED: frozenset(FlawKind) | frozenset(WhyNot),
        CounterName.BUNDLES: frozenset(BundleStatus),
        CounterName.QUERY_CACHE: frozenset(CacheOutcome),
        CounterName.ANSWERS: frozenset(AnswerMode),
        CounterName.DOCUMENTS: frozenset(DocumentState),
        CounterName.VECTORS: frozenset(VectorOrigin),
        CounterName.REPAIRS: frozenset(RepairAction),
        CounterName.ERRORS: frozenset(kind.code for kind in errors.error_types()),
    }
