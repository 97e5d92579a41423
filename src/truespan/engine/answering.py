"""Answers of a world: what was found, decided, said and written down, put together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Unpack

from truespan.answers.decide import Replayed, count_words, decide, recorded, replayed, search_floor
from truespan.answers.respond import Question, Responder
from truespan.engine.held import HeldWorld
from truespan.engine.parts import Components
from truespan.errors import InternalError, InvalidSettings, NotAllowed, StorageFull, WorldNotFound
from truespan.observer import RequestTrace
from truespan.protocols import ChatModel
from truespan.retrieval.query_vector import calibration_of
from truespan.retrieval.search import find_candidates
from truespan.retrieval.snapshot import require_world
from truespan.types.answer import Answer, AnswerEvent, Finished, Retrieved, Usage, UsageRecord
from truespan.types.bundle import Notice
from truespan.types.decision import DecisionSettings, Evidence, ModelOutcome
from truespan.types.document import RevisionRef
from truespan.types.request import FilterArguments, Filters, RetrievalRequest
from truespan.types.scope import Authority, Scope, Verb, World
from truespan.types.telemetry import Request
from truespan.types.trust import Visible

NOT_RECORDED = Notice(
    "usage_not_recorded", "This request could not be written to the usage log just now."
)
USAGE_LIMIT = 50


@dataclass(frozen=True, slots=True)
class Answerer:
    """Answers one request of an authority, however its candidates were found."""

    parts: Components
    authority: Authority
    query: str

    def rules(self, scope: Scope) -> tuple[DecisionSettings, float]:
        """Return the settings of the decision on what is found in a scope, and the floor."""
        measured = calibration_of(self.parts.store, scope)
        settings = self.parts.answers.for_profile(scope.profile, measured)
        return settings, search_floor(settings, count_words(self.query))

    def events(
        self, find: Callable[[RequestTrace], Retrieved], *, reading: bool
    ) -> Iterator[AnswerEvent]:
        """Give the events of the answer; nothing is done before the first one is asked for."""
        name = Request.READING_ANSWER if reading else Request.ANSWER
        finished: list[Finished] = []
        with (
            self.parts.watch.request(name) as course,
            closing(self._told(find, course, reading=reading)) as events,
        ):
            for event in events:
                if isinstance(event, Finished):
                    finished.append(event)
                else:
                    yield event
        # Whoever has this one need not ask for another: the request is over before it is given.
        yield from finished

    def _told(
        self, find: Callable[[RequestTrace], Retrieved], course: RequestTrace, *, reading: bool
    ) -> Generator[AnswerEvent]:
        parts = self.parts
        began = parts.clock.monotonic()
        retrieved = find(course)
        world, scope = retrieved.world, retrieved.scope
        settings, floor = self.rules(scope) if scope else (parts.answers.decision, 0.0)
        question = Question(
            text=self.query.strip(),
            settings=settings,
            retrieved=retrieved,
            reading=reading,
            target=target_of(world),
            warnings=self._about_floor(scope, floor),
        )
        responder = Responder(
            parts.chat, parts.clock, self._sids_of(scope), self._keeping(world), course
        )
        yield from responder.respond(question, began)

    def _about_floor(self, scope: Scope | None, floor: float) -> tuple[Notice, ...]:
        """Say so when the low threshold lets unrelated text pass under this model."""
        measured = calibration_of(self.parts.store, scope) if scope else None
        if measured is None or measured.discriminates(floor):
            return ()
        text = (
            f"Under this model one unrelated text in twenty reaches {measured.unrelated_high:g}, "
            f"so that the low threshold of {floor:g} keeps hardly anything out; "
            "answer_thresholds = 'calibrated' uses what was measured."
        )
        return (Notice("floor_does_not_discriminate", text),)

    def _sids_of(self, scope: Scope | None) -> Callable[[Visible, int, int, int], tuple[int, int]]:
        def sids(chunk: Visible, last: int, start: int, end: int) -> tuple[int, int]:
            revision = chunk.revision if chunk.revision is not None else scope and scope.revision
            if scope is None or revision is None:
                return chunk.first_sid, chunk.last_sid
            ref = RevisionRef(chunk.document, revision)
            stored = self.parts.store.sentences(scope, ref, chunk.first_sid, last)
            touched = [one.sid for one in stored if one.start < end and one.end > start]
            # The revision may be gone by now; then the chunk's own sentences are what is known.
            return (touched[0], touched[-1]) if touched else (chunk.first_sid, chunk.last_sid)

        return sids

    def _keeping(self, world: World) -> Callable[[Evidence, int], tuple[str | None, tuple]]:
        """Return what writes an answered request down.

        The query is marked here and now: a key that cannot be read is an error before any model is
        asked, and not after it has answered. One that there is no room for is none: the log could
        not be written then either.
        """
        rules, parts = self.parts.answers, self.parts
        query = self.query.strip()
        try:
            shown = query if rules.log_queries else parts.mark_query(world.id, query)
        except StorageFull:
            return lambda *_: (None, (NOT_RECORDED,) if rules.usage_records else ())

        def keep(evidence: Evidence, milliseconds: int) -> tuple[str | None, tuple[Notice, ...]]:
            if not rules.usage_records:
                return None, ()
            logged = replace(evidence, effective_query=shown)
            usage = Usage(
                mode=decide(logged).mode,
                milliseconds=milliseconds,
                primary_model=_asked(parts.chat.primary, evidence.primary),
                fallback_model=_asked(parts.chat.fallback, evidence.fallback),
                evidence=recorded(logged),
                decision_explain=decide(logged).explained(),
            )
            try:
                record = parts.store.record_usage(
                    self.authority,
                    world.id,
                    usage,
                    days=rules.usage_days,
                    most=rules.usage_records,
                )
            except WorldNotFound:
                raise
            except Exception:
                # Whatever is wrong with the log, the answer is there and somebody waits for it.
                return None, (NOT_RECORDED,)
            return record, ()

        return keep


def last_of(events: Iterator[AnswerEvent]) -> Answer:
    """Return the answer that events end with."""
    for event in events:
        if isinstance(event, Finished):
            return event.answer
    raise InternalError("end of an answer")


def target_of(world: World) -> str:
    """Return what was asked: a domain or the world, and the generation behind that name."""
    name = world.aim if isinstance(world.aim, str) else world.name
    return name if world.generation is None else f"{name}@{world.generation.number}"


def _asked(model: ChatModel | None, outcome: ModelOutcome) -> str | None:
    ran = outcome not in (ModelOutcome.NOT_RUN, ModelOutcome.ABSENT)
    return model.name if model is not None and ran else None


class AnsweringWorld(HeldWorld):
    """Answers, as the holder of a world may ask for them: the part of `World` for that."""

    def answer(
        self, query: str, *, fused: bool = False, **filters: Unpack[FilterArguments]
    ) -> Answer:
        """Answer a question from the documents of the world, or say that they do not.

        The filters are `documents`, `tags`, `chapter_filter`, `section_filter`,
        `language_constraint` and `version_constraint`; without them all documents are used.

        Raises:
            InvalidSettings, BlankQuery, QueryTooLong: before any provider is asked.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: a provider failed. That is
                never reported as a lack of answers.
        """
        return last_of(self.answer_stream(query, fused=fused, **filters))

    def answer_stream(
        self, query: str, *, fused: bool = False, **filters: Unpack[FilterArguments]
    ) -> Iterator[AnswerEvent]:
        """Answer piece by piece: `Started` once the mode is settled, `Piece`s, then `Finished`.

        Closing the iterator ends the request to the model, and nothing is logged.
        """
        if not isinstance(query, str):
            raise InvalidSettings("The query must be a string.")
        narrowed = Filters().with_arguments(filters)
        request = RetrievalRequest(query=query, filters=narrowed, fused=fused)
        answerer = Answerer(self._parts, self._authority, query)
        return answerer.events(
            lambda trace: find_candidates(self._pipeline(trace), request, answerer.rules),
            reading=False,
        )

    def usage(self, *, limit: int = USAGE_LIMIT) -> list[UsageRecord]:
        """Return the latest answered requests of the world, the newest first.

        Raises:
            NotAllowed: the caller may not read without a bound.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InvalidSettings("The limit must be a whole number of at least 0.")
        return self._parts.store.usage(self._authority, self._logged().id, limit=limit)

    def explain(self, record: str) -> Replayed:
        """Make the decision of an answered request again, from what was written down of it.

        Raises:
            RecordNotFound: the log does not have it, or not any more.
        """
        world = self._logged()
        return replayed(self._parts.store.usage_record(self._authority, world.id, record))

    def _logged(self) -> World:
        world = require_world(self._parts.store, self._authority, self.id)
        if not self._authority.may(Verb.READ, world.id):
            raise NotAllowed("read the usage log")
        return world
