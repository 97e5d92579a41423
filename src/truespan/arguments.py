"""What each tool takes. One type is both the schema that a client sees and the check at the door.

The SDK would let a misspelt argument pass in silence; a filter that was meant and not applied is
worse than an error, so unknown names and wrong types are refused here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from truespan.errors import InvalidSettings
from truespan.types.request import (
    DEFAULT_FLOOR,
    DEFAULT_LANGUAGE,
    DEFAULT_TOP_K,
    DEFAULT_VERSION,
    LONGEST_QUERY,
    LONGEST_SELECTION,
    MOST_TOP_K,
    READING_TOP_K,
    RETRIEVAL_TOP_K,
)

LONGEST_NAME_SHOWN = 60

Given = TypeVar("Given", bound="Arguments")


def _text(description: str, longest: int = LONGEST_QUERY) -> Meta:
    return Meta(min_length=1, max_length=longest, description=description)


Query = Annotated[str, _text("What to look for, in words.")]
Book = Annotated[
    str, _text("A book's doc_id, number or file name, as list_books gives it; else the current.")
]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool."""


class NoArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """This tool takes no arguments."""


class PositionArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which book the reading position is wanted."""

    book: Book | None = None


class ReadingArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of a book, as far as it has been read."""

    query: Query
    book: Book | None = None
    top_k: Annotated[int, Meta(ge=1, le=MOST_TOP_K, description="Most passages.")] = READING_TOP_K


Language = Annotated[str, _text("Only this language; null for any.")]
Version = Annotated[str, _text("Only this version; null for any.")]
Fused = Annotated[bool, Meta(description="Let the words of the query count as well.")]


class SearchArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query, how many results it may give, and how similar they must be."""

    query: Annotated[str, Meta(description="What to look for, in words.")]
    top_k: Annotated[int, Meta(ge=0, description="Most passages.")] = DEFAULT_TOP_K
    floor: Annotated[float, Meta(ge=0.0, le=1.0, description="Least similarity.")] = DEFAULT_FLOOR
    fused: Fused = False


class FilterFields(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters as HTTP and MCP take them. All conditions hold together; null stands for any."""

    chapter_filter: Annotated[str, _text("Only this chapter, by its whole title.")] | None = None
    section_filter: Annotated[str, _text("Only this section, by its whole title.")] | None = None
    language_constraint: Language | None = None
    version_constraint: Version | None = None
    documents: Annotated[list[str], Meta(description="Only these documents.")] | None = None
    tags: Annotated[list[str], Meta(description="Only documents with all of these tags.")] = []


class DefaultFilterFields(FilterFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same filters with the defaults of retrieval."""

    language_constraint: Language | None = DEFAULT_LANGUAGE
    version_constraint: Version | None = DEFAULT_VERSION


class RetrievalArguments(
    DefaultFilterFields, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A query, a selected text, or a query within a selected text; and filters."""

    query: Query | None = None
    selected_text: (
        Annotated[
            str,
            _text("A passage: alone it ranks, with a query it bounds it.", LONGEST_SELECTION),
        ]
        | None
    ) = None
    top_k: Annotated[int, Meta(ge=1, le=MOST_TOP_K, description="Most chunks.")] = RETRIEVAL_TOP_K
    fused: Fused = False


def read_arguments(kind: type[Given], given: dict[str, Any]) -> Given:
    """Return the arguments of a call, or refuse them.

    Raises:
        InvalidSettings: a name is unknown or missing, or a value has a wrong type or size.
    """
    try:
        return msgspec.convert(given, kind, strict=True)
    except msgspec.ValidationError as refusal:
        raise InvalidSettings(explained(str(refusal), kind)) from None


def explained(complaint: str, kind: type) -> str:
    """Put a complaint into words. It holds names of arguments and types, never a value."""
    named = re.search(r"field `(.*)`", complaint, re.DOTALL)
    if named and "missing" in complaint:
        return f"The argument {named[1]!r} is missing."
    if named:
        known = ", ".join(getattr(kind, "__struct_fields__", ())) or "none"
        name = named[1][:LONGEST_NAME_SHOWN]
        return f"There is no argument {name!r}; known are: {known}."
    what, _, where = complaint.replace("`", "").partition(" - at $.")
    if not where:
        return f"The request is wrong: {what[:1].lower()}{what[1:]}."
    return f"The argument {where!r} is wrong: {what[:1].lower()}{what[1:]}."
