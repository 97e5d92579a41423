"""Plans of the doctor: findings, the state they were found in, and the action for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Self

import msgspec
from msgspec import Struct, field

from truespan.core.strict_json import JsonError, require_unique_keys
from truespan.errors import InvalidArgument
from truespan.types.maintenance import Check, Verdict

_NUMBER = r"\d{1,18}"
_CHUNK = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REVISION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.(record|text|sentences)", re.ASCII)
_TALLY = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}", re.ASCII)
_TENANT = re.compile(r"[^ ]+ .+", re.DOTALL)
_ANY = re.compile(".*", re.DOTALL)
"""Format of a subject that is only compared with existing names."""


class Action(StrEnum):
    """Kinds of actions against a finding, with a description and the format of the subject."""

    remedy: str
    subject: re.Pattern[str]

    def __new__(cls, value: str, remedy: str, subject: re.Pattern[str] = _ANY) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.remedy = remedy
        member.subject = subject
        return member

    RESTORE = "restore", "restore the row from canonical text", _CHUNK
    SET_ASIDE = (
        "set_aside",
        "set it aside; ingest its source again, the stored text is lost",
        _CHUNK,
    )
    RESTORE_DOCUMENT = "restore_document", "restore it from what is intact", _REVISION
    COUNT_WORDS = "count_words", "count its words again at the next fused search", _TALLY
    REBUILD_CHUNKS = "rebuild_chunks", "cut its text into the same chunks again", _TALLY
    INGEST_AGAIN = (
        "ingest_again",
        "ingest its source again: this cannot be repaired here",
        _REVISION,
    )
    WRITE = "write_point", "write the point again from the stored vector", _CHUNK
    DELETE = "delete_point", "delete the point", _CHUNK
    EMBED = "embed_again", "delete the stored vector and embed the text again"
    EMBED_PENDING = "embed_pending", "embed the chunk"
    COUNT_AGAIN = "count_again", "count the document's chunks again", _TALLY
    DROP_VECTORS = "drop_vectors", "remove them: no generation has their model"
    CLEAR = "clear", "delete its points and rows"
    REPAIR = "repair", "apply it"
    REBUILD = "rebuild_index", "rebuild the whole index from stored vectors"
    DROP_WORLD = "drop_points", "delete the points: no world claims them", _TENANT
    DISCARD = "discard_collection", "remove the collection: no generation has its model"
    NOTHING = "nothing", "ingest its source again: the stored text is lost"
    CHECK_AGAIN = "check_again", "run the doctor again when the index server answers"
    CHECK_OWNER = (
        "check_owner",
        "nothing is deleted: it may belong to another library. If it does, set another "
        "qdrant_prefix; if not, run the doctor with --claim-index",
    )


CHUNK_ACTIONS = frozenset({Action.RESTORE, Action.SET_ASIDE, Action.WRITE, Action.DELETE})
"""Actions whose subject is a chunk."""
MANUAL = frozenset({Action.INGEST_AGAIN, Action.NOTHING, Action.CHECK_AGAIN, Action.CHECK_OWNER})
"""Actions for the user; applying a plan at most makes them possible."""


class Finding(StrEnum):
    """Kinds of problems that the doctor finds, with the allowed actions against each.

    Some actions are applied without a second check, so a plan file with other actions is refused.
    """

    actions: tuple[Action, ...]

    def __new__(cls, value: str, *actions: Action) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.actions = actions
        return member

    DAMAGED_TEXT = "damaged_text", Action.RESTORE
    LOST_TEXT = "lost_text", Action.SET_ASIDE
    DAMAGED_DOCUMENT = "damaged_document", Action.RESTORE_DOCUMENT
    LOST_DOCUMENT = "lost_document", Action.INGEST_AGAIN
    MISSING_POINT = "missing_point", Action.WRITE
    STALE_POINT = "stale_point", Action.WRITE
    CHANGED_VECTOR = "changed_vector", Action.WRITE, Action.EMBED
    DUPLICATE_POINT = "duplicate_point", Action.WRITE
    ORPHAN_POINT = "orphan_point", Action.DELETE
    MISPLACED_POINT = "misplaced_point", Action.WRITE
    MIXED_MODEL = "mixed_model", Action.WRITE, Action.EMBED
    NON_FINITE = "non_finite_vector", Action.WRITE, Action.EMBED
    NO_VECTOR = "no_vector_kept", Action.WRITE
    FOREIGN_VECTORS = "foreign_vectors", Action.DROP_VECTORS
    WRONG_TALLY = "wrong_tally", Action.COUNT_AGAIN
    WRONG_WORDS = "wrong_words", Action.COUNT_WORDS
    LOST_CHUNKS = "lost_chunks", Action.REBUILD_CHUNKS
    PENDING = "pending_chunk", Action.EMBED_PENDING
    QUARANTINED = "quarantined_chunk", Action.NOTHING
    RETIRED = "retired_revision", Action.CLEAR
    QUEUED_REPAIR = "queued_repair", Action.REPAIR
    UNREADABLE_INDEX = "unreadable_index", Action.REBUILD
    UNREACHABLE_INDEX = "unreachable_index", Action.CHECK_AGAIN
    UNKNOWN_WORLD = "points_of_unknown_world", Action.DROP_WORLD, Action.CHECK_OWNER
    UNCLAIMED_POINTS = "points_without_world", Action.REBUILD, Action.CHECK_OWNER
    UNUSED_COLLECTION = "unused_collection", Action.DISCARD, Action.CHECK_OWNER
    FOREIGN_COLLECTION = "collection_of_other_library", Action.CHECK_OWNER


VERSION = 1
"""The version of the plan file."""


class Item(Struct, frozen=True):
    """One finding. `seen` is a digest of its state; an item is skipped if the state has changed."""

    finding: Finding
    action: Action
    subject: str = ""
    seen: str = ""
    count: int = 1

    @property
    def valid(self) -> bool:
        """Return whether the doctor could have planned this action for the finding and subject."""
        planned = self.action in self.finding.actions
        return planned and bool(self.action.subject.fullmatch(self.subject))


class GenerationPlan(Struct):
    """The findings in one generation of a world."""

    number: int
    profile: str
    named: bool = True
    checked_chunks: int = 0
    checked_points: int = 0
    items: list[Item] = field(default_factory=list)

    def counts(self) -> dict[Finding, int]:
        return count_findings(self.items)


class WorldPlan(Struct):
    """The findings in one world, and its change counter at that time."""

    world: str
    name: str
    changes: int = 0
    generations: list[GenerationPlan] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    def all_items(self) -> Iterator[Item]:
        """Yield the items of the world and of each generation."""
        yield from self.items
        for generation in self.generations:
            yield from generation.items

    def counts(self) -> dict[Finding, int]:
        return count_findings(self.all_items())

    @property
    def checked_chunks(self) -> int:
        return sum(generation.checked_chunks for generation in self.generations)

    @property
    def checked_points(self) -> int:
        return sum(generation.checked_points for generation in self.generations)

    @property
    def healthy(self) -> bool:
        """Return whether nothing was found."""
        return not self.counts()


class Plan(dict[str, WorldPlan]):
    """Findings in a library: a plan for each world by name, and `leftovers` that no world claims.

    `checks` are those of the machine and the settings, `self_test` those for leaks.
    """

    def __init__(self, worlds: Mapping[str, WorldPlan] | None = None) -> None:
        super().__init__(worlds or {})
        self.leftovers: list[Item] = []
        self.checks: list[Check] = []
        self.self_test: list[Check] = []

    def all_items(self) -> Iterator[Item]:
        yield from self.leftovers
        for world in self.values():
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
        return not list(self.all_items()) and not self.problems


def count_findings(items: Iterable[Item]) -> dict[Finding, int]:
    counts: dict[Finding, int] = {}
    for item in items:
        counts[item.finding] = counts.get(item.finding, 0) + item.count
    return counts


class RepairResult(Struct):
    """Result of applying a plan: actions done, changed items that were skipped, failures with
    their reasons, and remaining findings."""

    before: Plan
    done: dict[Action, int] = field(default_factory=dict)
    skipped: list[Item] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    left: Plan = field(default_factory=Plan)

    def count(self, action: Action, times: int = 1) -> None:
        """Add actions that were done."""
        if times:
            self.done[action] = self.done.get(action, 0) + times


class _PlanFile(Struct, frozen=True):
    kind: str
    version: int
    worlds: list[WorldPlan]
    leftovers: list[Item]


_KIND = "truespan doctor plan"


def plan_to_json(plan: Plan) -> str:
    """Return a plan as JSON for `plan_from_json`; checks are not included."""
    file = _PlanFile(_KIND, VERSION, list(plan.values()), plan.leftovers)
    return msgspec.json.format(msgspec.json.encode(file), indent=2).decode() + "\n"


def plan_from_json(text: str | bytes) -> Plan:
    """Return the plan that `plan_to_json` wrote.

    Raises:
        InvalidArgument: the text is not a plan, or a plan of another version.
    """
    try:
        file = msgspec.json.decode(text, type=_PlanFile)
        require_unique_keys(text)
        if (file.kind, file.version) != (_KIND, VERSION):
            raise InvalidArgument(
                "The plan file has another version.", advice="Write a new one with this version."
            )
        plan = Plan({world.name: world for world in file.worlds})
        plan.leftovers = file.leftovers
        if all(item.valid for item in plan.all_items()):
            return plan
    except (msgspec.DecodeError, UnicodeDecodeError, JsonError):
        pass
    raise InvalidArgument(
        "The plan file does not contain a valid plan.",
        advice="Write one with 'doctor --plan-file'.",
    )
