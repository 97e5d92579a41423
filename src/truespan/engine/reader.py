"""A reader of a world: the engine as somebody who has come so far may use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from truespan.engine.answering import Answerer, last_of
from truespan.engine.parts import Components
from truespan.errors import DocumentNotFound, ImageNotFound, NotAllowed, PositionNotFound
from truespan.observer import RequestTrace
from truespan.retrieval.pages import read_pages
from truespan.retrieval.pipeline import Pipeline
from truespan.retrieval.positions import ReadingPosition, resolve, whereabouts
from truespan.retrieval.reading import ReaderRetriever, find_position
from truespan.retrieval.snapshot import Restart, require_world, with_stable_snapshot
from truespan.retrieval.tail import TailMaker
from truespan.types.answer import Answer, AnswerEvent, Retrieved
from truespan.types.bundle import ContextBundle, Reason
from truespan.types.document import Document, RevisionRef
from truespan.types.figure import ImageFile
from truespan.types.ids import ChunkId
from truespan.types.reading import (
    PAGE_SENTENCES,
    PageRequest,
    Position,
    SentencePage,
    StoredImage,
    wanted_image,
)
from truespan.types.request import READING_TOP_K, ReadingRequest
from truespan.types.scope import Authority, GenerationSelector, Scope
from truespan.types.telemetry import Request

T = TypeVar("T")


class Shelves(Protocol):
    """What a reader needs of the world it reads in."""

    id: str
    aim: GenerationSelector

    @property
    def authority(self) -> Authority: ...

    def document(self, reference: str | int) -> Document: ...

    def _scope(self) -> Scope | None: ...

    def _writing_scope(self) -> Scope: ...


class Reader:
    """One reader of a world. What it returns depends on what was read, and on nothing else."""

    def __init__(
        self, world: Shelves, parts: Components, on_flaws: Callable[[Scope], None], name: str
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
    ) -> ReadingPosition:
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
        # Whoever may set a position may read the whole world, and need not be the reader.
        return self._at(scope, document.doc_id)

    def where(self, book: str | None = None) -> ReadingPosition:
        """Return how far the reader is in a book, or in the current one.

        Raises:
            PositionNotFound: there is no position in such a book.
        """
        scope = self._following()
        if scope is None:
            raise PositionNotFound
        return self._at(scope, book)

    def _at(self, scope: Scope, book: str | None) -> ReadingPosition:
        found = find_position(self._parts.store.positions(scope, self.name), book)
        if found is None:
            raise PositionNotFound
        return whereabouts(self._parts.store, scope, found)

    def books(self) -> list[ReadingPosition]:
        """Return how far the reader is in each book that has a position."""
        scope = self._following()
        if scope is None:
            return []
        store = self._parts.store
        return [whereabouts(store, scope, entry) for entry in store.positions(scope, self.name)]

    def sentences(
        self, book: str | None = None, *, first: int = 0, count: int = PAGE_SENTENCES
    ) -> SentencePage:
        """Return sentences of a book, or of the current one, never past the position.

        Each is checked against its hash. After the last one read the page is empty, and `more`
        speaks of read sentences only.

        Raises:
            InvalidSettings: there is no such page; 1 to 1000 sentences can be asked for.
            PositionNotFound: there is no position in such a book.
            StoreDamaged: a read sentence is not what it was when the book was taken in.
        """
        wanted = PageRequest(first, count)

        def attempt() -> SentencePage:
            scope, positions = self._positions()
            found = find_position(positions, book)
            if scope is None or found is None:
                raise PositionNotFound
            return read_pages(self._parts.store, scope, found).page(wanted)

        return self._settled(attempt)

    def image(self, image_ref: str) -> StoredImage:
        """Return an image that a figure of a book shows, once the reader has reached the figure.

        Raises:
            ImageNotFound: it is absent, of another world, or not read yet: the same answer.
        """
        wanted = wanted_image(image_ref)
        found = self._settled(lambda: self._image(wanted) if wanted else None)
        if found is None:
            raise ImageNotFound
        return found

    def _image(self, wanted: ImageFile) -> StoredImage | None:
        scope, positions = self._positions()
        position = next((one for one in positions if one.doc_id == wanted.doc_id), None)
        if scope is None or position is None:
            return None
        held = self._parts.store.in_force(scope, position.document)
        if held is None or held.ref.revision != position.revision:
            raise Restart
        pages = read_pages(self._parts.store, scope, position)
        return pages.image_of(self._parts.assets, held.images, wanted)

    def _positions(self) -> tuple[Scope | None, list[Position]]:
        scope = self._following()
        return scope, self._parts.store.positions(scope, self.name) if scope else []

    def _settled(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt gives that no change of the world has cut in two."""
        self._following()
        store, authority = self._parts.store, self._world.authority
        world = require_world(store, authority, self._world.id, self._world.aim)
        return with_stable_snapshot(store, authority, world, lambda _: attempt())

    def retrieve(
        self, query: str, *, book: str | None = None, top_k: int = READING_TOP_K
    ) -> ContextBundle:
        """Return what the book read so far has to say to a query, in reading order.

        Raises:
            InvalidSettings, BlankQuery, QueryTooLong: before the provider is asked.
            DocumentNotFound: no document has this name; to whoever may not see the documents, one
                that is not there merely has no position.
        """
        request = ReadingRequest(query, top_k, book)
        with self._parts.watch.request(Request.READING) as trace:
            return self._retriever(trace).retrieve(request)

    def answer(self, query: str, book: str | None = None) -> Answer:
        """Answer a question from what has been read of a book, or say that this does not do it.

        No model is asked without sources: it would speak of the book from memory.

        Raises:
            InvalidSettings, BlankQuery, QueryTooLong: before any provider is asked.
            DocumentNotFound: no document has this name; to whoever may not see the documents, one
                that is not there merely has no position.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: a provider failed.
        """
        return last_of(self.answer_stream(query, book))

    def answer_stream(self, query: str, book: str | None = None) -> Iterator[AnswerEvent]:
        """Answer piece by piece, as `World.answer_stream` does."""
        request = ReadingRequest(query, book=book)
        answerer = Answerer(self._parts, self._world.authority, query)

        def find(trace: RequestTrace) -> Retrieved:
            return self._retriever(trace).find_candidates(request, answerer.rules)

        return answerer.events(find, reading=True)

    def _retriever(self, trace: RequestTrace) -> ReaderRetriever:
        parts = self._parts
        deps = parts.retrieval_deps(self._on_flaws, trace)
        pipeline = Pipeline(deps, self._world.authority, self._world.id, self._world.aim)
        tails = TailMaker(
            parts.store,
            parts.embedder_for,
            parts.counter,
            parts.limits,
            parts.clock,
            parts.preparation.on_token_limit,
        )
        return ReaderRetriever(pipeline, tails, self.name)

    def why_not(self, chunk_id: str, query: str, **settings: Any) -> Reason:
        """Say why a chunk is not among what `retrieve` returns for the same arguments.

        A chunk that was not read yet is answered for as one that does not exist.
        """
        request = ReadingRequest(query, **settings)
        with self._parts.watch.request(Request.READING_WHY_NOT) as trace:
            return self._retriever(trace).why_not(request, ChunkId(chunk_id))

    def _following(self) -> Scope | None:
        scope = self._world._scope()
        if scope is not None and not scope.authority.may_follow(self.name, scope.world):
            raise NotAllowed("read as this reader")
        return scope
