"""Decide the answer mode: a pure function of the retrieved chunks and the replies of the models.

    best score >= high ───────────────────────> rag ────┐
    low <= best score < high, all gates hold ─> hybrid ─┤ primary blank or NO_CONTEXT ─> fallback
    otherwise ────────────────────────────────> fallback

With `EvidenceRules` there is one threshold, and the score of a passage is its evidence: how similar
it is and how many of the query's words it has, less how similar the query is to other texts.

It is called before a model runs, to choose its context, and again with the model's outcome. The
second decision differs from the first only if a reply could not be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from truespan.answers.prompt import Choice, choose, in_order, rank, usable
from truespan.types.decision import (
    BACKGROUND_WEIGHT,
    AnswerMode,
    Candidate,
    Coverage,
    Decision,
    DecisionReason,
    DecisionSettings,
    Evidence,
    EvidenceRules,
    Gate,
    GateName,
    ModelOutcome,
    PassageEvidence,
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


MAX_PASSAGES = 10
"""Number of passages, best first, whose evidence counts."""
USUAL_COVERED = 0.75
"""Sum of both coverages of a passage that is no evidence for or against an answer."""
MIN_WORDS = 2
"""Minimum number of the query's words that are evidence in a passage below the usual floor."""


def count_words(query: str) -> int:
    """Return the number of words of a query, separated by white space."""
    return len(query.split())


def thresholds_for(settings: DecisionSettings, query_words: int) -> Thresholds:
    """Return the thresholds of one request; a short query gets the stricter of each pair.

    Evidence has one threshold for queries of any length.
    """
    if settings.evidence is not None:
        threshold = settings.evidence.threshold
        return Thresholds(threshold, threshold, short_query_active=False)
    if query_words > settings.short_query_max_tokens:
        return Thresholds(settings.low, settings.high, short_query_active=False)
    return Thresholds(
        low=max(settings.low, settings.to_score(settings.short_query_threshold_low)),
        high=max(settings.high, settings.to_score(settings.short_query_threshold_high)),
        short_query_active=True,
    )


def search_floor(settings: DecisionSettings, query_words: int) -> float:
    """Return the minimum similarity of the search: with thresholds, the low one of the request."""
    if settings.evidence is not None:
        return settings.evidence.floor
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
    best = max((float(part.similarity) for part in usable(ranked, settings)), default=None)
    if settings.evidence is None:
        weighed = _weigh_similarity(settings, ranked, best, thresholds)
    else:
        weighed = _weigh_evidence(evidence, ranked, settings.evidence)
    choice, reason = weighed.choice, weighed.reason
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
        max_score=weighed.score,
        gates=weighed.gates,
        retrieved=choice.considered,
        context_characters=choice.characters,
        found=weighed.found,
    )


_MODES = {
    DecisionReason.REACHED_HIGH: AnswerMode.RAG,
    DecisionReason.GATES_HELD: AnswerMode.HYBRID,
    DecisionReason.ENOUGH_EVIDENCE: AnswerMode.RAG,
}
"""Answer mode by the reason that retrieval gave; all other reasons lead to fallback."""


class _Weighed(Struct, frozen=True):
    """The reason that follows from retrieval alone, and the numbers that it follows from."""

    reason: DecisionReason
    choice: Choice
    score: float | None
    gates: tuple[Gate, ...] = ()
    found: PassageEvidence | None = None


def _weigh_similarity(
    settings: DecisionSettings,
    ranked: Sequence[Candidate],
    best: float | None,
    thresholds: Thresholds,
) -> _Weighed:
    """Compare the best similarity with both thresholds, and check the gates between them."""
    choice = choose(ranked, settings, thresholds.low)
    if best is None:
        return _Weighed(_name_nothing(ranked), choice, None)
    score = settings.to_score(best)
    if not reaches(score, thresholds.low):
        return _Weighed(DecisionReason.BELOW_LOW, choice, score)
    if reaches(score, thresholds.high):
        return _Weighed(DecisionReason.REACHED_HIGH, choice, score)
    # Gates use the choice by similarity alone: words influence which chunks, never the mode.
    chosen = choose(ranked, settings, thresholds.low, by_place=False)
    # Every gate is checked, so that an explanation names all that failed, not only the first.
    chunks, characters = settings.min_chunks_for_hybrid, settings.min_total_context_chars
    least = float(settings.min_similarity_for_hybrid)
    gates = (
        Gate(GateName.SIMILARITY, least, best, reaches(best, least)),
        Gate(GateName.CHUNKS, chunks, chosen.chunks, chosen.chunks >= chunks),
        Gate(GateName.CHARACTERS, characters, chosen.characters, chosen.characters >= characters),
    )
    held = all(gate.held for gate in gates)
    reason = DecisionReason.GATES_HELD if held else DecisionReason.GATE_FAILED
    return _Weighed(reason, choice, score, gates)


