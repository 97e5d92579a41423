"""Components for Haystack: documents whose text is verified and whose metadata can be cited.

Owns: how a request of Haystack becomes one of Truespan, and a passage one of its documents.
Does not own: what is found, and the defaults and limits of a request (the engine's).
Must hold: an error of Truespan comes out as it is; a reader's component is never ahead of the
reader; the module is imported by nothing in the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truespan.integrations.passages import Asking, Citable, of_reading, of_retrieval, of_search

try:
    from haystack import Document, component  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise ImportError("This needs Haystack: pip install 'truespan[haystack]'") from missing

if TYPE_CHECKING:
    from truespan.world import World

__all__ = ["TruespanReadingRetriever", "TruespanRetriever", "TruespanSearchRetriever"]


class _Retriever:
    """What the three have in common.

    They set `_asking` themselves: the decorator makes a new class, in which `super` does not work.
    """

    _asking: Asking

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Return the documents that were found, best first."""
        return {"documents": _documents(self._asking.ask(query, top_k=top_k))}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Return the same, without holding up the loop."""
        return {"documents": _documents(await self._asking.ask_aside(query, top_k=top_k))}


@component
class TruespanRetriever(_Retriever):
    """Asks with `World.retrieve`: context within the budget, by relevance.

    Takes any other argument of `World.retrieve` as well.
    """

    def __init__(self, world: World, *, top_k: int | None = None, **settings: Any) -> None:
        self._asking = of_retrieval(world, top_k=top_k, **settings)


@component
class TruespanSearchRetriever(_Retriever):
    """Asks with `World.search`: the closest passages, however many, above a `floor`."""

    def __init__(self, world: World, *, top_k: int | None = None, **settings: Any) -> None:
        self._asking = of_search(world, top_k=top_k, **settings)


@component
class TruespanReadingRetriever(_Retriever):
    """Asks with `Reader.retrieve`: from what this reader has read, and from nothing else."""

    def __init__(
        self, world: World, reader: str, *, top_k: int | None = None, **settings: Any
    ) -> None:
        self._asking = of_reading(world, reader, top_k=top_k, **settings)


def _documents(found: list[Citable]) -> list[Document]:
    return [
        Document(id=one.chunk_id, content=one.text, meta=one.cited, score=one.score)
        for one in found
    ]
