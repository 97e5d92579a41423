"""Turn retrieved chunks into an answer, event by event.

    evidence ─> decide ─> ask a model ─> evidence with its outcome ─> decide ─> ... ─> text

The decision alone determines the next step, so that the record of a decision explains what
happened. No event is sent before the mode is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace

from truespan.answers.citations import citation, find_citations
from truespan.answers.claim_places import place_claims
from truespan.answers.decide import count_words, decide
from truespan.answers.prompt import grounded_messages, unaided_messages
from truespan.answers.quotes import Locate, check_quotes, quote_sources, quotes_of
from truespan.answers.refusal import excerpt, explain_refusal, find_near_misses
from truespan.answers.reply import NO_CONTEXT, Reply, mentions_marker
from truespan.answers.support.check import Comparison, check_support
from truespan.errors import InternalError, OperatorError, ServiceError
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import ChatModel, ChatModels, Clock
from truespan.retrieval.query_vector import round_score
from truespan.text.tables import added_characters
from truespan.types.answer import (
    Answer,
    AnswerEvent,
    Citation,
    Finished,
    Fitted,
    Message,
    Piece,
    Quote,
    Retrieved,
    RetrievedNote,
    Started,
    Support,
    preview,
)
from truespan.types.bundle import Notice, WhyNot
from truespan.types.chunk import ChunkKind
from truespan.types.conversation import Question
from truespan.types.decision import (
    Candidate,
    Decision,
    DecisionSettings,
    Evidence,
    ModelOutcome,
    Step,
)
from truespan.types.ids import ChunkId
from truespan.types.request import Defaults
from truespan.types.telemetry import CounterName, Stage
from truespan.types.trust import Visible

_CUT = Notice(
    "reply_cut",
    f"The model said {NO_CONTEXT} in the middle of its reply. What followed is left out.",
)

_BY_WORDS = Notice(
    "support_by_words",
    "The embedding model failed, so sentences were compared with the sources by words only.",
)
_UNCITED = Notice("uncited_answer", "The answer cites none of its sources.")
_NO_QUOTE = Notice("no_verified_quote", "None of the quotes was found verbatim in the sources.")

RecordUsage = Callable[[Evidence, int], tuple[str | None, tuple[Notice, ...]]]
"""Writes evidence and duration to the usage log; returns the record's id and warnings."""