def _weigh_evidence(
    evidence: Evidence, ranked: Sequence[Candidate], rules: EvidenceRules
) -> _Weighed:
    """Compare the best evidence of the first passages with the threshold.

    The model always gets the passage that decides, even if it ranks low.
    """
    parts = choose_weighed(ranked, evidence.settings, rules)
    background = evidence.background or 0.0
    weighed = [(_weigh_passage(part, background, rules), part) for part in parts]
    found, decisive = max(weighed, key=lambda pair: pair[0].score, default=(None, None))
    enough = [part for passage, part in weighed if reaches(passage.score, rules.threshold)]
    low = max(rules.floor, rules.usual_floor)
    choice = choose(ranked, evidence.settings, low, decisive=decisive, enough=enough)
    if found is None:
        return _Weighed(_name_nothing(ranked), choice, None)
    reason = DecisionReason.ENOUGH_EVIDENCE if enough else DecisionReason.TOO_LITTLE_EVIDENCE
    return _Weighed(reason, choice, found.score, found=found)


def choose_weighed(
    ranked: Sequence[Candidate], settings: DecisionSettings, rules: EvidenceRules
) -> list[Candidate]:
    """Return the candidates whose evidence counts, best first."""
    parts = [
        part for part in usable(in_order(ranked), settings) if reaches(part.similarity, rules.floor)
    ]
    return parts[:MAX_PASSAGES]


def _name_nothing(ranked: Sequence[Candidate]) -> DecisionReason:
    """Return the reason why no passage counts."""
    return DecisionReason.NOTHING_USABLE if ranked else DecisionReason.NOTHING_FOUND


def _weigh_passage(part: Candidate, background: float, rules: EvidenceRules) -> PassageEvidence:
    words, similarity = part.coverage or Coverage(), part.similarity
    covered = 0.0
    # A single word may occur anywhere.
    if words.words >= MIN_WORDS or reaches(similarity, rules.usual_floor):
        covered = words.share + words.window
    gained = rules.word_weight * covered
    if part.sentence is not None:
        similarity += rules.sentence_share * (part.sentence - similarity)
    closeness = similarity - BACKGROUND_WEIGHT * background
    if part.foreign:
        # Similarities say little here, so they move only a part of the way from the usual.
        usual = rules.foreign_usual
        closeness = usual + rules.foreign_weight * (closeness - usual) - rules.foreign_loss
    score = closeness + max(gained, rules.crossed_words if part.crossed else 0.0)
    score += rules.late_weight * (part.late or 0.0)
    if part.by_words:
        score += rules.further_word_weight * (covered - USUAL_COVERED)
    if part.has_names is not None:
        score += rules.name_weight if part.has_names else -rules.name_weight
    return PassageEvidence(
        score=score,
        similarity=part.similarity,
        coverage=words.share,
        window=words.window,
        background=background,
        foreign=part.foreign,
        crossed=part.crossed,
        by_words=part.by_words,
        sentence=part.sentence,
        late=part.late,
        has_names=part.has_names,
    )


def _refusal(evidence: Evidence) -> Refusal | None:
    """Return the reason why fallback gives no answer; None if a fallback model may give one."""
    if evidence.reading:
        return Refusal.READING
    if evidence.fallback is ModelOutcome.ABSENT:
        return Refusal.NO_FALLBACK_MODEL
    return Refusal.FALLBACK_SILENT if evidence.fallback in _UNUSABLE else None


RECORD_VERSION = 1
_OPTIONAL = "coverage", "foreign", "by_words", "crossed", "sentence", "late"
"""Members of a candidate that are written only if they apply."""


def evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as JSON values for the usage log."""
    plain = msgspec.json.decode(msgspec.json.encode(evidence))
    # Fields that do not apply to the request are left out.
    optional = (
        *("search_mode", "defaults", "conversation"),
        *("background", "cohort", "missing_words"),
    )
    parts = [(plain, name) for name in optional]
    # A record without these numbers, which are 0 then, gives the same decision.
    if (rules := plain["settings"]["evidence"]) is not None:
        parts += [(rules, "usual_floor"), (rules, "further_word_weight")]
    parts += [(part["coverage"], "words") for part in plain["candidates"] if part["coverage"]]
    parts.append((plain["settings"], "evidence"))
    parts += [(part, name) for part in plain["candidates"] for name in _OPTIONAL]
    for part, name in parts:
        # 0 equals False.
        if part[name] in (None, False, []):
            del part[name]
    for part in plain["candidates"]:
        if part["has_names"] is None:
            del part["has_names"]
    return {"version": RECORD_VERSION, **plain}
