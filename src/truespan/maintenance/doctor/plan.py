"""Plans of the doctor: findings, the state they were found in, and the action for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Self

from msgspec import Struct, field

from truespan.types.maintenance import Check, Verdict


class Action(StrEnum):
    """Kinds of actions against a finding, with a description."""

    remedy: str

    def __new__(cls, value: str, remedy: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.remedy = remedy
        return member

    RESTORE = "restore", "restore the row from canonical text"
    SET_ASIDE = "set_aside", "quarantine it; the stored text is lost, so ingest its source again"
    RESTORE_DOCUMENT = "restore_document", "restore it from intact data"
    COUNT_WORDS = "count_words", "count its words again at the next fused search"
    REBUILD_CHUNKS = "rebuild_chunks", "cut its text into the same chunks again"
    INGEST_AGAIN = "ingest_again", "ingest its source again: this cannot be repaired here"
    WRITE = "write_point", "write the point again from the stored vector"
    DELETE = "delete_point", "delete the point"
    EMBED = "embed_again", "delete the stored vector and embed the text again"
    COMPUTE_STATES = "compute_word_states", "remove them and compute them again from the text"
    EMBED_PENDING = "embed_pending", "embed the chunk"
    COUNT_AGAIN = "count_again", "count the document's chunks again"
    DROP_VECTORS = "drop_vectors", "remove them: no generation has their model"
    CLEAR = "clear", "delete its points and rows"
    REPAIR = "repair", "apply it"
    REBUILD = "rebuild_index", "rebuild the whole index from stored vectors"
    DROP_WORLD = "drop_points", "delete the points: no world claims them"
    DISCARD = "discard_collection", "remove the collection: no generation has its model"
    REMOVE = "remove", "remove it, or set the position again: nothing can restore it"
    NOTHING = "nothing", "ingest its source again: the stored text is lost"
    CHECK_AGAIN = "check_again", "run the doctor again when the index server answers"
    CHECK_OWNER = (
        "check_owner",
        "nothing is deleted: it may belong to another library. If it does, set another "
        "qdrant_prefix; if not, run the doctor with --claim-index",
    )


CHUNK_ACTIONS = frozenset({Action.RESTORE, Action.SET_ASIDE, Action.WRITE, Action.DELETE})
"""Actions whose subject is a chunk."""
MANUAL = frozenset(
    {Action.INGEST_AGAIN, Action.REMOVE, Action.NOTHING, Action.CHECK_AGAIN, Action.CHECK_OWNER}
)
"""Actions for the user; applying a plan at most makes them possible."""


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
    DAMAGED_STATES = "damaged_word_states"
    WRONG_TALLY = "wrong_tally"
    WRONG_WORDS = "wrong_words"
    LOST_CHUNKS = "lost_chunks"
    PENDING = "pending_chunk"
    QUARANTINED = "quarantined_chunk"
    RETIRED = "retired_revision"
    QUEUED_REPAIR = "queued_repair"
    DAMAGED_NOTE = "damaged_note"
    DAMAGED_CONVERSATION = "damaged_conversation"
    DAMAGED_POSITION = "damaged_position"
    UNREADABLE_INDEX = "unreadable_index"
    UNREACHABLE_INDEX = "unreachable_index"
    UNKNOWN_WORLD = "points_of_unknown_world"
    UNCLAIMED_POINTS = "points_without_world"
    UNUSED_COLLECTION = "unused_collection"
    FOREIGN_COLLECTION = "collection_of_other_library"


class Item(Struct, frozen=True):
    """One finding. `seen` is a digest of its state; an item is skipped if the state has changed."""

    finding: Finding
    action: Action
    subject: str = ""
    seen: str = ""
    count: int = 1


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

    `checks` has the checks of the machine and the settings, `self_test` the checks for leaks.
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
