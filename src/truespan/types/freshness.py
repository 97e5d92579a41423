"""Freshness of sources: whether a source is still the one that was indexed."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class SourceState(StrEnum):
    """State of a source, compared with the indexed revision."""

    CURRENT = "current"
    CHANGED = "changed"
    GONE = "gone"
    UNKNOWN = "unknown"


class UnknownReason(StrEnum):
    """Reason why the state of a source is unknown."""

    NO_SOURCE = "no_source"
    """An upload, or a text that was passed in memory, has no source to compare."""
    RECORD = "record"
    """The fields that made a record of a table or a JSON file a document are not stored."""
    NOT_ALLOWED = "not_allowed"
    """The settings, the page's host or its robots.txt do not allow a request."""
    UNREADABLE = "unreadable"
    TIMEOUT = "timeout"
    REPLACED = "replaced"
    """The document was replaced or deleted since the passage was read, or is being ingested."""
    DAMAGED = "damaged"
    """The stored labels of the document do not match their checksum."""


class Freshness(Struct, frozen=True):
    """State of the source of a passage; `reason` is set if it is unknown."""

    state: SourceState
    reason: UnknownReason | None = None


CURRENT = Freshness(SourceState.CURRENT)
CHANGED = Freshness(SourceState.CHANGED)
GONE = Freshness(SourceState.GONE)


def unknown(reason: UnknownReason) -> Freshness:
    """Return the freshness of a source whose state is unknown."""
    return Freshness(SourceState.UNKNOWN, reason)


class DocumentFreshness(Struct, frozen=True):
    """A document and the state of its source."""

    document: int
    doc_id: str
    path: str
    """Path shown in results, relative to the ingested folder."""
    freshness: Freshness
