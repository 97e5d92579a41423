"""Text of a refusal: the failed checks in words, and the closest passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import floor

from truespan.retrieval.best_sentence import score_words
from truespan.text.sentences import sentence_spans
from truespan.types.answer import MAX_NEAR_MISSES, Retrieved, preview
from truespan.types.chunk import ChunkKind
from truespan.types.decision import Decision, DecisionReason, Gate, GateName, Refusal
from truespan.types.profile import shortest
from truespan.types.trust import Visible

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
    """Return what the best passages lack: words of the question, or evidence alone."""
    quoted = [f"'{word}'" for word in decision.evidence.missing_words]
    listed = " or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
    similar = f"There are similar passages, but none about {listed}" if listed else "No passage is"
    similar += "" if listed else " close enough to the question"
    # Rounded down: what is shown lies below what is needed.
    best, needed = floor(1000 * (decision.max_score or 0.0)) / 1000, decision.thresholds.low
    return f"{similar}: the best evidence is {best:.3f}, and {shortest(needed):g} is needed"


def _name_absence(decision: Decision, retrieved: Retrieved) -> str:
    """Return the reason why no passage counts: a warning, or that none is close enough."""
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
        f"No passage is close enough to the question: the best score is {best:.2f}, and "
        f"{needed:g} is needed"
    )


def _describe_gate(gate: Gate) -> str:
    if gate.name is GateName.SIMILARITY:
        return f"the best similarity is {gate.found:.2f}, and {gate.needed:g} is needed"
    unit = "passages" if gate.name is GateName.CHUNKS else "characters of text"
    return f"{gate.found:g} {unit} were found, and {gate.needed:g} are needed"


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
        spans = sentence_spans(part.text, part.labels.language or "en")
        scores = score_words(question, [part.text[first:last] for first, last in spans])
        ranks = [
            (score, not part.text[first].islower())
            for score, (first, _) in zip(scores, spans, strict=True)
        ]
        start = spans[ranks.index(max(ranks))][0] if ranks else 0
    return preview(part.text[start:], end=" …")
