"""One request, one state of the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from truespan.errors import (
    DomainNotFound,
    GenerationNotFound,
    StoreBusy,
    TruespanError,
    WorldNotFound,
)
from truespan.model.scope import Aim, Authority, World
from truespan.ports import WorldStore

ATTEMPTS = 40
"""How often a request is carried out again because the world changed under it."""

T = TypeVar("T")


class Restart(Exception):
    """What an attempt needs is gone: the world changed under it."""


def existing(store: WorldStore, authority: Authority, reference: str, aim: Aim = None) -> World:
    """Return the world a request names.

    Raises:
        WorldNotFound: it is absent, or does not exist for this authority: the same answer.
        DomainNotFound, GenerationNotFound: it has no such generation, as above.
    """
    world = store.find_world(authority, reference, aim)
    if world is None:
        raise not_found(reference, aim)
    return world


def not_found(reference: str, aim: Aim) -> TruespanError:
    """Return the error for what is absent or foreign; nobody can tell which."""
    if aim is None:
        return WorldNotFound(reference)
    return DomainNotFound(aim) if isinstance(aim, str) else GenerationNotFound(aim)


def in_one_state(
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
