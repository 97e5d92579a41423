"""Retrievers for LlamaIndex; the package says what must hold."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from truespan.integrations import Citable, Retrieval, reading, retrieval, search

try:
    from llama_index.core.retrievers import BaseRetriever  # pyright: ignore[reportMissingImports]
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise ImportError(
        "This needs LlamaIndex: install Truespan with the extra 'llamaindex'."
    ) from missing

if TYPE_CHECKING:
    from truespan.engine.world import World

__all__ = ["TruespanReadingRetriever", "TruespanRetriever", "TruespanSearchRetriever"]


class _Retriever(BaseRetriever):
    """Base of the three retrievers."""

    def __init__(self, engine: Retrieval) -> None:
        self._retrieval = engine
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._retrieval.run(query_bundle.query_str))

    def for_audience(self, labels: Sequence[str]) -> Self:
        """Return this retriever for one caller: documents for everyone and for one of the labels.

        LlamaIndex passes nothing but the query to a retriever, so each caller has one.
        """
        limited = copy(self)
        limited._retrieval = self._retrieval.for_audience(labels)
        return limited

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._retrieval.run_async(query_bundle.query_str))


class TruespanRetriever(_Retriever):
    """Retriever that calls `World.retrieve`: context within the budget, by relevance.

    Takes any other argument of `World.retrieve` as well.
    """

    def __init__(
        self, world: World, *, similarity_top_k: int | None = None, **settings: Any
    ) -> None:
        super().__init__(retrieval(world, top_k=similarity_top_k, **settings))


class TruespanSearchRetriever(_Retriever):
    """Retriever that calls `World.search`: the closest passages above a `floor`."""

    def __init__(
        self, world: World, *, similarity_top_k: int | None = None, **settings: Any
    ) -> None:
        super().__init__(search(world, top_k=similarity_top_k, **settings))


class TruespanReadingRetriever(_Retriever):
    """Retriever that calls `Reader.retrieve`: only from what this reader has read."""

    def __init__(
        self, world: World, reader: str, *, similarity_top_k: int | None = None, **settings: Any
    ) -> None:
        super().__init__(reading(world, reader, top_k=similarity_top_k, **settings))


def _nodes(found: list[Citable]) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(entry), score=entry.score) for entry in found]


def _node(entry: Citable) -> TextNode:
    # LlamaIndex writes metadata into what a model reads unless they are excluded by name.
    return TextNode(
        id_=entry.chunk_id,
        text=entry.text,
        metadata=entry.cited,
        excluded_llm_metadata_keys=[*entry.cited],
        excluded_embed_metadata_keys=[*entry.cited],
    )
