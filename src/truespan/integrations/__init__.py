"""Retrievers for LangChain, LlamaIndex and Haystack: texts that are verified and can be cited.

Owns: the classes that these frameworks expect, around one shared way to query and to cite. Does not
own: what is found, and the defaults and limits of a request (the engine's). Must hold: the text is
the verified text, and its metadata can be cited; an error of Truespan is raised unchanged; a
reader's retriever is never ahead of the reader, and a retriever with an audience never outside it;
nothing in the package imports the modules of the frameworks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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

    world: World
    call_of: Callable[[World], Callable[..., ContextBundle | SearchResult]]
    """Returns the method that queries a world."""
    settings: Mapping[str, Any]
    renamed: Mapping[str, str]
    """Settings whose names the framework uses itself, and their names in a retriever."""

    def __post_init__(self) -> None:
        self._merge(self.call_of(self.world), {})

    def run(
        self, query: str, *, audience: Sequence[str] | None = None, **changes: Any
    ) -> list[Citable]:
        """Return the found texts, best first; `changes` of the settings apply to this query.

        With an `audience`, only documents for everyone and for one of its labels are found.

        Raises:
            TruespanError: The error that the engine raised, or reported in a failed bundle.
        """
        world = self.world if audience is None else self.world.for_audience(audience)
        call = self.call_of(world)
        found = call(query, **self._merge(call, changes))
        if isinstance(found, ContextBundle) and (failure := failure_of(found)):
            raise failure
        return [_citable(world.id, passage) for passage in found.passages]

    def for_audience(self, labels: Sequence[str]) -> Retrieval:
        """Return this retrieval, limited to documents for everyone and for one of the labels."""
        return replace(self, world=self.world.for_audience(labels))

    async def run_async(self, query: str, **changes: Any) -> list[Citable]:
        """Run the query in a thread: the engine is synchronous and would block the event loop."""
        return await asyncio.to_thread(self.run, query, **changes)

    def _merge(self, call: Callable[..., Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with changes; refuse a name that the engine does not know.

        A misspelt filter must not be ignored. A `top_k` of None counts as not set; for other
        settings None is a value.
        """
        known = [name for name in signature(call).parameters if name != "query"]
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
    return _retrieval(world, lambda chosen: chosen.retrieve, settings, renamed)


def search(world: World, renamed: Mapping[str, str] = _NONE, /, **settings: Any) -> Retrieval:
    """Query with `World.search`: the closest passages."""
    return _retrieval(world, lambda chosen: chosen.search, settings, renamed)


def reading(world: World, reader: str, **settings: Any) -> Retrieval:
    """Query with `Reader.retrieve`: never ahead of this reader."""
    return _retrieval(world, lambda chosen: chosen.reader(reader).retrieve, settings, _NONE)


def _retrieval(
    world: World,
    call_of: Callable[[World], Callable[..., ContextBundle | SearchResult]],
    settings: dict[str, Any],
    renamed: Mapping[str, str],
) -> Retrieval:
    audience = settings.pop("audience", None)
    chosen = world if audience is None else world.for_audience(audience)
    return Retrieval(chosen, call_of, settings, renamed)


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
