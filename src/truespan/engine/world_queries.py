"""Methods of a world that query it: search, retrieval, answers and the usage log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from truespan.engine.access import WorldAccess
from truespan.engine.arguments import list_arguments
from truespan.errors import InvalidArgument, NotAllowed
from truespan.observer import RequestTrace
from truespan.retrieval.pipeline import require_world
from truespan.tables import member_of
from truespan.types.answer import Answer, AnswerEvent, Retrieved, UsageRecord
from truespan.types.bundle import ContextBundle, Reason, SearchResult, WhyNot
from truespan.types.ids import ChunkId
from truespan.types.origin import Operation, set_request
from truespan.types.request import (
    DEFAULT_FILTERS,
    DEFAULT_TOP_K,
    RETRIEVAL_TOP_K,
    QueryArguments,
    RetrievalRequest,
    SearchRequest,
    check_arguments,
)
from truespan.types.scope import Unlimited, Verb
from truespan.types.scope import World as WorldRecord
from truespan.types.telemetry import Request

if TYPE_CHECKING:
    from truespan.engine.answering import Find
    from truespan.extensions.proof.types import SignedReceipt
    from truespan.retrieval.search import Rules

USAGE_LIMIT = 50


class WorldQueries:
    """The part of `World` that reads its documents."""

    access: WorldAccess

    @list_arguments
    def search(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        floor: float | None = None,
        highlight: bool = False,
        **arguments: Unpack[QueryArguments],
    ) -> SearchResult:
        """Find the passages closest to a query, each verified against the store as it is read.

        Returns:
            The passages, best first, and the number of candidates left after each stage.

        Raises:
            ProfileMismatch: The configured embedder is not that of the world.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: The provider failed.
        """
        fields = check_arguments(arguments, highlight=highlight)
        request = SearchRequest(query=query, top_k=top_k, floor=floor, **fields)
        from truespan.retrieval.search import search

        with self.access.components.observer.request(Request.SEARCH) as trace:
            pipeline = self.access.pipeline.with_trace(trace)
            options = {"top_k": top_k, "floor": floor, "highlight": highlight, **arguments}
            return set_request(search(pipeline, request), Operation.SEARCH, query, options)

    @list_arguments
    def retrieve(
        self,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        near_misses: bool = False,
        highlight: bool = False,
        **arguments: Unpack[QueryArguments],
    ) -> ContextBundle:
        """Return context for a query, a selection or both, within the token budget.

        In a world with the contract's defaults, `language` and `version` default to "en" and
        "1.0" unless they are given, and the bundle says what that left out.

        Args:
            query: The text to search for; None to rank by `selected_text` alone.

        Returns:
            A bundle. If the provider, the index or the store fails, its status is `error`.
        """
        request = _retrieval_request(query, selected_text, top_k, arguments, highlight=highlight)
        from truespan.retrieval.retrieve import Retrieval

        with self.access.components.observer.request(Request.RETRIEVE) as trace:
            pipeline = self.access.pipeline.with_trace(trace)
            bundle = Retrieval(pipeline, request, near_misses=near_misses).bundle()
            options = {
                "selected_text": selected_text,
                "top_k": top_k,
                "near_misses": near_misses,
                "highlight": highlight,
                **arguments,
            }
            return set_request(bundle, Operation.RETRIEVE, query, options)

    def sign(self, result: SearchResult | ContextBundle | Answer) -> SignedReceipt:
        """Sign a result of this world, which then can be verified without the library.

        Args:
            result: A result as a search, a retrieval or an answer of this world returned it, also
                of a reader or a conversation.

        Raises:
            InvalidArgument: The result was changed, or is not from this world.
            InvalidConfiguration: The library has no signing key.
        """
        return member_of(self, "sign", "proof")(result)

    @list_arguments
    def why_not(
        self,
        chunk_id: str,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        audience: Sequence[str] | None = None,
        **arguments: Unpack[QueryArguments],
    ) -> Reason:
        """Explain why a chunk is not among what `retrieve` returns for the same arguments.

        Args:
            audience: Labels of the caller for whom it is explained; None for yourself.
            query: The text to search for; None to rank by `selected_text` alone.
        """
        request = _retrieval_request(query, selected_text, top_k, arguments)
        from truespan.retrieval.retrieve import Retrieval

        access = self.access
        if audience is not None:
            access = replace(access, authority=access.authority.for_audience(audience))
        with access.components.observer.request(Request.WHY_NOT) as trace:
            reason = Retrieval(access.pipeline.with_trace(trace), request).why_not(
                ChunkId(chunk_id)
            )
        if audience is None or reason.code is not WhyNot.ABSENT:
            return reason
        own = self.why_not(chunk_id, query, selected_text=selected_text, top_k=top_k, **arguments)
        return own if own.code is WhyNot.ABSENT else replace(own, code=WhyNot.OUTSIDE_AUDIENCE)

    @list_arguments
    def answer(self, query: str, **arguments: Unpack[QueryArguments]) -> Answer:
        """Answer a question from the documents that the filters leave, or say that they do not.

        Args:
            query: The question.

        Raises:
            ProviderUnavailable, ProviderRefused, ProviderBadReply: A provider failed. That is
                never reported as a lack of answers.
        """
        from truespan.engine.answering import final_answer

        return final_answer(self.answer_stream(query, **arguments))

    @list_arguments
    def answer_stream(
        self,
        query: str,
        *,
        history: Sequence[tuple[str, str]] = (),
        **arguments: Unpack[QueryArguments],
    ) -> Iterator[AnswerEvent]:
        """Answer piece by piece.

        Args:
            query: The question.
            history: Earlier questions with their answers, to which the question may refer. They
                are never evidence.

        Returns:
            An iterator of events: `Started` once the mode is decided, `Piece`s, then `Finished`.
            Closing it ends the request to the model, and nothing is logged.
        """
        from truespan.engine.answering import Answerer, with_request

        find = self._prepare(query, **arguments)
        answerer = Answerer(self.access.components, self.access.authority)
        ask = answerer.ask(query, find, None, history)
        return with_request(answerer.events(ask, reading=False), query, arguments)

    def _prepare(self, query: str, **arguments: Unpack[QueryArguments]) -> Find:
        """Check the arguments of a question; return the function that finds its candidates."""
        if not isinstance(query, str):
            raise InvalidArgument("The query must be a string.")
        request = RetrievalRequest(
            query=query, by_default=frozenset(), **check_arguments(arguments)
        )

        from truespan.retrieval.search import find_candidates

        def find(trace: RequestTrace, query: str, rules: Rules, _book: str | None) -> Retrieved:
            pipeline = self.access.pipeline.with_trace(trace)
            asked = replace(request, query=query)
            return find_candidates(pipeline, asked, rules)

        return find

    def usage(self, *, limit: int = USAGE_LIMIT) -> list[UsageRecord]:
        """Return the latest answered requests of the world, the newest first.

        Args:
            limit: Maximum number of records.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InvalidArgument("The limit must be an integer of at least 0.")
        world = self._require_usage_log()
        return self.access.components.store.records.usage(
            self.access.authority, world.id, limit=limit
        )

    def _require_usage_log(self) -> WorldRecord:
        world = require_world(
            self.access.components.store, self.access.authority, self.access.world
        )
        authority = self.access.authority
        # The log has the questions of all callers.
        if not authority.may(Verb.READ, world.id) or not isinstance(authority.audience, Unlimited):
            raise NotAllowed("read the usage log")
        return world


def _retrieval_request(
    query: str | None,
    selected_text: str | None,
    top_k: int,
    arguments: QueryArguments,
    **options: Any,
) -> RetrievalRequest:
    return RetrievalRequest(
        query=query,
        selected_text=selected_text,
        top_k=top_k,
        by_default=DEFAULT_FILTERS.difference(arguments),
        **check_arguments(arguments, **options),
    )
