"""Turn retrieved chunks into an answer, event by event.

    evidence ─> decide ─> ask a model ─> evidence with its outcome ─> decide ─> ... ─> text

The decision alone determines the next step, so that the record of a decision explains what
happened. No event is sent before the mode is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from truespan.answers.citations import citation, find_citations
from truespan.answers.decide import count_words, decide
from truespan.answers.prompt import grounded_messages, unaided_messages
from truespan.answers.quotes import SidsOf, check_quotes, quote_sources, quotes_of
from truespan.answers.reply import Reply
from truespan.errors import InternalError
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import ChatModel, ChatModels, Clock
from truespan.retrieval.query_vector import round_score
from truespan.types.answer import (
    Answer,
    AnswerEvent,
    Citation,
    Finished,
    Message,
    Piece,
    Quote,
    Retrieved,
    RetrievedNote,
    Started,
    preview,
)
from truespan.types.bundle import Notice
from truespan.types.chunk import ChunkKind
from truespan.types.decision import (
    Candidate,
    Decision,
    DecisionSettings,
    Evidence,
    ModelOutcome,
    Refusal,
    Step,
)
from truespan.types.ids import ChunkId
from truespan.types.telemetry import CounterName, Stage
from truespan.types.trust import Visible

_REFUSALS = {
    Refusal.READING: "What has been read of this book so far does not answer that.",
    Refusal.NO_FALLBACK_MODEL: (
        "The documents do not answer that, and no model is configured to answer without them."
    ),
    Refusal.FALLBACK_SILENT: (
        "The documents do not answer that, and the model that was asked without them had no answer."
    ),
}


Keep = Callable[[Evidence, int], tuple[str | None, tuple[Notice, ...]]]
"""Writes evidence and duration to the usage log; returns the record's id and warnings."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, what was retrieved for it, and the settings that decide."""

    text: str
    settings: DecisionSettings
    retrieved: Retrieved
    reading: bool
    target: str
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Responder:
    """Answers questions. `keep` records each answered request, and no other."""

    models: ChatModels
    clock: Clock
    sids_of: SidsOf
    keep: Keep
    course: RequestTrace = NULL_OBSERVER

    def respond(self, question: Question, began: float) -> Iterator[AnswerEvent]:
        """Yield the events of an answer; `began` is when the request began.

        Raises:
            ProviderUnavailable, ProviderRefused, ProviderBadReply, ...: a model failed. Another
                model is never asked instead.
        """
        chunks = _by_id(question.retrieved.chunks)
        evidence, reply = _evidence(question, chunks.values(), self.models), None
        try:
            while (decision := decide(evidence)).step in (Step.ASK_PRIMARY, Step.ASK_FALLBACK):
                with self.course.stage(Stage.MODEL):
                    if decision.step is Step.ASK_PRIMARY:
                        messages = _grounded(question, decision, chunks)
                        reply = _asked(self.models.primary, messages)
                        evidence = evidence.after(primary=reply.outcome)
                    else:
                        reply = _asked(self.models.fallback, unaided_messages(question.text))
                        evidence = evidence.after(fallback=reply.outcome)
            yield Started(decision.mode, decision.used_llm)
            pieces: list[str] = []
            for piece in self._words(question, decision, chunks, reply):
                pieces.append(piece)
                yield Piece(piece)
        finally:
            if reply is not None:
                reply.close()
        with self.course.stage(Stage.CHECKED):
            answer = self._answer(question, evidence, decision, chunks, "".join(pieces), began)
        self.course.count(CounterName.ANSWERS, 1, decision.mode)
        yield Finished(answer)

    def _words(
        self,
        question: Question,
        decision: Decision,
        chunks: dict[ChunkId, Visible],
        reply: Reply | None,
    ) -> Iterator[str]:
        if decision.refusal is not None:
            yield _REFUSALS[decision.refusal]
        elif decision.step is Step.QUOTE:
            yield quote_sources(_sources(question, decision, chunks))
        elif reply is not None:
            yield from reply.pieces()

    def _answer(
        self,
        question: Question,
        evidence: Evidence,
        decision: Decision,
        chunks: dict[ChunkId, Visible],
        words: str,
        began: float,
    ) -> Answer:
        sources = _sources(question, decision, chunks)
        citations, quotes, remarks = self._checked(decision, sources, words)
        milliseconds = int((self.clock.monotonic() - began) * 1000)
        record, trouble = self.keep(evidence, milliseconds)
        found = (*question.retrieved.warnings, *question.warnings)
        return Answer(
            answer=words,
            mode=decision.mode,
            citations=citations,
            quotes=quotes,
            retrieved_chunks_metadata=_notes(decision, chunks),
            used_chunks=decision.used_chunks,
            sources_used=decision.sources_used,
            decision_explain=decision.explained(),
            warnings=(*found, *remarks, *trouble),
            record=record,
            processing_time_ms=milliseconds,
        )

    def _checked(
        self, decision: Decision, sources: Sequence[Visible], words: str
    ) -> tuple[tuple[Citation, ...], tuple[Quote, ...], tuple[Notice, ...]]:
        """Return the citations and quotes of a model's text; our own text needs no check."""
        if decision.refusal is not None:
            return (), (), ()
        if decision.step is Step.QUOTE:
            numbers = range(1, len(sources) + 1)
            every = tuple(citation(number, sources) for number in numbers)
            return every, quotes_of(sources, self.sids_of), ()
        quotes = check_quotes(words, sources, self.sids_of)
        citations = find_citations(words, sources, quotes.literal)
        return citations.found, quotes.found, (*citations.warnings, *quotes.warnings)


