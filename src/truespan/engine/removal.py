"""Deleting for good, with the parts of a library."""

from __future__ import annotations

from truespan.engine.jobs import Jobs
from truespan.engine.parts import Components
from truespan.errors import WorldBusy, WorldNotFound
from truespan.maintenance.delete import Receipt, Remover
from truespan.types.job import JobState
from truespan.types.scope import Authority, Scope, Verb, World


def remover(parts: Components) -> Remover:
    """Return who deletes with these parts."""
    return Remover(
        parts.store, parts.index, parts.assets, parts.clock, parts.remains, parts.uploads
    )


def delete_world(parts: Components, authority: Authority, world: World, *, erase: bool) -> Receipt:
    """Delete a world, unless somebody works at it.

    Raises:
        WorldNotFound: it is not for this authority to remove.
        WorldBusy: a job of the world runs.
    """
    if not authority.may(Verb.ADMINISTER, world.id):
        raise WorldNotFound(world.name)
    scope = Scope(authority, world.id, world.generation) if world.generation else None
    running = [job.id for job in Jobs(parts, scope).list() if job.state is JobState.RUNNING]
    if running:
        raise WorldBusy(world.name, running[0])
    return remover(parts).world(authority, world, erase=erase)
