"""Carrying out a plan: each item is looked at again, and left alone if it is no longer so.

Whatever is to be written again is marked pending in the store before anything else happens to it,
so that a process that dies in the middle leaves the rest of its work on record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from truespan.maintenance.doctor.examine import (
    PAGE,
    SAME_WITHIN,
    Examiner,
    alike,
    kept_flaw,
    pages,
    revision_item,
    tally_item,
)
from truespan.maintenance.doctor.plan import (
    REMEDIES,
    Action,
    Finding,
    GenerationPlan,
    Item,
    Plan,
    RepairResult,
    WorldPlan,
)
from truespan.protocols import Embedder, TrustedStore, VectorIndex
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import Scope


@dataclass(frozen=True, slots=True)
class Applier:
    """Does to store and index what a plan says, up to where pending chunks have to be embedded."""

    store: TrustedStore
    index: VectorIndex
    treatment: RepairResult

    def world(self, scope: Scope, plan: WorldPlan) -> None:
        """Do what concerns a world as a whole. Retired revisions are cleared by whoever embeds."""
        now = {revision_item(flaw) for flaw in self.store.revision_flaws(scope)}
        miscounted = {tally_item(flaw) for flaw in self.store.tally_flaws(scope)}
        for item in plan.items:
            if item.finding in (Finding.DAMAGED_DOCUMENT, Finding.LOST_DOCUMENT):
                self._revision(scope, item, still=item in now)
            elif item.finding is Finding.WRONG_TALLY:
                self._tally(scope, item, still=item in miscounted)
            elif item.action is Action.DROP_VECTORS:
                self.store.drop_foreign_vectors(scope)
                self.treatment.count(item.action, item.count)

    def generation(self, scope: Scope, plan: GenerationPlan, embedder: Embedder | None) -> None:
        """Do what concerns one generation.

        With an embedder whose vectors depend on nothing but the text, it settles which of two
        different vectors is the right one; without, the kept one is believed.
        """
        items = [item for item in plan.items if item.action in _OF_POINTS]
        if not items:
            return
        if self.index.prepare(scope):
            self.store.forget_index(scope)
        for page, still in zip(
            pages(items, PAGE), Examiner(self.store, self.index).still_so(scope, items), strict=True
        ):
            kept = set(still)
            self.treatment.skipped += [item for item in page if item not in kept]
            self._apply(scope, still, embedder)
        self.index.flush(scope)

    def _apply(self, scope: Scope, items: Sequence[Item], embedder: Embedder | None) -> None:
        by_action: dict[Action, list[Item]] = {}
        for item in items:
            by_action.setdefault(item.action, []).append(item)
        broken = (*by_action.get(Action.RESTORE, ()), *by_action.get(Action.SET_ASIDE, ()))
        restored = self._restore(scope, broken)
        write = by_action.get(Action.WRITE, [])
        again = [TextHash(item.subject) for item in by_action.get(Action.EMBED, ())]
        again += self._settled(scope, write, embedder) if embedder else []
        if again:
            self.store.forget_vectors(scope, again)
            self.treatment.count(Action.EMBED, len(again))
        self._write(scope, write, restored)
        self._delete(scope, by_action.get(Action.DELETE, ()))

    def _restore(self, scope: Scope, items: Sequence[Item]) -> list[ChunkId]:
        """Restore rows, and return those that were; nobody may find what cannot be shown."""
        ids = [ChunkId(item.subject) for item in items]
        restored = [chunk_id for chunk_id in ids if self.store.rebuild_chunk(scope, chunk_id)]
        self.treatment.count(Action.RESTORE, len(restored))
        if lost := [chunk_id for chunk_id in ids if chunk_id not in set(restored)]:
            self.index.delete(scope, lost)
            self.treatment.count(Action.SET_ASIDE, len(lost))
        return restored

    def _write(self, scope: Scope, items: Sequence[Item], restored: Sequence[ChunkId]) -> None:
        """Have points written again; those of restored rows too, which did not know their place."""
        again = {*(ChunkId(item.subject) for item in items), *restored}
        if not again:
            return
        self.store.mark_pending(scope, sorted(again))
        doubled = [item for item in items if item.finding is Finding.DUPLICATE_POINT]
        if doubled:
            self.index.delete(scope, [ChunkId(item.subject) for item in doubled])
        self.treatment.count(Action.WRITE, len(items))

    def _delete(self, scope: Scope, items: Sequence[Item]) -> None:
        if items:
            self.index.delete(scope, [ChunkId(item.subject) for item in items])
            self.treatment.count(Action.DELETE, len(items))

    def _settled(self, scope: Scope, items: Sequence[Item], embedder: Embedder) -> list[TextHash]:
        """Return the texts whose kept vector is the wrong one of two that differ."""
        ids = [ChunkId(item.subject) for item in items if item.finding is Finding.CHANGED_VECTOR]
        if not ids:
            return []
        points = {point.chunk_id: point.vector for point in self.index.read(scope, ids)}
        records = self.store.read_chunks(scope, ids)
        wrong: list[TextHash] = []
        for chunk in self.store.expected_among(scope, ids):
            kept, held = chunk.vector or b"", points.get(chunk.chunk_id, b"")
            record = records.get(chunk.chunk_id)
            data = record.chunk.data if record and record.chunk else b""
            if hash_bytes(data) != chunk.text_hash:
                continue
            if kept_flaw(held, scope.profile.dimensions) or alike(kept, held) > 1 - SAME_WITHIN:
                # The one in the index is no vector at all, or it makes no difference.
                continue
            made = embedder.embed_documents([data.decode()])[0]
            if alike(made, kept) < 1 - SAME_WITHIN:
                wrong.append(chunk.text_hash)
        return wrong

    def _tally(self, scope: Scope, item: Item, *, still: bool) -> None:
        if not still:
            self.treatment.skipped.append(item)
            return
        document, revision, generation = map(int, item.subject.split("."))
        self.store.count_again(scope, RevisionRef(document, revision), generation)
        self.treatment.count(Action.COUNT_AGAIN)

    def _revision(self, scope: Scope, item: Item, *, still: bool) -> None:
        if not still:
            self.treatment.skipped.append(item)
            return
        document, revision, _ = item.subject.split(".")
        ref = RevisionRef(int(document), int(revision))
        if item.action is Action.RESTORE_DOCUMENT and self.store.restore_text(scope, ref):
            self.treatment.count(Action.RESTORE_DOCUMENT)
            return
        # Otherwise the same bytes would be taken for no change, and nothing would be ingested.
        self.store.distrust(scope, ref)


_OF_POINTS = frozenset(
    {Action.RESTORE, Action.SET_ASIDE, Action.WRITE, Action.DELETE, Action.EMBED}
)


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


def treatment_lines(treatment: RepairResult) -> Iterator[Line]:
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
