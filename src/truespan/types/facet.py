"""Facets: how many documents have which labels and metadata."""

from __future__ import annotations

from msgspec import Struct

from truespan.types.bundle import Notice
from truespan.types.metadata import ValueKind

LABELS = ("tags", "language", "version", "kind")
"""Labels that every document has, besides its own metadata."""
METADATA_PREFIX = "metadata."
"""What precedes a key of metadata that has the name of a label."""
DEFAULT_FACET_VALUES = 10
MAX_FACET_VALUES = 1000
MAX_FACETS = 100
"""So many keys are counted unless some are named; those that most documents have."""


class FacetValue(Struct, frozen=True):
    """A value, how many documents have it, and how many chunks of them can be searched."""

    value: str | int | float | bool
    kind: ValueKind
    documents: int
    chunks: int


class Facet(Struct, frozen=True):
    """The values of one label or key, the most frequent first."""

    key: str
    metadata: bool
    """Whether it is a key of the documents' metadata, not a label."""
    documents: int
    """How many documents have a value that can be compared."""
    values: tuple[FacetValue, ...]
    more_values: int = 0
    """How many further values there are."""
    least: str | int | float | None = None
    """The least and the greatest value, if all are numbers or all are dates."""
    greatest: str | int | float | None = None


class Facets(Struct, frozen=True):
    """The facets of the documents that filters leave. Damaged ones are named and not counted."""

    documents: int
    chunks: int
    facets: tuple[Facet, ...]
    more_keys: int = 0
    """How many further keys there are."""
    warnings: tuple[Notice, ...] = ()
