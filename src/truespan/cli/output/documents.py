"""Documents, chunks, facets, receipts of deletions, and jobs as text for a terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from truespan.cli.terminal import name_span, pluralize, table
from truespan.core.graphemes import shorten
from truespan.engine.jobs import MAINTENANCE
from truespan.maintenance.delete import Receipt
from truespan.types.audience import EVERYONE, DocumentAccess
from truespan.types.chunk import ChunkKind, ChunkRecord, ChunkState
from truespan.types.document import AuditEntry, Document, Facet, Facets, FacetValue, OutlineEntry
from truespan.types.job import DocumentState, Job, JobDocument, JobLine, JobState
from truespan.types.metadata import ValueKind, parse_value, read_metadata
from truespan.types.reading import ChunkPage
from truespan.types.source import display_path

if TYPE_CHECKING:
    from truespan.extensions.quality.build import ReindexReport

_QUOTE_SHOWN = 80
MAX_ROWS = 40
NOTHING_FOUND = "No file that can be ingested was found."


def show_chunk(record: ChunkRecord) -> str:
    """Show a chunk row and whether its bytes still match their hash."""
    document, chunk = record.document, record.chunk
    head = [
        f"document {document.number} ({display_path(document.path)}), revision {document.revision}",
        f"state {record.state}, {'active' if record.live else 'not active'}",
    ]
    if chunk is None:
        return "\n".join([*head, "The chunk row is missing; 'truespan repair' rebuilds it."])
    intact = record.is_intact()
    verdict = "✓ bytes match their hash" if intact else "✗ bytes do not match their hash"
    return "\n".join(
        [
            *head,
            f"{name_span(chunk)}, {chunk.tokens} tokens",
            f"{verdict} {chunk.text_hash}",
            "",
            chunk.data.decode(errors="replace") if intact else "(not shown)",
        ]
    )


_CHUNK_REASONS = {
    "damaged_text": "its text does not match its hash",
    "too_long": "longer than the model reads",
    "index_lost": "the index was empty",
    "vector_lost": "its vector was lost",
    "stale": "changed since it was embedded",
    "missing": "missing in the index",
}


def show_chunks(page: ChunkPage) -> str:
    """Show the span, the state and the beginning of each chunk of a document."""
    lines = [
        f"{page.title}  (document {page.document}, {page.doc_id})",
        f"{pluralize(page.total, 'chunk')} by {page.chunking!r}, revision {page.revision}, "
        f"generation {page.generation}",
        f"text {page.text_hash}",
    ]
    past = 0
    for chunk in page.chunks:
        shared = max(past - chunk.start, chunk.start - chunk.context_start, 0)
        past = max(past, chunk.end)
        marks = [str(chunk.chunk_type)] if chunk.chunk_type is not ChunkKind.TEXT else []
        marks += [f"overlap {shared}"] if shared and chunk.chunk_type is ChunkKind.TEXT else []
        if chunk.state is not ChunkState.EMBEDDED:
            reason = chunk.reason and _CHUNK_REASONS.get(chunk.reason, chunk.reason)
            marks.append(f"{chunk.state}{f': {reason}' if reason else ''}")
        marks += [] if chunk.intact else ["✗ bytes do not match their hash"]
        lines += [
            "",
            f"{chunk.index}  {chunk.chunk_id}",
            f"   {name_span(chunk)}, " + ", ".join([pluralize(chunk.tokens, "token"), *marks]),
            f"   {shorten(' '.join(chunk.text.split()), _QUOTE_SHOWN) if chunk.text else '-'}",
        ]
    return "\n".join(lines)


def show_access(entries: Sequence[DocumentAccess], total: int) -> str:
    """Return the documents that a caller sees, each with the labels by which it is visible."""
    lines = [f"{entry.number}  {entry.path}  by {', '.join(entry.by)}" for entry in entries]
    return "\n".join([*lines, f"{len(entries)} of {pluralize(total, 'document')}"])


def show_labels(document: Document) -> str:
    """Return the labels of a document that can be changed without its file."""
    lines = [
        f"{document.title}  (document {document.number}, {document.doc_id})",
        f"version {document.version}, language {document.language}",
    ]
    return "\n".join([*lines, *_label_lines(document)])


def _label_lines(document: Document) -> list[str]:
    lines = [f"source: {document.source_url or display_path(document.path)}"]
    if document.tags:
        lines.append(f"tags: {', '.join(document.tags)}")
    if document.audience != (EVERYONE,):
        lines.append(f"audience: {', '.join(document.audience) or 'the owner alone'}")
    if document.damaged:
        lines.append("labels or metadata do not match their checksum; run 'truespan doctor'")
    members = read_metadata(document.metadata)
    return lines + [
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in members.items()
    ]


def show_document(
    document: Document,
    outline: Sequence[OutlineEntry],
    metadata: Mapping[str, Any],
    audit: Sequence[AuditEntry],
) -> str:
    origin = f", from {document.source_url}" if document.source_url else ""
    lines = [
        f"{document.title}  (document {document.number}, {document.doc_id})",
        f"{document.shown_path}{origin}",
        f"{document.kind}, version {document.version}, language {document.language}, "
        f"revision {document.active or document.staged}",
        f"{document.characters} characters, {document.sentences} sentences, "
        f"{pluralize(document.chunks, 'chunk')} by '{document.chunking}', "
        f"{document.embedded} embedded",
        *_label_lines(document),
    ]
    lines += [
        f"{label}: {', '.join(metadata[label])}"
        for label in ("authors", "keywords")
        if metadata.get(label)
    ]
    lines += [
        f"sanitiser: {entry.count} x {entry.label} ({entry.rule}), "
        f"{'replaced' if entry.redacted else 'counted only'}"
        for entry in audit
    ]
    for entry in outline:
        label = " › ".join(part for part in (entry.chapter, entry.section) if part)
        # Only lists of contents begin at a place without labels.
        label = label or "(contents and similar lists)"
        lines.append(f"  from sentence {entry.first_sid:>5}  {label}")
    return "\n".join(lines)


def show_facets(found: Facets) -> str:
    """Return a table of the values of each label and key, with how often they occur."""
    documents, chunks = pluralize(found.documents, "document"), pluralize(found.chunks, "chunk")
    lines = [f"{documents}, {chunks} that can be searched"]
    for facet in found.facets:
        spread = "" if facet.least is None else f", from {facet.least} to {facet.greatest}"
        name = f"metadata {facet.key}" if facet.metadata else facet.key
        lines += ["", f"{name}: {pluralize(facet.documents, 'document')}{spread}"]
        rows = [
            (f"  {value.documents}", _show_value(value, facet), pluralize(value.chunks, "chunk"))
            for value in facet.values
        ]
        lines += table(rows) if rows else []
        if facet.more_values:
            lines.append(f"  and {pluralize(facet.more_values, 'further value')}")
    if found.more_keys:
        lines += [
            "",
            f"and {pluralize(found.more_keys, 'further key')}; name those to count with --by",
        ]
    lines += [f"Note: {notice.message}" for notice in found.warnings]
    return "\n".join(lines)


def _show_value(value: FacetValue, facet: Facet) -> str:
    # A text that an option would read as a number or date is quoted, as in that option.
    if value.kind is not ValueKind.TEXT:
        return json.dumps(value.value) if value.kind is ValueKind.BOOLEAN else str(value.value)
    text = str(value.value)
    shown = shorten(text, 60)
    plain = not facet.metadata or (bool(text.strip()) and parse_value(text) == text)
    return shown if plain and text.isprintable() else json.dumps(shown, ensure_ascii=False)


_OUTSIDE = {
    "requested": "The {} server was asked to remove it from its files, which Truespan cannot "
    "inspect.",
    "left_to_operator": "The {} server keeps it in its files until its operator vacuums them.",
}


def show_receipt(receipt: Receipt) -> str:
    """Show the result of a deletion, and data left to erase."""
    number = receipt.number
    what = "world" if number is None else f"document {number},"
    lines = [f"Deleted {what} {receipt.name}."]
    turns = receipt.rows.get("turns", 0)
    if number is not None and turns:
        lines.append(f"Deleted {pluralize(turns, 'turn')} of conversations that used it.")
    return "\n".join([*lines, *show_erasure(receipt)])


def show_erasure(receipt: Receipt) -> list[str]:
    """Show whether deleted data is erased from all files, and what is left to do."""
    lines = ["Erased from every file of the library."] if receipt.erased else []
    if receipt.waiting:
        why = ", ".join(f"{kind}: {code}" for kind, code in receipt.waiting.items())
        lines.append(f"Not erased from all files yet ({why}); 'truespan repair' does that.")
    lines += [_OUTSIDE[outcome].format(kind) for kind, outcome in receipt.outside.items()]
    return lines


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
    if job.state is JobState.RUNNING and counts.tokens and counts.seconds:
        line += f", {counts.tokens / counts.seconds:,.0f} tokens/s"
        line += f" on {counts.device}" if counts.device else ""
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
    """Show failures first, then the other documents and removed ones."""
    removed = [entry for entry in documents if entry.state is DocumentState.REMOVED]
    others = [entry for entry in documents if entry.state is not DocumentState.REMOVED]
    others.sort(key=lambda entry: entry.state is not DocumentState.FAILED)
    rows = [(entry.state.value, entry.name, entry.reason or "") for entry in others[:MAX_ROWS]]
    lines = ["", *table(rows)] if rows else []
    if left := Counter(entry.state.value for entry in others[MAX_ROWS:]):
        states = ", ".join(f"{count} {state}" for state, count in left.items())
        lines.append(f"... and {left.total()} more: {states}")
    return [*lines, *(f"removed: {entry.name}" for entry in removed)]


def show_reindex(report: ReindexReport) -> str:
    lines = [
        f"Generation {report.generation}: {pluralize(report.documents, 'document')}, "
        f"{pluralize(report.chunks, 'chunk')} written; "
        f"{pluralize(report.embedded, 'text')} embedded, "
        f"{pluralize(report.reused, 'vector')} reused."
    ]
    lines += [f"  not built: {failure.name}: {failure.message}" for failure in report.failures]
    lines += [f"  note: {warning}" for warning in report.warnings]
    if not report.failures:
        lines.append(f"'truespan promote {report.generation}' puts it into use.")
    return "\n".join(lines)
