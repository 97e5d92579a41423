"""What the doctor found and did, in lines for the log of a job: numbers, and no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from truespan.model.health import Check, Verdict
from truespan.upkeep.doctor.findings import REMEDIES, Action, Finding
from truespan.upkeep.doctor.plan import Item, Plan, Treatment

Line = tuple[str, str]
"""A level, `info` or `warning`, and what is said."""

_LEVELS = {Verdict.OK: "info", Verdict.WARNING: "warning", Verdict.PROBLEM: "warning"}


def plan_lines(plan: Plan, *, to_be_mended: bool = False) -> Iterator[Line]:
    """Give what was found; as warnings, unless it is about to be mended."""
    level = "info" if to_be_mended else "warning"
    for world in plan.values():
        yield from _items("the world", world.items, level)
        for one in world.generations:
            name = f"generation {one.number}"
            yield "info", f"{name}: {one.checked_chunks} chunks, {one.checked_points} points"
            yield from _items(name, one.items, level)
    yield from _items("of no world", plan.leftovers, level)
    yield from map(_check, plan.self_test)


def treatment_lines(treatment: Treatment) -> Iterator[Line]:
    """Give what was done about a plan, and as warnings what is left."""
    for action, count in treatment.done.items():
        yield "info", f"done: {count} x {action.value}"
    if treatment.skipped:
        yield "info", f"changed meanwhile and left alone: {len(treatment.skipped)}"
    yield from (("warning", f"not done: {reason}") for reason in treatment.failures)
    yield from plan_lines(treatment.left)


def last_line(plan: Plan) -> Line:
    """Give the whole in one line."""
    found = sum(item.count for item in plan.all_items())
    if plan.healthy:
        return "info", "Store and index agree: nothing to do."
    return "warning", f"{found} findings, {len(plan.problems)} checks that failed."


def _items(where: str, items: Iterable[Item], level: str) -> Iterator[Line]:
    counts: Counter[tuple[Finding, Action]] = Counter()
    for item in items:
        counts[item.finding, item.action] += item.count
    for (finding, action), count in counts.items():
        yield level, f"{where}: {count} x {finding.value}: {REMEDIES[action]}"


def _check(check: Check) -> Line:
    return _LEVELS[check.verdict], f"{check.name}: {check.says}"
