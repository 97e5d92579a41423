"""The library, the world and the documents that a command is about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from truespan.errors import InvalidArgument

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World

CHOSEN_WORLD: ContextVar[str | None] = ContextVar("chosen_world", default=None)
"""The name of the world that the running command uses, once it is known."""


def folder_of(library: Path | None) -> Path:
    """Return the folder of a command's library."""
    from truespan.settings import find_library

    return library or find_library()


def new_folder_of(library: Path | None) -> Path:
    """Return the folder for a library that a command creates from a backup or another library."""
    from truespan.settings import default_library

    return library or default_library()


def open_library(library: Path | None, *, create: bool = False) -> Library:
    """Open the library of a command."""
    import truespan

    return truespan.open(folder_of(library), create=create)


def find_world(
    library: Library,
    world: str | None,
    domain: str | None = None,
    generation: int | None = None,
    *,
    create: bool | None = False,
) -> World:
    """Return the world of a command: by its name, by a domain's key, or the only world."""
    if domain is None:
        found = library.world(world, generation=generation, create=create)
    elif generation is None:
        found = library.domain(domain, world=world)
    else:
        raise InvalidArgument("Name a generation or a domain, not both.")
    CHOSEN_WORLD.set(found.name)
    return found


@contextmanager
def open_world(
    library: Path | None,
    world: str | None,
    domain: str | None = None,
    generation: int | None = None,
) -> Iterator[World]:
    """Open a library and yield the world of a command."""
    with open_library(library) as opened:
        yield find_world(opened, world, domain, generation)


def find_worlds(library: Library, world: str | None) -> list[World]:
    """Return the named world, or all worlds."""
    names = [entry.id for entry in library.worlds()] if world is None else [world]
    return [library.world(name) for name in names]


def resolve_document(world: World, reference: str) -> str:
    """Return a reference that names the same document in every interface.

    On this machine a document may also be named by the absolute path of its file, or by a path from
    the current folder that begins with a dot.
    """
    if not reference.startswith(("/", "./", "../")):
        return reference
    path = os.path.abspath(reference)
    found = [document.doc_id for document in world.documents.list() if document.path == path]
    return found[0] if len(found) == 1 else reference
