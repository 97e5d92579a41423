"""Reports on ingestion, jobs, generations, backups and the doctor as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from truespan.cli.output.results import pluralize, table
from truespan.core.graphemes import shorten
from truespan.engine.jobs import MAINTENANCE
from truespan.ingest.indexing import ReindexReport
from truespan.ingest.plan import PRICES_AS_OF, DocumentOutcome, DryRun, Estimate, compare_prices
from truespan.ingest.report import IngestReport
from truespan.maintenance.delete import Receipt
from truespan.maintenance.doctor.leaks import is_canary
from truespan.maintenance.doctor.plan import (
    MANUAL,
    Action,
    Finding,
    Item,
    Plan,
    RepairResult,
)
from truespan.types.document import GenerationRecord
from truespan.types.job import DocumentState, Job, JobDocument, JobLine, JobState
from truespan.types.maintenance import Check, Manifest, MigrationReport, Verdict
from truespan.wire.serialize import members

if TYPE_CHECKING:
    from truespan.engine.generations import Promotion

MAX_ROWS = 40
_MIN_SHOWN = 0.0001
_NOTHING_FOUND = "No file that can be ingested was found."
_SHOWN = 3
_SIGNS = {Verdict.OK: "ok", Verdict.WARNING: "warning", Verdict.PROBLEM: "PROBLEM"}
_OUTSIDE = {
    "requested": "The {} server was asked to remove it from its files, which Truespan cannot "
    "inspect.",
    "left_to_operator": "The {} server keeps it in its files until its operator vacuums them.",
}


def show_ingest(report: IngestReport) -> str:
    lines = [
        f"{len(report.ingested)} ingested, {_count_unchanged(report)}, "
        f"{len(report.failures)} failed; {pluralize(report.embedded, 'text')} embedded, "
        f"{pluralize(report.reused, 'vector')} reused."
    ]
    if not (report.ingested or report.unchanged or report.failures or report.warnings):
        lines = [_NOTHING_FOUND]
    for failure in report.failures:
        reason = failure.message.removeprefix(f"{failure.name}: ")
        lines.append(f"failed: {failure.name}: {reason}")
    lines += [f"note: {warning}" for warning in report.warnings]
    lines += [f"matched no file: {path}" for path in report.unmatched]
    if report.passed_over:
        lines.append(f"{pluralize(report.passed_over, 'file')} of other types skipped.")
    lines += [f"moved: {moved.before} to {moved.after}" for moved in report.moved]
    lines += [f"removed: {name}" for name in report.removed]
    if report.generation is not None:
        lines.append(f"Generation {report.generation} is in use now.")
    return "\n".join(lines)


def _count_unchanged(report: IngestReport) -> str:
    changed = len(report.relabelled)
    return f"{report.unchanged} unchanged" + (f" ({changed} with new labels)" if changed else "")


def show_watched(report: IngestReport) -> str:
    """Return what a job of a watch did, in one line."""

    def name(label: str, names: Sequence[str]) -> Iterator[str]:
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            yield f"{label} {', '.join(names[:_SHOWN])}{more}"

    parts = [
        *name("ingested", report.ingested),
        *([_count_unchanged(report)] if report.unchanged else ()),
        *name("moved", [f"{moved.before} to {moved.after}" for moved in report.moved]),
        *name("removed", report.removed),
        *name("failed", [failure.message for failure in report.failures]),
        *(f"note: {warning}" for warning in report.warnings),
        f"{pluralize(report.embedded, 'text')} embedded",
    ]
    return "; ".join(parts)


def dry_run_data(plan: DryRun) -> dict[str, Any]:
    return {
        "documents": plan.documents,
        "fates": {fate.value: plan.count(fate) for fate in DocumentOutcome},
        **members(plan, "chunks", "tokens", "to_embed", "tokens_to_embed", "estimate"),
        "elsewhere": compare_prices(plan.tokens_to_embed, plan.to_embed),
        "prices_of": PRICES_AS_OF,
        "rows": plan.rows,
        "removed": [document.shown_path for document in plan.removed],
        "moved": plan.moved,
        **members(plan, "passed_over", "unmatched"),
    }


def show_dry_run(plan: DryRun) -> str:
    rows: list[tuple[object, ...]] = [("document", "fate", "chunks", "tokens", "to embed")]
    rows += [
        (shorten(row.name, 48), row.fate.value, row.chunks, row.tokens, row.to_embed)
        for row in plan.rows[:MAX_ROWS]
    ]
    lines = table(rows) if plan.rows else []
    if len(plan.rows) > MAX_ROWS:
        lines.append(f"... and {len(plan.rows) - MAX_ROWS} more")
    fates = ", ".join(
        f"{count} {fate.value}" for fate in DocumentOutcome if (count := plan.count(fate))
    )
    lines += [
        "",
        f"{pluralize(plan.documents, 'document')} ({fates or 'none'}), "
        f"{pluralize(plan.chunks, 'chunk')}, {pluralize(plan.tokens, 'token')}; "
        f"{pluralize(plan.to_embed, 'text')} to embed "
        f"({pluralize(plan.tokens_to_embed, 'token')}).",
        f"Here: {_show_cost(plan.estimate)}.",
    ]
    others = compare_prices(plan.tokens_to_embed, plan.to_embed) if plan.to_embed else {}
    lines += [
        f"With {name}: {_show_cost(estimate)} (price of {PRICES_AS_OF})."
        for name, estimate in others.items()
    ]
    lines += [f"Another generation exists: {model} embeds them too." for model in plan.beside]
    lines += [f"failed: {row.message}" for row in plan.rows if row.message]
    lines += [f"would be moved: {moved.before} to {moved.after}" for moved in plan.moved]
    lines += [f"would be removed: {document.shown_path}" for document in plan.removed]
    lines += [f"matched no file: {path}" for path in plan.unmatched]
    if plan.passed_over:
        lines.append(f"{pluralize(plan.passed_over, 'file')} of other types would be skipped.")
    lines.append("Dry run: nothing was written or embedded.")
    return "\n".join(lines).lstrip("\n")


def _show_cost(estimate: Estimate) -> str:
    cost = estimate.cost
    if cost is None:
        price = "price unknown"
    elif 0 < cost < _MIN_SHOWN:
        price = f"under {_MIN_SHOWN} USD"
    else:
        price = f"about {cost:.4f} USD" if cost else "no cost"
    return f"{pluralize(estimate.requests, 'request')}, {price}"


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
    over = show_job_line(job) if came or job.state is not JobState.DONE else _NOTHING_FOUND
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


def show_manifest(manifest: Manifest) -> str:
    """Show what a backup contains, in one line."""
    vectors = "with vectors" if manifest.vectors else "without vectors"
    return (
        f"{pluralize(manifest.worlds, 'world')}, {pluralize(manifest.documents, 'document')}, "
        f"{pluralize(manifest.chunks, 'chunk')}, {manifest.images} images, {vectors}"
    )


def show_migration(report: MigrationReport) -> str:
    lines = [
        f"Moved to {report.path} and verified: {pluralize(report.worlds, 'world')}, "
        f"{pluralize(report.rows, 'row')} in {len(report.tables)} tables, "
        f"{pluralize(report.files, 'file')}.",
        f"The index has {pluralize(report.points, 'point')}.",
    ]
    if report.pending:
        chunks = pluralize(report.pending, "chunk")
        lines.append(f"{chunks} must be embedded: run 'truespan repair'.")
    if report.findings:
        findings = ", ".join(f"{code}: {count}" for code, count in report.findings.items())
        lines.append(f"'truespan doctor' reports: {findings}.")
    return "\n".join(lines)


def show_receipt(receipt: Receipt) -> str:
    """Say what a deletion did, and what is left to erase."""
    number = receipt.number
    what = "world" if number is None else f"document {number},"
    lines = [f"Deleted {what} {receipt.name}."]
    turns = receipt.rows.get("turns", 0)
    if number is not None and turns:
        lines.append(f"Deleted {pluralize(turns, 'turn')} of conversations that used it.")
    return "\n".join([*lines, *show_erasure(receipt)])


def show_erasure(receipt: Receipt) -> list[str]:
    """Say in lines whether deleted data is gone from all files, and what is left to do."""
    lines = ["Erased from every file of the library."] if receipt.erased else []
    if receipt.waiting:
        why = ", ".join(f"{kind}: {code}" for kind, code in receipt.waiting.items())
        lines.append(f"Not erased from all files yet ({why}); 'truespan repair' does that.")
    lines += [_OUTSIDE[outcome].format(kind) for kind, outcome in receipt.outside.items()]
    if receipt.check is not None and receipt.check.found:
        lines.append(f"{receipt.check.found} traces of it were still found in files.")
    return lines


def show_plan(plan: Plan) -> str:
    """Show what was found, and what would be done about it."""
    lines = [*_findings(plan), ""]
    actions = {item.action for item in plan.all_items()}
    if not actions:
        lines.append("Store and index agree: nothing to do.")
    elif plan.actionable:
        lines.append("Nothing was changed. Run with --apply to do this.")
    if actions & MANUAL:
        lines.append("Items marked with ! cannot be repaired: ingest those sources again.")
    if plan.problems:
        lines.append(f"{pluralize(len(plan.problems), 'check')} failed.")
    return "\n".join(lines)


def show_repair(result: RepairResult) -> str:
    """Show what was found, what was done, and what is left."""
    lines = [*_findings(result.before), "", "Done:"]
    lines += [
        f"  {count} x {action.value}: {action.remedy}" for action, count in result.done.items()
    ] or ["  nothing"]
    if result.skipped:
        skipped = pluralize(len(result.skipped), "item")
        lines.append(f"  {skipped} changed in the meantime and were skipped")
    lines += [f"  not done: {reason}" for reason in result.failures]
    if not list(result.left.all_items()):
        return "\n".join([*lines, "", "Store and index agree: nothing is left."])
    return "\n".join([*lines, "", "Left:", *_worlds(result.left, unhealthy_only=True)])


def plan_data(plan: Plan) -> dict[str, Any]:
    worlds = {
        name: {
            **members(world, "checked_chunks", "checked_points", "healthy"),
            "findings": world.counts(),
            **members(world, "items", "generations"),
        }
        for name, world in plan.items()
    }
    return {
        "applied": False,
        "healthy": plan.healthy,
        "worlds": worlds,
        **members(plan, "leftovers", "self_test", "checks"),
    }


def repair_data(result: RepairResult) -> dict[str, Any]:
    return {
        **plan_data(result.before),
        "applied": True,
        **members(result, "done", "skipped", "failures"),
        "left": plan_data(result.left),
    }


def _findings(plan: Plan) -> Iterator[str]:
    yield from _checks("Environment", plan.checks)
    yield from _checks("Self-test", plan.self_test)
    yield from _worlds(plan)


def _checks(title: str, checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    yield title
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"  {_SIGNS[check.verdict]:<8} {check.name:<{width}}  {check.says}"
        if check.remedy and check.verdict is not Verdict.OK:
            yield f"  {'':<8} {'':<{width}}  -> {check.remedy}"
    yield ""


def _worlds(plan: Plan, *, unhealthy_only: bool = False) -> Iterator[str]:
    for world in plan.values():
        if unhealthy_only and world.healthy:
            continue
        yield f"World {world.name}"
        yield from _items(world.items, "  ")
        for generation in world.generations:
            unused = "" if generation.named else ", not in use"
            yield (
                f"  generation {generation.number}{unused}, {generation.profile}: "
                f"{pluralize(generation.checked_chunks, 'chunk')} and "
                f"{pluralize(generation.checked_points, 'point')} compared"
            )
            yield from _items(generation.items, "    ")
            if not generation.items:
                yield "    nothing to do"
        if not world.generations:
            yield "  empty"
    if plan.leftovers:
        yield "Not in any world"
        yield from _items(plan.leftovers, "  ")


def _subject(item: Item) -> str:
    """Return what an item is about, in words where its own name says little."""
    if item.finding in (Finding.DAMAGED_DOCUMENT, Finding.LOST_DOCUMENT):
        document, revision, part = item.subject.split(".")
        return f"document {document}, revision {revision} ({part})"
    if item.finding is Finding.WRONG_TALLY:
        document, revision, generation = item.subject.split(".")
        return f"document {document}, revision {revision}, generation {generation}"
    if item.finding is Finding.UNKNOWN_WORLD:
        tenant = item.subject.partition(" ")[2]
        return f"{tenant} (left by a self-test)" if is_canary(tenant) else tenant
    return item.subject


def _items(items: Iterable[Item], indent: str) -> Iterator[str]:
    """Give a line for each kind of finding, with a few of what it was found in."""
    by_kind: dict[tuple[Finding, Action], list[Item]] = {}
    for item in items:
        by_kind.setdefault((item.finding, item.action), []).append(item)
    for (finding, action), found in by_kind.items():
        sign, count = "!" if action in MANUAL else "-", sum(item.count for item in found)
        yield f"{indent}{sign} {count} x {finding.value}: {action.remedy}"
        if named := [_subject(item) for item in found if item.subject]:
            more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
            yield f"{indent}    {', '.join(named[:_SHOWN])}{more}"
