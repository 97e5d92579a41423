"""Candidates for a reader's answer: one book, up to the position, the tail included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from truespan.model.names import Stage
from truespan.model.request import ReadingRequest
from truespan.model.retrieved import ANSWER_TOP_K, Retrieved, Shortlist, shortlist
from truespan.model.scale import reaches
from truespan.model.scope import Authority, Scope, World
from truespan.model.trail import Visible
from truespan.query.candidates import Rules, signalled
from truespan.query.settle import in_one_state
from truespan.query.told import tell_candidates
from truespan.reading.look import Lookout


@dataclass(frozen=True, slots=True)
class ReadingFinder:
    """What finding candidates for a reader needs. `rules` are those of answers for anybody."""

    books: Lookout
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
        found = in_one_state(
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
