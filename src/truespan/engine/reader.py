"""A reader of a world: everything it returns was read before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, Unpack

from msgspec.structs import replace

from truespan import errors
from truespan.engine.access import WorldPart
from truespan.engine.answering import Answerer, Find, final_answer, with_request
from truespan.engine.arguments import list_arguments
from truespan.engine.documents import Documents
from truespan.observer import RequestTrace
from truespan.retrieval.deps import Restart
from truespan.retrieval.reading.book import ReaderRetrieval, find_position
from truespan.retrieval.reading.pages import describe_position, read_pages, resolve
from truespan.retrieval.search import Rules
from truespan.tables import member_of
from truespan.types.answer import Answer, AnswerEvent, Retrieved
from truespan.types.bundle import NOTHING_CLOSE, ContextBundle, Reason
from truespan.types.conversation import CONVERSATION_LIMIT, ConversationInfo
from truespan.types.decision import AnswerMode
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId
from truespan.types.origin import Operation, copy_origin, set_request
from truespan.types.picture import PagePicture
from truespan.types.reading import (
    LAST_FIRST,
    NOTHING_READ,
    PAGE_SENTENCES,
    ActiveRevision,
    PageRequest,
    Position,
    ReadingPosition,
    SentencePage,
    StoredImage,
    wanted_image,
)
from truespan.types.request import (
    READING_TOP_K,
    ReaderArguments,
    ReadingRequest,
    check_arguments,
    check_whole,
)
from truespan.types.scope import Scope
from truespan.types.telemetry import Request

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation
    from truespan.engine.notes import ReaderNotes
    from truespan.extensions.proof.types import SignedReceipt
    from truespan.maintenance.delete import Receipt

T = TypeVar("T")


MIN_CLOSE_COVERAGE = 0.25
"""Minimum share of the rarity of a query's words for a passage to be close to the query."""


