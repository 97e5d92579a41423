"""Truespan: retrieval that can be trusted.

    import truespan

    with truespan.open("library", create=True) as library:
        world = library.create_world("mysteries")
        world.ingest("examples/the-glass-ferry.md", kind="book")
        for passage in world.search("Who held the spare key?", top_k=3).results:
            print(passage.score, passage.chapter, passage.text)

Every passage shown was read from the trusted store and checked, in that very read, against the hash
it was embedded with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truespan.errors import TruespanError

if TYPE_CHECKING:
    from pathlib import Path

    from truespan.library import Library, World
    from truespan.model.scope import Authority
    from truespan.ports import Embedder, TokenCounter

__version__ = "0.1.0"
__all__ = ["Library", "TruespanError", "World", "__version__", "open"]


def open(
    path: str | Path,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
    counter: TokenCounter | None = None,
    authority: Authority | None = None,
) -> Library:
    """Open the library in a folder; with `create`, make it if it is not there.

    With an `authority`, what is opened can do what that allows, and no more; without, everything.

    Raises:
        LibraryNotFound: there is none, and it was not to be made.
        InvalidConfiguration: a setting is wrong.
    """
    from truespan.compose import open_library
    from truespan.model.scope import OWNER

    return open_library(
        path,
        create=create,
        embedder=embedder,
        counter=counter,
        authority=OWNER if authority is None else authority,
    )


def __getattr__(name: str) -> object:
    """Import the engine only when somebody needs it: start-up time counts."""
    if name in ("Library", "World"):
        from truespan import library

        return getattr(library, name)
    raise AttributeError(f"module 'truespan' has no attribute {name!r}")
