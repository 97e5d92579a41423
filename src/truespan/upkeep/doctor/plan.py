"""Plans: what was found, on what state, and therefore what applying would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from truespan.errors import InvalidSettings
from truespan.model.health import Check, Verdict
from truespan.upkeep.doctor.findings import BY_HAND, Action, Finding
from truespan.upkeep.doctor.subjects import fits

VERSION = 1
"""Of the file that a plan is written to."""


@dataclass(frozen=True, slots=True)
class Item:
    """One finding. `seen` names the state that it was found in: applying looks again, and leaves
    alone what is no longer so."""

    finding: Finding
    action: Action
    subject: str = ""
    seen: str = ""
    count: int = 1


@dataclass(slots=True)
class GenerationPlan:
    """What was found in one generation of a world."""

    number: int
    profile: str
    named: bool = True
    checked_chunks: int = 0
    checked_points: int = 0
    items: list[Item] = field(default_factory=list)

    def counts(self) -> dict[Finding, int]:
        """Return how often each thing was found, the absent ones left out."""
        return counted(iter(self.items))


@dataclass(slots=True)
class WorldPlan:
    """What was found in one world, and the count of changes that it was found at."""

    world: str
    name: str
    changes: int = 0
    generations: list[GenerationPlan] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    def all_items(self) -> Iterator[Item]:
        """Give the items of the world and of each generation."""
        yield from self.items
        for generation in self.generations:
            yield from generation.items

    def counts(self) -> dict[Finding, int]:
        """Return how often each thing was found, the absent ones left out."""
        return counted(self.all_items())

    @property
    def checked_chunks(self) -> int:
        """Return how many chunks were looked at."""
        return sum(generation.checked_chunks for generation in self.generations)

    @property
    def checked_points(self) -> int:
        """Return how many points were looked at."""
        return sum(generation.checked_points for generation in self.generations)

    @property
    def unreadable(self) -> bool:
        """Say whether the index of a generation could not be read at all."""
        return Finding.UNREADABLE_INDEX in self.counts()

    @property
    def healthy(self) -> bool:
        """Say whether there is nothing to do."""
        return not self.counts()


class Plan(Mapping[str, WorldPlan]):
    """What was found in a library: a plan for each world by its name, and what no world has.

    `checks` are of the machine and the settings, `self_test` those for leaks.
    """

    def __init__(self, worlds: Mapping[str, WorldPlan] | None = None) -> None:
        self.worlds = dict(worlds or {})
        self.leftovers: list[Item] = []
        self.checks: list[Check] = []
        self.self_test: list[Check] = []

    def __getitem__(self, name: str) -> WorldPlan:
        return self.worlds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.worlds)

    def __len__(self) -> int:
        return len(self.worlds)

    def all_items(self) -> Iterator[Item]:
        """Give every item."""
        yield from self.leftovers
        for world in self.worlds.values():
            yield from world.all_items()

    @property
    def actionable(self) -> bool:
        """Say whether applying would do anything."""
        return any(item.action not in BY_HAND for item in self.all_items())

    @property
    def problems(self) -> list[Check]:
        """Return the checks that failed."""
        return [one for one in (*self.checks, *self.self_test) if one.verdict is Verdict.PROBLEM]

    @property
    def healthy(self) -> bool:
        """Say whether nothing was found and no check failed."""
        return not any(True for _ in self.all_items()) and not self.problems


def counted(items: Iterator[Item]) -> dict[Finding, int]:
    """Return how often each thing was found."""
    counts: Counter[Finding] = Counter()
    for item in items:
        counts[item.finding] += item.count
    return dict(counts)


@dataclass(slots=True)
class Treatment:
    """What applying a plan did: how often each thing was done, what had changed meanwhile and was
    left alone, what could not be done and why, and what is left."""

    before: Plan
    done: dict[Action, int] = field(default_factory=dict)
    skipped: list[Item] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    left: Plan = field(default_factory=Plan)

    def count(self, action: Action, times: int = 1) -> None:
        """Note that something was done."""
        if times:
            self.done[action] = self.done.get(action, 0) + times


@dataclass(frozen=True, slots=True)
class _PlanFile:
    kind: str
    version: int
    worlds: list[WorldPlan]
    leftovers: list[Item]


_KIND = "truespan doctor plan"


def spelled(plan: Plan) -> str:
    """Return a plan as JSON text that `read_plan` reads; checks are not part of it."""
    file = _PlanFile(_KIND, VERSION, list(plan.worlds.values()), plan.leftovers)
    return msgspec.json.format(msgspec.json.encode(file), indent=2).decode() + "\n"


def read_plan(text: str | bytes) -> Plan:
    """Return the plan that `spelled` wrote.

    Raises:
        InvalidSettings: it is no plan, or one of another version.
    """
    try:
        file = msgspec.json.decode(text, type=_PlanFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _no_plan() from None
    if (file.kind, file.version) != (_KIND, VERSION):
        raise InvalidSettings(
            "The plan file is of another version.", advice="Write a new one with this version."
        )
    plan = Plan({world.name: world for world in file.worlds})
    plan.leftovers = file.leftovers
    if not all(fits(item.finding, item.action, item.subject) for item in plan.all_items()):
        raise _no_plan()
    return plan


def _no_plan() -> InvalidSettings:
    return InvalidSettings(
        "The plan file does not hold a plan.", advice="Write one with 'doctor --plan-file'."
    )
