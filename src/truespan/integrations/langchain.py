"""Retrievers for LangChain; the package says what must hold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, SkipValidation

from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.integrations import Citable, Retrieval, reading, retrieval, search

try:
    from langchain_core.documents import Document  # pyright: ignore[reportMissingImports]
    from langchain_core.retrievers import BaseRetriever  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise ImportError(
        "This needs LangChain: install Truespan with the extra 'langchain'."
    ) from missing

__all__ = ["TruespanReadingRetriever", "TruespanRetriever", "TruespanSearchRetriever"]


_RENAMED = {"tags": "document_tags", "metadata": "document_metadata"}
"""Filters whose names LangChain uses to label runs, and their names in a retriever."""


class _Retriever(BaseRetriever):
    """Base of the three retrievers. Further arguments are settings of the engine's call."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    world: World = Field(repr=False)
    k: Annotated[int | None, SkipValidation] = None
    """Maximum number of documents; the engine checks it."""

    def model_post_init(self, context: Any, /) -> None:
        """Refuse settings that do not exist."""
        super().model_post_init(context)
        _refuse_labels({name: getattr(self, name) for name in _RENAMED})
        self._retrieval()

    @abstractmethod
    def _retrieval(self) -> Retrieval:
        """Return the settings for queries to the engine."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002 - LangChain always passes it
        k: int | None = None,
        **changes: Any,
    ) -> list[Document]:
        _refuse_labels(changes)
        return _documents(self._retrieval().run(query, top_k=k, **changes))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002 - see above
        k: int | None = None,
        **changes: Any,
    ) -> list[Document]:
        _refuse_labels(changes)
        return _documents(await self._retrieval().run_async(query, top_k=k, **changes))


class TruespanRetriever(_Retriever):
    """Retriever that calls `World.retrieve`: context within the budget, by relevance.

    Takes a `world`, `k`, and any other argument of `World.retrieve`; `invoke` takes them as well.
    """

    def _retrieval(self) -> Retrieval:
        return retrieval(self.world, _RENAMED, top_k=self.k, **self.model_extra or {})


class TruespanSearchRetriever(_Retriever):
    """Retriever that calls `World.search`: the closest passages above a `floor`."""

    def _retrieval(self) -> Retrieval:
        return search(self.world, _RENAMED, top_k=self.k, **self.model_extra or {})


class TruespanReadingRetriever(_Retriever):
    """Retriever that calls `Reader.retrieve`: only from what this reader has read."""

    reader: Annotated[str, SkipValidation]

    def _retrieval(self) -> Retrieval:
        return reading(self.world, self.reader, top_k=self.k, **self.model_extra or {})


def _refuse_labels(given: Mapping[str, Any]) -> None:
    """Refuse names that LangChain uses for runs, where the caller means a filter."""
    for name, other in _RENAMED.items():
        if given.get(name) is not None:
            raise InvalidArgument(
                f"{name!r} labels runs of LangChain and filters nothing; use {other!r}.",
                advice=f"To label runs, call with_config({name}=...).",
            )


def _documents(found: list[Citable]) -> list[Document]:
    return [
        Document(id=entry.chunk_id, page_content=entry.text, metadata=entry.cited)
        for entry in found
    ]
