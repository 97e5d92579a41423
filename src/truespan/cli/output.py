"""Search results and documents as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truespan.maintenance.repair import RepairReport
from truespan.retrieval.positions import ReadingPosition
from truespan.types.bundle import ContextBundle, Passage, SearchResult
from truespan.types.chunk import ChunkRecord
from truespan.types.document import AuditEntry, Document, OutlineEntry, WorldStatus
from truespan.types.scope import World
from truespan.types.words import FusedScore

BAR_WIDTH = 12


def print_search(result: SearchResult) -> None:
    """Print passages with score, place and receipt, then how the answer came about."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for place, passage in enumerate(result.results, 1):
        title = Text.assemble(
            (f"{place}. ", "bold"), (_bar(passage.score), "green"), f" {passage.score:.3f}  "
        )
        title.append(_fused(passage.fused))
        title.append(_place(passage), "bold")
        console.print(title)
        console.print(Padding(Text(" ".join(passage.text.split())), (0, 0, 0, 3)))
        console.print(Padding(Text(_receipt(passage), "dim"), (0, 0, 1, 3)))
    for line in _account(result):
        console.print(Text(line, "dim"))


def print_bundle(bundle: ContextBundle) -> None:
    """Print a bundle's chunks with their places, then how it came about."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    notes = bundle.metadata.sources
    for place, (chunk, note) in enumerate(zip(bundle.retrieved_chunks, notes, strict=True), 1):
        title = Text.assemble(
            (f"{place}. ", "bold"),
            (_bar(chunk.relevance_score), "green"),
            f" {chunk.relevance_score:.3f}  ",
            _fused(note.fused),
        )
        labels = dict.fromkeys((note.title, chunk.chapter, chunk.section))
        title.append(" › ".join(labels), "bold")
        console.print(title)
        console.print(Padding(Text(" ".join(chunk.content.split())), (0, 0, 0, 3)))
        receipt = f"✓ verified {note.text_hash[:12]}  sentences {note.first_sid}-{note.last_sid}"
        console.print(Padding(Text(f"{receipt}, {chunk.token_count} tokens", "dim"), (0, 0, 1, 3)))
    for line in _bundle_account(bundle):
        console.print(Text(line, "dim"))


def _bundle_account(bundle: ContextBundle) -> list[str]:
    metadata = bundle.metadata
    funnel = metadata.funnel
    lines = [
        f"{bundle.status.value}: {funnel.in_scope} in scope, {funnel.fetched} fetched, "
        f"{funnel.verified} verified, {funnel.returned} of {metadata.original_top_k} returned, "
        f"{bundle.total_tokens} tokens ({metadata.processing_time_ms} ms)."
    ]
    lines += [
        f"Figure: {note.relevance_score:.3f}  {note.figure_id} in {note.source}, "
        f"{note.image_ref or 'no image kept'}"
        for note in metadata.figures
    ]
    lines += _floor(metadata.floor, metadata.floor_discriminates)
    lines += [f"Left out: {entry.count} x {entry.code}." for entry in metadata.skipped]
    lines += [f"Note: {notice.message}" for notice in metadata.warnings]
    lines += [
        f"Near miss: {miss.score:.3f}  {miss.source}, {miss.chapter}"
        for miss in metadata.near_misses
    ]
    lines += [
        f"The selection is in {found.source}, {found.chapter}, "
        f"sentences {found.first_sid}-{found.last_sid}."
        for found in metadata.located
    ]
    if bundle.error is not None:
        lines.append(f"Failed: {bundle.error.message}")
    return lines


def show_whereabouts(found: Sequence[ReadingPosition]) -> str:
    """Show how far a reader has come: chapters reached, last sentence, nothing ahead."""
    if not found:
        return "No reading position is recorded, so nothing is readable."
    lines: list[str] = []
    for place in found:
        mark = " (current)" if place.current else ""
        if place.sid < 0:
            lines.append(f"{place.title}{mark}: nothing read yet")
            continue
        chapter = f", {place.chapter}" if place.chapter else ""
        lines.append(f"{place.title}{mark}: read to sentence {place.sid}{chapter}")
        lines.append(f"  last read: {' '.join((place.last_sentence or '').split())}")
    return "\n".join(lines)


def _fused(score: FusedScore | None) -> str:
    """Return by what a chunk was ranked, where its words counted as well."""
    if score is None:
        return ""
    rank = "after the blend" if score.blend is None else f"blend {score.blend:.3f}"
    return f"{rank}, words {score.bm25:.2f}  "


def _floor(floor: float | None, discriminates: bool | None) -> list[str]:
    if floor is None or discriminates is None:
        return []
    kept = "excludes most unrelated text" if discriminates else "admits most unrelated text"
    return [f"A floor of {floor:g} {kept} under this embedding profile."]


def _bar(score: float) -> str:
    filled = round(score * BAR_WIDTH)
    return "█" * filled + "░" * (BAR_WIDTH - filled)


def _place(passage: Passage) -> str:
    parts = list(dict.fromkeys((passage.title, passage.chapter, passage.section)))
    return " › ".join(parts)


def _receipt(passage: Passage) -> str:
    receipt = passage.receipt
    sentences = f"sentences {passage.first_sid}-{passage.last_sid}"
    return (
        f"✓ verified {receipt.text_hash[:12]}  {passage.source}, {sentences}, "
        f"revision {receipt.revision}, chunk {passage.chunk_id}"
    )


def _account(result: SearchResult) -> list[str]:
    funnel = result.funnel
    lines = [
        f"{funnel.in_scope} chunks in scope, {funnel.fetched} fetched at or above {result.floor:g},"
        f" {funnel.verified} verified, {funnel.returned} shown ({result.processing_time_ms} ms)."
    ]
    lines += _floor(result.floor, result.floor_discriminates)
    lines += [f"Skipped: {entry.count} x {entry.code}." for entry in result.skipped]
    lines += [f"Note: {notice.message}" for notice in result.warnings]
    if not result.requested_k:
        return ["No results were requested (top_k is 0)."]
    if not result.results and not result.warnings:
        lines.append(f"No passage reached a similarity of {result.floor:g}.")
    return lines


def show_chunk(record: ChunkRecord) -> str:
    """Show a chunk row and whether its bytes still match their hash."""
    document, chunk = record.document, record.chunk
    head = [
        f"document {document.number} ({document.name}), revision {document.revision}",
        f"state {record.state}, {'active' if record.live else 'not active'}",
    ]
    if chunk is None:
        return "\n".join([*head, "The chunk row is missing; 'truespan repair' rebuilds it."])
    intact = record.is_intact()
    verdict = "✓ bytes match their hash" if intact else "✗ bytes do not match their hash"
    return "\n".join(
        [
            *head,
            f"characters {chunk.start}-{chunk.end}, sentences {chunk.first_sid}-{chunk.last_sid}, "
            f"{chunk.tokens} tokens",
            f"{verdict} {chunk.text_hash}",
            "",
            chunk.data.decode(errors="replace") if intact else "(not shown)",
        ]
    )


def show_document(
    document: Document,
    outline: Sequence[OutlineEntry],
    metadata: Mapping[str, Any],
    audit: Sequence[AuditEntry],
) -> str:
    """Show what is known of a document, and its structure."""
    lines = [
        f"{document.title}  (document {document.number}, {document.doc_id})",
        f"{document.kind}, version {document.version}, language {document.language}, "
        f"revision {document.active or document.staged}",
        f"{document.characters} characters, {document.sentences} sentences, "
        f"{pluralize(document.chunks, 'chunk')} by '{document.chunking}', "
        f"{document.embedded} embedded",
    ]
    lines += [
        f"{label}: {', '.join(metadata[label])}"
        for label in ("authors", "keywords")
        if metadata.get(label)
    ]
    lines += [
        f"sanitiser: {entry.count} x {entry.label} ({entry.rule}), "
        f"{'replaced' if entry.redacted else 'pluralize only'}"
        for entry in audit
    ]
    for entry in outline:
        label = " › ".join(part for part in (entry.chapter, entry.section) if part)
        lines.append(f"  from sentence {entry.first_sid:>5}  {label}")
    return "\n".join(lines)


def show_world(name: str, numbers: WorldStatus, documents: Sequence[Document]) -> str:
    """Show one world and its documents."""
    rows = [("no", "title", "kind", "rev", "chunks", "embedded", "file")]
    rows += [
        (
            str(document.number),
            document.title[:40],
            document.kind.value,
            str(document.active or "-"),
            str(document.chunks),
            str(document.embedded),
            document.name,
        )
        for document in documents
    ]
    return "\n".join([_summary(name, numbers), "", *table(rows)])


def show_worlds(listed: Sequence[tuple[World, WorldStatus]]) -> str:
    """Show every world in one line each."""
    if not listed:
        return "No worlds yet. Create one with 'truespan init --world NAME'."
    return "\n".join(_summary(world.name, numbers) for world, numbers in listed)


def _summary(name: str, numbers: WorldStatus) -> str:
    documents = pluralize(numbers.documents, "document")
    chunks = f"{numbers.embedded} of {pluralize(numbers.chunks, 'chunk')}"
    line = f"{name}: {documents}, {chunks} embedded"
    for label, count in (
        ("pending", numbers.pending),
        ("quarantined", numbers.quarantined),
        ("repairs queued", numbers.repairs),
    ):
        if count:
            line += f", {count} {label}"
    return line


def show_repairs(reports: Mapping[str, RepairReport]) -> str:
    """Say what repairs did in each world."""
    return "\n".join(
        f"{name}: {report.deleted_points} stale points deleted, {report.restored_texts} texts "
        f"restored, {len(report.quarantined)} quarantined, {report.reembedded} points written"
        for name, report in reports.items()
    )


def pluralize(count: int, one: str) -> str:
    """Return a number with its noun."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
