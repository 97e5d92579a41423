"""Ingestion reports, plans and jobs as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from truespan.cli.output import pluralize, table
from truespan.ingest.job_log import IngestReport
from truespan.ingest.plan import PRICES_AS_OF, DocumentOutcome, DryRun, compare_prices
from truespan.jobs.world_jobs import MAINTENANCE
from truespan.types.job import DocumentState, Job, JobDocument, JobLine, JobState

MOST_ROWS = 40
_LEAST_SHOWN = 0.0001
_NOTHING_FOUND = "No file that can be ingested was found."


def show_ingest(report: IngestReport) -> str:
    """Say what a run did."""
    lines = [
        f"{len(report.ingested)} ingested, {report.unchanged} unchanged, "
        f"{len(report.failures)} failed; {pluralize(report.embedded, 'text')} embedded, "
        f"{pluralize(report.reused, 'vector')} reused."
    ]
    if not (report.ingested or report.unchanged or report.failures):
        lines = [_NOTHING_FOUND]
    lines += [
        f"failed: {failure.name}: {_reason(failure.name, failure.message)}"
        for failure in report.failures
    ]
    lines += [f"note: {warning}" for warning in report.warnings]
    lines += [f"matched no file: {path}" for path in report.unmatched]
    if report.passed_over:
        lines.append(f"{pluralize(report.passed_over, 'file')} of other types skipped.")
    lines += [f"removed: {name}" for name in report.removed]
    if report.generation is not None:
        lines.append(f"Generation {report.generation} is in use now.")
    return "\n".join(lines)


def _reason(name: str, message: str) -> str:
    return message.removeprefix(f"{name}: ")


def dry_run_data(plan: DryRun) -> dict[str, Any]:
    """Return a plan as data."""
    return {
        "documents": plan.documents,
        "fates": {fate.value: plan.count(fate) for fate in DocumentOutcome},
        "chunks": plan.chunks,
        "tokens": plan.tokens,
        "to_embed": plan.to_embed,
        "tokens_to_embed": plan.tokens_to_embed,
        "estimate": plan.estimate,
        "elsewhere": compare_prices(plan.tokens_to_embed, plan.to_embed),
        "prices_of": PRICES_AS_OF,
        "rows": plan.rows,
        "removed": [document.name for document in plan.removed],
        "passed_over": plan.passed_over,
        "unmatched": plan.unmatched,
    }


def show_dry_run(plan: DryRun) -> str:
    """Show what a run would do, and what it would cost."""
    rows = [("document", "fate", "chunks", "tokens", "to embed")]
    rows += [
        (row.name[:48], row.fate.value, str(row.chunks), str(row.tokens), str(row.to_embed))
        for row in plan.rows[:MOST_ROWS]
    ]
    lines = table(rows) if plan.rows else []
    if len(plan.rows) > MOST_ROWS:
        lines.append(f"... and {len(plan.rows) - MOST_ROWS} more")
    fates = ", ".join(
        f"{count} {fate.value}" for fate in DocumentOutcome if (count := plan.count(fate))
    )
    lines += [
        "",
        f"{pluralize(plan.documents, 'document')} ({fates or 'none'}), "
        f"{pluralize(plan.chunks, 'chunk')}, {pluralize(plan.tokens, 'token')}; "
        f"{pluralize(plan.to_embed, 'text')} to embed "
        f"({pluralize(plan.tokens_to_embed, 'token')}).",
        f"Here: {_asked(plan.estimate.requests, plan.estimate.cost)}.",
    ]
    others = compare_prices(plan.tokens_to_embed, plan.to_embed) if plan.to_embed else {}
    lines += [
        f"With {name}: {_asked(one.requests, one.cost)} (price of {PRICES_AS_OF})."
        for name, one in others.items()
    ]
    lines += [f"Another generation exists: {model} embeds them too." for model in plan.beside]
    lines += [f"failed: {row.message}" for row in plan.rows if row.message]
    lines += [f"would be removed: {document.name}" for document in plan.removed]
    lines += [f"matched no file: {path}" for path in plan.unmatched]
    if plan.passed_over:
        lines.append(f"{pluralize(plan.passed_over, 'file')} of other types would be skipped.")
    lines.append("Dry run: nothing was written or embedded.")
    return "\n".join(lines).lstrip("\n")


def _asked(requests: int, cost: float | None) -> str:
    return f"{pluralize(requests, 'request')}, {_price(cost)}"


def _price(cost: float | None) -> str:
    if cost is None:
        return "price unknown"
    if 0 < cost < _LEAST_SHOWN:
        return f"under {_LEAST_SHOWN} USD"
    return f"about {cost:.4f} USD" if cost else "no cost"


def show_jobs(jobs: Sequence[Job]) -> str:
    """Show jobs in one line each."""
    return "\n".join(show_job_line(job) for job in jobs) or "No jobs yet."


def show_job_line(job: Job) -> str:
    """Show how a job stands."""
    counts = job.counts
    began = datetime.fromtimestamp(job.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    line = f"{job.id}  {began}  {job.kind} {job.state} ({job.phase}), {counts.fraction:.0%}"
    if job.kind not in MAINTENANCE:
        line += (
            f": {counts.documents} of {pluralize(counts.documents_total, 'document')}, "
            f"{pluralize(counts.chunks, 'chunk')}, {counts.embedded} embedded"
        )
    if counts.failed:
        line += f", {counts.failed} failed"
    return f"{line}, {job.error}" if job.error else line


def show_one_job(job: Job, documents: Sequence[JobDocument], lines: Sequence[JobLine]) -> str:
    """Show a job with its documents and the last lines of its log."""
    shown = [show_job_line(job), *_document_lines(documents)]
    last = lines if job.kind in MAINTENANCE else lines[-20:]
    shown += ["", *(f"{_clock(line.at)} {line.level}: {line.line}" for line in last)]
    return "\n".join(shown).rstrip()


def show_followed(job: Job, documents: Sequence[JobDocument], log: Sequence[JobLine]) -> str:
    """Show the result of an ingestion job that was followed."""
    came = any(document.state is not DocumentState.REMOVED for document in documents)
    over = show_job_line(job) if came or job.state is not JobState.DONE else _NOTHING_FOUND
    # The log has a line for each document that failed too, which is shown with its reason already.
    known = {f"{document.name}: {document.code}" for document in documents}
    notes = [line.line for line in log if line.level != "info" and line.line not in known]
    return "\n".join([over, *_document_lines(documents), *(f"note: {note}" for note in notes)])


def _document_lines(documents: Sequence[JobDocument]) -> list[str]:
    """Show failures first, then the other documents and what was removed."""
    removed = [one for one in documents if one.state is DocumentState.REMOVED]
    others = [one for one in documents if one.state is not DocumentState.REMOVED]
    others.sort(key=lambda one: one.state is not DocumentState.FAILED)
    rows = [(one.state.value, one.name, one.reason or "") for one in others[:MOST_ROWS]]
    lines = ["", *table(rows)] if rows else []
    if left := Counter(one.state.value for one in others[MOST_ROWS:]):
        states = ", ".join(f"{count} {state}" for state, count in left.items())
        lines.append(f"... and {left.total()} more: {states}")
    return [*lines, *(f"removed: {one.name}" for one in removed)]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
