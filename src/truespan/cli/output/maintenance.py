"""Backups, moves and findings of the doctor as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from truespan.cli.terminal import pluralize
from truespan.maintenance.doctor.leaks import is_canary
from truespan.maintenance.doctor.plan import MANUAL, Action, Finding, Item, Plan, RepairResult
from truespan.types.maintenance import Check, Manifest, Verdict
from truespan.types.text import list_some
from truespan.wire.serialize import members

if TYPE_CHECKING:
    from truespan.maintenance.repair import RepairReport


_MAX_NAMED = 3
_SIGNS = {Verdict.OK: "ok", Verdict.WARNING: "warning", Verdict.PROBLEM: "PROBLEM"}


def show_plan(plan: Plan) -> str:
    """Show findings, and the repairs that would be made."""
    lines = [*_findings(plan), ""]
    actions = {item.action for item in plan.all_items()}
    if not actions:
        lines.append("Store and index agree: nothing to do.")
    elif plan.actionable:
        lines.append("Nothing was changed. Run with --apply to do this.")
    if actions & MANUAL:
        lines.append("Items marked with ! cannot be repaired here: each line says what to do.")
    if plan.problems:
        lines.append(f"{pluralize(len(plan.problems), 'check')} failed.")
    return "\n".join(lines)


def show_repair(result: RepairResult) -> str:
    """Show findings, the repairs that were made, and what is left."""
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
    """Return the subject of an item, in words where its name says little."""
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
    """Yield a line for each kind of finding, with a few examples."""
    by_kind: dict[tuple[Finding, Action], list[Item]] = {}
    for item in items:
        by_kind.setdefault((item.finding, item.action), []).append(item)
    for (finding, action), found in by_kind.items():
        sign, count = "!" if action in MANUAL else "-", sum(item.count for item in found)
        yield f"{indent}{sign} {count} x {finding.value}: {action.remedy}"
        if named := [_subject(item) for item in found if item.subject]:
            yield f"{indent}    {list_some(named, _MAX_NAMED)}"


def show_repairs(reports: Mapping[str, RepairReport]) -> str:
    return "\n".join(
        f"{name}: {report.deleted_points} stale points deleted, {report.restored_texts} texts "
        f"restored, {len(report.quarantined)} quarantined, {report.reembedded} points written"
        + (f", {report.word_states} texts got states of words" if report.word_states else "")
        for name, report in reports.items()
    )


def show_manifest(manifest: Manifest) -> str:
    """Show the contents of a backup on one line."""
    vectors = "with vectors" if manifest.vectors else "without vectors"
    return (
        f"{pluralize(manifest.worlds, 'world')}, {pluralize(manifest.documents, 'document')}, "
        f"{pluralize(manifest.chunks, 'chunk')}, {manifest.images} images, {vectors}"
    )
