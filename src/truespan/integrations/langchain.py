"""Retrievers for LangChain: documents whose text is verified and whose metadata can be cited.

Owns: how a request of LangChain becomes one of Truespan, and a passage one of its documents.
Does not own: what is found, and the defaults and limits of a request (the engine's).
Must hold: an error of Truespan comes out as it is; a reader's retriever is never ahead of the
reader; the module is imported by nothing in the package.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import ConfigDict, Field, SkipValidation

from truespan.integrations.passages import Asking, Citable, of_reading, of_retrieval, of_search
from truespan.world import World

try:
    from langchain_core.documents import Document  # pyright: ignore[reportMissingImports]
    from langchain_core.retrievers import BaseRetriever  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise ImportError("This needs LangChain: pip install 'truespan[langchain]'") from missing

__all__ = ["TruespanReadingRetriever", "TruespanRetriever", "TruespanSearchRetriever"]


class _Retriever(BaseRetriever):
    """What the three have in common. Further arguments are settings of the engine's call."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    world: World = Field(repr=False)
    k: Annotated[int | None, SkipValidation] = None
    """How many documents at most; the engine says whether it will do."""

    def model_post_init(self, context: Any, /) -> None:
        """Refuse settings that do not exist, before anybody relies on them."""
        super().model_post_init(context)
        self._asking()

    @abstractmethod
    def _asking(self) -> Asking:
        """Return how the engine is asked."""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002 - LangChain always passes it
        k: int | None = None,
        **changes: Any,
    ) -> list[Document]:
        return _documents(self._asking().ask(query, top_k=k, **changes))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002 - see above
        k: int | None = None,
        **changes: Any,
    ) -> list[Document]:
        return _documents(await self._asking().ask_aside(query, top_k=k, **changes))


class TruespanRetriever(_Retriever):
    """Asks with `World.retrieve`: context within the budget, by relevance.

    Takes a `world`, `k`, and any other argument of `World.retrieve`; `invoke` takes them as well.
    """

    def _asking(self) -> Asking:
        return of_retrieval(self.world, top_k=self.k, **self.model_extra or {})


class TruespanSearchRetriever(_Retriever):
    """Asks with `World.search`: the closest passages, however many, above a `floor`."""

    def _asking(self) -> Asking:
        return of_search(self.world, top_k=self.k, **self.model_extra or {})


class TruespanReadingRetriever(_Retriever):
    """Asks with `Reader.retrieve`: from what this reader has read, and from nothing else."""

    reader: Annotated[str, SkipValidation]

    def _asking(self) -> Asking:
        return of_reading(self.world, self.reader, top_k=self.k, **self.model_extra or {})


def _documents(found: list[Citable]) -> list[Document]:
    return [Document(id=one.chunk_id, page_content=one.text, metadata=one.cited) for one in found]
