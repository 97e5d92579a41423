"""Arguments of searches and retrievals for HTTP and MCP; the types are validators and schema.

Unknown names and wrong types are refused, so that a misspelt filter never goes unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from truespan.core.decoding import prepare
from truespan.core.fields import MAX_LABEL_LENGTH
from truespan.errors import InvalidArgument
from truespan.types.arguments import (
    DEFAULT_LANGUAGE,
    DEFAULT_TOP_K,
    DEFAULT_VERSION,
    FILTERS,
    MAX_QUERY_LENGTH,
    MAX_REQUESTED_TOKENS,
    QUERY_ARGUMENTS,
    READING_TOP_K,
    RETRIEVAL_TOP_K,
    Argument,
    Filter,
    Form,
)
from truespan.types.metadata import MAX_CONDITIONS, MAX_VALUES
from truespan.types.source import DocumentKind

MAX_SHOWN_NAME_LENGTH = 60

Value = TypeVar("Value", bound="Arguments")


def describe(row: Argument, note: str = "", **constraints: Any) -> Meta:
    """Return the description of an argument, and constraints, for a schema."""
    return Meta(description=f"{row.description} {note}".rstrip(), **constraints)


def describe_number(row: Argument) -> Meta:
    """Return the description and the limits of a number."""
    return describe(row, ge=row.minimum, le=row.maximum)


def describe_text(row: Argument, note: str = "") -> Meta:
    """Return the description of a text and the limits of its length."""
    return describe(row, note, min_length=row.minimum, max_length=row.maximum)


# The engine itself refuses a query that is too long, with the same error everywhere.
_LENGTH = {"maxLength": MAX_QUERY_LENGTH}
Query = Annotated[str, describe(QUERY_ARGUMENTS["query"], min_length=1, extra_json_schema=_LENGTH)]
SearchMode = Annotated[
    Literal["auto", "hybrid", "vector", "keyword"], describe(QUERY_ARGUMENTS["mode"])
]
Rerank = Annotated[bool, describe(QUERY_ARGUMENTS["rerank"])]
Book = Annotated[str, describe_text(QUERY_ARGUMENTS["book"])]
TopK = Annotated[int, describe_number(QUERY_ARGUMENTS["top_k"])]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a call."""


class NoArguments(Arguments, frozen=True, kw_only=True):
    """No arguments."""


class PositionArguments(Arguments, frozen=True, kw_only=True):
    """The book whose reading position to return."""

    book: Book | None = None


class PassageFields(Arguments, frozen=True, kw_only=True):
    """Options for the ranking and the extent of the returned passages."""

    mode: SearchMode | None = None
    rerank: Rerank | None = None
    neighbours: Annotated[int, describe_number(QUERY_ARGUMENTS["neighbours"])] = 0
    granularity: (
        Annotated[
            Literal["passage", "excerpt", "sentence"], describe(QUERY_ARGUMENTS["granularity"])
        ]
        | None
    ) = None
    max_tokens: (
        Annotated[
            int,
            describe(
                QUERY_ARGUMENTS["max_tokens"],
                ge=1,
                extra_json_schema={"maximum": MAX_REQUESTED_TOKENS},
            ),
        ]
        | None
    ) = None
    include_boilerplate: (
        Annotated[bool, describe(QUERY_ARGUMENTS["include_boilerplate"])] | None
    ) = None


class ReadingArguments(PassageFields, frozen=True, kw_only=True):
    """A query to the part of a book that the reader has read."""

    query: Query
    book: Book | None = None
    top_k: TopK = READING_TOP_K


class ReadingContextArguments(ReadingArguments, frozen=True, kw_only=True):
    """A query for context from the part of a book that the reader has read."""

    notes: Annotated[bool, describe(QUERY_ARGUMENTS["notes"])] = False


Language = Annotated[str, describe_text(QUERY_ARGUMENTS["language"])]
Version = Annotated[str, describe_text(QUERY_ARGUMENTS["version"])]
_BY_CONTRACT = "Left out: any, or {!r} in a world with the contract's defaults."
DefaultLanguage = Annotated[
    str, describe_text(QUERY_ARGUMENTS["language"], _BY_CONTRACT.format(DEFAULT_LANGUAGE))
]
DefaultVersion = Annotated[
    str, describe_text(QUERY_ARGUMENTS["version"], _BY_CONTRACT.format(DEFAULT_VERSION))
]


