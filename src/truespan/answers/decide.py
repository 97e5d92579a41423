"""Decide the answer mode: a pure function of the retrieved chunks and the replies of the models.

    best score >= high ───────────────────────> rag ────┐
    low <= best score < high, all gates hold ─> hybrid ─┤ primary blank or NO_CONTEXT ─> fallback
    otherwise ────────────────────────────────> fallback

It is called before a model runs, to choose its context, and again with the model's outcome. The
second decision differs from the first only if a reply could not be used.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from truespan.answers.prompt import Choice, best_of, choose, rank
from truespan.errors import InvalidArgument, TruespanError
from truespan.types.answer import UsageRecord
from truespan.types.decision import (
    CHOSEN,
    AnswerMode,
    Decision,
    DecisionReason,
    DecisionSettings,
    Evidence,
    Gate,
    GateName,
    ModelOutcome,
    Refusal,
    Step,
    Thresholds,
    UsedModel,
)
from truespan.types.profile import reaches

_UNUSABLE = {
    ModelOutcome.BLANK: DecisionReason.PRIMARY_BLANK,
    ModelOutcome.NO_CONTEXT: DecisionReason.PRIMARY_NO_CONTEXT,
}


def count_words(query: str) -> int:
    """Return the number of words of a query, separated by white space."""
    return len(query.split())


def thresholds_for(settings: DecisionSettings, query_words: int) -> Thresholds:
    """Return the thresholds of one request; a short query gets the stricter of each pair."""
    if query_words > settings.short_query_max_tokens:
        return Thresholds(settings.low, settings.high, short_query_active=False)
    return Thresholds(
        low=max(settings.low, settings.to_score(settings.short_query_threshold_low)),
        high=max(settings.high, settings.to_score(settings.short_query_threshold_high)),
        short_query_active=True,
    )


def search_floor(settings: DecisionSettings, query_words: int) -> float:
    """Return the floor of the search: the low threshold of the request, as a similarity."""
    low = thresholds_for(settings, query_words).low
    return min(max(settings.to_similarity(low), 0.0), 1.0)


def decide(evidence: Evidence) -> Decision:
    """Return the decision on this evidence.

    The outcome of a model that was not needed is ignored: of the primary model if the retrieval
    alone leads to fallback, and of the fallback model for a reader.
    """
    settings = evidence.settings
    thresholds = thresholds_for(settings, evidence.query_words)
    ranked = rank(evidence.candidates)
    best = best_of(ranked, settings)
    choice = choose(ranked, settings, thresholds.low)
    # Gates use the choice by similarity alone: words influence which chunks, never the mode.
    by_similarity = choose(ranked, settings, thresholds.low, by_place=False)
    reason, gates = _weigh(settings, bool(ranked), best, by_similarity, thresholds)
    mode = _MODES.get(reason, AnswerMode.FALLBACK)
    if mode is not AnswerMode.FALLBACK and evidence.primary in _UNUSABLE:
        mode, reason = AnswerMode.FALLBACK, _UNUSABLE[evidence.primary]
    refusal = _refusal(evidence) if mode is AnswerMode.FALLBACK else None
    if mode is AnswerMode.FALLBACK:
        outcome, ask, speaker = evidence.fallback, Step.ASK_FALLBACK, UsedModel.FALLBACK
    else:
        outcome, ask, speaker = evidence.primary, Step.ASK_PRIMARY, UsedModel.PRIMARY
    answered = refusal is None and outcome is ModelOutcome.ANSWERED
    if refusal is not None:
        step = Step.REFUSE
    elif outcome is ModelOutcome.ABSENT:
        step = Step.QUOTE
    else:
        step = Step.DELIVER if answered else ask
    return Decision(
        evidence=evidence,
        mode=mode,
        reason=reason,
        step=step,
        refusal=refusal,
        used_llm=speaker if answered else UsedModel.NONE,
        thresholds=thresholds,
        max_similarity=None if best is None else min(max(best, 0.0), 1.0),
        max_score=None if best is None else settings.to_score(best),
        gates=gates,
        retrieved=choice.considered,
        context_characters=choice.characters,
    )


_MODES = {
    DecisionReason.REACHED_HIGH: AnswerMode.RAG,
    DecisionReason.GATES_HELD: AnswerMode.HYBRID,
}
"""Answer mode by the reason that retrieval gave; all other reasons lead to fallback."""


def _weigh(
    settings: DecisionSettings,
    found: bool,
    best: float | None,
    choice: Choice,
    thresholds: Thresholds,
) -> tuple[DecisionReason, tuple[Gate, ...]]:
    """Return the reason that follows from retrieval alone, and the gates that were checked."""
    if best is None:
        return DecisionReason.NOTHING_USABLE if found else DecisionReason.NOTHING_FOUND, ()
    score = settings.to_score(best)
    if not reaches(score, thresholds.low):
        return DecisionReason.BELOW_LOW, ()
    if reaches(score, thresholds.high):
        return DecisionReason.REACHED_HIGH, ()
    # Every gate is checked, so that an explanation names all that failed, not only the first.
    chunks, characters = settings.min_chunks_for_hybrid, settings.min_total_context_chars
    gates = (
        _closeness_gate(settings, best, choice),
        Gate(GateName.CHUNKS, chunks, choice.chunks, choice.chunks >= chunks),
        Gate(GateName.CHARACTERS, characters, choice.characters, choice.characters >= characters),
    )
    held = all(gate.held for gate in gates)
    return DecisionReason.GATES_HELD if held else DecisionReason.GATE_FAILED, gates


def _closeness_gate(settings: DecisionSettings, best: float, choice: Choice) -> Gate:
    """Return the gate that separates related passages from unrelated ones of equal similarity.

    In this range of similarities, the words of the query are better evidence than the similarity.
    """
    measured = [item for item in choice.considered if item.candidate.coverage is not None]
    if settings.min_coverage is None or not measured:
        least = float(settings.min_similarity_for_hybrid)
        return Gate(GateName.SIMILARITY, least, best, reaches(best, least))
    shares = (item.candidate.coverage or 0.0 for item in measured if item.verdict is CHOSEN)
    covered, least = float(max(shares, default=0.0)), float(settings.min_coverage)
    return Gate(GateName.COVERAGE, least, covered, reaches(covered, least))


def _refusal(evidence: Evidence) -> Refusal | None:
    """Return the reason why fallback gives no answer; None if a fallback model may give one."""
    if evidence.reading:
        return Refusal.READING
    if evidence.fallback is ModelOutcome.ABSENT:
        return Refusal.NO_FALLBACK_MODEL
    return Refusal.FALLBACK_SILENT if evidence.fallback in _UNUSABLE else None


RECORD_VERSION = 1


class Replay(Struct, frozen=True):
    """A repeated decision, and whether it equals the recorded one.

    `same` is None if only the evidence was recorded, so that there is nothing to compare with.
    """

    decision: Decision
    same: bool | None
    record: UsageRecord | None = None


def evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON values, with everything that `replay` needs."""
    plain = msgspec.json.decode(msgspec.json.encode(evidence))
    # Fields that do not apply to the request are left out.
    parts = [(plain, name) for name in ("search_mode", "defaults", "conversation")]
    parts.append((plain["settings"], "min_coverage"))
    parts += [(candidate, "coverage") for candidate in plain["candidates"]]
    for part, name in parts:
        if part[name] is None:
            del part[name]
    return {"version": RECORD_VERSION, **plain}


def replay(record: Any) -> Decision:
    """Return the decision on the evidence of a record."""
    return decide(evidence_from_json(record))


def replay_record(record: UsageRecord) -> Replay:
    """Repeat the decision of an answered request and compare it with the recorded one."""
    decision = replay(record.evidence)
    same = decision.to_json() == record.decision_explain and decision.mode is record.mode
    return Replay(decision, same, record)


def evidence_from_json(record: Any) -> Evidence:
    """Return the evidence that `evidence_to_json` wrote."""
    if not isinstance(record, dict) or record.get("version") != RECORD_VERSION:
        raise _unreadable("it has another version, or none")
    try:
        evidence = msgspec.convert(record, Evidence)
    except (msgspec.ValidationError, TruespanError) as problem:
        raise _unreadable(str(problem)) from None
    # A missing member would get its default, and the replay would be a different one.
    if evidence_to_json(evidence) != record:
        raise _unreadable("members are missing or unknown")
    return evidence


def _unreadable(why: str) -> InvalidArgument:
    return InvalidArgument(
        f"This is not the record of a decision: {why}", advice="Pass it as it was written."
    )
