"""One world, as its holder may use it: what a door can ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Unpack

from truespan.engine.answering import AnsweringWorld
from truespan.engine.reader import Reader
from truespan.engine.shelved import ShelvedWorld
from truespan.engine.submitted import SubmittedWorld
from truespan.errors import InvalidSettings
from truespan.ingest.job_log import Progress
from truespan.ingest.sentences import parts as split_parts
from truespan.observer import Observer, RequestTrace, joined
from truespan.retrieval.retrieve import Retriever
from truespan.retrieval.search import search
from truespan.types.bundle import ContextBundle, Reason, SearchResult
from truespan.types.ids import ChunkId
from truespan.types.request import (
    DEFAULT_FLOOR,
    DEFAULT_TOP_K,
    RETRIEVAL_FILTERS,
    RETRIEVAL_TOP_K,
    FilterArguments,
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
        with self._parts.watch.request(Request.SEARCH) as trace:
            return search(self._pipeline(trace), request)

    def retrieve(
        self,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        near_misses: bool = False,
        fused: bool = False,
        **filters: Unpack[FilterArguments],
    ) -> ContextBundle:
        """Return context for a query, a selection or both, within the token budget.

        With `fused`, the words of the query count for the order as well. The filters are
        `documents`, `tags`, `chapter_filter`, `section_filter`, `language_constraint` ("en" unless
        given) and `version_constraint` ("1.0" unless given); None stands for any.

        If the provider, the index or the store fails, the bundle has the status `error`.

        Raises:
            InvalidSettings: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        narrowed = RETRIEVAL_FILTERS.with_arguments(filters)
        request = RetrievalRequest(query, selected_text, top_k, narrowed, fused)
        with self._parts.watch.request(Request.RETRIEVE) as trace:
            return self._retriever(trace).retrieve(request, near_misses=near_misses)

    def why_not(
        self,
        chunk_id: str,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        fused: bool = False,
        **filters: Unpack[FilterArguments],
    ) -> Reason:
        """Return why a chunk is not among what `retrieve` returns for the same arguments."""
        narrowed = RETRIEVAL_FILTERS.with_arguments(filters)
        request = RetrievalRequest(query, selected_text, top_k, narrowed, fused)
        with self._parts.watch.request(Request.WHY_NOT) as trace:
            return self._retriever(trace).why_not(request, ChunkId(chunk_id))

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

    def _retriever(self, trace: RequestTrace) -> Retriever:
        counter = self._parts.counter
        return Retriever(
            self._pipeline(trace),
            lambda text, limit: split_parts(text, counter, limit - INSTRUCTION_ROOM),
        )
