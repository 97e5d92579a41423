"""Generations as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from truespan.cli.output.plain import pluralize, table
from truespan.ingest.indexing import ReindexReport
from truespan.types.document import GenerationRecord

if TYPE_CHECKING:
    from truespan.engine.generations import Promotion


def show_generations(records: Sequence[GenerationRecord]) -> str:
    """Show generations as a table, with a mark for those in use."""
    head = ("", "generation", "model", "chunking", "documents", "chunks", "state")
    rows: list[tuple[object, ...]] = [head]
    for record in records:
        generation = record.generation
        names = [*(["default"] if record.is_default else []), *record.domains]
        state = f"complete; used by {', '.join(names)}" if names else "complete"
        if not record.complete:
            state = f"incomplete: {record.missing} documents, {record.pending} vectors missing"
        model = f"{generation.profile.provider}/{generation.profile.model}"
        chunking = generation.chunking.name if generation.chunking else "per document"
        mark, counts = "*" if names else "", (record.documents, record.chunks)
        rows.append((mark, generation.number, model, chunking, *counts, state))
    return "\n".join(table(rows))


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


def show_promotion(promotion: Promotion) -> str:
    name = f"Domain {promotion.domain!r}" if promotion.domain else "The world"
    previous = promotion.previous
    before = f" It used {previous} before." if previous is not None else ""
    judged = " The golden queries passed." if promotion.verdict else ""
    return f"{name} now uses generation {promotion.generation}.{before}{judged}"
