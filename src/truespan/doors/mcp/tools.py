"""The tools: a reader's, which see what has been read, and the owner's, which see a whole world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from truespan.doors import arguments as given
from truespan.doors.mcp import plain
from truespan.doors.mcp.prompts import OWNING_PROMPTS, READING_PROMPTS, Prompt
from truespan.doors.mcp.resources import Offering, ReaderOffering, WorldOffering
from truespan.doors.mcp.schema import schema_of_arguments, schema_of_result
from truespan.errors import PositionNotFound
from truespan.model.bundle import ContextBundle, Notice, SearchResult

if TYPE_CHECKING:
    from truespan.engine.library import World
    from truespan.engine.reader import Reader

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
    offered: Offering
    prompts: Sequence[Prompt]


def _list_books(reader: Reader, _: given.NoArguments) -> plain.BookList:
    books = tuple(reader.books())
    return plain.BookList(books, () if books else (NO_POSITION,))


def _get_reading_position(reader: Reader, asked: given.PositionArguments) -> plain.BookPlace:
    try:
        return plain.BookPlace(reader.where(asked.book), ())
    except PositionNotFound:
        return plain.BookPlace(None, (NO_POSITION,))


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
            plain.BookList,
            _list_books,
            plain.blocks_of_books,
        ),
        Tool(
            "get_reading_position",
            "Get the reading position",
            "Tell how far the reader is in the current book, or in a named one.",
            given.PositionArguments,
            plain.BookPlace,
            _get_reading_position,
            plain.blocks_of_place,
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
            plain.blocks_of_reading,
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
            plain.blocks_of_search,
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
            plain.blocks_of_bundle,
        ),
    ),
    WorldOffering(),
    OWNING_PROMPTS,
)
