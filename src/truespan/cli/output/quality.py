"""Defaults, the usage log and replayed decisions as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from truespan.cli.output.ask import REASONS, REFUSALS
from truespan.cli.terminal import table
from truespan.types.answer import UsageRecord
from truespan.types.decision import Decision
from truespan.types.request import Defaults

if TYPE_CHECKING:
    from truespan.answers.decide import Replay


SCALE_WIDTH = 50
DEFAULTS_IN_WORDS = {
    Defaults.RECOMMENDED: "words and similarity, any language and version, and the thresholds "
    "measured for the model",
    Defaults.CONTRACT: "similarity alone, language 'en' and version '1.0' in 'retrieve', and the "
    "thresholds 0.25 and 0.55",
}


def show_defaults(name: str, defaults: Defaults) -> str:
    """Return the defaults of a world and their meaning."""
    return f"{name}: {defaults}, that is {DEFAULTS_IN_WORDS[defaults]}."


def show_usage(records: Sequence[UsageRecord]) -> str:
    if not records:
        return "The usage log is empty."
    head = ("record", "when (UTC)", "mode", "reason", "best", "used", "ms", "models")
    rows: list[tuple[object, ...]] = [head]
    for record in records:
        explained = record.decision_explain
        try:
            best, counts = explained["max_similarity"], explained["counts"]
            decision = (
                record.mode.value,
                str(explained["reason"]),
                "-" if best is None else f"{best:.3f}",
                f"{counts['used']}/{counts['retrieved']}",
            )
        except (KeyError, TypeError, ValueError):
            decision = "-", "✗ damaged record", "-", "-"
        when = datetime.fromtimestamp(record.created_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        models = [name for name in (record.primary_model, record.fallback_model) if name]
        rows.append((record.id, when, *decision, record.milliseconds, ", ".join(models) or "-"))
    return "\n".join(table(rows))


def show_explanation(replay: Replay) -> str:
    """Show a decision in words: thresholds on a scale, gates, counts, reasons."""
    decision, evidence = replay.decision, replay.decision.evidence
    counts, settings = decision.counts, evidence.settings
    lines = [f"{decision.mode.value}: {REASONS[decision.reason]} ({decision.reason.value})."]
    if decision.refusal:
        lines.append(f"Refused: {REFUSALS[decision.refusal]}.")
    lines += ["", *_draw_scale(decision)]
    lines.append(f"  scores: {settings.score_mode.value}, {settings.distance.value}")
    if decision.thresholds.short_query_active:
        lines.append("  tightened because the query is short")
    if decision.gates:
        lines.append("Gates:")
    else:
        lines.append("Gates: not evaluated, because the best score is not between the thresholds.")
    for gate in decision.gates:
        shown, mark = gate.to_json(), "✓" if gate.held else "✗"
        lines.append(
            f"  {mark} {shown['name']}: {shown['found']:g} found, {shown['needed']:g} needed"
        )
    lines.append(
        f"Passages: {counts['retrieved']} retrieved, {counts['chosen']} chosen, "
        f"{counts['used']} used ({counts['context_characters']} characters chosen); "
        f"sources used: {decision.sources_used.value}."
    )
    if decision.left_out:
        left_out = ", ".join(f"{count} x {code}" for code, count in decision.left_out.items())
        lines.append(f"Left out: {left_out}.")
    verdicts = {
        None: "This decision follows from the evidence.",
        True: "Recomputed from its record, the decision is the same.",
        False: "✗ Recomputed from its record, the decision differs from the recorded one.",
    }
    return "\n".join(
        [
            *lines,
            f"Models: primary {evidence.primary.value}, fallback {evidence.fallback.value}; "
            f"used: {decision.used_llm.value}.",
            f"Asked: {evidence.retrieval_target}{', as a reader' if evidence.reading else ''}; "
            f"query {evidence.effective_query or '-'}.",
            "",
            verdicts[replay.same],
        ]
    )


def _draw_scale(decision: Decision) -> list[str]:
    """Draw the thresholds and the best score on one line, with a legend below."""
    explained = decision.to_json()
    least = -1.0 if explained["score_mode"] == "raw" else 0.0
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
