"""What the adapters for frameworks share: one way to ask, and what it found as passages to cite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

from truespan.errors import InvalidSettings
from truespan.serialize import failure_of
from truespan.types.bundle import ContextBundle, Passage, RetrievedChunk, SearchResult, SourceNote
from truespan.types.request import FILTER_ARGUMENTS

if TYPE_CHECKING:
    from truespan.world import World


@dataclass(frozen=True, slots=True)
class Citable:
    """A verified text, and what a citation of it needs; `cited` also holds its id and its score."""

    text: str
    chunk_id: str
    score: float
    cited: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asking:
    """A way to ask a world, with settings that hold for every question.

    Settings are those of the engine, which has their defaults and checks their values.
    """

    call: Callable[..., ContextBundle | SearchResult]
    world: str
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        self._check(self.settings)

    def ask(self, query: str, **changes: Any) -> list[Citable]:
        """Return what was found, best first; `changes` of the settings hold this once.

        Raises:
            TruespanError: whatever the engine raised, or told in a bundle that failed.
        """
        given = {**self.settings, **_told(changes)}
        self._check(given)
        found = self.call(query, **given)
        if isinstance(found, SearchResult):
            return [_of_passage(passage, self.world) for passage in found.results]
        if failure := failure_of(found):
            raise failure
        return list(_of_bundle(found, self.world))

    async def ask_aside(self, query: str, **changes: Any) -> list[Citable]:
        """Ask on a thread: the engine is synchronous, and a loop must not wait for it."""
        return await asyncio.to_thread(self.ask, query, **changes)

    def _check(self, given: Mapping[str, Any]) -> None:
        """Refuse a name that the engine does not know: a filter must not be lost in silence."""
        known = [name for name in signature(self.call).parameters if name != "query"]
        if "filters" in known:
            known[known.index("filters") :] = FILTER_ARGUMENTS
        for name in given:
            if name not in known:
                raise InvalidSettings(
                    f"There is no setting {name!r}; there are: {', '.join(known)}."
                )


def of_retrieval(world: World, **settings: Any) -> Asking:
    """Ask with `World.retrieve`: context within the budget."""
    return Asking(world.retrieve, world.id, _told(settings))


def of_search(world: World, **settings: Any) -> Asking:
    """Ask with `World.search`: the closest passages, however many."""
    return Asking(world.search, world.id, _told(settings))


def of_reading(world: World, reader: str, **settings: Any) -> Asking:
    """Ask with `Reader.retrieve`: never ahead of this reader."""
    return Asking(world.reader(reader).retrieve, world.id, _told(settings))


def _told(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Drop a `top_k` that was not set. For other settings None is a value."""
    return {name: value for name, value in settings.items() if (name, value) != ("top_k", None)}


def _of_bundle(bundle: ContextBundle, world: str) -> Iterator[Citable]:
    notes = bundle.metadata.sources
    for chunk, note in zip(bundle.retrieved_chunks, notes, strict=True):
        yield _of_chunk(chunk, note, world)


def _of_chunk(chunk: RetrievedChunk, note: SourceNote, world: str) -> Citable:
    cited = {
        "chunk_id": chunk.chunk_id,
        "document": note.document,
        "source": note.source,
        "title": note.title,
        "chapter": chunk.chapter,
        "section": chunk.section,
        "page": note.page,
        "first_sid": note.first_sid,
        "last_sid": note.last_sid,
        "score": chunk.relevance_score,
        "world": world,
        "generation": note.generation,
        "text_hash": note.text_hash,
    }
    return Citable(chunk.content, chunk.chunk_id, chunk.relevance_score, cited)


def _of_passage(passage: Passage, world: str) -> Citable:
    cited = {
        "chunk_id": passage.chunk_id,
        "document": passage.document,
        "source": passage.source,
        "title": passage.title,
        "chapter": passage.chapter,
        "section": passage.section,
        "page": passage.page,
        "first_sid": passage.first_sid,
        "last_sid": passage.last_sid,
        "score": passage.score,
        "world": world,
        "generation": passage.receipt.generation,
        "text_hash": passage.receipt.text_hash,
    }
    return Citable(passage.text, passage.chunk_id, passage.score, cited)
