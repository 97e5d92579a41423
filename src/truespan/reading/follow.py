"""Retrieval for a reader: one book, up to the position, in reading order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from truespan.model.bundle import ContextBundle, Reason, WhyNot
from truespan.model.document import RevisionRef
from truespan.model.ids import ChunkId
from truespan.model.names import Stage
from truespan.model.request import MAX_CONTEXT_TOKENS, ReadingRequest
from truespan.model.scope import Authority, Scope, World
from truespan.model.trail import Visible
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
from truespan.query.pack import Packed, pack, why_not_packed
from truespan.query.reveal import seen_as
from truespan.query.similarity import SCORE_DECIMALS
from truespan.reading.look import Look, Lookout, book_of


@dataclass(frozen=True, slots=True)
class Follower:
    """What retrieval for a reader needs."""

    books: Lookout
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
        attempt = Attempt(_account(request))
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
        attempt = Attempt(_account(request))
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
            seen_as(scope, position.document, *mark)
            for mark in self.books.store.whole_marks(scope, ref, position.sid)
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
        Trial(self.books.store, authority, self.on_flaws).run(
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
        with self.books.course.stage(Stage.SCOPED):
            book = self.books.opened(authority, world, reader, request.book)
        attempt.scope = book.scope
        attempt.account.warnings += book.notices
        if book.scope is None or book.position is None:
            return
        vector = self.books.vector(book.scope, request.query)
        attempt.account.trace.append(VECTORIZED)
        self._answer(attempt, self.books.look(book.scope, book.position, vector), request)

    def _answer(self, attempt: Attempt, look: Look, request: ReadingRequest) -> None:
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


def _account(request: ReadingRequest) -> Account:
    return Account("standard", request.top_k, None)
