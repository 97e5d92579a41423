"""A folder whose job is spread over workers: made, cut into shares, and looked at."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.unit.test_workers import Works
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.types.job import Job
from truespan.types.scope import Scope

SHARES, PER_SHARE = 4, 2
"""A job is cut into fewer shares than usual: more would take longer and show no more."""
DOCUMENTS = SHARES * PER_SHARE


def written(folder: Path, number: int) -> Path:
    path = folder / f"{number:02}.txt"
    path.write_text(f"Book {number} tells of harbour {number} by night. It ends at pier {number}.")
    return path


def scope_of(world: World) -> Scope:
    scope = world.access.scope()
    assert scope is not None
    return scope


def shares_of(world: World, job: Job) -> list[Job]:
    return world.access.components.store.shares(scope_of(world), job.id)


def spread(works: Works, opened: Library, world: World, job: Job) -> list[Job]:
    """Carry out the first order alone, which cuts the job into shares."""
    stop = threading.Event()
    order = opened._components.store.spread_job

    def and_stop(*args: object, **named: object) -> list[Job]:
        stop.set()
        return order(*args, **named)  # type: ignore[arg-type]

    opened._components.store.spread_job = and_stop  # type: ignore[method-assign]
    assert opened.work(stopping=stop.is_set) == 1
    del opened._components.store.spread_job
    assert len(works.orders()) == SHARES
    return shares_of(world, job)


def uploads_kept(works: Works) -> int:
    found = [path for path in (works.folder / "uploads").rglob("*") if path.is_file()]
    return sum(path.read_bytes().startswith(b"Tale") for path in found)


def embedded_once(works: Works) -> bool:
    return len(works.embedder.documents) == len(set(works.embedder.documents)) >= DOCUMENTS


def is_whole(world: World) -> bool:
    documents = world.documents.list()
    assert all(one.embedded == one.chunks > 0 for one in documents)
    return len(documents) == DOCUMENTS
