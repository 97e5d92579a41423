"""The findings of the doctor as text and JSON, by world and generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from truespan.cli.output import pluralize
from truespan.maintenance.doctor.leaks import is_canary
from truespan.maintenance.doctor.plan import (
    MANUAL,
    REMEDIES,
    Action,
    Finding,
    Item,
    Plan,
    RepairResult,
    WorldPlan,
)
from truespan.types.maintenance import Check, Verdict

_SHOWN = 3
_SIGNS = {Verdict.OK: "ok", Verdict.WARNING: "warning", Verdict.PROBLEM: "PROBLEM"}


def show_plan(plan: Plan) -> str:
    """Show what was found, and what would be done about it."""
    lines = [*_found(plan), ""]
    if not any(True for _ in plan.all_items()):
        lines.append("Store and index agree: nothing to do.")
    elif plan.actionable:
        lines.append("Nothing was changed. Run with --apply to do this.")
    if any(item.action in MANUAL for item in plan.all_items()):
        lines.append("Items marked with ! cannot be repaired: ingest those sources again.")
    if plan.problems:
        lines.append(f"{pluralize(len(plan.problems), 'check')} failed.")
    return "\n".join(lines)


def show_treatment(treatment: RepairResult) -> str:
    """Show what was found, what was done, and what is left."""
    lines = [*_found(treatment.before), "", "Done:"]
    lines += [
        f"  {count} x {action.value}: {REMEDIES[action]}"
        for action, count in treatment.done.items()
    ] or ["  nothing"]
    if treatment.skipped:
        left_alone = pluralize(len(treatment.skipped), "item")
        lines.append(f"  {left_alone} changed in the meantime and were skipped")
    lines += [f"  not done: {reason}" for reason in treatment.failures]
    left = list(treatment.left.all_items())
    if not left:
        return "\n".join([*lines, "", "Store and index agree: nothing is left."])
    return "\n".join([*lines, "", "Left:", *_worlds(treatment.left, ailing=True)])


def plan_members(plan: Plan) -> dict[str, Any]:
    """Return a plan as members of a JSON object."""
    return {
        "applied": False,
        "healthy": plan.healthy,
        "worlds": {name: _world_members(world) for name, world in plan.worlds.items()},
        "leftovers": plan.leftovers,
        "self_test": plan.self_test,
        "checks": plan.checks,
    }


def treated(treatment: RepairResult) -> dict[str, Any]:
    """Return what applying a plan did as members of a JSON object."""
    return {
        **plan_members(treatment.before),
        "applied": True,
        "done": {action.value: count for action, count in treatment.done.items()},
        "skipped": treatment.skipped,
        "failures": treatment.failures,
        "left": plan_members(treatment.left),
    }


def _world_members(world: WorldPlan) -> dict[str, Any]:
    return {
        "checked_chunks": world.checked_chunks,
        "checked_points": world.checked_points,
        "healthy": world.healthy,
        "findings": {finding.value: count for finding, count in world.counts().items()},
        "items": world.items,
        "generations": world.generations,
    }


def _found(plan: Plan) -> Iterator[str]:
    yield from _checks("Environment", plan.checks)
    yield from _checks("Self-test", plan.self_test)
    yield from _worlds(plan)


def _checks(title: str, checks: Sequence[Check]) -> Iterator[str]:
    if not checks:
        return
    yield title
    width = max(len(one.name) for one in checks)
    for one in checks:
        yield f"  {_SIGNS[one.verdict]:<8} {one.name:<{width}}  {one.says}"
        if one.remedy and one.verdict is not Verdict.OK:
            yield f"  {'':<8} {'':<{width}}  -> {one.remedy}"
    yield ""


def _worlds(plan: Plan, *, ailing: bool = False) -> Iterator[str]:
    for world in plan.worlds.values():
        if ailing and world.healthy:
            continue
        yield f"World {world.name}"
        yield from _items(world.items, "  ")
        for one in world.generations:
            unnamed = "" if one.named else ", not in use"
            yield (
                f"  generation {one.number}{unnamed}, {one.profile}: "
                f"{pluralize(one.checked_chunks, 'chunk')} and "
                f"{pluralize(one.checked_points, 'point')} compared"
            )
            yield from _items(one.items, "    ")
            if not one.items:
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
    counts: Counter[tuple[Finding, Action]] = Counter()
    subjects: dict[tuple[Finding, Action], list[str]] = {}
    for item in items:
        kind = (item.finding, item.action)
        counts[kind] += item.count
        if item.subject:
            subjects.setdefault(kind, []).append(_subject(item))
    for (finding, action), count in counts.items():
        sign = "!" if action in MANUAL else "-"
        yield f"{indent}{sign} {count} x {finding.value}: {REMEDIES[action]}"
        if named := subjects.get((finding, action)):
            more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
            yield f"{indent}    {', '.join(named[:_SHOWN])}{more}"
