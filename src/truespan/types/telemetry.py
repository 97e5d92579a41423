"""Names shared by traces, metrics and logs: requests, stages, counters and events.

Every observer uses only these names, so that a dashboard, a trace and a log line use the same word
for the same thing. They contain no user data: no text, no id, and no name of a world, reader or
document.
"""

from __future__ import annotations

from enum import StrEnum

import truespan.errors as errors
from truespan.types.bundle import BundleStatus, WhyNot
from truespan.types.decision import AnswerMode
from truespan.types.job import DocumentState
from truespan.types.trust import FailureKind

SYSTEM = "truespan"
"""Prefix of the names of spans, attributes, metrics and loggers."""
FIELDS = "truespan_fields"
"""Attribute of a log record with the fields of Truespan."""
ACCESS = f"{SYSTEM}.http.access"
"""Logger of the access log."""
ERROR_TYPE = "error.type"
"""Attribute of a failed span with the error code."""
OTHER = "other"
"""Replaces an unknown code, so that the number of codes is limited."""


class Request(StrEnum):
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
    """A call of an interface that ended with an unexpected exception."""


class Stage(StrEnum):
    """A part of a call, named after its result."""

    ADMITTED = "admitted"
    """The caller may make this request."""
    SCOPED = "scoped"
    """The visible documents and their size are known."""
    VECTOR = "vector"
    TAIL = "tail"
    """The reader's newest text, which is not in the index."""
    WORDS = "words"
    HITS = "hits"
    VERIFIED = "verified"
    ENOUGH = "enough"
    """The check whether more hits are needed is done."""
    VISIBLE = "visible"
    RANKED = "ranked"
    RERANKED = "reranked"
    PACKED = "packed"
    NEAR_MISSES = "near_misses"
    LOCATED = "located"
    BUNDLE = "bundle"

    MODEL = "model"
    """The chat model has started to answer, or failed."""
    CHECKED = "checked"
    """Quotes and citations were compared with the sources."""

    SOURCE = "source"
    BLOCKS = "blocks"
    TEXT = "text"
    SENTENCES = "sentences"
    CHUNKS = "chunks"
    STAGED = "staged"
    VECTORS = "vectors"
    INDEX = "index"
    ACTIVATED = "activated"
    """Readers see the new revision."""
    METADATA = "metadata"
    REPAIRED = "repaired"


class CounterName(StrEnum):
    FETCHED = "fetched"
    VERIFIED = "verified"
    RETURNED = "returned"
    SKIPPED = "skipped"
    CONTEXT_TOKENS = "context_tokens"
    BUNDLES = "bundles"
    QUERY_CACHE = "query_cache"
    RERANKS = "reranks"
    """Calls to a reranker."""
    ANSWERS = "answers"
    DOCUMENTS = "documents"
    CHUNKS = "chunks"
    VECTORS = "vectors"
    REPAIRS = "repairs"
    ERRORS = "errors"
    BUGS = "bugs"
    """Unexpected exceptions."""
    ABANDONED = "abandoned"
    """Requests whose client disconnected."""


class CacheOutcome(StrEnum):
    """Result of a lookup in the cache of query vectors."""

    HIT = "hit"
    MISS = "miss"


RERANKED = "reranked"
"""Outcome of a successful call to a reranker; after a failure it is the error code."""


class VectorOrigin(StrEnum):
    EMBEDDED = "embedded"
    REUSED = "reused"


class RepairAction(StrEnum):
    DELETED_POINT = "deleted_point"
    RESTORED_TEXT = "restored_text"
    QUARANTINED = "quarantined"
    REEMBEDDED = "reembedded"


class Event(StrEnum):
    REQUEST_FINISHED = "request_finished"
    REQUEST_FAILED = "request_failed"
    REQUEST_ABANDONED = "request_abandoned"
    REQUEST_BROKEN = "request_broken"
    """An unexpected exception: a bug."""
    STAGE_FINISHED = "stage_finished"
    HTTP_ANSWERED = "http_answered"
    """An HTTP request, with any status."""
    HTTP_REQUEST = "http_request"
    """An HTTP request with its path, if the operator asked for a log of requests."""
    AUTH_REFUSED = "auth_refused"
    """A token of the identity provider that was refused, with the reason."""
    AUTH_KEYS_FAILED = "auth_keys_failed"
    """Keys of the identity provider that could not be loaded."""
    INGEST_LINE = "ingest_line"
    FOREIGN = "foreign"
    """A log line of another library, without its arguments."""


_ERROR_CODES = frozenset(errors.error_codes())
_CODES: dict[CounterName, tuple[str, frozenset[str]]] = {
    CounterName.SKIPPED: ("code", frozenset(FailureKind) | frozenset(WhyNot)),
    CounterName.BUNDLES: ("status", frozenset(BundleStatus)),
    CounterName.QUERY_CACHE: ("outcome", frozenset(CacheOutcome)),
    CounterName.RERANKS: ("outcome", _ERROR_CODES | {RERANKED}),
    CounterName.ANSWERS: ("mode", frozenset(AnswerMode)),
    CounterName.DOCUMENTS: ("state", frozenset(DocumentState)),
    CounterName.VECTORS: ("origin", frozenset(VectorOrigin)),
    CounterName.REPAIRS: ("deed", frozenset(RepairAction)),
    CounterName.ERRORS: ("code", _ERROR_CODES),
}
"""Label name and codes of each counter that has codes."""
LABELS = {counter: label for counter, (label, _) in _CODES.items()}


def known_code(counter: CounterName, code: str) -> str:
    """Return the code if it is one of the counter's codes, otherwise `other`."""
    return code if not code or code in _CODES.get(counter, ("", ()))[1] else OTHER
