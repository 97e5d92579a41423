"""What a caller asks for, checked before anything is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from truespan.errors import InvalidSettings

DEFAULT_TOP_K = 10
DEFAULT_FLOOR = 0.15

RETRIEVAL_TOP_K = 5
MOST_TOP_K = 20
LONGEST_QUERY = 1000
LONGEST_SELECTION = 5000
RELEVANCE_FLOOR = 0.3
MAX_CONTEXT_TOKENS = 4000
READING_TOP_K = 20


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A query, how many results it may give, and the least similarity they must have.

    Wrong types are refused rather than converted: `True` is an `int` in Python, and a caller who
    passes it has made a mistake.
    """

    query: str
    top_k: int = DEFAULT_TOP_K
    floor: float = DEFAULT_FLOOR
    fused: bool = False
    """Whether the words of the query count as well."""

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InvalidSettings("The query must be a string.")
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int):
            raise InvalidSettings("top_k must be a whole number.")
        if self.top_k < 0:
            raise InvalidSettings("top_k must not be negative.")
        if isinstance(self.floor, bool) or not isinstance(self.floor, int | float):
            raise InvalidSettings("The floor must be a number.")
        if not math.isfinite(self.floor) or not 0.0 <= self.floor <= 1.0:
            raise InvalidSettings("The floor must lie between 0.0 and 1.0.")
        _check_fused(self.fused, self.query)


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A request for context: a query, a selection, or a query within a selection.

    Language and version have defaults here and nowhere else; None stands for any.
    """

    query: str | None = None
    selected_text: str | None = None
    top_k: int = RETRIEVAL_TOP_K
    chapter_filter: str | None = None
    section_filter: str | None = None
    language_constraint: str | None = "en"
    version_constraint: str | None = "1.0"
    documents: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    fused: bool = False

    def __post_init__(self) -> None:
        if self.query is None and self.selected_text is None:
            raise InvalidSettings("Give a query, a selected text, or both.")
        _check_length("query", self.query, LONGEST_QUERY)
        _check_length("selected_text", self.selected_text, LONGEST_SELECTION)
        _check_top_k(self.top_k)
        for name in (
            "chapter_filter",
            "section_filter",
            "language_constraint",
            "version_constraint",
        ):
            _check_length(name, getattr(self, name), LONGEST_QUERY)
        for name, values in (("documents", self.documents or ()), ("tags", self.tags)):
            if isinstance(values, str) or not all(isinstance(value, str) for value in values):
                raise InvalidSettings(f"{name} must be a list of strings.")
        _check_fused(self.fused, self.query)

    @property
    def query_type(self) -> str:
        """Return which of the two kinds of request this is."""
        return "standard" if self.selected_text is None else "selected_text"


@dataclass(frozen=True, slots=True)
class ReadingRequest:
    """What a reader asks of a book. Who reads, and how far, is not for the request to say."""

    query: str
    top_k: int = READING_TOP_K
    book: str | None = None

    def __post_init__(self) -> None:
        if self.query is None:
            raise InvalidSettings("A query is required.")
        _check_length("query", self.query, LONGEST_QUERY)
        _check_top_k(self.top_k)
        _check_length("book", self.book, LONGEST_QUERY)


def _check_top_k(top_k: object) -> None:
    if isinstance(top_k, bool) or not isinstance(top_k, int):
        raise InvalidSettings("top_k must be a whole number.")
    if not 1 <= top_k <= MOST_TOP_K:
        raise InvalidSettings(f"top_k must lie between 1 and {MOST_TOP_K}.")


def _check_length(name: str, value: object, longest: int) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidSettings(f"{name} must be a string.")
    if not 1 <= len(value) <= longest:
        raise InvalidSettings(f"{name} must have between 1 and {longest} characters.")


def _check_fused(fused: object, query: str | None) -> None:
    if not isinstance(fused, bool):
        raise InvalidSettings("fused must be true or false.")
    if fused and query is None:
        raise InvalidSettings("Fused search counts the words of a query; give one.")
