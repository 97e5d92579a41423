"""Retrieval for a reader: one book, up to the position, in reading order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from truespan.errors import BlankQuery, DocumentNotFound, NotAllowed
from truespan.model.bundle import ContextBundle, Notice, Reason, WhyNot
from truespan.model.chunk import ChunkKind, Vector
from truespan.model.document import RevisionRef
from truespan.model.ids import ChunkId
from truespan.model.reading import NOTHING_READ, Position, TailChunk
from truespan.model.request import MAX_CONTEXT_TOKENS, ReadingRequest
from truespan.model.scope import Aim, Authority, Scope, World
from truespan.model.trail import Verified, Visible
from truespan.ports import Clock, Embedders, TrustedStore, VectorIndex
from truespan.query.assemble import (
    FILTERED,
    RANKED,
    SEARCHED,
    VECTORIZED,
    Account,
    Attempt,
    bundled,
)
from truespan.query.attempts import Trial
from truespan.query.gather import gather
from truespan.query.pack import Packed, pack
from truespan.query.rank import rank_visible
from truespan.query.retrieve import why_not_packed
from truespan.query.reveal import reveal, seen_as
from truespan.query.settle import existing
from truespan.query.similarity import SCORE_DECIMALS, similarity_of
from truespan.query.vector import query_vector
from truespan.reading.tail import TailMaker

ROUNDING = 2e-6
NO_POSITION = Notice(
    "no_reading_position", "No reading position is recorded, so nothing of this book is readable."
)
NOTHING_READ_YET = Notice("nothing_read", "Nothing of this book has been read yet.")


@dataclass(frozen=True, slots=True)
class Follower:
    """What retrieval for a reader needs."""

    store: TrustedStore
    index: VectorIndex
    embedders: Embedders
    clock: Clock
    tails: TailMaker
    on_flaws: Callable[[Scope], None]
    aim: Aim = None

    def retrieve(
        self, authority: Authority, world_ref: str, reader: str, request: ReadingRequest
    ) -> ContextBundle:
        """Return what a reader's book has to say to a query, up to the recorded position.

        Raises:
            WorldNotFound, NotAllowed, DocumentNotFound: there is no such thing for this caller.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        world = self._admitted(authority, world_ref, reader, request)
        attempt = Attempt(_account(request))
        return bundled(
            attempt, lambda: self._settle(attempt, authority, world, reader, request), self.clock
        )

    def _admitted(
        self, authority: Authority, world_ref: str, reader: str, request: ReadingRequest
    ) -> World:
        world = existing(self.store, authority, world_ref, self.aim)
        if not authority.may_follow(reader, world.id):
            raise NotAllowed("read as this reader")
        if not request.query.strip():
            raise BlankQuery
        return world

    def why_not(
        self,
        authority: Authority,
        world_ref: str,
        reader: str,
        request: ReadingRequest,
        chunk_id: ChunkId,
    ) -> Reason:
        """Say why a chunk is not among a reader's results; an unread one is like an absent one."""
        world = self._admitted(authority, world_ref, reader, request)
        attempt = Attempt(_account(request))
        self._settle(attempt, authority, world, reader, request)
        packed = why_not_packed(attempt.packed, chunk_id)
        scope = attempt.scope
        if packed is not None or scope is None or scope.position is None:
            return packed or Reason(WhyNot.ABSENT)
        position = book_of(self.store.positions(scope, reader), request.book)
        if position is None or position.sid != scope.position:
            return Reason(WhyNot.ABSENT)
        ref = RevisionRef(position.document, position.revision)
        known = (
            seen_as(scope, position.document, *mark)
            for mark in self.store.whole_marks(scope, ref, position.sid)
        )
        return Reason(WhyNot.OUTRANKED if chunk_id in known else WhyNot.ABSENT)

    def _settle(
        self,
        attempt: Attempt,
        authority: Authority,
        world: World,
        reader: str,
        request: ReadingRequest,
    ) -> None:
        Trial(self.store, authority, self.on_flaws).run(
            attempt,
            world,
            account=lambda: _account(request),
            fill=lambda latest: self._fill(attempt, authority, latest, reader, request),
        )

    def _fill(
        self,
        attempt: Attempt,
        authority: Authority,
        world: World,
        reader: str,
        request: ReadingRequest,
    ) -> None:
        account = attempt.account
        if world.generation is None:
            if request.book is not None:
                raise DocumentNotFound(request.book)
            account.warnings.append(NO_POSITION)
            return
        whole = Scope(authority, world.id, world.generation)
        # The position is read here, once, before anything is asked of the index.
        position = book_of(self.store.positions(whole, reader), request.book)
        if position is None:
            self._require_book(whole, world, request.book)
            account.warnings.append(NO_POSITION)
            return
        scope = attempt.scope = whole.for_reader(position.document, position.revision, position.sid)
        if position.sid == NOTHING_READ:
            account.warnings.append(NOTHING_READ_YET)
            return
        self._answer(attempt, scope, position, request)

    def _answer(
        self, attempt: Attempt, scope: Scope, position: Position, request: ReadingRequest
    ) -> None:
        account = attempt.account
        ref = RevisionRef(position.document, position.revision)
        vector = query_vector(
            scope,
            request.query.strip(),
            embedder=self.embedders(scope.profile),
            cache=self.store,
            clock=self.clock,
        )
        account.trace.append(VECTORIZED)
        tail = self.tails.tail(scope, ref, position.sid, position.chunking)
        account.in_scope = self.store.whole_chunks(scope, ref, position.sid) + len(tail)
        k = min(request.top_k, account.in_scope)
        distance = scope.profile.distance
        ending = [
            _tail_part(scope, position, chunk, similarity_of(vector, chunk.vector, distance))
            for chunk in tail
            if chunk.vector is not None
        ]
        shelf = _Seen(self.store, scope, vector)

        def packed(verified: Sequence[Verified]) -> Packed:
            candidates = rank_visible([*shelf.visible(verified), *ending])
            return pack(candidates, k=k, budget=MAX_CONTEXT_TOKENS)

        def missing(verified: list[Verified], unseen_below: float) -> int:
            so_far = packed(verified)
            if so_far.last is None:
                return so_far.missing(k)
            # Parts of the tail may have filled the places of stored chunks not fetched yet. The
            # index computes in single precision, hence the margin.
            return int(unseen_below >= so_far.last - ROUNDING)

        found = gather(self.store, self.index, scope, vector, k=k, floor=None, missing=missing)
        account.trace += [SEARCHED, FILTERED, RANKED]
        attempt.packed = packed(found.verified)
        last = attempt.packed.last
        readable = [*shelf.visible(found.verified), *ending]
        account.verified = sum(1 for part in readable if last is None or not _is_below(part, last))
        counted = found.down_to(last)
        account.fetched = account.verified + len(counted.flaws)
        account.reached = account.fetched > 0
        account.skipped = counted.skipped()
        attempt.flaws = found.flaws

    def _require_book(self, scope: Scope, world: World, book: str | None) -> None:
        """Refuse a name that no document has; one that has no position is merely unreadable."""
        if book is None:
            return
        names = {
            name
            for entry in self.store.shelf(scope, world)
            for name in (str(entry.number), entry.doc_id, entry.name)
        }
        if book not in names:
            raise DocumentNotFound(book)


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


def _is_below(part: Visible, score: float) -> bool:
    return round(part.score, SCORE_DECIMALS) < round(score, SCORE_DECIMALS)


def _account(request: ReadingRequest) -> Account:
    return Account("standard", request.top_k, None)


def _tail_part(scope: Scope, position: Position, chunk: TailChunk, score: float) -> Visible:
    chapter = chunk.chapter or position.title
    return Visible(
        chunk_id=seen_as(
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
