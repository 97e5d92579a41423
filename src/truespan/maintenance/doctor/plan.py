"""Plans of the doctor: findings, the state they were found in, and the action for each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from truespan.errors import InvalidSettings
from truespan.types.maintenance import Check, Verdict


class Finding(StrEnum):
    """Kinds of problems that the doctor finds."""

    DAMAGED_TEXT = "damaged_text"
    LOST_TEXT = "lost_text"
    DAMAGED_DOCUMENT = "damaged_document"
    LOST_DOCUMENT = "lost_document"
    MISSING_POINT = "missing_point"
    STALE_POINT = "stale_point"
    CHANGED_VECTOR = "changed_vector"
    DUPLICATE_POINT = "duplicate_point"
    ORPHAN_POINT = "orphan_point"
    MISPLACED_POINT = "misplaced_point"
    MIXED_MODEL = "mixed_model"
    NON_FINITE = "non_finite_vector"
    NO_VECTOR = "no_vector_kept"
    FOREIGN_VECTORS = "foreign_vectors"
    WRONG_TALLY = "wrong_tally"
    PENDING = "pending_chunk"
    QUARANTINED = "quarantined_chunk"
    RETIRED = "retired_revision"
    QUEUED_REPAIR = "queued_repair"
    UNREADABLE_INDEX = "unreadable_index"
    UNKNOWN_WORLD = "points_of_unknown_world"
    UNCLAIMED_POINTS = "points_without_world"
    UNUSED_COLLECTION = "unused_collection"


class Action(StrEnum):
    """Kinds of actions against a finding."""

    RESTORE = "restore"
    SET_ASIDE = "set_aside"
    RESTORE_DOCUMENT = "restore_document"
    INGEST_AGAIN = "ingest_again"
    WRITE = "write_point"
    DELETE = "delete_point"
    EMBED = "embed_again"
    EMBED_PENDING = "embed_pending"
    COUNT_AGAIN = "count_again"
    DROP_VECTORS = "drop_vectors"
    CLEAR = "clear"
    REPAIR = "repair"
    REBUILD = "rebuild_index"
    DROP_WORLD = "drop_points"
    DISCARD = "discard_collection"
    NOTHING = "nothing"


REMEDIES = {
    Action.RESTORE: "restore the row from canonical text",
    Action.SET_ASIDE: "set it aside; ingest its source again, the stored text is lost",
    Action.RESTORE_DOCUMENT: "restore canonical text from its chunks",
    Action.INGEST_AGAIN: "ingest its source again: this cannot be repaired here",
    Action.WRITE: "write the point again from the stored vector",
    Action.DELETE: "delete the point",
    Action.EMBED: "delete the stored vector and embed the text again",
    Action.EMBED_PENDING: "embed the chunk",
    Action.COUNT_AGAIN: "count the document's chunks again",
    Action.DROP_VECTORS: "remove them: no generation has their model",
    Action.CLEAR: "delete its points and rows",
    Action.REPAIR: "apply it",
    Action.REBUILD: "rebuild the whole index from stored vectors",
    Action.DROP_WORLD: "delete the points: no world claims them",
    Action.DISCARD: "remove the collection: no generation has its model",
    Action.NOTHING: "ingest its source again: the stored text is lost",
}
"""The description of each action."""

MANUAL = frozenset({Action.INGEST_AGAIN, Action.NOTHING})
"""Actions for the user; applying a plan at most makes them possible."""


_NUMBER = r"\d{1,18}"
_CHUNK = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REVISION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.(text|sentences)", re.ASCII)
_TALLY = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}", re.ASCII)
_TENANT = re.compile(r"[^ ]+ .+", re.DOTALL)

_SUBJECTS = {
    Action.RESTORE: _CHUNK,
    Action.SET_ASIDE: _CHUNK,
    Action.WRITE: _CHUNK,
    Action.DELETE: _CHUNK,
    Action.RESTORE_DOCUMENT: _REVISION,
    Action.INGEST_AGAIN: _REVISION,
    Action.COUNT_AGAIN: _TALLY,
    Action.DROP_WORLD: _TENANT,
}
"""The format of an action's subject; other subjects are only compared with existing names."""

_ACTIONS = {
    Finding.DAMAGED_TEXT: {Action.RESTORE},
    Finding.LOST_TEXT: {Action.SET_ASIDE},
    Finding.DAMAGED_DOCUMENT: {Action.RESTORE_DOCUMENT},
    Finding.LOST_DOCUMENT: {Action.INGEST_AGAIN},
    Finding.MISSING_POINT: {Action.WRITE},
    Finding.STALE_POINT: {Action.WRITE},
    Finding.CHANGED_VECTOR: {Action.WRITE, Action.EMBED},
    Finding.DUPLICATE_POINT: {Action.WRITE},
    Finding.ORPHAN_POINT: {Action.DELETE},
    Finding.MISPLACED_POINT: {Action.WRITE},
    Finding.MIXED_MODEL: {Action.WRITE, Action.EMBED},
    Finding.NON_FINITE: {Action.WRITE, Action.EMBED},
    Finding.NO_VECTOR: {Action.WRITE},
    Finding.FOREIGN_VECTORS: {Action.DROP_VECTORS},
    Finding.WRONG_TALLY: {Action.COUNT_AGAIN},
    Finding.PENDING: {Action.EMBED_PENDING},
    Finding.QUARANTINED: {Action.NOTHING},
    Finding.RETIRED: {Action.CLEAR},
    Finding.QUEUED_REPAIR: {Action.REPAIR},
    Finding.UNREADABLE_INDEX: {Action.REBUILD},
    Finding.UNKNOWN_WORLD: {Action.DROP_WORLD},
    Finding.UNCLAIMED_POINTS: {Action.REBUILD},
    Finding.UNUSED_COLLECTION: {Action.DISCARD},
}
"""The allowed actions of each finding. Some are applied without a second check, so a plan file
with any other action is refused."""


