"""A reader of a world: everything it returns was read before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from truespan.engine.access import WorldAccess
from truespan.engine.answering import Answerer, Find, final_answer, plain_question
from truespan.engine.documents import Documents
from truespan.errors import (
    DocumentNotFound,
    ImageNotFound,
    NotAllowed,
    PositionNotFound,
    StoreDamaged,
)
from truespan.observer import RequestTrace
from truespan.retrieval.reading.book import ReaderRetriever, find_position
from truespan.retrieval.reading.pages import describe_position, read_pages, resolve
from truespan.retrieval.reading.tail import TailMaker
from truespan.retrieval.search import Rules
from truespan.retrieval.snapshot import Restart
from truespan.types.answer import Answer, AnswerEvent, Retrieved
from truespan.types.bundle import ContextBundle, Reason
from truespan.types.conversation import CONVERSATION_LIMIT, ConversationInfo
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId
from truespan.types.reading import (
    LAST_FIRST,
    NOTHING_READ,
    PAGE_SENTENCES,
    PageRequest,
    Position,
    ReadingPosition,
    SentencePage,
    StoredImage,
    wanted_image,
)
from truespan.types.request import (
    READING_TOP_K,
    Mode,
    PassageArguments,
    ReadingRequest,
    check_mode,
    check_whole,
    passage_options,
)
from truespan.types.scope import Scope
from truespan.types.telemetry import Request

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation
    from truespan.maintenance.delete import Receipt

T = TypeVar("T")


class Reader(Struct, frozen=True):
    """One reader of a world. What it returns depends on what was read, and on nothing else."""

    _access: WorldAccess
    name: str
    _tried: tuple[int, int] | None = None
    """A document and a sentence that count as the only position; None for what is recorded."""

    def set_position(
        self,
        book: str,
        *,
        sentence: int | None = None,
        through_chapter: str | None = None,
        passage: str | None = None,
        current: bool = True,
    ) -> ReadingPosition:
        """Record how far the reader has read; needs write permission. Going back is allowed.

        `through_chapter` is a chapter's name, with or without its part, its title, a part of it
        that no other name has, or the number that the book prints; in a book without numbers,
        chapters are counted. If several chapters have the number, the present position decides. The
        name of a part means the end of the part. No model is asked.

        Raises:
            InvalidArgument: not exactly one kind of position is given, it does not exist, or it
                can mean several chapters. The error names chapters, also those that lie ahead.
            PassageNotFound, PassageAmbiguous: the passage is not found exactly once.
        """
        self._access.require_writable()
        # Any model will do: a position is recorded even if the one of the world is not available.
        scope, store = self._access.scope(), self._access.components.store
        if scope is None:
            raise DocumentNotFound(book)
        document = Documents(self._access).get(book)
        before = NOTHING_READ
        if through_chapter is not None:
            # A position that is damaged can be set again, so it does not count here.
            with suppress(StoreDamaged):
                recorded = store.positions(scope, self.name)
                read = (item.sid for item in recorded if item.document == document.number)
                before = next(read, NOTHING_READ)
        position = resolve(
            store,
            scope,
            document,
            sid=sentence,
            through_chapter=through_chapter,
            passage=passage,
            position=before,
        )
        if document.active is None:
            raise DocumentNotFound(book)
        ref = RevisionRef(document.number, document.active)
        store.set_position(scope, self.name, ref, position, current=current)
        # The caller may read the whole world, and need not be allowed to act as this reader.
        return self._position_in(scope, document.doc_id)

    def at_position(self, book: str | None, sentence: int) -> Reader:
        """Return this reader as if they had read a book up to a sentence; nothing is recorded.

        None stands for the current book; a reader who has none has still read nothing. A sentence
        past the end means the whole book.

        Raises:
            NotAllowed: the caller may read only as a reader, and cannot try positions out.
            DocumentNotFound: no document has this name.
            InvalidArgument: the sentence is no whole number of at least -1.
        """
        scope = self._access.readable_scope()
        check_whole("sentence", sentence, NOTHING_READ, LAST_FIRST)
        if book is not None:
            document = Documents(self._access).get(book).number
            return Reader(self._access, self.name, (document, sentence))
        current = find_position(self._read_positions(scope), None) if scope else None
        return Reader(self._access, self.name, (current.document, sentence)) if current else self

    def position(self, book: str | None = None) -> ReadingPosition:
        """Return the position in a book; None for the current book.

        Raises:
            PositionNotFound: the reader has no position in such a book.
        """
        scope = self._scope()
        if scope is None:
            raise PositionNotFound
        return self._position_in(scope, book)

    def books(self) -> list[ReadingPosition]:
        """Return the position in each book that has one."""
        store = self._access.components.store

        def read() -> list[ReadingPosition]:
            scope, positions = self._positions()
            return [describe_position(store, scope, position) for position in positions if scope]

        return self._access.with_stable_snapshot(read)

    def sentences(
        self, book: str | None = None, *, offset: int = 0, limit: int = PAGE_SENTENCES
    ) -> SentencePage:
        """Return sentences of a book, or of the current one, never past the position.

        Each is checked against its hash. After the last sentence read the page is empty, and
        `more` counts only sentences that were read.

        Raises:
            InvalidArgument: `offset` is negative, or `limit` is not between 1 and 1000.
            PositionNotFound: the reader has no position in such a book.
            StoreDamaged: a sentence differs from its hash.
        """
        wanted = PageRequest(offset, limit)

        def read() -> SentencePage:
            scope, positions = self._positions()
            position = find_position(positions, book)
            if scope is None or position is None:
                raise PositionNotFound
            return read_pages(self._access.components.store, scope, position).page(wanted)

        self._scope()
        return self._access.with_stable_snapshot(read)

    def image(self, image_ref: str) -> StoredImage:
        """Return the image of a figure, once the reader has reached the figure.

        Raises:
            ImageNotFound: it is absent, of another world, or not read yet: the same error.
        """
        wanted, components = wanted_image(image_ref), self._access.components

        def read() -> StoredImage | None:
            if wanted is None:
                return None
            scope, positions = self._positions()
            position = next((item for item in positions if item.doc_id == wanted.doc_id), None)
            if scope is None or position is None:
                return None
            active = components.store.in_force(scope, position.document)
            if active is None or active.ref.revision != position.revision:
                raise Restart
            pages = read_pages(components.store, scope, position)
            return pages.image_of(components.assets, active.images, wanted)

        self._scope()
        found = self._access.with_stable_snapshot(read)
        if found is None:
            raise ImageNotFound
        return found

    def retrieve(
        self,
        query: str,
        *,
        book: str | None = None,
        top_k: int = READING_TOP_K,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        highlight: bool = False,
        **options: Unpack[PassageArguments],
    ) -> ContextBundle:
        """Return context for a query from what was read of the book, in reading order.

        With `rerank`, the configured reranker gets what was read and chooses among it. With
        `highlight`, each passage says which of its sentences and words match.
        The options are those of `PassageArguments`: how much of what is found is returned.

        Raises:
            InvalidArgument, BlankQuery, QueryTooLong: before the provider is asked.
            DocumentNotFound: no document has this name. A caller who may not see the documents
                gets the same result as for a book without a position.
        """
        passages = replace(passage_options(options), highlight=highlight)
        request = ReadingRequest(
            query=query,
            top_k=top_k,
            book=book,
            mode=check_mode(mode),
            rerank=rerank,
            passages=passages,
        )
        with self._access.components.observer.request(Request.READING) as trace:
            return self._retriever(trace).retrieve(request)

    def answer(
        self,
        query: str,
        book: str | None = None,
        *,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **options: Unpack[PassageArguments],
    ) -> Answer:
        """Answer a question from what was read of a book, or say that it does not suffice.

        Without sources no model is asked: it would answer from its memory of the book.

        Raises:
            InvalidArgument, BlankQuery, QueryTooLong: before any provider is asked.
            DocumentNotFound: as `retrieve`.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: a provider failed.
        """
        return final_answer(self.answer_stream(query, book, mode=mode, rerank=rerank, **options))

    def answer_stream(
        self,
        query: str,
        book: str | None = None,
        *,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **options: Unpack[PassageArguments],
    ) -> Iterator[AnswerEvent]:
        """Answer piece by piece, as `World.answer_stream` does."""
        find = self._prepare(query, book, mode=mode, rerank=rerank, **options)
        access, question = self._access, plain_question(query)
        answerer = Answerer(access.components, access.authority)
        rules = answerer.rules_for(query)
        return answerer.events(
            lambda trace: (question, find(trace, query, rules, book)), reading=True
        )

    def conversation(self, id: str | None = None, *, book: str | None = None) -> Conversation:
        """Return a conversation of this reader about a book, or begin one.

        `book` is by default the current book of the reader when the first question is asked. Only
        turns that were asked at or before the reader's position are visible; a conversation is
        stored with its first turn. Of a reader who is `at` a position nothing is stored: a turn is
        answered with the warning `turn_not_stored`.

        Raises:
            ConversationNotFound: there is no such conversation with a visible turn, or not for this
                reader and caller.
            ConversationsOff: the operator does not keep conversations.
            NotAllowed: the caller may not read as this reader.
        """
        from truespan.engine.conversations import Conversation

        return Conversation(
            self._access,
            self._prepare,
            id,
            reader=self.name,
            book=book,
            positions=self._read_positions,
            records=self._tried is None,
        )

    def conversations(
        self,
        *,
        book: str | None = None,
        limit: int = CONVERSATION_LIMIT,
        offset: int = 0,
    ) -> list[ConversationInfo]:
        """Return the conversations of this reader that have a visible turn, the latest first.

        Raises:
            ConversationsOff, NotAllowed: as `conversation`.
            InvalidArgument: `limit` or `offset` is out of range.
        """
        from truespan.engine.conversations import list_conversations

        return list_conversations(
            self._access,
            self.name,
            book,
            limit=limit,
            offset=offset,
            positions=self._read_positions,
        )

    def delete_conversations(self, *, erase: bool = True) -> Receipt:
        """Delete every conversation of this reader that is this caller's; see `Documents.delete`
        for `erase`. It works also while conversations are turned off."""
        from truespan.engine.conversations import delete_conversations

        return delete_conversations(self._access, reader=self.name, erase=erase)

    def _prepare(
        self,
        query: str,
        book: str | None = None,
        *,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **options: Unpack[PassageArguments],
    ) -> Find:
        """Check the arguments of a question; return what finds candidates for it."""
        request = ReadingRequest(
            query,
            book=book,
            mode=check_mode(mode),
            rerank=rerank,
            passages=passage_options(options),
        )

        def find(trace: RequestTrace, query: str, rules: Rules, book: str | None) -> Retrieved:
            chosen = replace(request, query=query, book=book)
            return self._retriever(trace).find_candidates(chosen, rules)

        return find

    def why_not(
        self,
        chunk_id: str,
        query: str,
        *,
        book: str | None = None,
        top_k: int = READING_TOP_K,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **options: Unpack[PassageArguments],
    ) -> Reason:
        """Return why a chunk is not among what `retrieve` returns for the same arguments.

        A chunk that was not read yet gets the same reason as one that does not exist.
        """
        request = ReadingRequest(
            query=query,
            top_k=top_k,
            book=book,
            mode=check_mode(mode),
            rerank=rerank,
            passages=passage_options(options),
        )
        with self._access.components.observer.request(Request.READING_WHY_NOT) as trace:
            return self._retriever(trace).why_not(request, ChunkId(chunk_id))

    def _scope(self) -> Scope | None:
        scope = self._access.scope()
        if scope is not None and not scope.authority.may_follow(self.name, scope.world):
            raise NotAllowed("read as this reader")
        return scope

    def _positions(self) -> tuple[Scope | None, list[Position]]:
        scope = self._scope()
        return scope, self._read_positions(scope) if scope else []

    def _read_positions(self, scope: Scope) -> list[Position]:
        store = self._access.components.store
        if self._tried is None:
            return store.positions(scope, self.name)
        return store.position_at(scope, self.name, *self._tried)

    def _position_in(self, scope: Scope, book: str | None) -> ReadingPosition:
        store = self._access.components.store

        def read() -> ReadingPosition:
            found = find_position(self._read_positions(scope), book)
            if found is None:
                raise PositionNotFound
            return describe_position(store, scope, found)

        return self._access.with_stable_snapshot(read)

    def _retriever(self, trace: RequestTrace) -> ReaderRetriever:
        components = self._access.components
        tails = TailMaker(
            store=components.store,
            embedders=components.embedder_for,
            counter=components.counter,
            limits=components.limits,
            clock=components.clock,
            on_token_limit=components.preparation.on_token_limit,
        )
        return ReaderRetriever(self._access.pipeline(trace), tails, self._read_positions, self.name)