def _by_id(chunks: Sequence[Visible]) -> dict[ChunkId, Visible]:
    """Return chunks by id; of two that a reader cannot distinguish, the first."""
    known: dict[ChunkId, Visible] = {}
    for chunk in chunks:
        known.setdefault(chunk.chunk_id, chunk)
    return known


def _evidence(question: Question, chunks: Iterable[Visible], models: ChatModels) -> Evidence:
    return Evidence(
        settings=question.settings,
        query_words=count_words(question.text),
        candidates=tuple(_candidate(chunk, place) for place, chunk in enumerate(chunks)),
        reading=question.reading,
        primary=ModelOutcome.NOT_RUN if models.primary else ModelOutcome.ABSENT,
        fallback=ModelOutcome.NOT_RUN if models.fallback else ModelOutcome.ABSENT,
        retrieval_target=question.target,
        effective_query=question.text,
    )


def _candidate(chunk: Visible, place: int) -> Candidate:
    return Candidate(
        chunk_id=chunk.chunk_id,
        similarity=chunk.score,
        characters=len(chunk.text),
        kind=chunk.kind,
        document=chunk.document,
        index=chunk.index,
        start=chunk.start if chunk.kind is ChunkKind.TEXT else None,
        place=None if chunk.fused is None else place,
    )


def _asked(model: ChatModel | None, messages: Sequence[Message]) -> Reply:
    if model is None:
        raise InternalError("decision without a model")
    return Reply(model.stream(messages))


def _grounded(
    question: Question, decision: Decision, chunks: dict[ChunkId, Visible]
) -> tuple[Message, ...]:
    sources = _sources(question, decision, chunks)
    return grounded_messages(question.text, sources, mode=decision.mode, reading=question.reading)


def _sources(
    question: Question, decision: Decision, chunks: dict[ChunkId, Visible]
) -> list[Visible]:
    """Return the chunks behind an answer by rank; for a reader in the order of the book."""
    used = [chunks[chunk_id] for chunk_id in decision.used_chunks]
    return sorted(used, key=lambda one: (one.start, one.end)) if question.reading else used


def _notes(decision: Decision, chunks: dict[ChunkId, Visible]) -> tuple[RetrievedNote, ...]:
    notes = []
    for one in decision.retrieved:
        chunk = chunks[one.candidate.chunk_id]
        notes.append(
            RetrievedNote(
                chunk_id=chunk.chunk_id,
                similarity=round_score(chunk.score),
                document=chunk.document,
                source=chunk.source,
                chapter=chunk.chapter,
                section=chunk.section,
                page=chunk.page,
                kind=chunk.kind,
                text=preview(chunk.text),
                verdict=one.verdict,
            )
        )
    return tuple(notes)