def is_valid_item(finding: Finding, action: Action, subject: str) -> bool:
    """Return whether the doctor could have planned this action for this finding and subject."""
    form = _SUBJECTS.get(action)
    return action in _ACTIONS[finding] and (form is None or bool(form.fullmatch(subject)))


VERSION = 1
"""The version of the plan file."""


@dataclass(frozen=True, slots=True)
class Item:
    """One finding. `seen` is a digest of its state; an item is skipped if the state has changed."""

    finding: Finding
    action: Action
    subject: str = ""
    seen: str = ""
    count: int = 1


@dataclass(slots=True)
class GenerationPlan:
    """The findings in one generation of a world."""

    number: int
    profile: str
    named: bool = True
    checked_chunks: int = 0
    checked_points: int = 0
    items: list[Item] = field(default_factory=list)

    def counts(self) -> dict[Finding, int]:
        """Return the number of each finding that occurs."""
        return count_findings(iter(self.items))


@dataclass(slots=True)
class WorldPlan:
    """The findings in one world, and its change counter at that time."""

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
        """Return the number of each finding that occurs."""
        return count_findings(self.all_items())

    @property
    def checked_chunks(self) -> int:
        """Return the number of chunks that were checked."""
        return sum(generation.checked_chunks for generation in self.generations)

    @property
    def checked_points(self) -> int:
        """Return the number of points that were checked."""
        return sum(generation.checked_points for generation in self.generations)

    @property
    def unreadable(self) -> bool:
        """Return whether the index of a generation could not be read at all."""
        return Finding.UNREADABLE_INDEX in self.counts()

    @property
    def healthy(self) -> bool:
        """Return whether nothing was found."""
        return not self.counts()


class Plan(Mapping[str, WorldPlan]):
    """The findings in a library: a plan for each world by name, and what no world claims.

    `checks` are those of the machine and the settings, `self_test` those for leaks.
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
        """Return whether applying the plan would do anything."""
        return any(item.action not in MANUAL for item in self.all_items())

    @property
    def problems(self) -> list[Check]:
        """Return the checks that failed."""
        return [
            check for check in (*self.checks, *self.self_test) if check.verdict is Verdict.PROBLEM
        ]

    @property
    def healthy(self) -> bool:
        """Return whether nothing was found and no check failed."""
        return not any(True for _ in self.all_items()) and not self.problems


def count_findings(items: Iterator[Item]) -> dict[Finding, int]:
    """Return the number of each finding."""
    counts: Counter[Finding] = Counter()
    for item in items:
        counts[item.finding] += item.count
    return dict(counts)


@dataclass(slots=True)
class RepairResult:
    """The result of applying a plan: actions done, items skipped because they had changed,
    failures with their reasons, and what is left."""

    before: Plan
    done: dict[Action, int] = field(default_factory=dict)
    skipped: list[Item] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    left: Plan = field(default_factory=Plan)

    def count(self, action: Action, times: int = 1) -> None:
        """Add actions that were done."""
        if times:
            self.done[action] = self.done.get(action, 0) + times


@dataclass(frozen=True, slots=True)
class _PlanFile:
    kind: str
    version: int
    worlds: list[WorldPlan]
    leftovers: list[Item]


_KIND = "truespan doctor plan"


def plan_to_json(plan: Plan) -> str:
    """Return a plan as JSON for `plan_from_json`; checks are not included."""
    file = _PlanFile(_KIND, VERSION, list(plan.worlds.values()), plan.leftovers)
    return msgspec.json.format(msgspec.json.encode(file), indent=2).decode() + "\n"


def plan_from_json(text: str | bytes) -> Plan:
    """Return the plan that `plan_to_json` wrote.

    Raises:
        InvalidSettings: the text is not a plan, or one of another version.
    """
    try:
        file = msgspec.json.decode(text, type=_PlanFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _invalid_plan() from None
    if (file.kind, file.version) != (_KIND, VERSION):
        raise InvalidSettings(
            "The plan file has another version.", advice="Write a new one with this version."
        )
    plan = Plan({world.name: world for world in file.worlds})
    plan.leftovers = file.leftovers
    if not all(is_valid_item(item.finding, item.action, item.subject) for item in plan.all_items()):
        raise _invalid_plan()
    return plan


def _invalid_plan() -> InvalidSettings:
    return InvalidSettings(
        "The plan file does not contain a valid plan.",
        advice="Write one with 'doctor --plan-file'.",
    )
