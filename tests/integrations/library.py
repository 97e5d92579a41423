"""A world with a half-read book."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import ProviderUnavailable

QUESTION = "who had the spare key"
CITED = {
    "chunk_id", "chunk_type", "source_url", "address", "path", "language", "version", "tags",
    "metadata", "document", "source", "title", "chapter", "section", "page", "location",
    "first_sid", "last_sid", "score", "world", "generation", "text_hash", "best_sentence",
    "other_places",
}  # fmt: skip
_CHAPTER = "# Chapter {0}\n\nIn chapter {0} the spare key was asked for. Person{0} had the key.\n"


def require(*packages: str) -> None:
    """Skip a test where a package is missing, and name the package.

    Tests call it when they run, so that collection finds them everywhere.
    """
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed; `make test-frameworks` installs it")


class Door:
    """An adapter, imported when a test first uses it."""

    def __init__(self, name: str, package: str) -> None:
        self._name = name
        self._package = package

    def __getattr__(self, member: str) -> Any:
        if not member.startswith("Truespan"):
            raise AttributeError(member)
        require(self._package)
        return getattr(import_module(f"truespan.integrations.{self._name}"), member)


@dataclass(frozen=True)
class Shelf:
    """A world with six chapters, of which the reader ada has read two."""

    place: LibraryFixture
    world: World

    def break_provider(self) -> None:
        """Make every request to the embedding provider fail from now on."""

        def refuse() -> None:
            raise ProviderUnavailable("Nobody answers.")

        self.place.embedder.before = refuse


@contextmanager
def shelf_in(folder: Path) -> Iterator[Shelf]:
    """Create the world, and close it at the end."""
    lib = make_library(folder)
    world = lib.library.create_world("world")
    book = lib.write("book.md", "\n".join(_CHAPTER.format(number) for number in range(1, 7)))
    world.ingest([book], kind="book", title="The Keys")
    world.reader("ada").set_position("book.md", through_chapter="Chapter 2")
    with lib.library:
        yield Shelf(lib, world)
