"""Components for Haystack; the package says what must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truespan.integrations import Citable, Retrieval, reading, retrieval, search

try:
    from haystack import Document, component  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise ImportError(
        "This needs Haystack: install Truespan with the extra 'haystack'."
    ) from missing

if TYPE_CHECKING:
    from truespan.engine.world import World

__all__ = ["TruespanReadingRetriever", "TruespanRetriever", "TruespanSearchRetriever"]


class _Retriever:
    """Base of the three retrievers.

    They set `_retrieval` themselves: `super` does not work in the new class of the decorator.
    """

    _retrieval: Retrieval

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, audience: list[str] | None = None
    ) -> dict[str, list[Document]]:
        """Return the found documents, best first; `audience` has the labels of the caller."""
        found = self._retrieval.run(query, top_k=top_k, audience=audience)
        return {"documents": _documents(found)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, top_k: int | None = None, audience: list[str] | None = None
    ) -> dict[str, list[Document]]:
        """Return the found documents without blocking the event loop."""
        found = await self._retrieval.run_async(query, top_k=top_k, audience=audience)
        return {"documents": _documents(found)}


@component
class TruespanRetriever(_Retriever):
    """Retriever that calls `World.retrieve`: context within the budget, by relevance.

    Takes any other argument of `World.retrieve` as well.
    """

    def __init__(self, world: World, *, top_k: int | None = None, **settings: Any) -> None:
        self._retrieval = retrieval(world, top_k=top_k, **settings)


@component
class TruespanSearchRetriever(_Retriever):
    """Retriever that calls `World.search`: the closest passages above a `floor`."""

    def __init__(self, world: World, *, top_k: int | None = None, **settings: Any) -> None:
        self._retrieval = search(world, top_k=top_k, **settings)


@component
class TruespanReadingRetriever(_Retriever):
    """Retriever that calls `Reader.retrieve`: only from what this reader has read."""

    def __init__(
        self, world: World, reader: str, *, top_k: int | None = None, **settings: Any
    ) -> None:
        self._retrieval = reading(world, reader, top_k=top_k, **settings)


def _documents(found: list[Citable]) -> list[Document]:
    return [
        Document(id=entry.chunk_id, content=entry.text, meta=entry.cited, score=entry.score)
        for entry in found
    ]
