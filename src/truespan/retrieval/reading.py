"""Looking into a book for a reader: the position, what may be searched, and what is seen there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from truespan.errors import BlankQuery, DocumentNotFound, NotAllowed
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedders, TrustedStore, VectorIndex
from truespan.retrieval.candidates import Rules, signalled
from truespan.retrieval.fetch import Gathered, gather
from truespan.retrieval.metrics import tell_candidates
from truespan.retrieval.pack import (
    FILTERED,
    RANKED,
    SEARCHED,
    VECTORIZED,
    Packed,
    RetrievalAttempt,
    RetrievalLog,
    bundled,
    pack,
    why_not_packed,
)
from truespan.retrieval.query_vector import SCORE_DECIMALS, query_vector, similarity_of
from truespan.retrieval.snapshot import RetrievalState, existing, with_stable_snapshot
from truespan.retrieval.stages import rank_visible, reveal, visible_chunk_id
from truespan.retrieval.tail import TailMaker
from truespan.types.answer import ANSWER_TOP_K, Retrieved, Shortlist, shortlist
from truespan.types.bundle import ContextBundle, Notice, Reason, WhyNot
from truespan.types.chunk import ChunkKind, Vector
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId
from truespan.types.profile import reaches
from truespan.types.reading import NOTHING_READ, Position, TailChunk
from truespan.types.request import MAX_CONTEXT_TOKENS, ReadingRequest
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World
from truespan.types.telemetry import Stage
from truespan.types.trust import Verified, Visible

ROUNDING = 2e-6
"""How far the single precision of an index may be off from the scores that count."""
NO_POSITION = Notice(
    "no_reading_position", "No reading position is recorded, so nothing of this book is readable."
)
NOTHING_READ_YET = Notice("nothing_read", "Nothing of this book has been read yet.")


@dataclass(frozen=True, slots=True)
class Opened:
    """The book as it lies before a reader. Without a position nothing of it is readable."""

    scope: Scope | None = None
    position: Position | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class BookSearcher:
    """What looking into books for readers needs."""

    store: TrustedStore
    index: VectorIndex
    embedders: Embedders
    clock: Clock
    tails: TailMaker
    aim: GenerationSelector = None
    course: RequestTrace = NULL_OBSERVER

    def admitted(self, authority: Authority, world_ref: str, reader: str, query: str) -> World:
        """Return the world in which a reader may ask.

        Raises:
            WorldNotFound, NotAllowed, BlankQuery: before anything dearer.
        """
        with self.course.stage(Stage.ADMITTED):
            world = existing(self.store, authority, world_ref, self.aim)
            if not authority.may_follow(reader, world.id):
                raise NotAllowed("read as this reader")
            if not query.strip():
                raise BlankQuery
            return world

    def opened(self, authority: Authority, world: World, reader: str, book: str | None) -> Opened:
        """Open the named book, or the current one, at the recorded position."""
        if world.generation is None:
            if book is not None and authority.may(Verb.READ, world.id):
                raise DocumentNotFound(book)
            return Opened(notices=(NO_POSITION,))
        whole = Scope(authority, world.id, world.generation)
        # The position is read here, once, before anything is asked of the index.
        position = book_of(self.store.positions(whole, reader), book)
        if position is None:
            self._require_book(whole, world, book)
            return Opened(notices=(NO_POSITION,))
        scope = whole.for_reader(position.document, position.revision, position.sid)
        if position.sid == NOTHING_READ:
            return Opened(scope, None, (NOTHING_READ_YET,))
        return Opened(scope, position)

    def vector(self, scope: Scope, query: str) -> Vector:
        """Return the vector of a query."""
        with self.course.stage(Stage.VECTOR):
            return query_vector(
                scope,
                query.strip(),
                embedder=self.embedders(scope.profile),
                cache=self.store,
                clock=self.clock,
                course=self.course,
            )

    def look(self, scope: Scope, position: Position, vector: Vector) -> BookSearch:
        """Make the tail, which stands beside what the index will be asked for."""
        ref = RevisionRef(position.document, position.revision)
        with self.course.stage(Stage.TAIL):
            tail = self.tails.tail(scope, ref, position.sid, position.chunking)
        distance = scope.profile.distance
        ending = [
            _tail_part(scope, position, chunk, similarity_of(vector, chunk.vector, distance))
            for chunk in tail
            if chunk.vector is not None
        ]
        whole = self.store.whole_chunks(scope, ref, position.sid)
        seen = _Seen(self.store, scope, vector)
        in_scope = whole + len(tail)
        return BookSearch(
            self.store, self.index, scope, vector, ending, in_scope, seen, self.course
        )

    def _require_book(self, scope: Scope, world: World, book: str | None) -> None:
        """Refuse a name that no document has; one that has no position is merely unreadable.

        To whoever may not see the world's documents the two are one, or names could be guessed.
        """
        if book is None or not scope.authority.may(Verb.READ, scope.world):
            return
        names = {
            name
            for entry in self.store.shelf(scope, world)
            for name in (str(entry.number), entry.doc_id, entry.name)
        }
        if book not in names:
            raise DocumentNotFound(book)


@dataclass(frozen=True, slots=True)
class BookSearch:
    """One query held against the read part of a book. `in_scope` counts its chunks."""

    store: TrustedStore
    index: VectorIndex
    scope: Scope
    vector: Vector
    ending: list[Visible]
    in_scope: int
    _seen: _Seen
    course: RequestTrace = NULL_OBSERVER

    def visible(self, verified: Sequence[Verified]) -> list[Visible]:
        """Return what of verified chunks may be seen, and the tail, by rank."""
        return rank_visible([*self._seen.visible(verified), *self.ending])

    def finally_visible(self, found: Gathered) -> list[Visible]:
        """Return the same of all that was gathered, as stages of the request."""
        with self.course.stage(Stage.VISIBLE):
            seen = self._seen.visible(found.verified)
        with self.course.stage(Stage.RANKED):
            return rank_visible([*seen, *self.ending])

    def gather(
        self,
        k: int,
        floor: float | None,
        progress: Callable[[list[Visible]], tuple[int, float | None]],
    ) -> Gathered:
        """Fetch and verify until nothing is missing that could be among the best `k`.

        `progress` says of what is visible so far how many are missing at least, and at which score
        there were enough; None while there are not.
        """

        def missing(verified: list[Verified], unseen_below: float) -> int:
            still, last = progress(self.visible(verified))
            if last is None:
                return still
            # Parts of the tail may have filled the places of stored chunks not fetched yet. The
            # index computes in single precision, hence the margin.
            return int(unseen_below >= last - ROUNDING)

        least = None if floor is None else max(floor - ROUNDING, 0.0)
        return gather(
            self.store,
            self.index,
            self.scope,
            self.vector,
            k=k,
            floor=least,
            missing=missing,
            course=self.course,
        )


class _Seen:
    """Stored chunks as the reader sees them, each revealed and scored once.

    They are scored from their kept vectors, as the tail is: one routine for both.
    """

    def __init__(self, store: TrustedStore, scope: Scope, vector: Vector) -> None:
        self._store = store
        self._scope = scope
        self._vector = vector
        self._known: dict[ChunkId, Visible | None] = {}

    def visible(self, verified: Sequence[Verified]) -> list[Visible]:
        """Return what of verified chunks may be seen."""
        fresh = [one for one in verified if one.chunk.chunk_id not in self._known]
        hashes = [one.chunk.text_hash for one in fresh]
        kept = self._store.vectors(self._scope, hashes) if hashes else {}
        for one in fresh:
            found = kept.get(one.chunk.text_hash)
            self._known[one.chunk.chunk_id] = self._revealed(one, found) if found else None
        shown = (self._known[one.chunk.chunk_id] for one in verified)
        return [part for part in shown if part]

    def _revealed(self, one: Verified, found: Vector) -> Visible | None:
        score = similarity_of(self._vector, found, self._scope.profile.distance)
        return reveal(Verified(one.chunk, one.document, one.text, score), self._scope)


def book_of(positions: Sequence[Position], book: str | None) -> Position | None:
    """Return the position in the named book, or in the current one when none is named."""
    for position in positions:
        if book is None and position.current:
            return position
        if book is not None and book in (str(position.document), position.doc_id, position.name):
            return position
    return None


def _tail_part(scope: Scope, position: Position, chunk: TailChunk, score: float) -> Visible:
    chapter = chunk.chapter or position.title
    return Visible(
        chunk_id=visible_chunk_id(
            scope,
            position.document,
            chunk.first_sid,
            chunk.last_sid,
            chunk.start,
            chunk.text_hash,
        ),
        document=position.document,
        source=position.name,
        title=position.title,
        revision=None,
        index=chunk.index,
        start=chunk.start,
        end=chunk.end,
        first_sid=chunk.first_sid,
        last_sid=chunk.last_sid,
        chapter=chapter,
        section=chunk.section or chapter,
        kind=ChunkKind.TEXT,
        text=chunk.text,
        text_hash=chunk.text_hash,
        tokens=chunk.tokens,
        score=score,
        page=chunk.page,
    )


@dataclass(frozen=True, slots=True)
class ReaderRetriever:
    """What retrieval for a reader needs."""

    books: BookSearcher
    on_flaws: Callable[[Scope], None]

    def retrieve(
        self, authority: Authority, world_ref: str, reader: str, request: ReadingRequest
    ) -> ContextBundle:
        """Return what a reader's book has to say to a query, up to the recorded position.

        Raises:
            WorldNotFound, NotAllowed, DocumentNotFound: there is no such thing for this caller.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        world = self.books.admitted(authority, world_ref, reader, request.query)
        attempt = RetrievalAttempt(_account(request))
        return bundled(
            attempt,
            lambda: self._settle(attempt, authority, world, reader, request),
            self.books.clock,
            self.books.course,
        )

    def why_not(
        self,
        authority: Authority,
        world_ref: str,
        reader: str,
        request: ReadingRequest,
        chunk_id: ChunkId,
    ) -> Reason:
        """Say why a chunk is not among a reader's results; an unread one is like an absent one."""
        world = self.books.admitted(authority, world_ref, reader, request.query)
        attempt = RetrievalAttempt(_account(request))
        self._settle(attempt, authority, world, reader, request)
        packed = why_not_packed(attempt.packed, chunk_id)
        scope = attempt.scope
        if packed is not None or scope is None or scope.position is None:
            return packed or Reason(WhyNot.ABSENT)
        position = book_of(self.books.store.positions(scope, reader), request.book)
        if position is None or position.sid != scope.position:
            return Reason(WhyNot.ABSENT)
        ref = RevisionRef(position.document, position.revision)
        known = (
            visible_chunk_id(scope, position.document, *mark)
            for mark in self.books.store.whole_marks(scope, ref, position.sid)
        )
        return Reason(WhyNot.OUTRANKED if chunk_id in known else WhyNot.ABSENT)

    def _settle(
        self,
        attempt: RetrievalAttempt,
        authority: Authority,
        world: World,
        reader: str,
        request: ReadingRequest,
    ) -> None:
        RetrievalState(self.books.store, authority, self.on_flaws).run(
            attempt,
            world,
            account=lambda: _account(request),
            fill=lambda latest: self._fill(attempt, authority, latest, reader, request),
        )

    def _fill(
        self,
        attempt: RetrievalAttempt,
        authority: Authority,
        world: World,
        reader: str,
        request: ReadingRequest,
    ) -> None:
        with self.books.course.stage(Stage.SCOPED):
            book = self.books.opened(authority, world, reader, request.book)
        attempt.scope = book.scope
        attempt.account.warnings += book.notices
        if book.scope is None or book.position is None:
            return
        vector = self.books.vector(book.scope, request.query)
        attempt.account.trace.append(VECTORIZED)
        self._answer(attempt, self.books.look(book.scope, book.position, vector), request)

    def _answer(self, attempt: RetrievalAttempt, look: BookSearch, request: ReadingRequest) -> None:
        account = attempt.account
        account.in_scope = look.in_scope
        k = min(request.top_k, look.in_scope)

        def packed(visible: list[Visible]) -> Packed:
            return pack(visible, k=k, budget=MAX_CONTEXT_TOKENS)

        def progress(visible: list[Visible]) -> tuple[int, float | None]:
            so_far = packed(visible)
            return so_far.missing(k), so_far.last

        found = look.gather(k, None, progress)
        account.trace += [SEARCHED, FILTERED, RANKED]
        readable = look.finally_visible(found)
        with self.books.course.stage(Stage.PACKED):
            attempt.packed = packed(readable)
        last = attempt.packed.last
        account.verified = sum(1 for part in readable if last is None or not _is_below(part, last))
        counted = found.down_to(last)
        account.fetched = account.verified + len(counted.flaws)
        account.reached = account.fetched > 0
        account.skipped = counted.skipped()
        attempt.flaws = found.flaws


