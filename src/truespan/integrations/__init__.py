"""Retrievers for LangChain, LlamaIndex and Haystack: texts that are verified and can be cited.

Owns: the classes that these frameworks expect, around one shared way to query and to cite.
Does not own: what is found, and the defaults and limits of a request (the engine's).
Must hold: the text is the verified text, and its metadata can be cited; an error of Truespan is
raised as it is; a reader's retriever is never ahead of the reader; nothing in the package imports
the modules of the frameworks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from truespan.errors import InvalidArgument
from truespan.types.bundle import ContextBundle, ContextPassage, Passage, SearchResult
from truespan.wire.serialize import failure_of, members

if TYPE_CHECKING:
    from truespan.engine.world import World


@dataclass(frozen=True, slots=True)
class Citable:
    """A verified text with the metadata for citing it; `cited` includes its id and its score."""

    text: str
    chunk_id: str
    score: float
    cited: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A way to query a world, with settings for every query. The engine checks the settings."""

    call: Callable[..., ContextBundle | SearchResult]
    world: str
    settings: Mapping[str, Any]
    renamed: Mapping[str, str]
    """Settings whose names the framework uses itself, and their names in a retriever."""

    def __post_init__(self) -> None:
        self._merge({})

    def run(self, query: str, **changes: Any) -> list[Citable]:
        """Return the found texts, best first; `changes` of the settings apply to this query.

        Raises:
            TruespanError: The error that the engine raised, or reported in a failed bundle.
        """
        found = self.call(query, **self._merge(changes))
        if isinstance(found, ContextBundle) and (failure := failure_of(found)):
            raise failure
        return [_citable(self.world, passage) for passage in found.passages]

    async def run_async(self, query: str, **changes: Any) -> list[Citable]:
        """Run the query in a thread: the engine is synchronous and would block the event loop."""
        return await asyncio.to_thread(self.run, query, **changes)

    def _merge(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with changes; refuse a name that the engine does not know.

        A misspelt filter must not be ignored. A `top_k` of None counts as not set; for other
        settings None is a value.
        """
        known = [name for name in signature(self.call).parameters if name != "query"]
        names = {self.renamed.get(name, name): name for name in known}
        merged: dict[str, Any] = {}
        for name, value in (*self.settings.items(), *changes.items()):
            if (name, value) == ("top_k", None):
                continue
            if name not in names:
                raise InvalidArgument(
                    f"There is no setting {name!r}. Known settings: {', '.join(names)}."
                )
            merged[names[name]] = value
        return merged


_NONE: Mapping[str, str] = MappingProxyType({})


def retrieval(world: World, renamed: Mapping[str, str] = _NONE, /, **settings: Any) -> Retrieval:
    """Query with `World.retrieve`: context within the budget."""
    return Retrieval(world.retrieve, world.id, settings, renamed)


def search(world: World, renamed: Mapping[str, str] = _NONE, /, **settings: Any) -> Retrieval:
    """Query with `World.search`: the closest passages."""
    return Retrieval(world.search, world.id, settings, renamed)


def reading(world: World, reader: str, **settings: Any) -> Retrieval:
    """Query with `Reader.retrieve`: never ahead of this reader."""
    return Retrieval(world.reader(reader).retrieve, world.id, settings, _NONE)


def _citable(world: str, place: Passage | ContextPassage) -> Citable:
    receipt = place.receipt if isinstance(place, Passage) else place
    cited = {
        "chunk_id": place.chunk_id,
        "chunk_type": place.chunk_type.value,
        **members(place, "document", "source", "title", "chapter", "section", "page", "location"),
        **members(place, "first_sid", "last_sid", "score"),
        "world": world,
        **members(receipt, "generation", "text_hash"),
        **members(place, "source_url", "address", "path", "language", "version"),
        "tags": list(place.tags),
        "metadata": place.metadata,
        "best_sentence": to_builtins(place.best_sentence),
        "other_places": [to_builtins(other) for other in place.other_places],
    }
    return Citable(place.text, place.chunk_id, place.score, cited)
