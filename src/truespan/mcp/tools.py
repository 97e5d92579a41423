"""The tools: a reader's, which see only what has been read, and the owner's, which see a world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from truespan.arguments import (
    Arguments,
    NoArguments,
    PositionArguments,
    ReadingArguments,
    RetrievalArguments,
    SearchArguments,
    arguments_of,
    arguments_schema,
)
from truespan.errors import PositionNotFound
from truespan.mcp.prompts import OWNER_PROMPTS, READER_PROMPTS, Prompt
from truespan.mcp.resources import READER_RESOURCES, WORLD_RESOURCES, ResourceProvider
from truespan.types.bundle import ContextBundle, Notice, SearchResult
from truespan.types.reading import ReadingPosition
from truespan.types.telemetry import Stage

if TYPE_CHECKING:
    from truespan.reader import Reader
    from truespan.world import World

NO_POSITION = Notice(
    "no_reading_position", "No reading position is recorded, so nothing is readable."
)
HINTS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


class CallerContext(Struct, frozen=True):
    """A world opened with the caller's authority, and the reader if it is for one."""

    world: World
    reader: str | None = None

    def subject(self, on_stage: Callable[[Stage], None] | None = None) -> Reader | World:
        """Return the reader or world that tools use; `on_stage` is called with each stage."""
        from truespan.observer import StageListener

        world = self.world if on_stage is None else self.world.observed_by(StageListener(on_stage))
        return world if self.reader is None else world.reader(self.reader)


class AnonymousAccess(Struct, frozen=True):
    """What callers without a token may use; by default nothing.

    With a reader, that reader's tools; with `owner`, the owner's. A world restricts both to it.
    """

    world: str | None = None
    reader: str | None = None
    owner: bool = False


class BookList(Struct, frozen=True):
    """The books in which the reader has a position."""

    books: tuple[ReadingPosition, ...]
    warnings: tuple[Notice, ...]


class BookPosition(Struct, frozen=True):
    """The reader's position in one book; null if none is recorded."""

    position: ReadingPosition | None
    warnings: tuple[Notice, ...]


class ErrorDetail(Struct, frozen=True):
    """Why a call failed. `code` is stable; `retryable` says whether to retry the same call."""

    code: str
    message: str
    advice: str
    retryable: bool


class ErrorResult(Struct, frozen=True):
    """The result of a call that was refused or failed."""

    error: ErrorDetail


