"""Retrievers for LlamaIndex: nodes whose text is verified and whose metadata can be cited.

Owns: how a request of LlamaIndex becomes one of Truespan, and a passage one of its nodes.
Does not own: what is found, and the defaults and limits of a request (the engine's).
Must hold: an error of Truespan comes out as it is; a reader's retriever is never ahead of the
reader; a model gets the text of a node and nothing beside it; the module is imported by nothing in
the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truespan.integrations.passages import Asking, Citable, of_reading, of_retrieval, of_search

try:
    from llama_index.core.retrievers import (  # pyright: ignore[reportMissingImports]
        BaseRetriever,
    )
    from llama_index.core.schema import (  # pyright: ignore[reportMissingImports]
        NodeWithScore,
        QueryBundle,
        TextNode,
    )
except ModuleNotFoundError as missing:
    raise ImportError("This needs LlamaIndex: pip install 'truespan[llamaindex]'") from missing

if TYPE_CHECKING:
    from truespan.world import World

__all__ = ["TruespanReadingRetriever", "TruespanRetriever", "TruespanSearchRetriever"]


class _Retriever(BaseRetriever):
    """What the three have in common."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._asking.ask(query_bundle.query_str))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._asking.ask_aside(query_bundle.query_str))


class TruespanRetriever(_Retriever):
    """Asks with `World.retrieve`: context within the budget, by relevance.

    Takes any other argument of `World.retrieve` as well.
    """

    def __init__(
        self, world: World, *, similarity_top_k: int | None = None, **settings: Any
    ) -> None:
        super().__init__(of_retrieval(world, top_k=similarity_top_k, **settings))


class TruespanSearchRetriever(_Retriever):
    """Asks with `World.search`: the closest passages, however many, above a `floor`."""

    def __init__(
        self, world: World, *, similarity_top_k: int | None = None, **settings: Any
    ) -> None:
        super().__init__(of_search(world, top_k=similarity_top_k, **settings))


class TruespanReadingRetriever(_Retriever):
    """Asks with `Reader.retrieve`: from what this reader has read, and from nothing else."""

    def __init__(
        self, world: World, reader: str, *, similarity_top_k: int | None = None, **settings: Any
    ) -> None:
        super().__init__(of_reading(world, reader, top_k=similarity_top_k, **settings))


def _nodes(found: list[Citable]) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(one), score=one.score) for one in found]


def _node(one: Citable) -> TextNode:
    # LlamaIndex writes metadata into what a model reads unless they are excluded by name.
    return TextNode(
        id_=one.chunk_id,
        text=one.text,
        metadata=one.cited,
        excluded_llm_metadata_keys=[*one.cited],
        excluded_embed_metadata_keys=[*one.cited],
    )