def _is_below(part: Visible, score: float) -> bool:
    return round(part.score, SCORE_DECIMALS) < round(score, SCORE_DECIMALS)


def _account(request: ReadingRequest) -> RetrievalLog:
    return RetrievalLog("standard", request.top_k, None)


@dataclass(frozen=True, slots=True)
class ReadingFinder:
    """What finding candidates for a reader needs. `rules` are those of answers for anybody."""

    books: BookSearcher
    on_flaws: Callable[[Scope], None]
    rules: Rules

    def find(
        self, authority: Authority, world_ref: str, reader: str, request: ReadingRequest
    ) -> Retrieved:
        """Return the best chunks of the read part at or above the floor.

        Raises:
            WorldNotFound, NotAllowed, DocumentNotFound: there is no such thing for this caller.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        world = self.books.admitted(authority, world_ref, reader, request.query)
        found = with_stable_snapshot(
            self.books.store,
            authority,
            world,
            lambda latest: self._found(authority, latest, reader, request),
        )
        tell_candidates(self.books.course, found)
        return signalled(self.books.store, found, self.on_flaws)

    def _found(
        self, authority: Authority, world: World, reader: str, request: ReadingRequest
    ) -> Retrieved:
        with self.books.course.stage(Stage.SCOPED):
            book = self.books.opened(authority, world, reader, request.book)
        scope = book.scope
        if scope is None or book.position is None:
            return Retrieved(world, scope, (), book.notices)
        settings, floor = self.rules(scope)
        look = self.books.look(scope, book.position, self.books.vector(scope, request.query))

        def listed(visible: list[Visible]) -> Shortlist:
            # Stored chunks and the tail are scored by one routine, and only then the floor counts.
            above = (part for part in visible if reaches(part.score, floor))
            return shortlist(above, ANSWER_TOP_K, settings.exclude_chunk_types_from_llm)

        def progress(visible: list[Visible]) -> tuple[int, float | None]:
            so_far = listed(visible)
            return so_far.missing, so_far.last

        found = look.gather(min(ANSWER_TOP_K, look.in_scope), floor, progress)
        chosen = listed(look.finally_visible(found))
        return Retrieved(world, scope, chosen.chunks, (), tuple(found.flaws))