class Reader(WorldPart, frozen=True):
    """One reader of a world. Results depend only on the read part of a book."""

    name: str
    _tried: tuple[int, int] | None = None
    """A document and a sentence that count as the only position; None for recorded positions."""

    def __repr__(self) -> str:
        return f"<Reader {self.name!r} of world {self._access.shown_name()!r}>"

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

        Give exactly one of `sentence`, `through_chapter` and `passage`. No model is called.

        Args:
            book: The document, by number, id, URL or path.
            sentence: Number of the last sentence read, from 0; -1 for nothing.
            through_chapter: The last chapter read: its name, with or without its part, its title, a
                part of its name that no other chapter has, or the number that the book prints. In a
                book without numbers, chapters are counted. If several chapters have the number, the
                present position decides. The name of a part means the end of the part.
            passage: The words read last, as in the book.
            current: Whether the book becomes the current one of the reader.

        Raises:
            InvalidArgument: Not exactly one kind of position is given, it does not exist, or it can
                mean several chapters. The error names chapters, also those that lie ahead.
            NotFound, InvalidArgument: The passage is not found exactly once.
        """
        self._access.require_writable()
        # Any model works: a position is recorded even if the model of the world is not available.
        scope, store = self._access.scope(), self._access.components.store
        if scope is None:
            raise errors.NotFound("document", book)
        document = Documents(self._access).get(book)
        before = NOTHING_READ
        if through_chapter is not None:
            # A position that is damaged can be set again, so it does not count here.
            with suppress(errors.StoreDamaged):
                recorded = store.readers.positions(scope, self.name)
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
            raise errors.NotFound("document", book)
        ref = RevisionRef(document.number, document.active)
        store.readers.set_position(scope, self.name, ref, position, current=current)
        # The caller may read the whole world, and need not be allowed to act as this reader.
        return self._position_in(scope, document.doc_id)

    def at_position(self, book: str | None, sentence: int) -> Reader:
        """Return this reader as if they had read a book up to a sentence; nothing is recorded.

        Args:
            book: The document; None for the current book. A reader without a current book has still
                read nothing.
            sentence: Number of the last sentence read; a number past the end means the whole book.

        Raises:
            NotAllowed: The caller may read only as a reader, and cannot try positions out.
        """
        scope = self._access.readable_scope()
        check_whole("sentence", sentence, NOTHING_READ, LAST_FIRST)
        if book is not None:
            document = Documents(self._access).get(book).number
            return Reader(self._access, self.name, (document, sentence))
        current = find_position(self._read_positions(scope), None) if scope else None
        return Reader(self._access, self.name, (current.document, sentence)) if current else self

    def position(self, book: str | None = None) -> ReadingPosition:
        """Return the position in a book.

        Args:
            book: The document; None for the current book.
        """
        scope = self._scope()
        if scope is None:
            raise errors.NotFound("position")
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
        """Return sentences of a book, never past the position, each checked against its hash.

        Args:
            book: The document; None for the current book.
            offset: Number of the first sentence.
            limit: Maximum number of sentences, 1 to 1000.

        Returns:
            A page. After the last sentence read it is empty, and `more` counts only sentences that
            were read.
        """
        wanted, store = PageRequest(offset, limit), self._access.components.store

        def read() -> SentencePage:
            return read_pages(store, *self._open_book(book)).page(wanted)

        return self._access.with_stable_snapshot(read)

    def image(self, image_ref: str) -> StoredImage:
        """Return the image of a figure, once the reader has reached the figure.

        Args:
            image_ref: The figure's `image_ref`.

        Raises:
            NotFound: It is absent, of another world, or not read yet: the same error.
        """
        wanted, components = wanted_image(image_ref), self._access.components

        def read() -> StoredImage | None:
            scope, positions = self._positions()
            doc_id = wanted and wanted.doc_id
            position = next((item for item in positions if item.doc_id == doc_id), None)
            if wanted is None or scope is None or position is None:
                return None
            active = self._require_active(scope, position)
            pages = read_pages(components.store, scope, position)
            return pages.image_of(components.assets, active.images, wanted)

        found = self._access.with_stable_snapshot(read)
        if found is None:
            raise errors.NotFound("image")
        return found

    def picture(self, page: int = 1, *, book: str | None = None) -> PagePicture:
        """Return a page of a book as it looks, without anything that was not read.

        Only read text is drawn, on every page: a page that is drawn whole would tell that it has no
        unread text. Only PDF files have pages for readers: elsewhere it is unknown where the
        position is.

        Args:
            page: Number of the page, from 1.
            book: The document; None for the current book.

        Raises:
            NotFound: The page does not exist, was not reached, or cannot be shown: the same
                error.
        """
        return member_of(self, "picture", "server")(page, book=book)

    @list_arguments
    def retrieve(
        self,
        query: str,
        *,
        book: str | None = None,
        top_k: int = READING_TOP_K,
        highlight: bool = False,
        notes: bool = False,
        closeness: bool = False,
        **options: Unpack[ReaderArguments],
    ) -> ContextBundle:
        """Return context for a query from what was read of a book, in reading order.

        Args:
            closeness: Whether to warn if no passage is close to the query: none has enough evidence
                of an answer, or enough of the query's words. A `contract` world has no such check.

        Returns:
            A bundle. If the provider, the index or the store fails, its status is `error`.

        Raises:
            NotFound: No document has this name. A caller who may not see the documents gets
                the same result as for a book without a position.
        """
        fields = check_arguments(options, highlight=highlight, filters=False)
        request = ReadingRequest(query=query, top_k=top_k, book=book, **fields)
        with self._access.components.observer.request(Request.READING) as trace:
            retrieval = self._retrieval(trace, request)
            bundle = retrieval.bundle()
            if closeness and bundle.retrieved_chunks and not self._is_close(retrieval, query):
                warnings = (*bundle.metadata.warnings, NOTHING_CLOSE)
                metadata = replace(bundle.metadata, warnings=warnings)
                bundle = copy_origin(bundle, replace(bundle, metadata=metadata))
            if notes and not bundle.error:
                return self._with_notes(bundle, request)
        given = {"book": book, "top_k": top_k, "highlight": highlight, **options}
        return set_request(bundle, Operation.RETRIEVE, query, given)

    def sign(self, result: ContextBundle | Answer) -> SignedReceipt:
        """Sign a result of this reader; the receipt depends on nothing past the position.

        Args:
            result: A result as `retrieve`, `answer` or a conversation returned it. One with notes
                cannot be signed.

        Raises:
            InvalidArgument: The result was changed, or is not from this world.
            InvalidConfiguration: The library has no signing key.
        """
        return member_of(self, "sign", "proof")(result)

    @list_arguments
    def answer(
        self, query: str, book: str | None = None, **options: Unpack[ReaderArguments]
    ) -> Answer:
        """Answer a question from what was read of a book, or say that it does not suffice.

        Without sources no model is called: it would answer from its memory of the book.

        Args:
            query: The question.
        """
        return final_answer(self.answer_stream(query, book, **options))

    @list_arguments
    def answer_stream(
        self,
        query: str,
        book: str | None = None,
        *,
        history: Sequence[tuple[str, str]] = (),
        **options: Unpack[ReaderArguments],
    ) -> Iterator[AnswerEvent]:
        """Answer piece by piece.

        Args:
            query: The question.
            history: Earlier questions with their answers. Only the questions count: an answer may
                come from a later position.
        """
        find = self._prepare(query, book, **options)
        answerer = Answerer(self._access.components, self._access.authority)
        questions = [(asked, "") for asked, _ in history]
        events = answerer.events(answerer.ask(query, find, book, questions), reading=True)
        return with_request(events, query, {"book": book, **options})

    def conversation(self, id: str | None = None, *, book: str | None = None) -> Conversation:
        """Return a conversation of this reader about a book, or begin one.

        Only turns that were asked at or before the reader's position are visible. Turns of a reader
        from `at_position` are not stored: they are answered with the warning `turn_not_stored`.

        Args:
            id: Id of a stored conversation; None for a new one, which is stored with its first
                turn.
            book: The document; None for the current book when the first question is asked.

        Raises:
            NotFound: There is no such conversation with a visible turn, or not for this
                reader and caller.
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
        self, *, book: str | None = None, limit: int = CONVERSATION_LIMIT, offset: int = 0
    ) -> list[ConversationInfo]:
        """Return the conversations of this reader that have a visible turn, the latest first.

        Args:
            book: Only conversations about this document.
            limit: Maximum number of conversations.
            offset: Number of conversations to skip.
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
        """Delete every conversation of this reader and caller, also while conversations are off.

        Args:
            erase: Whether to rewrite the files that contained them; see `Documents.delete`.
        """
        from truespan.engine.conversations import delete_conversations

        return delete_conversations(self._access, reader=self.name, erase=erase)

    @property
    def notes(self) -> ReaderNotes:
        """The notes that were written at or before the present position."""
        from truespan.engine.notes import ReaderNotes

        is_tried = self._tried is not None
        return ReaderNotes(self._access, self.name, self._positions, is_tried=is_tried)

    def _with_notes(self, bundle: ContextBundle, request: ReadingRequest) -> ContextBundle:
        """Return a bundle with notes, within the rest of the token budget."""
        components = self._access.components
        room = request.passages.budget(components.max_tokens) - bundle.total_tokens
        found, tokens = self.notes.find_by_query(
            request.query, request.book, room=room, count=components.counter.count
        )
        return replace(bundle, notes=found, total_tokens=bundle.total_tokens + tokens)

    def _is_close(self, retrieval: ReaderRetrieval, query: str) -> bool:
        """Return whether a passage of a bundle is close to the query; always so by contract."""
        if retrieval.attempt.world.defaults.values.plain:
            return True
        answerer, text = Answerer(self._access.components, self._access.authority), query.strip()
        found = retrieval.found(answerer.rules_for(text))
        decision = answerer.decide_on(found, text, retrieval.pipeline.deps.trace)
        if decision.mode is not AnswerMode.FALLBACK or found.measured.cover is None:
            return True
        covered = found.measured.cover([part.text for part in found.chunks])
        return max(own.share for own in covered) >= MIN_CLOSE_COVERAGE

    def _prepare(
        self, query: str, book: str | None = None, **options: Unpack[ReaderArguments]
    ) -> Find:
        """Check the arguments of a question; return the function that finds its candidates."""
        request = ReadingRequest(query, book=book, **check_arguments(options, filters=False))

        def find(trace: RequestTrace, query: str, rules: Rules, book: str | None) -> Retrieved:
            chosen = replace(request, query=query, book=book)
            return self._retrieval(trace, chosen).candidates(rules)

        return find

    @list_arguments
    def why_not(
        self,
        chunk_id: str,
        query: str,
        *,
        book: str | None = None,
        top_k: int = READING_TOP_K,
        **options: Unpack[ReaderArguments],
    ) -> Reason:
        """Explain why a chunk is not among what `retrieve` returns for the same arguments.

        A chunk that was not read yet gets the same reason as one that does not exist.

        Args:
            chunk_id: Id of the chunk.
            query: As in `retrieve`.
            book: The document; None for the current book.
            top_k: Maximum number of passages.
        """
        fields = check_arguments(options, filters=False)
        request = ReadingRequest(query=query, top_k=top_k, book=book, **fields)
        with self._access.components.observer.request(Request.READING_WHY_NOT) as trace:
            return self._retrieval(trace, request).why_not(ChunkId(chunk_id))

    def _scope(self) -> Scope | None:
        scope = self._access.scope()
        if scope is not None and not scope.authority.may_follow(self.name, scope.world):
            raise errors.NotAllowed("read as this reader")
        return scope

    def _positions(self) -> tuple[Scope | None, list[Position]]:
        scope = self._scope()
        return scope, self._read_positions(scope) if scope else []

    def _open_book(self, book: str | None) -> tuple[Scope, Position]:
        """Return the position in a book, by default the current one; raises NotFound."""
        scope, positions = self._positions()
        position = find_position(positions, book)
        if scope is None or position is None:
            raise errors.NotFound("position")
        return scope, position

    def _require_active(self, scope: Scope, position: Position) -> ActiveRevision:
        """Return the revision of a position; raises Restart if another one is active by now."""
        active = self._access.components.store.readers.in_force(scope, position.document)
        if active is None or active.ref.revision != position.revision:
            raise Restart
        return active

    def _read_positions(self, scope: Scope) -> list[Position]:
        store = self._access.components.store
        if self._tried is None:
            return store.readers.positions(scope, self.name)
        return store.readers.position_at(scope, self.name, *self._tried)

    def _position_in(self, scope: Scope, book: str | None) -> ReadingPosition:
        store = self._access.components.store

        def read() -> ReadingPosition:
            found = find_position(self._read_positions(scope), book)
            if found is None:
                raise errors.NotFound("position")
            return describe_position(store, scope, found)

        return self._access.with_stable_snapshot(read)

    def _retrieval(self, trace: RequestTrace, request: ReadingRequest) -> ReaderRetrieval:
        pipeline = self._access.pipeline.with_trace(trace)
        return ReaderRetrieval(pipeline, self._read_positions, self.name, request)
