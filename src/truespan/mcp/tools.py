"""The tools: a reader's, which see what has been read, and the owner's, which see a whole world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from truespan import arguments as given
from truespan.errors import PositionNotFound
from truespan.mcp.prompts import OWNING_PROMPTS, READING_PROMPTS, Prompt
from truespan.mcp.resources import ReaderOffering, ResourceProvider, WorldOffering
from truespan.mcp.schema import schema_of_arguments, schema_of_result
from truespan.retrieval.positions import ReadingPosition
from truespan.types.bundle import ContextBundle, Notice, SearchResult

if TYPE_CHECKING:
    from truespan.reader import Reader
    from truespan.world import World


@dataclass(frozen=True, slots=True)
class BookList:
    """The books in which the reader has a position."""

    books: tuple[ReadingPosition, ...]
    warnings: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class BookPlace:
    """How far the reader is in one book; null when no position is recorded."""

    position: ReadingPosition | None
    warnings: tuple[Notice, ...]


def blocks_of_reading(bundle: ContextBundle) -> list[str]:
    """Return the context, then what it is."""
    found, readable = bundle.metadata.returned_count, bundle.metadata.funnel.in_scope
    account = (
        f"{bundle.status}: {found} of {readable} chunks that have been read, "
        f"{bundle.total_tokens} tokens, in reading order."
    )
    return _blocks(bundle.context, account, bundle.metadata.warnings)


def blocks_of_bundle(bundle: ContextBundle) -> list[str]:
    """Return the context, then how many candidates each stage left."""
    funnel = bundle.metadata.funnel
    account = (
        f"{bundle.status}: {funnel.returned} of {funnel.in_scope} chunks in scope, "
        f"{bundle.total_tokens} tokens."
    )
    return _blocks(bundle.context, account, bundle.metadata.warnings)


def blocks_of_search(result: SearchResult) -> list[str]:
    """Return the context, then how many candidates each stage left."""
    funnel = result.funnel
    account = (
        f"{funnel.in_scope} chunks in scope, {funnel.fetched} fetched at or above "
        f"{result.floor:g}, {funnel.verified} verified, {funnel.returned} shown."
    )
    return _blocks(result.context, account, result.warnings)


def blocks_of_books(listed: BookList) -> list[str]:
    """Return one block a book."""
    books = [_told(book) for book in listed.books]
    return [*books, *(notice.message for notice in listed.warnings)]


def blocks_of_place(place: BookPlace) -> list[str]:
    """Return where the reader is."""
    found = [_told(place.position)] if place.position else []
    return [*found, *(notice.message for notice in place.warnings)]


def _told(place: ReadingPosition) -> str:
    lines = [f"{place.title} ({place.source}, doc_id {place.doc_id})"]
    lines.append("the current book" if place.current else "not the current book")
    lines.append(f"read up to sentence {place.sid}" if place.sid >= 0 else "nothing read yet")
    if place.chapters_reached:
        lines.append("chapters reached: " + "; ".join(place.chapters_reached))
    if place.last_sentence is not None:
        lines.append(f"last sentence read: {place.last_sentence}")
    return "\n".join(lines)


def _blocks(context: str, account: str, warnings: Sequence[Notice]) -> list[str]:
    line = " ".join([account, *(notice.message for notice in warnings)])
    return [context, line] if context else [line]


NO_POSITION = Notice(
    "no_reading_position", "No reading position is recorded, so nothing is readable."
)
HINTS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: fixed words, what it takes and gives, and how its result looks as text."""

    name: str
    title: str
    description: str
    takes: type[given.Arguments]
    gives: type
    run: Callable[[Any, Any], Any]
    blocks: Callable[[Any], list[str]]

    def declared(self) -> dict[str, Any]:
        """Return the tool as the protocol lists it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema_of_arguments(self.takes),
            "outputSchema": schema_of_result(self.gives),
            "annotations": HINTS,
        }


@dataclass(frozen=True, slots=True)
class Role:
    """For whom a server is: its words and tools, the documents it can name, and its prompts."""

    name: str
    instructions: str
    tools: Sequence[Tool]
    offered: ResourceProvider
    prompts: Sequence[Prompt]


def _list_books(reader: Reader, _: given.NoArguments) -> BookList:
    books = tuple(reader.books())
    return BookList(books, () if books else (NO_POSITION,))


def _get_reading_position(reader: Reader, asked: given.PositionArguments) -> BookPlace:
    try:
        return BookPlace(reader.where(asked.book), ())
    except PositionNotFound:
        return BookPlace(None, (NO_POSITION,))


def _retrieve_context(reader: Reader, asked: given.ReadingArguments) -> ContextBundle:
    return reader.retrieve(asked.query, book=asked.book, top_k=asked.top_k)


def _search(world: World, asked: given.SearchArguments) -> SearchResult:
    return world.search(**msgspec.structs.asdict(asked))


def _retrieve(world: World, asked: given.RetrievalArguments) -> ContextBundle:
    return world.retrieve(**msgspec.structs.asdict(asked))


READING = Role(
    "reading",
    "Context from the books that one reader is reading, never from past the sentence the reader "
    "has reached. What has not been read cannot be asked for; do not fill the gap from memory.",
    (
        Tool(
            "list_books",
            "List books",
            "List the books in which the reader has a reading position: the last sentence read, "
            "its chapter, and the chapters reached so far.",
            given.NoArguments,
            BookList,
            _list_books,
            blocks_of_books,
        ),
        Tool(
            "get_reading_position",
            "Get the reading position",
            "Tell how far the reader is in the current book, or in a named one.",
            given.PositionArguments,
            BookPlace,
            _get_reading_position,
            blocks_of_place,
        ),
        Tool(
            "retrieve_context",
            "Retrieve context",
            "Find the passages closest to a query in what the reader has read of the current book, "
            "or of a named one. Passages come in reading order, each verified against the stored "
            "book; nothing past the reading position is ever returned.",
            given.ReadingArguments,
            ContextBundle,
            _retrieve_context,
            blocks_of_reading,
        ),
    ),
    ReaderOffering(),
    READING_PROMPTS,
)

OWNING = Role(
    "owning",
    "Verified passages from one world of a library, without a reader's bound: whole documents "
    "are visible, endings included.",
    (
        Tool(
            "search",
            "Search",
            "Find the passages closest to a query in the whole world, each verified as it is read.",
            given.SearchArguments,
            SearchResult,
            _search,
            blocks_of_search,
        ),
        Tool(
            "retrieve",
            "Retrieve context",
            "Assemble context within a budget of 4000 tokens for a query, a selected text, or a "
            "query within a selected text. Language is 'en' and version '1.0' unless set to "
            "something else, or to null for any.",
            given.RetrievalArguments,
            ContextBundle,
            _retrieve,
            blocks_of_bundle,
        ),
    ),
    WorldOffering(),
    OWNING_PROMPTS,
)
