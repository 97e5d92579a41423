"""Parts of a library that are rarely used: its models, and repairs that an operator asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truespan.engine.access import LibraryPart
from truespan.errors import NotAllowed
from truespan.types.scope import OWNER

if TYPE_CHECKING:
    from truespan.engine.ingestion import OnProgress
    from truespan.extensions.server.chat_servers import LocalChatServers
    from truespan.maintenance.delete import ErasureReport
    from truespan.maintenance.doctor.plan import Plan, RepairResult


class LibraryModels(LibraryPart, frozen=True):
    """The models of a library beside the embedding models of its worlds."""

    @property
    def reranker(self) -> str | None:
        """Kind and model of the reranker; None if none is configured. No provider is called."""
        options = self._components.rerank
        return None if options is None else options.reranker.name

    @property
    def chat(self) -> str | None:
        """Name of the chat model that answers; None if none is configured."""
        model = self._components.chat.primary
        return None if model is None else model.name

    @property
    def servers(self) -> LocalChatServers:
        """The servers of chat models: find them, try a model, and connect the library with it.

        Raises:
            NotAllowed: The caller is not the owner, or the library was opened with a chat model.
        """
        if self._authority != OWNER or self._components.chat_servers is None:
            raise NotAllowed("connect a chat model")
        return self._components.chat_servers


class LibraryMaintenance(LibraryPart, frozen=True):
    """Repairs of a library that an operator asks for."""

    def erase(self) -> ErasureReport:
        """Finish erasures that deletions left queued, such as files that could not be rewritten."""
        return self._components.remover().finish_erasures()

    def claim_index(self) -> list[str]:
        """Make this library the owner of the collections that its worlds use on a Qdrant server.

        For a library that replaces another one with the same `qdrant_prefix`. Never call this while
        the other library is in use.

        Returns:
            The ids of the embedding profiles of these collections.
        """
        from truespan.engine.doctor import Doctor

        return Doctor(self._components, self._authority).claim_index()

    def apply_plan(self, plan: Plan, *, on_progress: OnProgress | None = None) -> RepairResult:
        """Carry out a plan of `doctor`. Items that changed since are skipped.

        Args:
            plan: The plan.
            on_progress: Called with the progress after each step.
        """
        from truespan.engine.doctor import Doctor

        return Doctor(self._components, self._authority, on_progress).apply(plan)