_PRINTED = r"[^\u0000-\u001f\u007f-\u009f]"
METADATA_KEY = {
    "maxLength": MAX_LABEL_LENGTH,
    "pattern": rf"^{_PRINTED}*[^\s\u0000-\u001f\u007f-\u009f]{_PRINTED}*$",
}
"""The schema of a key of metadata: one line that is not blank."""
_COMPARABLE = {"type": ["string", "number", "boolean"]}
_BOUND = {"type": ["string", "number"]}
MetadataFilter = Annotated[
    dict[str, Any],
    describe(
        QUERY_ARGUMENTS["metadata"],
        "A condition is a value, or an object of comparisons. Dates are strings in ISO 8601.",
        examples=[{"team": "a", "status": {"any_of": ["open", "new"]}, "year": {"gte": 2020}}],
        extra_json_schema={
            "maxProperties": MAX_CONDITIONS,
            "propertyNames": METADATA_KEY,
            "additionalProperties": {
                "anyOf": [
                    _COMPARABLE,
                    {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": False,
                        "properties": {
                            "any_of": {
                                "type": "array",
                                "items": _COMPARABLE,
                                "maxItems": MAX_VALUES,
                            },
                            **dict.fromkeys(("gt", "gte", "lt", "lte"), _BOUND),
                            "exists": {"type": "boolean"},
                        },
                    },
                ]
            },
        },
    ),
]


def _filter_field(name: str, row: Filter) -> tuple[str, Any, Any]:
    """Return the name, the type and the default of the field of a filter."""
    described = describe(row.argument)
    types: dict[Form, Any] = {
        Form.TEXT: Annotated[str, describe_text(row.argument)],
        Form.TEXTS: Annotated[list[str], described],
        Form.KINDS: Annotated[list[DocumentKind], described],
        Form.REFERENCES: Annotated[list[str], described],
        Form.CONDITIONS: MetadataFilter,
    }
    kind = types[row.form]
    return (name, kind, []) if row.argument.default == () else (name, kind | None, None)


if TYPE_CHECKING:

    class PlaceFields(PassageFields, frozen=True, kw_only=True): ...

else:
    PlaceFields = msgspec.defstruct(
        "PlaceFields",
        [_filter_field(*row) for row in FILTERS.items() if row[0] not in ("language", "version")],
        bases=(PassageFields,),
        module=__name__,
        namespace={"__doc__": "Filters of HTTP and MCP without those that may have defaults."},
        frozen=True,
        kw_only=True,
    )


class FilterFields(PlaceFields, frozen=True, kw_only=True):
    """All filters. All of them must match; null means any."""

    language: Language | None = None
    version: Version | None = None


class SearchArguments(FilterFields, frozen=True, kw_only=True):
    """A query, the maximum number of results, their minimum similarity, and filters."""

    query: Annotated[str, describe(QUERY_ARGUMENTS["query"], extra_json_schema=_LENGTH)]
    top_k: Annotated[int, describe(QUERY_ARGUMENTS["top_k"], ge=0)] = DEFAULT_TOP_K
    floor: Annotated[float, describe_number(QUERY_ARGUMENTS["floor"])] | None = None


class DefaultFilterFields(PlaceFields, frozen=True, kw_only=True):
    """All filters for retrieval, where two of them have defaults in some worlds."""

    language: DefaultLanguage | UnsetType | None = UNSET
    version: DefaultVersion | UnsetType | None = UNSET


class RetrievalArguments(DefaultFilterFields, frozen=True, kw_only=True):
    """A query, a selected text, or a query within a selected text; and filters."""

    query: Query | None = None
    selected_text: Annotated[str, describe_text(QUERY_ARGUMENTS["selected_text"])] | None = None
    top_k: TopK = RETRIEVAL_TOP_K


