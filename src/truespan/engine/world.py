"""One world, as its holder may use it: what a door can ask of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from truespan.engine.answering import AnsweringWorld
from truespan.engine.reader import Reader
from truespan.engine.shelved import ShelvedWorld
from truespan.engine.submitted import SubmittedWorld
from truespan.errors import InvalidSettings
from truespan.ingest.job_log import Progress
from truespan.ingest.sentences import parts as split_parts
from truespan.observer import Observer, RequestTrace, joined
from truespan.retrieval.retrieve import Retriever
from truespan.retrieval.search import Searcher
from truespan.types.bundle import ContextBundle, Reason, SearchResult
from truespan.types.ids import ChunkId
from truespan.types.request import (
    DEFAULT_FLOOR,
    DEFAULT_TOP_K,
    RETRIEVAL_TOP_K,
    RetrievalRequest,
    SearchRequest,
)
from truespan.types.telemetry import Request

OnProgress = Callable[[Progress], None]

INSTRUCTION_ROOM = 32
"""Tokens left free for a model's query instruction when a long selection is cut into parts."""


class World(AnsweringWorld, SubmittedWorld, ShelvedWorld):
    """One world of a library, as its holder may use it."""

    def search(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        floor: float = DEFAULT_FLOOR,
        fused: bool = False,
    ) -> SearchResult:
        """Find the chunks closest to a query, each verified against the store as it is read.

        With `fused`, the words of the query count for their order as well.

        Raises:
            InvalidSettings: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
            ProfileMismatch: the configured embedder is not the world's.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: the provider failed.
            IndexUnavailable, IndexRefused, IndexSchemaMismatch: the index failed.
        """
        request = SearchRequest(query, top_k, floor, fused)
        parts = self._parts
        with parts.watch.request(Request.SEARCH) as course:
            searcher = Searcher(
                parts.store,
                parts.index,
                parts.embedder_for,
                parts.clock,
                self._repairs.submit,
                self.aim,
                parts.fused_weight,
                course,
            )
            return searcher.search(self._authority, self.id, request)

    def retrieve(
        self,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        chapter_filter: str | None = None,
        section_filter: str | None = None,
        language_constraint: str | None = "en",
        version_constraint: str | None = "1.0",
        documents: Sequence[str] | None = None,
        tags: Sequence[str] = (),
        near_misses: bool = False,
        fused: bool = False,
    ) -> ContextBundle:
        """Return context for a query, a selection or both, within the token budget.

        With `fused`, the words of the query count for the order as well.

        A failure of provider, index or store is a bundle with the status `error`.

        Raises:
            InvalidSettings: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        request = RetrievalRequest(
            query=query,
            selected_text=selected_text,
            top_k=top_k,
            chapter_filter=chapter_filter,
            section_filter=section_filter,
            language_constraint=language_constraint,
            version_constraint=version_constraint,
            documents=_listed("documents", documents),
            tags=_listed("tags", tags) or (),
            fused=fused,
        )
        with self._parts.watch.request(Request.RETRIEVE) as course:
            retriever = self._retriever(course)
            return retriever.retrieve(self._authority, self.id, request, near_misses=near_misses)

    def why_not(self, chunk_id: str, query: str, **settings: Any) -> Reason:
        """Say why a chunk is not among what `retrieve` returns for the same arguments."""
        request = RetrievalRequest(query=query, **settings)
        with self._parts.watch.request(Request.WHY_NOT) as course:
            retriever = self._retriever(course)
            return retriever.why_not(self._authority, self.id, request, ChunkId(chunk_id))

    def reader(self, name: str) -> Reader:
        """Return the reader of this name; whoever has no position yet can read nothing."""
        if not isinstance(name, str) or not name.strip() or len(name) > 200:
            raise InvalidSettings("A reader needs a name of 1 to 200 characters.")
        return Reader(self, self._parts, self._repairs.submit, name.strip())

    def watched(self, watch: Observer) -> World:
        """Return this world so that `watch`, too, hears of what is asked of it.

        Nothing that is returned depends on that: what a watch raises is dropped.
        """
        parts = replace(self._parts, watch=joined(self._parts.watch, watch))
        return World(parts, self._authority, self._repairs, self.id, self.aim)

    def _retriever(self, course: RequestTrace) -> Retriever:
        parts = self._parts
        return Retriever(
            parts.store,
            parts.index,
            parts.embedder_for,
            parts.clock,
            self._repairs.submit,
            lambda text, limit: split_parts(text, parts.counter, limit - INSTRUCTION_ROOM),
            self.aim,
            parts.fused_weight,
            course,
        )


def _listed(name: str, values: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(values, str):
        # A string is a sequence of letters to Python, and hardly ever meant so.
        raise InvalidSettings(f"{name} must be a list of strings.")
    return None if values is None else tuple(values)
