"""Answers to requests of a world or a reader, and their records in the usage log."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from truespan.answers.checks import Comparison
from truespan.answers.decide import count_words, decide, evidence_to_json, search_floor
from truespan.answers.follow_up import (
    ask_for_rewrite,
    fit_history,
    is_accepted,
    rewrite_by_rule,
    rewrite_messages,
)
from truespan.answers.respond import RecordUsage, Responder
from truespan.engine.components import Components
from truespan.errors import InternalError, NotFound, QueryTooLong, StorageFull
from truespan.observer import RequestTrace
from truespan.protocols import ChatModel, ChatModels
from truespan.retrieval.query import calibration_of, embed_shown
from truespan.retrieval.search import Rules
from truespan.types.answer import Answer, AnswerEvent, Finished, Retrieved, Usage
from truespan.types.bundle import Notice
from truespan.types.conversation import Question, Turn
from truespan.types.decision import (
    Decision,
    DecisionSettings,
    Evidence,
    FollowUp,
    ModelOutcome,
    RewrittenBy,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import hash_text
from truespan.types.origin import Operation, set_request
from truespan.types.profile import support_floor
from truespan.types.request import Defaults
from truespan.types.scope import Authority, Scope, World
from truespan.types.telemetry import Request, Stage
from truespan.types.text import SentenceRange, place_sentences
from truespan.types.trust import Visible
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    pass

NOT_RECORDED = Notice(
    "usage_not_recorded", "This request could not be written to the usage log just now."
)


NOT_CALIBRATED = Notice(
    "thresholds_not_calibrated",
    "No thresholds were measured for this embedding model, so the configured ones apply. Measure "
    "your own with 'truespan calibrate --keep'.",
)


Ask: TypeAlias = Callable[[RequestTrace], tuple[Question, Retrieved]]
"""Function that finds the candidates for a question, which may depend on earlier turns."""


Find: TypeAlias = Callable[[RequestTrace, str, Rules, str | None], Retrieved]
"""Function that finds candidates for a query by rules; for a reader, in the named book."""


History: TypeAlias = Sequence[tuple[str, str]]
"""Earlier questions with their answers, in order."""


class Answerer(Struct, frozen=True):
    """Answerer of one question of an authority."""

    components: Components
    authority: Authority

    def rules_for(self, query: str) -> Rules:
        """Return the function that gives the decision settings and the floor of a scope."""

        def rules(scope: Scope, defaults: Defaults) -> tuple[DecisionSettings, float]:
            calibration = calibration_of(self.components.store, scope)
            settings = self.components.answers.for_profile(scope.profile, calibration, defaults)
            return settings, search_floor(settings, count_words(query))

        return rules

    def understand(self, query: str, turns: Sequence[Turn], trace: RequestTrace) -> Question:
        """Complete a question that refers to earlier turns, by model or by rule."""
        components = self.components
        # A refused question has no answer, so it does not complete a later one.
        answered = [turn for turn in turns if not turn.refused]
        budget, model = components.conversations.history_tokens, components.chat.primary
        history = fit_history(turns, budget, components.counter.count)
        standalone, by = query, RewrittenBy.NONE
        rewritten = None
        if history and model is not None and query:
            with trace.stage(Stage.MODEL):
                rewritten = ask_for_rewrite(model, rewrite_messages(query, history))
        if rewritten is not None and is_accepted(rewritten, query, answered):
            standalone, by = rewritten, RewrittenBy.MODEL
        elif query:
            standalone, by = rewrite_by_rule(query, answered), RewrittenBy.RULE
        if standalone.casefold() == query.casefold():
            standalone, by = query, RewrittenBy.NONE
        follow_up = FollowUp(by, len(turns), len(history) if model is not None else 0)
        return Question(query, standalone, follow_up, history)

    def ask(self, query: str, find: Find, book: str | None, history: History) -> Ask:
        """Return the function that finds candidates for a question after earlier ones."""
        turns = [
            Turn("", 0.0, question=asked, standalone=asked, answer=answer)
            for asked, answer in history
        ]

        def ask(trace: RequestTrace) -> tuple[Question, Retrieved]:
            text = query.strip()
            if turns:
                question = self.understand(text, turns, trace)
                return self.search_for(question, trace, find, book)
            return Question(text, text), find(trace, query, self.rules_for(query), book)

        return ask

    def search_for(
        self, question: Question, trace: RequestTrace, find: Find, book: str | None
    ) -> tuple[Question, Retrieved]:
        """Find candidates for a question; as it was asked, if it became too long."""
        try:
            rules = self.rules_for(question.standalone)
            return question, find(trace, question.standalone, rules, book)
        except QueryTooLong:
            if question.standalone == question.asked:
                raise
        question = _unchanged(question)
        return question, find(trace, question.asked, self.rules_for(question.asked), book)

    def events(self, ask: Ask, *, reading: bool) -> Generator[AnswerEvent]:
        """Yield the events of the answer; nothing happens before the first is requested."""
        name = Request.READING_ANSWER if reading else Request.ANSWER
        finished: list[Finished] = []
        with self.components.observer.request(name) as trace:
            began = self.components.clock.monotonic()
            responder, warnings = self._responder(ask, trace, reading=reading)
            with closing(responder.respond(began, warnings)) as events:
                for event in events:
                    if isinstance(event, Finished):
                        finished.append(event)
                    else:
                        yield event
        # A caller may stop at this event, so the request ends before it is given.
        yield from finished

    def decide(self, ask: Ask, *, reading: bool) -> Decision:
        """Return the decision on a question without asking a model."""
        name = Request.READING_ANSWER if reading else Request.ANSWER
        with self.components.observer.request(name) as trace:
            return self._responder(ask, trace, reading=reading)[0].decide()

    def decide_on(self, found: Retrieved, query: str, trace: RequestTrace) -> Decision:
        """Return the decision on the results of a reader's request, without another search."""
        question = Question(query, query)
        return self._responder(lambda _: (question, found), trace, reading=True)[0].decide()

    def _responder(
        self, ask: Ask, trace: RequestTrace, *, reading: bool
    ) -> tuple[Responder, list[Notice]]:
        """Find candidates; return the responder for them, and warnings about the thresholds."""
        components = self.components
        question, retrieved = ask(trace)
        world, scope = retrieved.world, retrieved.scope
        settings, floor = components.answers.decision, 0.0
        if scope:
            settings, floor = self.rules_for(question.standalone)(scope, world.defaults)
        # Another chat model may be connected before the answer is complete.
        models = replace(components.chat)
        responder = Responder(
            question=question,
            retrieved=retrieved,
            settings=settings,
            reading=reading,
            target=target_name(world),
            defaults=world.defaults,
            models=models,
            clock=components.clock,
            locate=lambda *span: self._sentences_of(scope, *span),
            record=self._usage_recorder(world, question.standalone, models),
            trace=trace,
            comparison=self._comparison(scope),
        )
        # Evidence does not exclude by similarity, so its floor may be low.
        if settings.evidence is not None:
            return responder, []
        return responder, self._threshold_notices(scope, world, floor)

    def _comparison(self, scope: Scope | None) -> Comparison | None:
        """Return the comparison of sentences by similarity; None if it was not measured, or is off.

        Only the local model is measured, so that no provider gets a request that the operator did
        not ask for.
        """
        if scope is None:
            return None
        floor = self.components.answers.support_floor
        floor = support_floor(scope.profile) if floor is None else floor
        if floor is None or floor >= 1:
            return None

        def embed(texts: Sequence[str]) -> list[Vector]:
            self.components.require_model(scope.profile)
            # A chat model may send surrogates, which no embedder takes.
            clean = [text.encode(errors="replace").decode() for text in texts]
            vectors = embed_shown(self.components, scope, {hash_text(text): text for text in clean})
            return [vectors[hash_text(text)] for text in clean]

        return Comparison(embed, floor, scope.profile.distance)

    def _threshold_notices(self, scope: Scope | None, world: World, floor: float) -> list[Notice]:
        """Return warnings if thresholds were not measured, or exclude hardly anything."""
        calibration = calibration_of(self.components.store, scope) if scope else None
        if scope and not calibration and self.components.answers.uses_calibration(world.defaults):
            return [NOT_CALIBRATED]
        if calibration is None or calibration.discriminates(floor):
            return []
        text = (
            "With this model one unrelated text in twenty scores "
            f"{calibration.unrelated_high:g} or more, so the low threshold of {floor:g} "
            "excludes hardly anything. Use the measured thresholds: run 'truespan config "
            "--defaults recommended', or set answer_thresholds = 'calibrated'."
        )
        return [Notice("floor_does_not_discriminate", text)]

    def _sentences_of(
        self, scope: Scope | None, chunk: Visible, last: int, start: int, end: int
    ) -> SentenceRange:
        """Return the sentences of a character range, searching up to `last`."""
        revision = chunk.revision if chunk.revision is not None else scope and scope.revision
        if scope is None or revision is None:
            return SentenceRange(chunk.first_sid, chunk.last_sid)
        ref = RevisionRef(chunk.document, revision)
        sentences = self.components.store.readers.sentences(scope, ref, chunk.first_sid, last)
        inside = [item for item in sentences if item.start < end and item.end > start]
        if not inside:
            # The revision is gone by now, so that only the chunk's own sentences are known.
            return SentenceRange(chunk.first_sid, chunk.last_sid)
        place = place_sentences(inside, chunk.title)
        return SentenceRange(inside[0].sid, inside[-1].sid, place)

    def _usage_recorder(self, world: World, query: str, models: ChatModels) -> RecordUsage:
        """Return the function that records an answered request in the usage log.

        The query is marked now, so that an unreadable key is an error before a model is asked and
        not after it has answered. A key that cannot be created on a full disk is not an error: the
        log could not be written either.
        """
        rules, components = self.components.answers, self.components
        try:
            logged_query = query if rules.log_queries else components.mark_query(world.id, query)
        except StorageFull:
            return lambda *_: (None, (NOT_RECORDED,) if rules.usage_days else ())

        def record(evidence: Evidence, milliseconds: int) -> tuple[str | None, tuple[Notice, ...]]:
            if not rules.usage_days:
                return None, ()
            words = evidence.missing_words if rules.log_queries else ()
            logged = replace(evidence, effective_query=logged_query, missing_words=words)
            usage = Usage(
                mode=decide(logged).mode,
                milliseconds=milliseconds,
                primary_model=_model_name(models.primary, evidence.primary),
                fallback_model=_model_name(models.fallback, evidence.fallback),
                evidence=evidence_to_json(logged),
                decision_explain=decide(logged).to_json(),
            )
            try:
                key = components.store.records.record_usage(
                    self.authority,
                    world.id,
                    usage,
                    days=rules.usage_days,
                    max_records=rules.usage_records,
                )
            except Exception as error:
                if isinstance(error, NotFound) and error.kind == "world":
                    raise
                # The answer is complete. No failure of the log may withhold it.
                return None, (NOT_RECORDED,)
            return key, ()

        return record


def final_answer(events: Iterator[AnswerEvent]) -> Answer:
    for event in events:
        if isinstance(event, Finished):
            return event.answer
    raise InternalError("end of an answer")


def with_request(
    events: Generator[AnswerEvent], query: str, arguments: Mapping[str, object]
) -> Iterator[AnswerEvent]:
    """Yield the events of an answer, whose origin gets the request."""
    with closing(events):
        for event in events:
            if isinstance(event, Finished):
                set_request(event.answer, Operation.ANSWER, query, arguments)
            yield event


def target_name(world: World) -> str:
    """Return the domain or world that was asked, with the number of its generation."""
    name = world.selector if isinstance(world.selector, str) else world.name
    return name if world.generation is None else f"{name}@{world.generation.number}"


def _unchanged(question: Question) -> Question:
    """Return a question as it was asked, without additions."""
    follow_up = replace(question.follow_up or FollowUp(), rewritten_by=RewrittenBy.NONE)
    return replace(question, standalone=question.asked, follow_up=follow_up)


def _model_name(model: ChatModel | None, outcome: ModelOutcome) -> str | None:
    ran = outcome not in (ModelOutcome.NOT_RUN, ModelOutcome.ABSENT)
    return model.name if model is not None and ran else None