class Responder(Struct, frozen=True):
    """Answers one question from the chunks retrieved for it.

    `record` is called for answered requests only.
    """

    question: Question
    retrieved: Retrieved
    settings: DecisionSettings
    reading: bool
    target: str
    defaults: Defaults
    models: ChatModels
    clock: Clock
    locate: Locate
    record: RecordUsage
    trace: RequestTrace = NULL_OBSERVER
    comparison: Comparison | None = None
    """Comparison of sentences by similarity; None compares words only."""

    def respond(self, began: float, warnings: Sequence[Notice] = ()) -> Generator[AnswerEvent]:
        """Yield the events of an answer; `began` is the start time of the request.

        Raises:
            ProviderUnavailable, ProviderRefused, ProviderBadReply, ...: a model failed. Another
                model is never asked instead.
        """
        chunks: dict[ChunkId, Visible] = {}
        for chunk in self.retrieved.chunks:
            # Of two chunks that a reader cannot distinguish, the first counts.
            chunks.setdefault(chunk.chunk_id, chunk)
        evidence, reply, fitted = self._evidence(chunks.values()), None, None
        try:
            while (decision := decide(evidence)).step in (Step.ASK_PRIMARY, Step.ASK_FALLBACK):
                with self.trace.stage(Stage.MODEL):
                    if decision.step is Step.ASK_PRIMARY:
                        fitted = self._fit(decision, chunks)
                        reply = self._ask_primary(decision, fitted.sources)
                        evidence = replace(evidence, primary=reply.outcome)
                    else:
                        # Without history: the answer is based on no passage.
                        messages = unaided_messages(self.question.standalone)
                        reply = _ask(self.models.fallback, messages, self.question)
                        evidence = replace(evidence, fallback=reply.outcome)
            yield Started(decision.mode, decision.used_llm)
            if fitted is None or not decision.used_chunks:
                fitted = self._fit(decision, chunks)
            pieces: list[str] = []
            for piece in self._pieces(decision, fitted.sources, reply):
                pieces.append(piece)
                yield Piece(piece)
        finally:
            if reply is not None:
                reply.close()
        with self.trace.stage(Stage.CHECKED):
            text, is_cut = "".join(pieces), reply is not None and reply.cut
            citations, quotes, support, remarks = self._check(decision, fitted.sources, text)
            milliseconds = int((self.clock.monotonic() - began) * 1000)
            record, problems = self.record(evidence, milliseconds)
            answer = Answer(
                answer=text,
                mode=decision.mode,
                citations=citations,
                quotes=quotes,
                retrieved_chunks_metadata=_notes(decision, chunks),
                used_chunks=decision.used_chunks,
                sources_used=decision.sources_used,
                decision_explain=decision.to_json(),
                warnings=(
                    *self.retrieved.warnings,
                    *warnings,
                    *fitted.warnings,
                    *remarks,
                    *((_CUT,) if is_cut else ()),
                    *problems,
                ),
                record=record,
                processing_time_ms=milliseconds,
                near_misses=self._near_misses(decision, chunks),
                support=support,
            )
        self.trace.count(CounterName.ANSWERS, 1, decision.mode)
        yield Finished(answer)

    def _ask_primary(self, decision: Decision, sources: Sequence[Visible]) -> Reply:
        messages = grounded_messages(
            self.question,
            sources,
            mode=decision.mode,
            reading=self.reading,
            tables=self._tables,
        )
        return _ask(self.models.primary, messages, self.question, sources)

    @property
    def _tables(self) -> bool:
        """Return whether models get tables in Markdown."""
        return self.defaults.values.renders_tables

    def _evidence(self, chunks: Iterable[Visible]) -> Evidence:
        measured = self.retrieved.measured
        candidates = tuple(
            Candidate(
                chunk_id=chunk.chunk_id,
                similarity=chunk.score,
                characters=len(chunk.text),
                kind=chunk.kind,
                document=chunk.document,
                index=chunk.index,
                start=chunk.start if chunk.kind is ChunkKind.TEXT else None,
                place=place if chunk.fused or chunk.rerank or self.retrieved.generated else None,
                coverage=measured.coverage.get(chunk.chunk_id),
                foreign=chunk.chunk_id in measured.foreign,
                generated=chunk.chunk_id in self.retrieved.joining,
                crossed=chunk.chunk_id in measured.crossed,
                added=added_characters(chunk.text) if self._tables else 0,
            )
            for place, chunk in enumerate(chunks)
        )
        return Evidence(
            settings=self.settings,
            query_words=count_words(self.question.standalone),
            candidates=candidates,
            reading=self.reading,
            primary=ModelOutcome.NOT_RUN if self.models.primary else ModelOutcome.ABSENT,
            fallback=ModelOutcome.NOT_RUN if self.models.fallback else ModelOutcome.ABSENT,
            retrieval_target=self.target,
            effective_query=self.question.standalone,
            search_mode=self.retrieved.mode,
            defaults=self.defaults,
            conversation=self.question.follow_up,
            generated_queries=self.retrieved.generated,
            background=measured.background,
            cohort=measured.cohort,
            missing_words=measured.missing_words,
        )

    def _fit(self, decision: Decision, chunks: dict[ChunkId, Visible]) -> Fitted:
        """Return the sources of an answer by rank; for a reader in the order of the book."""
        used = [chunks[chunk_id] for chunk_id in decision.used_chunks]
        settings = self.settings
        fitted = self.retrieved.fit(used, settings.max_chunks, settings.max_context_chars)
        if not self.reading:
            return fitted
        order = sorted(fitted.sources, key=lambda chunk: (chunk.start, chunk.end))
        return replace(fitted, sources=tuple(order))

    def _pieces(
        self, decision: Decision, sources: Sequence[Visible], reply: Reply | None
    ) -> Iterable[str]:
        if decision.refusal is not None:
            return [explain_refusal(decision, self.retrieved)]
        if decision.step is Step.QUOTE:
            return [quote_sources(sources)]
        return reply.pieces() if reply is not None else ()

    def _near_misses(
        self, decision: Decision, chunks: dict[ChunkId, Visible]
    ) -> tuple[RetrievedNote, ...]:
        if decision.refusal is None:
            return ()
        verdicts = {item.candidate.chunk_id: item.verdict for item in decision.retrieved}
        parts = find_near_misses(decision, self.retrieved, chunks.values())
        notes = (_note(part, verdicts.get(part.chunk_id, WhyNot.BELOW_FLOOR)) for part in parts)
        texts = (excerpt(part, self.question.standalone) for part in parts)
        return tuple(replace(note, text=text) for note, text in zip(notes, texts, strict=True))

    def _check(
        self, decision: Decision, sources: Sequence[Visible], text: str
    ) -> tuple[tuple[Citation, ...], tuple[Quote, ...], Support | None, tuple[Notice, ...]]:
        """Return citations, quotes and support of a model's text; other text needs no check."""
        if decision.refusal is not None:
            return (), (), None, ()
        if decision.step is Step.QUOTE:
            numbers = range(1, len(sources) + 1)
            every = tuple(citation(number, sources) for number in numbers)
            return every, quotes_of(sources, self.locate), None, ()
        quotes = check_quotes(text, sources, self.locate)
        citations = find_citations(text, sources, quotes.literal)
        warnings = [*citations.warnings, *quotes.warnings]
        asked = f"{self.question.asked} {self.question.standalone}"
        try:
            support = check_support(text, sources, quotes, self.comparison, asked)
        except (OperatorError, ServiceError):
            # The answer is complete; a failure of the embedding model must not withhold it.
            support = check_support(text, sources, quotes, question=asked)
            warnings.append(_BY_WORDS)
        support = place_claims(text, support, sources, self.locate)
        if sources and support.claims and all(part.chunk_id is None for part in citations.found):
            warnings.append(_UNCITED)
        if quotes.found and not any(quote.verified for quote in quotes.found):
            warnings.append(_NO_QUOTE)
        if sources and support.supported < support.claims:
            warnings.append(_name_unsupported(support))
        return citations.found, quotes.found, support, tuple(warnings)


