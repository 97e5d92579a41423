"""Facets: counts of documents by label and metadata value."""

from __future__ import annotations

from msgspec import Struct

from truespan.types.bundle import Notice
from truespan.types.metadata import ValueKind

LABELS = ("tags", "language", "version", "kind")
"""Labels that every document has, besides its own metadata."""
METADATA_PREFIX = "metadata."
"""Prefix of a metadata key that has the same name as a label."""
DEFAULT_FACET_VALUES = 10
MAX_FACET_VALUES = 1000
MAX_FACETS = 100
"""Maximum number of counted keys if the request names none; the most frequent ones."""


class FacetValue(Struct, frozen=True):
    """A value with the number of documents that have it and of their searchable chunks."""

    value: str | int | float | bool
    kind: ValueKind
    documents: int
    chunks: int


class Facet(Struct, frozen=True):
    """Values of one label or metadata key, the most frequent first."""

    key: str
    metadata: bool
    """Whether `key` is a metadata key, not a label."""
    documents: int
    """Number of documents that have a comparable value."""
    values: tuple[FacetValue, ...]
    more_values: int = 0
    """Number of values that are not listed."""
    least: str | int | float | None = None
    """Smallest value, if all values are numbers or all are dates."""
    greatest: str | int | float | None = None
    """Largest value, if all values are numbers or all are dates."""


class Facets(Struct, frozen=True):
    """Facets of the documents that match the filters. Damaged documents cause a warning."""

    documents: int
    chunks: int
    facets: tuple[Facet, ...]
    more_keys: int = 0
    """Number of keys that are not listed."""
    warnings: tuple[Notice, ...] = ()