class Tool(Struct, frozen=True):
    """A tool: its description, its types, and the functions that run it and render its result."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type
    run: Callable[[Any, Any], Any]
    render: Callable[[Any], list[str]]

    def to_json(self) -> dict[str, Any]:
        """Return the tool as the protocol lists it.

        The schema of the result includes errors because some clients validate failed calls too.
        """
        either, definitions = msgspec.json.schema_components(
            [self.result, ErrorResult], ref_template="#/$defs/{name}"
        )
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": arguments_schema(self.arguments),
            "outputSchema": {"type": "object", "anyOf": list(either), "$defs": definitions},
            "annotations": HINTS,
        }


class Role(Struct, frozen=True):
    """What a server offers to one kind of caller."""

    name: str
    instructions: str
    tools: Sequence[Tool]
    resources: ResourceProvider
    prompts: Sequence[Prompt]


def _list_books(reader: Reader, _: NoArguments) -> BookList:
    books = tuple(reader.books())
    return BookList(books, () if books else (NO_POSITION,))


def _get_reading_position(reader: Reader, arguments: PositionArguments) -> BookPosition:
    try:
        return BookPosition(reader.where(arguments.book), ())
    except PositionNotFound:
        return BookPosition(None, (NO_POSITION,))


def _retrieve(subject: Reader | World, arguments: Arguments) -> ContextBundle:
    return subject.retrieve(**arguments_of(arguments))


def _render_books(result: BookList | BookPosition) -> list[str]:
    books = result.books if isinstance(result, BookList) else [result.position]
    found = [_render_position(book) for book in books if book is not None]
    return [*found, *(notice.message for notice in result.warnings)]


def _render_position(position: ReadingPosition) -> str:
    lines = [f"{position.title} ({position.source}, doc_id {position.doc_id})"]
    lines.append("the current book" if position.current else "not the current book")
    lines.append(f"read up to sentence {position.sid}" if position.sid >= 0 else "nothing read yet")
    if position.chapters_reached:
        lines.append("chapters reached: " + "; ".join(position.chapters_reached))
    if position.last_sentence is not None:
        lines.append(f"last sentence read: {position.last_sentence}")
    return "\n".join(lines)


def _render_reading(bundle: ContextBundle) -> list[str]:
    found, readable = bundle.metadata.returned_count, bundle.metadata.funnel.in_scope
    summary = f"{bundle.status}: {found} of {readable} chunks that have been read, "
    summary += f"{bundle.total_tokens} tokens, in reading order."
    return _render_context(bundle.context, summary, bundle.metadata.warnings)


def _render_bundle(bundle: ContextBundle) -> list[str]:
    funnel, tokens = bundle.metadata.funnel, bundle.total_tokens
    counts = f"{funnel.returned} of {funnel.in_scope} chunks in scope, {tokens} tokens."
    return _render_context(bundle.context, f"{bundle.status}: {counts}", bundle.metadata.warnings)


def _render_search(result: SearchResult) -> list[str]:
    funnel = result.funnel
    summary = f"{funnel.in_scope} chunks in scope, {funnel.fetched} fetched at or above "
    summary += f"{result.floor:g}, {funnel.verified} verified, {funnel.returned} shown."
    return _render_context(result.context, summary, result.warnings)


def _render_context(context: str, summary: str, warnings: Sequence[Notice]) -> list[str]:
    line = " ".join([summary, *(notice.message for notice in warnings)])
    return [context, line] if context else [line]


READER_ROLE = Role(
    "reading",
    "Context from the books that one reader is reading, never from past the sentence the reader "
    "has reached. Nothing past it can be retrieved; do not fill the gap from memory.",
    (
        Tool(
            "list_books",
            "List books",
            "List the books in which the reader has a reading position: the last sentence read, "
            "its chapter, and the chapters reached so far.",
            NoArguments,
            BookList,
            _list_books,
            _render_books,
        ),
        Tool(
            "get_reading_position",
            "Get the reading position",
            "Get the reader's position in the current book, or in a named one.",
            PositionArguments,
            BookPosition,
            _get_reading_position,
            _render_books,
        ),
        Tool(
            "retrieve_context",
            "Retrieve context",
            "Find the passages closest to a query in what the reader has read of the current book, "
            "or of a named one. Passages are in reading order, each verified against the stored "
            "book; nothing past the reading position is ever returned.",
            ReadingArguments,
            ContextBundle,
            _retrieve,
            _render_reading,
        ),
    ),
    READER_RESOURCES,
    READER_PROMPTS,
)

OWNER_ROLE = Role(
    "owning",
    "Verified passages from one world of a library, not limited to a reader's position: whole "
    "documents are visible, endings included.",
    (
        Tool(
            "search",
            "Search",
            "Find the passages closest to a query in the whole world, each verified as it is read.",
            SearchArguments,
            SearchResult,
            lambda world, arguments: world.search(**msgspec.structs.asdict(arguments)),
            _render_search,
        ),
        Tool(
            "retrieve",
            "Retrieve context",
            "Assemble context within `max_tokens` (4000) tokens for a query, a selected text, or a "
            "query within a selected text. In a world with the contract's defaults, language is "
            "'en' and version '1.0' unless set; null stands for any.",
            RetrievalArguments,
            ContextBundle,
            _retrieve,
            _render_bundle,
        ),
    ),
    WORLD_RESOURCES,
    OWNER_PROMPTS,
)