class ContextArguments(RetrievalArguments, frozen=True, kw_only=True):
    """A request for context: a query, a selected text or both; and passages that the client has."""


def arguments_of(values: Arguments) -> dict[str, Any]:
    """Return the arguments as keyword arguments, with defaults for those that are missing."""
    given = msgspec.structs.asdict(values)
    return {name: value for name, value in given.items() if value is not UNSET}


CONTRACT_NAMES = {
    "chapter_filter": "chapter",
    "section_filter": "section",
    "language_constraint": "language",
    "version_constraint": "version",
}
"""Names of arguments in the contract, which are accepted beside the names of the schema."""
EARLIER_MODES = {"meaning": "vector", "words": "keyword"}
"""Earlier names of search modes, which are accepted too."""


def rename_arguments(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call under the names of the schema, with the mode's present name.

    Raises:
        InvalidArgument: an argument occurs under both of its names.
    """
    known = getattr(kind, "__struct_fields__", ())
    renamed = {alias: name for alias, name in CONTRACT_NAMES.items() if name in known}
    for alias, name in renamed.items():
        if alias in values and name in values:
            raise InvalidArgument(f"{alias!r} is another name of {name!r}; give one of them.")
    given = {renamed.get(name, name): value for name, value in values.items()}
    if isinstance(mode := given.get("mode"), str) and "mode" in known:
        given["mode"] = EARLIER_MODES.get(mode, mode)
    return given


def parse_arguments(kind: type[Value], values: dict[str, Any]) -> Value:
    """Return the arguments of a call as their type; raises InvalidArgument."""
    try:
        return msgspec.convert(rename_arguments(kind, values), prepare(kind), strict=True)
    except msgspec.ValidationError as error:
        sent = {name: alias for alias, name in CONTRACT_NAMES.items() if alias in values}
        raise InvalidArgument(explain_error(error, kind, sent)) from None


JSON_TYPES = {"bool": "boolean", "float": "number", "int": "integer", "str": "string"}
"""Names of types in JSON by their names in Python."""
_PYTHON_TYPES = re.compile(rf"\b({'|'.join(JSON_TYPES)})\b")


def explain_error(
    error: msgspec.ValidationError, kind: type, sent: Mapping[str, str] | None = None
) -> str:
    """Return a validation error as a sentence, with names of arguments and types but no values.

    `sent` has the names of the request for arguments that the schema calls otherwise.
    """
    text = str(error)
    field = re.search(r"field `(.*)`", text, re.DOTALL)
    if field and "missing" in text:
        return f"The argument {field[1]!r} is missing."
    if field:
        from difflib import get_close_matches

        known, name = getattr(kind, "__struct_fields__", ()), field[1][:MAX_SHOWN_NAME_LENGTH]
        close = get_close_matches(name, known, n=1)
        text = f"There is no argument {name!r}."
        text += f" Did you mean {close[0]!r}?" if close else ""
        return f"{text} Known arguments: {', '.join(known) or 'none'}."
    what, _, where = text.replace("`", "").partition(" - at $.")
    if what.startswith("Invalid enum value"):
        hints = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        if choices := _choices(hints.get(where)):
            return f"The argument {where!r} must be one of {', '.join(choices)}."
    where = (sent or {}).get(where, where)
    what = _PYTHON_TYPES.sub(lambda found: JSON_TYPES[found[0]], what[:1].lower() + what[1:])
    return (
        f"The argument {where!r} is wrong: {what}." if where else f"The request is wrong: {what}."
    )


def _choices(hint: Any) -> tuple[str, ...]:
    """Return the values that a type hint allows, if it lists them."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next(filter(None, map(_choices, get_args(hint))), ())


def arguments_schema(kind: type[Arguments]) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)
    return schema["$defs"][schema["$ref"].rpartition("/")[2]]


def with_contract_names(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of arguments with the contract's names beside those of the schema."""
    members = schema["properties"]
    aliases = {
        alias: members[name] | {"description": f"Another name of `{name}`; give one of them."}
        for alias, name in CONTRACT_NAMES.items()
        if name in members
    }
    return schema | {"properties": members | aliases}
