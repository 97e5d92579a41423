"""One request, one state of the world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from truespan.errors import (
    DomainNotFound,
    GenerationNotFound,
    StoreBusy,
    TruespanError,
    WorldNotFound,
)
from truespan.protocols import TrustedStore, WorldStore
from truespan.retrieval.fetch import signal
from truespan.retrieval.pack import RetrievalAttempt, RetrievalLog
from truespan.types.scope import Authority, GenerationSelector, Scope, World

ATTEMPTS = 40
"""How often a request is carried out again because the world changed under it."""

T = TypeVar("T")


class Restart(Exception):
    """What an attempt needs is gone: the world changed under it."""


def existing(
    store: WorldStore, authority: Authority, reference: str, aim: GenerationSelector = None
) -> World:
    """Return the world a request names.

    Raises:
        WorldNotFound: it is absent, or does not exist for this authority: the same answer.
        DomainNotFound, GenerationNotFound: it has no such generation, as above.
    """
    world = store.find_world(authority, reference, aim)
    if world is None:
        raise not_found(reference, aim)
    return world


def not_found(reference: str, aim: GenerationSelector) -> TruespanError:
    """Return the error for what is absent or foreign; nobody can tell which."""
    if aim is None:
        return WorldNotFound(reference)
    return DomainNotFound(aim) if isinstance(aim, str) else GenerationNotFound(aim)


def with_stable_snapshot(
    store: WorldStore, authority: Authority, world: World, attempt: Callable[[World], T]
) -> T:
    """Return what `attempt` makes of a world that did not change meanwhile.

    Index and store are two reads. A document that is replaced between them would be seen half or
    not at all; the world's count of changes tells, and the request is carried out again.

    Raises:
        StoreBusy: what was needed was gone each time; trying again may help.
    """
    outcomes: list[T] = []
    for _ in range(ATTEMPTS):
        try:
            outcomes = [attempt(world)]
        except Restart:
            world = existing(store, authority, world.id, world.aim)
            continue
        latest = existing(store, authority, world.id, world.aim)
        if latest.changes == world.changes:
            break
        world = latest
    if not outcomes:
        raise StoreBusy
    # A world that never stands still gets the latest answer: all of it was true when it was read.
    return outcomes[0]


@dataclass(frozen=True, slots=True)
class RetrievalState:
    """What trying a request needs: where it looks, for whom, and who hears of what is broken."""

    store: TrustedStore
    authority: Authority
    on_flaws: Callable[[Scope], None]

    def run(
        self,
        attempt: RetrievalAttempt,
        world: World,
        *,
        account: Callable[[], RetrievalLog],
        fill: Callable[[World], None],
    ) -> None:
        """Fill an attempt from one state of the world; begin anew when that changes meanwhile."""

        def once(latest: World) -> None:
            attempt.begin(account())
            fill(latest)

        with_stable_snapshot(self.store, self.authority, world, once)
        # Only now: marking what is broken changes the world that was looked at.
        if attempt.flaws and attempt.scope is not None:
            notices = signal(self.store, attempt.scope, attempt.flaws, self.on_flaws)
            attempt.account.warnings += notices
