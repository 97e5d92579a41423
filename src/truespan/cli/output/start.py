"""Ingestion, worlds and settings as text for a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from truespan.cli.output.documents import MAX_ROWS, NOTHING_FOUND
from truespan.cli.terminal import pluralize, table
from truespan.core.graphemes import shorten
from truespan.ingest.plan import DocumentOutcome, DryRun
from truespan.ingest.report import IngestReport
from truespan.settings import SettingValue
from truespan.settings.catalogue import choices, descriptions
from truespan.types.answer import UsageRecord
from truespan.types.audience import Audience
from truespan.types.document import Document, WorldStatus
from truespan.types.ids import WorldId
from truespan.types.metadata import read_metadata
from truespan.types.request import Defaults
from truespan.types.scope import World
from truespan.wire.serialize import members

if TYPE_CHECKING:
    from truespan.extensions.crawl.freshness import DocumentFreshness, Freshness, SourceState


def show_ingest(report: IngestReport) -> str:
    lines = [
        f"{len(report.ingested)} ingested, {count_unchanged(report)}, "
        f"{len(report.failures)} failed; {pluralize(report.embedded, 'text')} embedded, "
        f"{pluralize(report.reused, 'vector')} reused."
    ]
    if not (report.ingested or report.unchanged or report.failures or report.warnings):
        lines = [NOTHING_FOUND]
    for failure in report.failures:
        reason = failure.message.removeprefix(f"{failure.name}: ")
        lines.append(f"failed: {failure.name}: {reason}")
    lines += [f"note: {warning}" for warning in report.warnings]
    lines += [f"matched no file: {path}" for path in report.unmatched]
    if report.unsupported:
        lines.append(f"{pluralize(report.unsupported, 'file')} of other types skipped.")
    lines += [f"moved: {moved.before} to {moved.after}" for moved in report.moved]
    lines += [f"removed: {name}" for name in report.removed]
    if report.generation is not None:
        lines.append(f"Generation {report.generation} is in use now.")
    return "\n".join(lines)


def count_unchanged(report: IngestReport) -> str:
    changed = len(report.relabelled)
    return f"{report.unchanged} unchanged" + (f" ({changed} with new labels)" if changed else "")


def dry_run_data(plan: DryRun) -> dict[str, Any]:
    return {
        "documents": plan.documents,
        "outcomes": {outcome.value: plan.count(outcome) for outcome in DocumentOutcome},
        **members(plan, "chunks", "tokens", "to_embed", "tokens_to_embed", "requests"),
        "rows": plan.rows,
        "removed": [document.shown_path for document in plan.removed],
        "moved": plan.moved,
        **members(plan, "unsupported", "unmatched"),
    }


def show_dry_run(plan: DryRun) -> str:
    rows: list[tuple[object, ...]] = [("document", "outcome", "chunks", "tokens", "to embed")]
    rows += [
        (shorten(row.name, 48), row.outcome.value, row.chunks, row.tokens, row.to_embed)
        for row in plan.rows[:MAX_ROWS]
    ]
    lines = table(rows) if plan.rows else []
    if len(plan.rows) > MAX_ROWS:
        lines.append(f"... and {len(plan.rows) - MAX_ROWS} more")
    outcomes = ", ".join(
        f"{count} {outcome.value}" for outcome in DocumentOutcome if (count := plan.count(outcome))
    )
    lines += [
        "",
        f"{pluralize(plan.documents, 'document')} ({outcomes or 'none'}), "
        f"{pluralize(plan.chunks, 'chunk')}, {pluralize(plan.tokens, 'token')}; "
        f"{pluralize(plan.to_embed, 'text')} to embed "
        f"({pluralize(plan.tokens_to_embed, 'token')}, {pluralize(plan.requests, 'request')}).",
    ]
    lines += [f"Another generation exists: {model} embeds them too." for model in plan.other_models]
    lines += [f"failed: {row.message}" for row in plan.rows if row.message]
    lines += [f"would be moved: {moved.before} to {moved.after}" for moved in plan.moved]
    lines += [f"would be removed: {document.shown_path}" for document in plan.removed]
    lines += [f"matched no file: {path}" for path in plan.unmatched]
    if plan.unsupported:
        lines.append(f"{pluralize(plan.unsupported, 'file')} of other types would be skipped.")
    lines.append("Dry run: nothing was written or embedded.")
    return "\n".join(lines).lstrip("\n")


def show_world(
    world: World,
    numbers: WorldStatus,
    documents: Sequence[Document],
    reranker: str | None,
    states: Sequence[DocumentFreshness] = (),
) -> str:
    freshness = {found.document: _show_freshness(found.freshness) for found in states}
    # Columns for labels only where documents have them.
    labels: dict[str, Callable[[Document], str]] = {
        "freshness": lambda entry: freshness.get(entry.number, ""),
        "tags": lambda entry: shorten(", ".join(entry.tags), 40),
        "metadata": lambda entry: shorten(_short_metadata(entry), 60),
        "source": lambda entry: entry.source_url or "",
    }
    shown = {name: make for name, make in labels.items() if any(map(make, documents))}
    rows: list[tuple[object, ...]] = [
        ("no", "title", "kind", "rev", "chunks", "embedded", *shown, "file")
    ]
    for entry in documents:
        counts = (entry.active or "-", entry.chunks, entry.embedded)
        own = [make(entry) for make in shown.values()]
        title, kind = shorten(entry.title, 40), entry.kind.value
        rows.append((entry.number, title, kind, *counts, *own, entry.shown_path))
    used = "on request" if world.defaults.values.plain else "in every request"
    lines = [] if reranker is None else [f"reranked {used} by {reranker}"]
    return "\n".join([_summary(world, numbers), *lines, "", *table(rows)])


def show_worlds(
    listed: Sequence[tuple[World, WorldStatus]],
    states: Mapping[WorldId, Mapping[SourceState, int]] = MappingProxyType({}),
) -> str:
    """Show a line for each world; `states` are the numbers of sources by state, by world."""
    if not listed:
        return "No worlds yet. Create one with 'truespan init --world NAME'."
    lines: list[str] = []
    for world, numbers in listed:
        counts = ", ".join(f"{count} {state}" for state, count in states.get(world.id, {}).items())
        lines.append(_summary(world, numbers) + (f"; sources: {counts}" if counts else ""))
    return "\n".join(lines)


def _show_freshness(freshness: Freshness) -> str:
    return f"{freshness.state} ({freshness.reason})" if freshness.reason else freshness.state


def _summary(world: World, numbers: WorldStatus) -> str:
    documents = pluralize(numbers.documents, "document")
    chunks = f"{numbers.embedded} of {pluralize(numbers.chunks, 'chunk')}"
    line = f"{world.name}: {documents}, {chunks} embedded"
    line += f", {numbers.pending} pending" if numbers.pending else ""
    line += f", {numbers.quarantined} quarantined" if numbers.quarantined else ""
    line += f", {numbers.missing} missing in the index" if numbers.missing else ""
    line += ", the index could not be counted" if numbers.missing is None else ""
    line += f", {numbers.repairs} repairs queued" if numbers.repairs else ""
    return f"{line}; {world.defaults} defaults"


def _short_metadata(document: Document) -> str:
    members = read_metadata(document.metadata)
    return ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in members.items()
    )


def show_settings(
    file: str, settings: Sequence[SettingValue], keys: Sequence[Mapping[str, str]]
) -> str:
    """Show settings as a table, then the names of provider keys and overridden values."""
    rows: list[tuple[object, ...]] = [("setting", "value", "from")]
    rows += [
        (entry.name, _plain_setting(entry.value), entry.place or "default") for entry in settings
    ]
    lines = [f"File: {file}", "", *table(rows), ""]
    lines += [f"key for {key['provider']}: {key['name']}" for key in keys]
    lines += [
        f"{entry.name}: {place} is given too; {entry.place} wins"
        for entry in settings
        for place in entry.overridden
    ]
    return "\n".join(lines).rstrip()


def show_setting(entry: SettingValue) -> str:
    """Show one setting with its meaning, its choices and its variable."""
    lines = [
        f"{entry.name} = {_plain_setting(entry.value)}  ({entry.place or 'default'})",
        descriptions()[entry.name],
        f"Default: {_plain_setting(entry.default)}. Variable: TRUESPAN_{entry.name.upper()}.",
    ]
    if allowed := [choice for choice in choices(entry.name) if choice]:
        lines.append(f"One of: {', '.join(allowed)}.")
    lines += [f"{place} is given too; {entry.place} wins." for place in entry.overridden]
    return "\n".join(lines)


def _plain_setting(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "(not set)" if value is None else str(value) or '""'


DEFAULTS_IN_WORDS = {
    "recommended": "words and similarity, any language and version, and answers by the evidence "
    "of passages",
    "contract": "similarity alone, language 'en' and version '1.0' in 'retrieve', and the "
    "thresholds 0.25 and 0.55",
}


def show_defaults(name: str, defaults: Defaults, audience: Audience | None) -> str:
    """Return the defaults of a world and their meaning."""
    shown = f"{name}: {defaults}, that is {DEFAULTS_IN_WORDS[defaults]}."
    if audience is None:
        return f"{shown}\nNew documents must declare an audience."
    if audience == ("everyone",):
        return shown
    return f"{shown}\nNew documents are for {', '.join(audience) or 'the owner alone'}."


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