def _name_unsupported(support: Support) -> Notice:
    count, claims = support.claims - support.supported, support.claims
    verb = "is" if count == 1 else "are"
    return Notice(
        "unsupported_sentence",
        f"{count} of {claims} sentences {verb} not supported by the sources.",
    )


def _ask(
    model: ChatModel | None,
    messages: Sequence[Message],
    question: Question,
    sources: Sequence[Visible] = (),
) -> Reply:
    if model is None:
        raise InternalError("decision without a model")
    texts = (question.asked, question.standalone, *(part.text for part in sources))
    quotable = any(map(mentions_marker, texts))
    return Reply(model.stream(messages), quotable=quotable)


def _notes(decision: Decision, chunks: dict[ChunkId, Visible]) -> tuple[RetrievedNote, ...]:
    pairs = ((chunks[item.candidate.chunk_id], item.verdict) for item in decision.retrieved)
    return tuple(_note(chunk, verdict) for chunk, verdict in pairs)


def _note(chunk: Visible, verdict: WhyNot) -> RetrievedNote:
    figure = chunk.figure
    return RetrievedNote(
        chunk_id=chunk.chunk_id,
        similarity=round_score(chunk.score),
        document=chunk.document,
        source=chunk.source,
        chapter=chunk.chapter,
        section=chunk.section,
        page=chunk.page,
        location=chunk.location,
        chunk_type=chunk.kind,
        text=preview(chunk.text),
        verdict=verdict,
        rerank=chunk.rerank,
        figure_id=figure.figure_id if figure else None,
        image_ref=figure.image_ref if figure else None,
        parent_chunk_id=chunk.parent_id,
        parent_chunk_local_index=figure.parent.index if figure and figure.parent else None,
        other_places=chunk.other_places,
        **asdict(chunk.labels),
    )
