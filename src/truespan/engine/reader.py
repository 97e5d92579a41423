"""A reader of a world: the engine as somebody who has come so far may use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from truespan.engine.answering import Answerer, last_of
from truespan.engine.parts import Parts
from truespan.errors import DocumentNotFound, NotAllowed, PositionNotFound
from truespan.model.answer import Answer, AnswerEvent
from truespan.model.bundle import ContextBundle, Reason
from truespan.model.document import Document, RevisionRef
from truespan.model.ids import ChunkId
from truespan.model.request import READING_TOP_K, ReadingRequest
from truespan.model.scope import Aim, Authority, Scope
from truespan.reading.candidates import ReadingFinder
from truespan.reading.follow import Follower
from truespan.reading.look import Lookout, book_of
from truespan.reading.positions import Whereabouts, resolve, whereabouts
from truespan.reading.tail import TailMaker


class Shelves(Protocol):
    """What a reader needs of the world it reads in."""

    id: str
    aim: Aim

    @property
    def authority(self) -> Authority: ...

    def document(self, reference: str | int) -> Document: ...

    def _scope(self) -> Scope | None: ...

    def _writing_scope(self) -> Scope: ...


class Reader:
    """One reader of a world. What it returns depends on what was read, and on nothing else."""

    def __init__(
        self, world: Shelves, parts: Parts, on_flaws: Callable[[Scope], None], name: str
    ) -> None:
        self._world = world
        self._parts = parts
        self._on_flaws = on_flaws
        self.name = name

    def set(
        self,
        book: str,
        *,
        sid: int | None = None,
        through_chapter: str | None = None,
        passage: str | None = None,
        current: bool = True,
    ) -> Whereabouts:
        """Record how far the reader is; only the owner may. Going back is allowed.

        Raises:
            InvalidSettings: the position is not told in exactly one way, or does not exist.
            PassageNotFound, PassageAmbiguous: the passage does not tell a place.
        """
        scope = self._world._writing_scope()
        document = self._world.document(book)
        chosen = resolve(
            self._parts.store,
            scope,
            document,
            sid=sid,
            through_chapter=through_chapter,
            passage=passage,
        )
        if document.active is None:
            raise DocumentNotFound(book)
        ref = RevisionRef(document.number, document.active)
        self._parts.store.set_position(scope, self.name, ref, chosen, current=current)
        return self.where(book)

    def where(self, book: str | None = None) -> Whereabouts:
        """Return how far the reader is in a book, or in the current one.

        Raises:
            PositionNotFound: there is no position in such a book.
        """
        scope = self._following()
        positions = self._parts.store.positions(scope, self.name) if scope else []
        found = book_of(positions, book)
        if scope is None or found is None:
            raise PositionNotFound
        return whereabouts(self._parts.store, scope, found)

    def books(self) -> list[Whereabouts]:
        """Return how far the reader is in each book that has a position."""
        scope = self._following()
        if scope is None:
            return []
        store = self._parts.store
        return [whereabouts(store, scope, entry) for entry in store.positions(scope, self.name)]

    def retrieve(
        self, query: str, *, book: str | None = None, top_k: int = READING_TOP_K
    ) -> ContextBundle:
        """Return what the book read so far has to say to a query, in reading order.

        Raises:
            InvalidSettings, BlankQuery, QueryTooLong: before the provider is asked.
            DocumentNotFound: no document of the world has this name.
        """
        request = ReadingRequest(query, top_k, book)
        return self._follower().retrieve(self._world.authority, self._world.id, self.name, request)

    def answer(self, query: str, book: str | None = None) -> Answer:
        """Answer a question from what has been read of a book, or say that this does not do it.

        No model is asked without sources: it would speak of the book from memory.

        Raises:
            InvalidSettings, BlankQuery, QueryTooLong: before any provider is asked.
            DocumentNotFound: no document of the world has this name.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: a provider failed.
        """
        return last_of(self.answer_stream(query, book))

    def answer_stream(self, query: str, book: str | None = None) -> Iterator[AnswerEvent]:
        """Answer piece by piece, as `World.answer_stream` does."""
        request = ReadingRequest(query, book=book)
        answerer = Answerer(self._parts, self._world.authority, query)
        finder = ReadingFinder(self._books(), self._on_flaws, answerer.rules)
        return answerer.events(
            lambda: finder.find(self._world.authority, self._world.id, self.name, request),
            reading=True,
        )

    def _follower(self) -> Follower:
        return Follower(self._books(), self._on_flaws)

    def _books(self) -> Lookout:
        parts = self._parts
        return Lookout(
            parts.store,
            parts.index,
            parts.embedder_for,
            parts.clock,
            TailMaker(
                parts.store,
                parts.embedder_for,
                parts.counter,
                parts.limits,
                parts.clock,
                parts.preparation.on_token_limit,
            ),
            self._world.aim,
        )

    def why_not(self, chunk_id: str, query: str, **settings: Any) -> Reason:
        """Say why a chunk is not among what `retrieve` returns for the same arguments.

        A chunk that was not read yet is answered for as one that does not exist.
        """
        request = ReadingRequest(query, **settings)
        return self._follower().why_not(
            self._world.authority, self._world.id, self.name, request, ChunkId(chunk_id)
        )

    def _following(self) -> Scope | None:
        scope = self._world._scope()
        if scope is not None and not scope.authority.may_follow(self.name, scope.world):
            raise NotAllowed("read as this reader")
        return scope
