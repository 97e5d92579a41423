"""Answers and decisions as text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from truespan.answers.decide import Replay
from truespan.cli.output import pluralize, table
from truespan.types.answer import Answer, Citation, UsageRecord
from truespan.types.decision import Decision, DecisionReason, Refusal

SCALE_WIDTH = 50
_QUOTE_SHOWN = 80

REASONS = {
    DecisionReason.NOTHING_FOUND: "nothing reached the low threshold",
    DecisionReason.NOTHING_USABLE: "no result can be given to a model",
    DecisionReason.BELOW_LOW: "the best passage is below the low threshold",
    DecisionReason.GATE_FAILED: "between the thresholds, and a check failed",
    DecisionReason.PRIMARY_BLANK: "the model returned no text",
    DecisionReason.PRIMARY_NO_CONTEXT: "the model found no answer in the passages",
    DecisionReason.REACHED_HIGH: "the best passage reached the high threshold",
    DecisionReason.GATES_HELD: "between the thresholds, and all checks passed",
}
REFUSALS = {
    Refusal.READING: "readers get no answer from the model's own knowledge",
    Refusal.NO_FALLBACK_MODEL: "no fallback model is configured",
    Refusal.FALLBACK_SILENT: "the fallback model had no answer",
}


def printable(text: str) -> str:
    """Return words of a model without what a terminal would take for commands."""
    return "".join(one for one in text if one in "\n\t" or unicodedata.category(one) != "Cc")


def show_account(answer: Answer) -> str:
    """Show what an answer cites, what it quotes wrongly, and in one line how it was decided."""
    lines: list[str] = []
    if answer.citations:
        lines += ["", "Sources:", *(f"  {_cited(one)}" for one in answer.citations)]
    wrong = [quote for quote in answer.quotes if not quote.verified]
    if wrong:
        lines += ["", "Quotes not found verbatim in the sources:"]
        lines += [f"  ✗ {_shortened(quote.text)}" for quote in wrong]
    lines += ["", _decided(answer.decision_explain)]
    lines += [f"Note: {notice.message}" for notice in answer.warnings]
    kept = f"Record {answer.record}." if answer.record else "Not in the usage log."
    return "\n".join([*lines, f"{kept} ({answer.processing_time_ms} ms)"])


def _cited(citation: Citation) -> str:
    if citation.document is None:
        return f"[{citation.number}] ✗ no such source"
    labels = dict.fromkeys((citation.title, citation.chapter, citation.section))
    place = " › ".join(" ".join(label.split()) for label in labels if label)
    page = f", page {citation.page}" if citation.page is not None else ""
    sids = f"sentences {citation.first_sid}-{citation.last_sid}"
    return f"[{citation.number}] {place}{page} ({citation.source}, {sids})"


def _shortened(text: str) -> str:
    return text if len(text) <= _QUOTE_SHOWN else text[: _QUOTE_SHOWN - 1].rstrip() + "…"


def _decided(explained: dict[str, Any]) -> str:
    reason = REASONS[DecisionReason(explained["reason"])]
    counts, refusal = explained["counts"], explained["refusal"]
    words = {"primary": "the model", "fallback": "the fallback model", "none": "no model"}
    speaker = words[explained["used_llm"]]
    line = f"{explained['mode']}: {reason}; "
    line += (
        f"{counts['used']} of {pluralize(counts['retrieved'], 'passage')} used, {speaker} was used"
    )
    return f"{line}; {REFUSALS[Refusal(refusal)]}." if refusal else f"{line}."


def show_usage(records: Sequence[UsageRecord]) -> str:
    """Show the usage log, one request a line."""
    if not records:
        return "The usage log is empty."
    rows = [("record", "when (UTC)", "mode", "reason", "best", "used", "ms", "models")]
    rows += [_usage_row(record) for record in records]
    return "\n".join(table(rows))


def _usage_row(record: UsageRecord) -> tuple[str, ...]:
    models = [name for name in (record.primary_model, record.fallback_model) if name]
    return (
        record.id,
        datetime.fromtimestamp(record.created_at, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        *_decision_cells(record),
        str(record.milliseconds),
        ", ".join(models) or "-",
    )


def _decision_cells(record: UsageRecord) -> tuple[str, str, str, str]:
    """Return mode, reason, best similarity and counts, or that they are not to be had."""
    explained = record.decision_explain
    try:
        best, counts = explained["max_similarity"], explained["counts"]
        return (
            record.mode.value,
            str(explained["reason"]),
            "-" if best is None else f"{best:.3f}",
            f"{counts['used']}/{counts['retrieved']}",
        )
    except (KeyError, TypeError, ValueError):
        return "-", "✗ damaged record", "-", "-"


def show_explanation(found: Replay) -> str:
    """Show a decision in words: thresholds on a scale, gates, counts, reasons."""
    decision = found.decision
    lines = [
        f"{decision.mode.value}: {REASONS[decision.reason]} ({decision.reason.value}).",
        *([f"Refused: {REFUSALS[decision.refusal]}."] if decision.refusal else []),
        "",
        *_scale(decision),
        *_thresholds(decision),
        *_gates(decision),
        *_counts(decision),
        f"Models: primary {decision.primary.value}, fallback {decision.fallback.value}; "
        f"used: {decision.used_llm.value}.",
        f"Asked: {decision.retrieval_target}"
        f"{', as a reader' if decision.reading else ''}; query {decision.effective_query or '-'}.",
        "",
        _verdict(found),
    ]
    return "\n".join(lines)


def _verdict(found: Replay) -> str:
    if found.same is None:
        return "This is the decision that the evidence leads to."
    if found.same:
        return "Made again from its record, the decision is the same."
    return "✗ Made again from its record, the decision is ANOTHER than the one recorded."


def _scale(decision: Decision) -> list[str]:
    """Draw the thresholds and the best score on one line, with what they are below it."""
    explained = decision.explained()
    least = -1.0 if decision.score_mode == "raw" else 0.0
    marks = {"low": explained["thresholds"]["low"], "high": explained["thresholds"]["high"]}
    if decision.max_score is not None:
        marks["best"] = explained["max_score"]
    line = ["─"] * (SCALE_WIDTH + 1)
    for name, value in marks.items():
        place = round((min(max(value, least), 1.0) - least) / (1.0 - least) * SCALE_WIDTH)
        line[place] = "●" if name == "best" else "┼"
    named = ", ".join(f"{name} {value:.3f}" for name, value in marks.items())
    best = "● best" if "best" in marks else "nothing was found"
    return [f"  {least:g} {''.join(line)} 1", f"    ┼ thresholds, {best}: {named}"]


def _thresholds(decision: Decision) -> list[str]:
    lines = [f"  scores: {decision.score_mode.value}, {decision.distance.value}"]
    if decision.thresholds.short_query_active:
        lines.append("  tightened because the query is short")
    return lines


def _gates(decision: Decision) -> list[str]:
    if not decision.gates:
        return ["Gates: not evaluated, because the best score is not between the thresholds."]
    lines = ["Gates:"]
    for gate in decision.gates:
        shown = gate.explained()
        mark = "✓" if gate.held else "✗"
        lines.append(
            f"  {mark} {shown['name']}: {shown['found']:g} found, {shown['needed']:g} needed"
        )
    return lines


def _counts(decision: Decision) -> list[str]:
    counts = decision.counts
    lines = [
        f"Passages: {counts['retrieved']} retrieved, {counts['chosen']} chosen, "
        f"{counts['used']} used ({counts['context_characters']} characters chosen); "
        f"sources used: {decision.sources_used.value}."
    ]
    left_out = ", ".join(f"{count} x {code}" for code, count in decision.left_out.items())
    return [*lines, f"Left out: {left_out}."] if left_out else lines
