"""Jobs as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from truespan.cli.output.plain import pluralize, table
from truespan.engine.jobs import MAINTENANCE
from truespan.types.job import DocumentState, Job, JobDocument, JobLine, JobState

MAX_ROWS = 40
NOTHING_FOUND = "No file that can be ingested was found."


def show_jobs(jobs: Sequence[Job]) -> str:
    return "\n".join(show_job_line(job) for job in jobs) or "No jobs yet."


def show_job_line(job: Job) -> str:
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
    shown.append("")
    for line in last:
        clock = datetime.fromtimestamp(line.at, UTC).strftime("%H:%M:%S")
        shown.append(f"{clock} {line.level}: {line.line}")
    return "\n".join(shown).rstrip()


def show_followed(job: Job, documents: Sequence[JobDocument], log: Sequence[JobLine]) -> str:
    """Show the result of an ingestion job that was followed."""
    came = job.counts.documents_total or any(
        document.state is not DocumentState.REMOVED for document in documents
    )
    over = show_job_line(job) if came or job.state is not JobState.DONE else NOTHING_FOUND
    # The log has a line for each document that failed too, which is shown with its reason already.
    known = {f"{document.name}: {document.code}" for document in documents}
    notes = [line.line for line in log if line.level != "info" and line.line not in known]
    return "\n".join([over, *_document_lines(documents), *(f"note: {note}" for note in notes)])


def _document_lines(documents: Sequence[JobDocument]) -> list[str]:
    """Show failures first, then the other documents and what was removed."""
    removed = [entry for entry in documents if entry.state is DocumentState.REMOVED]
    others = [entry for entry in documents if entry.state is not DocumentState.REMOVED]
    others.sort(key=lambda entry: entry.state is not DocumentState.FAILED)
    rows = [(entry.state.value, entry.name, entry.reason or "") for entry in others[:MAX_ROWS]]
    lines = ["", *table(rows)] if rows else []
    if left := Counter(entry.state.value for entry in others[MAX_ROWS:]):
        states = ", ".join(f"{count} {state}" for state, count in left.items())
        lines.append(f"... and {left.total()} more: {states}")
    return [*lines, *(f"removed: {entry.name}" for entry in removed)]
