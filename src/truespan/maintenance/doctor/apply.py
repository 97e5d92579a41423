"""Apply a plan: each item is examined again, and skipped if it has changed.

Chunks to write again are first marked pending in the store, so that nothing is lost if the process
dies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from truespan.maintenance.doctor.examine import (
    PAGE,
    SAME_WITHIN,
    Examiner,
    chunks_item,
    pages,
    revision_item,
    stored_vector_flaw,
    tally_item,
    words_items,
)
from truespan.maintenance.doctor.plan import (
    CHUNK_ACTIONS,
    Action,
    Finding,
    GenerationPlan,
    Item,
    Plan,
    RepairResult,
    WorldPlan,
)
from truespan.protocols import Embedder, VectorIndex
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.maintenance import RevisionPart, Verdict
from truespan.types.scope import Scope
from truespan.types.vectors import cosine

if TYPE_CHECKING:
    from truespan.store import Store


class Applier(Struct, frozen=True):
    """Applies a plan to store and index, except for embedding pending chunks."""

    store: Store
    index: VectorIndex
    result: RepairResult
    rebuild_chunks: Callable[[RevisionRef, int], bool]
    """Splits a revision into its chunks again, in the generation with this number; returns whether
    they are the recorded ones."""

    def world(self, scope: Scope, plan: WorldPlan) -> None:
        """Apply the items of a whole world. The indexer deletes retired revisions later."""
        damaged = {
            *map(revision_item, self.store.scrub.revision_flaws(scope)),
            *map(tally_item, self.store.scrub.tally_flaws(scope)),
            *map(chunks_item, self.store.scrub.chunk_flaws(scope)),
        }
        generations = {
            kept.generation.number: replace(scope, generation=kept.generation)
            for kept in self.store.worlds.kept_generations(scope)
        }
        for own in generations.values():
            damaged |= set(words_items(self.store, own))
        for item in plan.items:
            if item.action is Action.DROP_VECTORS:
                self.store.scrub.drop_foreign_vectors(scope)
                self.result.count(item.action, item.count)
            elif item.finding in _OF_DOCUMENTS and item not in damaged:
                self.result.skipped.append(item)
            elif item.finding in _OF_DOCUMENTS:
                document, revision, rest = item.subject.split(".")
                ref = RevisionRef(int(document), int(revision))
                match item.action:
                    case Action.COUNT_AGAIN:
                        self.store.scrub.count_again(scope, ref, int(rest))
                        self.result.count(item.action)
                    case Action.RESTORE_DOCUMENT if self.store.scrub.restore_revision(
                        scope, ref, RevisionPart(rest)
                    ):
                        self.result.count(item.action)
                    case Action.COUNT_WORDS:
                        self.store.catalogs.forget_words(generations[int(rest)], [ref])
                        self.result.count(item.action)
                    case Action.REBUILD_CHUNKS if self.rebuild_chunks(ref, int(rest)):
                        self.result.count(item.action)
                    case _:
                        # Without this, ingesting the same bytes again would count as unchanged.
                        self.store.scrub.distrust(scope, ref)

    def generation(self, scope: Scope, plan: GenerationPlan, embedder: Embedder | None) -> None:
        """Apply the items of one generation.

        If stored vector and point differ, a deterministic embedder decides which one is right;
        without one, the stored vector is trusted.
        """
        items = [item for item in plan.items if item.action in _POINT_ACTIONS]
        if not items:
            return
        if self.index.prepare(scope):
            self.store.chunks.mark_all_pending(scope)
        for page, unchanged in zip(
            pages(items, PAGE),
            Examiner(self.store, self.index).unchanged_items(scope, items),
            strict=True,
        ):
            current = set(unchanged)
            self.result.skipped += [item for item in page if item not in current]
            self._apply(scope, unchanged, embedder)
        self.index.flush(scope)

    def _apply(self, scope: Scope, items: Sequence[Item], embedder: Embedder | None) -> None:
        by_action: dict[Action, list[Item]] = {}
        for item in items:
            by_action.setdefault(item.action, []).append(item)
        broken = (*by_action.get(Action.RESTORE, ()), *by_action.get(Action.SET_ASIDE, ()))
        rows = [ChunkId(item.subject) for item in broken]
        restored = [chunk_id for chunk_id in rows if self.store.chunks.rebuild(scope, chunk_id)]
        self.result.count(Action.RESTORE, len(restored))
        if lost := [chunk_id for chunk_id in rows if chunk_id not in set(restored)]:
            self.index.delete(scope, lost)
            self.result.count(Action.SET_ASIDE, len(lost))
        write = by_action.get(Action.WRITE, [])
        again = [TextHash(item.subject) for item in by_action.get(Action.EMBED, ())]
        again += self._wrong_vectors(scope, write, embedder) if embedder else []
        if again:
            self.store.scrub.forget_vectors(scope, again)
            self.result.count(Action.EMBED, len(again))
        states = [TextHash(item.subject) for item in by_action.get(Action.COMPUTE_STATES, ())]
        if states:
            self.store.word_states.forget(scope, states)
            self.result.count(Action.COMPUTE_STATES, len(states))
        # The place of restored rows was unknown, so their points are written again too.
        if ids := {*(ChunkId(item.subject) for item in write), *restored}:
            self.store.chunks.mark_pending(scope, sorted(ids))
            self.result.count(Action.WRITE, len(write))
        duplicates = [item for item in write if item.finding is Finding.DUPLICATE_POINT]
        deleted = by_action.get(Action.DELETE, [])
        if useless := [ChunkId(item.subject) for item in (*duplicates, *deleted)]:
            self.index.delete(scope, useless)
            self.result.count(Action.DELETE, len(deleted))

    def _wrong_vectors(
        self, scope: Scope, items: Sequence[Item], embedder: Embedder
    ) -> list[TextHash]:
        ids = [ChunkId(item.subject) for item in items if item.finding is Finding.CHANGED_VECTOR]
        if not ids:
            return []
        points = {point.chunk_id: point.vector for point in self.index.read(scope, ids)}
        records = self.store.chunks.read(scope, ids)
        wrong: list[TextHash] = []
        for chunk in self.store.scrub.expected_among(scope, ids):
            stored, indexed = chunk.vector or b"", points.get(chunk.chunk_id, b"")
            record = records.get(chunk.chunk_id)
            data = record.chunk.data if record and record.chunk else b""
            if hash_bytes(data) != chunk.text_hash:
                continue
            flawed = stored_vector_flaw(indexed, scope.profile.dimensions)
            if flawed or cosine(stored, indexed) > 1 - SAME_WITHIN:
                # The point is not a valid vector, or the difference does not matter.
                continue
            made = embedder.embed_documents([data.decode()])[0]
            if cosine(made, stored) < 1 - SAME_WITHIN:
                wrong.append(chunk.text_hash)
        return wrong


_OF_DOCUMENTS = (
    *(Finding.DAMAGED_DOCUMENT, Finding.LOST_DOCUMENT, Finding.WRONG_TALLY),
    *(Finding.LOST_CHUNKS, Finding.WRONG_WORDS),
)
_POINT_ACTIONS = CHUNK_ACTIONS | {Action.EMBED, Action.COMPUTE_STATES}


Line = tuple[str, str]
"""A level, `info` or `warning`, and a text."""


def plan_lines(plan: Plan, *, will_apply: bool = False) -> Iterator[Line]:
    """Yield the findings of a plan, as warnings unless it will be applied."""
    level = "info" if will_apply else "warning"
    for world in plan.values():
        yield from _items("the world", world.items, level)
        for entry in world.generations:
            name = f"generation {entry.number}"
            yield "info", f"{name}: {entry.checked_chunks} chunks, {entry.checked_points} points"
            yield from _items(name, entry.items, level)
    yield from _items("of no world", plan.leftovers, level)
    for check in plan.self_test:
        own_level = "info" if check.verdict is Verdict.OK else "warning"
        yield own_level, f"{check.name}: {check.says}"


def result_lines(result: RepairResult) -> Iterator[Line]:
    """Yield the results of applying a plan, and the remaining findings as warnings."""
    for action, count in result.done.items():
        yield "info", f"done: {count} x {action.value}"
    if result.skipped:
        yield "info", f"changed meanwhile and skipped: {len(result.skipped)}"
    yield from (("warning", f"not done: {reason}") for reason in result.failures)
    yield from plan_lines(result.left)


def summary_line(plan: Plan) -> Line:
    found = sum(item.count for item in plan.all_items())
    if plan.healthy:
        return "info", "Store and index agree: nothing to do."
    return "warning", f"{found} findings, {len(plan.problems)} checks that failed."


def _items(where: str, items: Iterable[Item], level: str) -> Iterator[Line]:
    counts: Counter[tuple[Finding, Action]] = Counter()
    for item in items:
        counts[item.finding, item.action] += item.count
    for (finding, action), count in counts.items():
        yield level, f"{where}: {count} x {finding.value}: {action.remedy}"
