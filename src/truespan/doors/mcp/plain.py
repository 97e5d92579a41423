"""Results as plain text: what was found, word for word, and then one line about it.

The two never share a block, so that no text out of a book can pass for our own words. Nothing here
depends on the time that a call took: equal results have equal text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from truespan.model.bundle import ContextBundle, Notice, SearchResult
from truespan.reading.positions import Whereabouts


@dataclass(frozen=True, slots=True)
class BookList:
    """The books in which the reader has a position."""

    books: tuple[Whereabouts, ...]
    warnings: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class BookPlace:
    """How far the reader is in one book; null when no position is recorded."""

    position: Whereabouts | None
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


def _told(place: Whereabouts) -> str:
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
