"""Turn retrieved chunks into an answer or a refusal, event by event.

    evidence ─> decide ─> ask a model ─> evidence with its outcome ─> decide ─> ... ─> text

The decision alone determines the next step, so that the record of a decision explains what
happened. No event is sent before the mode is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from math import floor

from msgspec import Struct
from msgspec.structs import replace

from truespan.answers.checks import CheckedReply, Comparison, check_reply
from truespan.answers.citations import citation, find_citations
from truespan.answers.decide import choose_weighed, count_words, decide
from truespan.answers.prompt import grounded_messages, rank, unaided_messages
from truespan.answers.quotes import Locate, check_quotes, quote_sources, quotes_of
from truespan.answers.reply import NO_CONTEXT, Reply, mentions_marker
from truespan.core.records import copy_fields
from truespan.errors import InternalError
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import ChatModel, ChatModels, Clock
from truespan.retrieval.best_sentence import spoken_in
from truespan.retrieval.query import round_score
from truespan.text.sentences import sentence_spans
from truespan.text.tables import added_characters
from truespan.types.answer import (
    MAX_NEAR_MISSES,
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
    Coverage,
    Decision,
    DecisionReason,
    DecisionSettings,
    Evidence,
    Gate,
    GateName,
    ModelOutcome,
    Refusal,
    Step,
)
from truespan.types.ids import ChunkId
from truespan.types.origin import set_origin
from truespan.types.profile import shortest
from truespan.types.request import Defaults
from truespan.types.telemetry import CounterName, Stage
from truespan.types.trust import Visible
from truespan.words.searched import SearchedWords

_CUT = Notice(
    "reply_cut",
    f"The model said {NO_CONTEXT} in the middle of its reply. What followed is left out.",
)

MAX_CHECKED = 16_000
"""Maximum number of characters of a reply that are checked; the check takes a second for 8,000."""
_NOT_CHECKED = Notice(
    "reply_checked_in_part",
    f"Citations, quotes and support were checked in the first {MAX_CHECKED:,} characters only.",
)
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
        chunks = self._chunks()
        evidence, reply, fitted = self._evidence(chunks), None, None
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
                retrieved_chunks_metadata=tuple(
                    _note(chunks[item.candidate.chunk_id], item.verdict)
                    for item in decision.retrieved
                ),
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
        world, scope = self.retrieved.world, self.retrieved.scope
        yield Finished(set_origin(answer, world, scope, fitted.sources))

    def decide(self) -> Decision:
        """Return the decision on the retrieved passages, before any model runs."""
        return decide(self._evidence(self._chunks()))

    def _chunks(self) -> dict[ChunkId, Visible]:
        chunks: dict[ChunkId, Visible] = {}
        for chunk in self.retrieved.chunks:
            # Of two chunks that a reader cannot distinguish, the first counts.
            chunks.setdefault(chunk.chunk_id, chunk)
        return chunks

    def _ask_primary(self, decision: Decision, sources: Sequence[Visible]) -> Reply:
        messages = grounded_messages(
            self.question, sources, mode=decision.mode, reading=self.reading, tables=self._tables
        )
        return _ask(self.models.primary, messages, self.question, sources)

    @property
    def _tables(self) -> bool:
        """Return whether models get tables in Markdown."""
        return not self.defaults.values.plain

    def _evidence(self, chunks: dict[ChunkId, Visible]) -> Evidence:
        measured = self.retrieved.measured
        candidates = [
            Candidate(
                chunk_id=chunk.chunk_id,
                similarity=chunk.score,
                characters=len(chunk.text),
                kind=chunk.kind,
                document=chunk.document,
                index=chunk.index,
                start=chunk.start if chunk.kind is ChunkKind.TEXT else None,
                place=place if chunk.fused or chunk.rerank else None,
                foreign=chunk.chunk_id in measured.foreign,
                by_words=chunk.chunk_id in measured.by_words,
                crossed=chunk.chunk_id in measured.crossed,
                sentence=measured.sentences.get(chunk.chunk_id),
                late=measured.late.get(chunk.chunk_id),
                has_names=measured.has_names.get(chunk.chunk_id),
                added=added_characters(chunk.text) if self._tables else 0,
            )
            for place, chunk in enumerate(chunks.values())
        ]
        covered: dict[ChunkId, Coverage] = {}
        if self.settings.evidence is not None and measured.cover is not None:
            counted = choose_weighed(rank(candidates), self.settings, self.settings.evidence)
            ids = [part.chunk_id for part in counted]
            texts = [chunks[chunk_id].text for chunk_id in ids]
            covered = dict(zip(ids, measured.cover(texts), strict=True))
        evidence = Evidence(
            settings=self.settings,
            query_words=count_words(self.question.standalone),
            candidates=tuple(
                replace(part, coverage=covered.get(part.chunk_id)) for part in candidates
            ),
            reading=self.reading,
            primary=ModelOutcome.NOT_RUN if self.models.primary else ModelOutcome.ABSENT,
            fallback=ModelOutcome.NOT_RUN if self.models.fallback else ModelOutcome.ABSENT,
            retrieval_target=self.target,
            effective_query=self.question.standalone,
            search_mode=self.retrieved.mode,
            defaults=self.defaults,
            conversation=self.question.follow_up,
            background=measured.background,
            cohort=measured.cohort,
        )
        if decide(evidence).reason is not DecisionReason.TOO_LITTLE_EVIDENCE:
            return evidence
        return replace(evidence, missing_words=measured.find_missing_words())

    def _fit(self, decision: Decision, chunks: dict[ChunkId, Visible]) -> Fitted:
        """Return the sources of an answer by their place in the search, those without a word of the
        question last; for a reader in the order of the book.

        In a `contract` world they keep the order of the used chunks, by similarity.
        """
        used = [chunks[chunk_id] for chunk_id in decision.used_chunks]
        by_place = not self.defaults.values.plain
        if by_place:
            places = {chunk_id: place for place, chunk_id in enumerate(chunks)}
            used.sort(key=lambda part: places[part.chunk_id])
        settings, quoted = self.settings, decision.step is Step.QUOTE
        fitted = self.retrieved.fit(used, settings.max_chunks, settings.max_context_chars, quoted)
        if self.reading:
            order = sorted(fitted.sources, key=lambda chunk: (chunk.start, chunk.end))
        elif by_place:
            lacking = {part.chunk_id for part in decision.evidence.candidates if _lacks_words(part)}
            order = sorted(fitted.sources, key=lambda part: part.chunk_id in lacking)
        else:
            return fitted
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
        is_long, text = len(text) > MAX_CHECKED, text[:MAX_CHECKED]
        quotes = check_quotes(text, sources, self.locate)
        citations = find_citations(text, sources, quotes.literal)
        warnings = [*([_NOT_CHECKED] if is_long else ()), *citations.warnings, *quotes.warnings]
        if quotes.found and not any(quote.verified for quote in quotes.found):
            warnings.append(_NO_QUOTE)
        reply = CheckedReply(
            text=text,
            sources=sources,
            citations=citations.found,
            quotes=quotes,
            question=f"{self.question.asked} {self.question.standalone}",
            locate=self.locate,
            comparison=self.comparison,
        )
        result = check_reply(reply)
        return citations.found, quotes.found, result.support, (*warnings, *result.warnings)


def _lacks_words(part: Candidate) -> bool:
    """Return whether a chunk in the language of the question has none of its words."""
    return part.coverage is not None and not part.coverage.words and not part.crossed


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


def _note(chunk: Visible, verdict: WhyNot) -> RetrievedNote:
    figure = chunk.figure
    return copy_fields(
        RetrievedNote,
        chunk,
        similarity=round_score(chunk.score),
        chunk_type=chunk.kind,
        text=preview(chunk.text),
        verdict=verdict,
        figure_id=figure.figure_id if figure else None,
        image_ref=figure.image_ref if figure else None,
        parent_chunk_id=chunk.parent_id,
        parent_chunk_local_index=figure.parent.index if figure and figure.parent else None,
    )


_NOT_FOUND = {
    "no_word_matches": "No passage contains a word of the question",
    "no_phrase_matches": "No passage contains the words in quotes",
    "over_budget": "No passage fits into the token budget",
    "no_reading_position": "No reading position is recorded",
    "nothing_read": "Nothing of this book has been read yet",
}
"""Description of each warning that explains why nothing was found."""

_BY_REASON = {
    DecisionReason.NOTHING_USABLE: "No passage that was found can be given to a model",
    DecisionReason.PRIMARY_BLANK: "The chat model returned no text for the passages found",
    DecisionReason.PRIMARY_NO_CONTEXT: "The chat model found no answer in the passages",
}


def explain_refusal(decision: Decision, retrieved: Retrieved) -> str:
    """Return the text of a refusal, with every failed check and its values."""
    where = " in what has been read of this book so far" if decision.evidence.reading else ""
    checks = "; ".join(_failed_checks(decision, retrieved))
    text = f"Nothing certain{where}. {checks}."
    if decision.refusal is Refusal.FALLBACK_SILENT:
        text += " The model that was asked without the documents had no answer either."
    return text


def _failed_checks(decision: Decision, retrieved: Retrieved) -> Iterator[str]:
    reason = decision.reason
    if reason in _BY_REASON:
        yield _BY_REASON[reason]
    elif reason is DecisionReason.GATE_FAILED:
        failed = [_describe_gate(gate) for gate in decision.gates if not gate.held]
        yield failed[0][0].upper() + failed[0][1:]
        yield from failed[1:]
    elif reason is DecisionReason.TOO_LITTLE_EVIDENCE:
        yield _name_missing_words(decision)
    else:
        yield _name_absence(decision, retrieved)


def _name_missing_words(decision: Decision) -> str:
    """Return why the best passages do not count: missing words, or little evidence."""
    quoted = [f"'{word}'" for word in decision.evidence.missing_words]
    listed = " or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
    similar = f"There are similar passages, but none about {listed}" if listed else "No passage is"
    similar += "" if listed else " close enough to the question"
    best, needed = decision.max_score or 0.0, shortest(decision.thresholds.low)
    return f"{similar}: the best evidence is {_show_below(best, needed)}, and {needed:g} is needed"


def _show_below(score: float, needed: float) -> str:
    """Return a score with three digits, rounded down if it would seem to be enough."""
    shown = f"{score:.3f}"
    return shown if float(shown) < needed else f"{floor(1000 * score) / 1000:.3f}"


def _name_absence(decision: Decision, retrieved: Retrieved) -> str:
    """Return the reason why no passage counts: a warning, or too little similarity."""
    for notice in retrieved.warnings:
        if not decision.retrieved and notice.code in _NOT_FOUND:
            return _NOT_FOUND[notice.code]
    settings = decision.evidence.settings
    rules, best = settings.evidence, decision.max_score
    needed = shortest(decision.thresholds.low if rules is None else rules.floor)
    if best is None and retrieved.closest:
        best = settings.to_score(max(part.score for part in retrieved.closest))
    if best is None:
        return "No passage was found"
    return (
        "No passage is close enough to the question: the best score is "
        f"{_show_below(best, needed)}, and {needed:g} is needed"
    )


def _describe_gate(gate: Gate) -> str:
    if gate.name is GateName.SIMILARITY:
        return f"the best similarity is {gate.found:.2f}, and {gate.needed:g} is needed"
    unit = "passage" if gate.name is GateName.CHUNKS else "character"
    found = f"1 {unit} was" if gate.found == 1 else f"{gate.found:g} {unit}s were"
    return f"{found} found, and {gate.needed:g} are needed"


def find_near_misses(
    decision: Decision, retrieved: Retrieved, chunks: Iterable[Visible]
) -> list[Visible]:
    """Return the passages to show with a refusal: the best ones found, else the closest ones."""
    excluded = decision.evidence.settings.exclude_chunk_types_from_llm
    found = [part for part in chunks if part.kind not in excluded]
    return (found or [*retrieved.closest])[:MAX_NEAR_MISSES]


def excerpt(part: Visible, question: str) -> str:
    """Return a preview of a passage that starts at the sentence with most words of a question.

    A chunk may begin within a sentence; of equally good ones, a whole sentence is preferred.
    """
    start = 0
    if part.kind is not ChunkKind.FIGURE:
        language = spoken_in(part)
        spans = sentence_spans(part.text, language)
        scores = SearchedWords(question).score(
            [(part.text[first:last], language) for first, last in spans]
        )
        ranks = [
            (score, not part.text[first].islower())
            for score, (first, _) in zip(scores, spans, strict=True)
        ]
        start = spans[ranks.index(max(ranks))][0] if ranks else 0
    return preview(part.text[start:], end=" …")
