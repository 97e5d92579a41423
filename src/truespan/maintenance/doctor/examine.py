"""Comparing store and index of one world both ways, in every generation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from typing import NoReturn, TypeVar
from uuid import UUID

import numpy as np

from truespan.errors import IndexRefused, IndexSchemaMismatch, TruespanError
from truespan.maintenance.doctor.plan import Action, Finding, GenerationPlan, Item, WorldPlan
from truespan.protocols import Embedder, EmbeddingLimits, TrustedStore, VectorIndex
from truespan.types.chunk import ChunkState, Holdings, IndexedPoint, PendingChunk, PointPlace
from truespan.types.ids import ChunkId, TextHash
from truespan.types.maintenance import (
    Check,
    RevisionFlaw,
    RevisionPart,
    TallyFlaw,
    TextFlaw,
    Verdict,
)
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Authority, Scope, World

DIGEST = 16
LEAST_NORM = 1e-6
UNIT_WITHIN = 1e-3
"""Kept vectors have the length one. Rounding moves it far less than this."""
SAME_WITHIN = 1e-6
"""Two vectors this close give the same results; which of them is the older does not matter."""


def trace(point: IndexedPoint, dimensions: int) -> bytes:
    """Return all that has to be remembered of a point: digests of its parts, and its soundness.

    One byte object for each point keeps the memory of a scan small, whatever its vectors weigh.
    """
    flaw = vector_flaw(point.vector, dimensions)
    return (
        digest((point.text_hash or "?").encode())
        + digest(_spelled(point.place))
        + digest(point.vector)
        + (flaw.value if flaw else "").encode()
    )


def judge(chunk: PendingChunk, found: bytes | None, *, placed: bool = True) -> Item | None:
    """Return what is wrong between a chunk and its point, the gravest first; None if nothing is.

    `placed` is false where the chunk's row is broken, so that it does not know its own place.
    """
    finding = _difference(chunk, found, placed)
    if finding is None:
        return None
    return Item(finding, Action.WRITE, chunk.chunk_id, _seen(chunk, found))


def vector_flaw(vector: bytes, dimensions: int) -> Finding | None:
    """Return why no vector of the profile can look like this; None when one can."""
    if len(vector) != 4 * dimensions:
        return Finding.MIXED_MODEL
    norm = _norm(vector)
    # One comparison catches everything: NaN and infinity survive squaring and summing.
    return None if LEAST_NORM < norm < float("inf") else Finding.NON_FINITE


def kept_flaw(vector: bytes, dimensions: int) -> Finding | None:
    """Return why a kept vector cannot be believed; its length of one is its only checksum."""
    flaw = vector_flaw(vector, dimensions)
    if flaw is None and abs(_norm(vector) - 1.0) > UNIT_WITHIN:
        return Finding.CHANGED_VECTOR
    return flaw


def alike(one: bytes, other: bytes) -> float:
    """Return the cosine of two vectors; 0 if they cannot be compared."""
    if len(one) != len(other):
        return 0.0
    norms = _norm(one) * _norm(other)
    if not 0 < norms < float("inf"):
        return 0.0
    return float(_numbers(one) @ _numbers(other)) / norms


def digest(data: bytes) -> bytes:
    """Return a digest for comparing."""
    return blake2b(data, digest_size=DIGEST).digest()


def _difference(chunk: PendingChunk, found: bytes | None, placed: bool) -> Finding | None:
    if chunk.vector is None:
        return Finding.NO_VECTOR
    if found is None:
        return Finding.MISSING_POINT
    text, place, vector = (found[at : at + DIGEST] for at in (0, DIGEST, 2 * DIGEST))
    if text != digest(chunk.text_hash.encode()):
        return Finding.STALE_POINT
    if flaw := found[3 * DIGEST :]:
        return Finding(flaw.decode())
    if vector != digest(chunk.vector):
        return Finding.CHANGED_VECTOR
    if placed and place != digest(_spelled(_place(chunk))):
        return Finding.MISPLACED_POINT
    return None


def _place(chunk: PendingChunk) -> PointPlace:
    return PointPlace(
        chunk.document,
        chunk.first_sid,
        chunk.last_sid,
        chunk.reach,
        chunk.chapter.casefold(),
        chunk.section.casefold(),
        chunk.kind.value,
    )


def _spelled(place: PointPlace | None) -> bytes:
    return b"" if place is None else repr(tuple(map(_plain, astuple(place)))).encode()


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


def _seen(chunk: PendingChunk, found: bytes | None) -> str:
    expected = repr((chunk.text_hash, _spelled(_place(chunk)), chunk.revision, chunk.index))
    parts = digest(expected.encode()) + digest(chunk.vector or b"") + (found or b"none")
    return digest(parts).hex()


def _norm(vector: bytes) -> float:
    # Numbers that are not finite are what is looked for here, and no reason for a warning.
    with np.errstate(all="ignore"):
        numbers = _numbers(vector)
        return float(np.sqrt(numbers @ numbers))


def _numbers(vector: bytes) -> np.ndarray:
    return np.frombuffer(vector, dtype="<f4").astype(np.float64)


MOST_TENANTS = 20_000
"""As many are listed of a collection; what lies beyond is found once these are gone."""


@dataclass(frozen=True, slots=True)
class OrphanReport:
    """What an index holds, whoever it belongs to."""

    collections: Sequence[str]
    held: Mapping[str, Holdings]


def survey(index: VectorIndex, scopes: Sequence[Scope]) -> OrphanReport:
    """Look through the collections of the profiles that some scopes have."""
    held: dict[str, Holdings] = {}
    for scope in scopes:
        if scope.profile.id not in held:
            try:
                held[scope.profile.id] = index.tenants(scope, limit=MOST_TENANTS)
            except (IndexRefused, IndexSchemaMismatch):
                # Told already, by whoever has to rebuild it.
                continue
    return OrphanReport(index.collections(), held)


def unclaimed(seen: OrphanReport, scopes: Sequence[Scope]) -> list[Item]:
    """Return what no generation claims of all that was seen.

    The scopes have to be read after the survey was made: a world that just begins must not be taken
    for one that is gone.
    """
    return list(_unclaimed(seen, scopes))


def _unclaimed(seen: OrphanReport, scopes: Sequence[Scope]) -> Iterator[Item]:
    profiles = {scope.profile.id for scope in scopes}
    tenants = {scope.tenant for scope in scopes}
    for name in seen.collections:
        if name not in profiles:
            yield Item(Finding.UNUSED_COLLECTION, Action.DISCARD, name)
    for profile, held in seen.held.items():
        for tenant, points in held.tenants.items():
            if tenant not in tenants:
                subject = f"{profile} {tenant}"
                yield Item(Finding.UNKNOWN_WORLD, Action.DROP_WORLD, subject, count=points)
        without = held.points - sum(held.tenants.values())
        if without > 0 and len(held.tenants) < MOST_TENANTS:
            yield Item(Finding.UNCLAIMED_POINTS, Action.REBUILD, profile, count=without)


LEAST_SIMILARITY = 0.99
"""Rounding, batches and machines move a vector less than this, another model far more."""
A_FEW = 3


def sample(
    store: TrustedStore, scope: Scope, embedder: Embedder, count: int, *, world: str
) -> tuple[list[Item], Check]:
    """Return the vectors of a sample that are not their texts', and a line on the whole."""
    name = f"model of {world}, generation {scope.generation.number}"
    found: list[Item] = []
    tried = 0
    try:
        for chunk, text in store.sample(scope, count):
            tried += 1
            kept = chunk.vector or b""
            if alike(embedder.embed_documents([text])[0], kept) < LEAST_SIMILARITY:
                seen = digest(kept).hex()
                found.append(Item(Finding.MIXED_MODEL, Action.EMBED, chunk.text_hash, seen))
    except TruespanError as error:
        return found, Check(name, Verdict.WARNING, f"could not be tried ({error.code})")
    if found:
        says = f"{len(found)} of {tried} texts have another vector"
        remedy = "Look at more of them with a larger --embed-sample."
        return found, Check(name, Verdict.WARNING, says, remedy)
    return found, Check(name, Verdict.OK, f"{tried} of {tried} texts have the vector it gives")


@dataclass(frozen=True, slots=True)
class AbsentEmbedder:
    """Stands for the model of a profile that is not configured, or cannot be reached.

    Another model must never stand in for it: its vectors would be kept as this one's.
    """

    profile: EmbeddingProfile
    reason: TruespanError
    endpoint: str = ""
    limits: EmbeddingLimits = field(default_factory=lambda: EmbeddingLimits(joint=False))

    def embed_documents(self, texts: Sequence[str]) -> NoReturn:  # noqa: ARG002
        """Say why there is none."""
        raise self.reason

    def embed_query(self, text: str) -> NoReturn:  # noqa: ARG002
        """Say why there is none."""
        raise self.reason

    def count_query(self, text: str) -> NoReturn:  # noqa: ARG002
        """Say why there is none."""
        raise self.reason


AT_ONCE = 250_000
"""Points whose traces are held at a time, about 60 MB; larger generations are read in passes."""
PAGE = 256

OnStep = Callable[[str, int, int], None]
"""Is told what is looked at, how much of it is done, and how much there is."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Examiner:
    """Looks at worlds. Nothing it does is seen by anybody."""

    store: TrustedStore
    index: VectorIndex
    on_step: OnStep = lambda _what, _done, _all: None

    def world(self, authority: Authority, record: World) -> WorldPlan:
        """Return what is wrong with a world.

        Others may change it meanwhile. Whatever was found is then looked at once more, so that a
        document that came or went between two looks is not taken for damage.
        """
        plan = WorldPlan(record.id, record.name, record.changes)
        if record.generation is None:
            return plan
        scope = Scope(authority, record.id, record.generation)
        self._world_items(scope, plan)
        for kept in self.store.kept_generations(scope):
            own = replace(scope, generation=kept.generation)
            plan.generations.append(self.generation(own, named=kept.named, name=record.name))
        after = self.store.find_world(authority, record.id)
        if after is None or after.changes != record.changes:
            for generation in plan.generations:
                self._look_again(authority, record, generation)
        return plan

    def still_so(self, scope: Scope, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Give those of a generation's items that are still as they were seen, in pages."""
        for page in pages(items, PAGE):
            now = {*self._items_now(scope, page), *self._still_kept(scope, page)}
            yield [item for item in page if item in now or item.finding in _COUNTED]

    def _items_now(self, scope: Scope, items: Sequence[Item]) -> Iterator[Item]:
        ids = [
            ChunkId(item.subject)
            for item in items
            if item.finding in _OF_CHUNKS and item.action is not Action.EMBED
        ]
        broken = [flaw for page in self.store.text_flaws(scope, ids) for flaw in page]
        for flaw in broken:
            # What seemed lost can be restored once the text of its document was.
            yield from (text_item(replace(flaw, restorable=False)), text_item(flaw))
        dimensions = scope.profile.dimensions
        points = {point.chunk_id: point for point in self.index.read(scope, ids)}
        expected = {chunk.chunk_id: chunk for chunk in self.store.expected_among(scope, ids)}
        unplaced = {flaw.chunk_id for flaw in broken}
        for chunk_id, chunk in expected.items():
            found = points.get(chunk_id)
            seen = trace(found, dimensions) if found else None
            if item := judge(chunk, seen, placed=chunk_id not in unplaced):
                yield item
        strays = [point for chunk_id, point in points.items() if chunk_id not in expected]
        yield from self._orphans(scope, {one.chunk_id: trace(one, dimensions) for one in strays})

    def _still_kept(self, scope: Scope, items: Sequence[Item]) -> Iterator[Item]:
        """Give the items on kept vectors that are the same, bit for bit, as they were."""
        doubted = {item.subject: item for item in items if item.action is Action.EMBED}
        hashes = [TextHash(one) for one in doubted]
        for page in self.store.kept_vectors(scope, hashes):
            for text_hash, vector in page:
                if digest(vector).hex() == doubted[text_hash].seen:
                    yield doubted[text_hash]

    def _look_again(self, authority: Authority, record: World, plan: GenerationPlan) -> None:
        now = self.store.find_world(authority, record.id, plan.number)
        if now is None or now.generation is None:
            plan.items = []
            return
        if any(item.finding is Finding.UNREADABLE_INDEX for item in plan.items):
            return
        scope = Scope(authority, record.id, now.generation)
        kept = [item for page in self.still_so(scope, plan.items) for item in page]
        plan.items = [item for item in kept if item.finding not in _STATUS] + self._status(scope)

    def _world_items(self, scope: Scope, plan: WorldPlan) -> None:
        for flaw in self.store.revision_flaws(scope):
            plan.items.append(revision_item(flaw))
        plan.items += map(tally_item, self.store.tally_flaws(scope))
        foreign = self.store.foreign_vectors(scope)
        retired = len(self.store.retired(scope))
        plan.items += _present(Finding.FOREIGN_VECTORS, Action.DROP_VECTORS, foreign)
        plan.items += _present(Finding.RETIRED, Action.CLEAR, retired)

    def generation(self, scope: Scope, *, named: bool = True, name: str = "") -> GenerationPlan:
        """Return what is wrong with one generation of a world."""
        plan = GenerationPlan(scope.generation.number, str(scope.profile), named)
        plan.items += self._status(scope)
        plan.items += self._kept(scope)
        broken = [flaw for page in self.store.text_flaws(scope) for flaw in page]
        plan.items += map(text_item, broken)
        unplaced = frozenset(flaw.chunk_id for flaw in broken)
        try:
            # Not prepared first: looking must not make an empty index where one was lost.
            parts = 1 + self.index.count(scope) // AT_ONCE
            for part in range(parts):
                self._compare(scope, plan, name, _Part(part, parts), unplaced)
        except (IndexRefused, IndexSchemaMismatch):
            profile = scope.profile.id
            unreadable = Item(Finding.UNREADABLE_INDEX, Action.REBUILD, profile)
            kept_items = [item for item in plan.items if _is_of_store(item)]
            plan.items = [*kept_items, unreadable]
        return plan

    def _status(self, scope: Scope) -> list[Item]:
        # Not from the tallies: they may be wrong, and that is a finding of its own.
        pending, quarantined = self.store.unsettled(scope)
        repairs = self.store.status(scope).repairs
        return [
            *_present(Finding.PENDING, Action.EMBED_PENDING, pending),
            *_present(Finding.QUARANTINED, Action.NOTHING, quarantined),
            *_present(Finding.QUEUED_REPAIR, Action.REPAIR, repairs),
        ]

    def _kept(self, scope: Scope) -> Iterator[Item]:
        """Give the kept vectors that cannot be believed."""
        for page in self.store.kept_vectors(scope):
            for text_hash, vector in page:
                if flaw := kept_flaw(vector, scope.profile.dimensions):
                    yield Item(flaw, Action.EMBED, text_hash, digest(vector).hex())

    def _compare(
        self,
        scope: Scope,
        plan: GenerationPlan,
        name: str,
        part: _Part,
        unplaced: frozenset[ChunkId],
    ) -> None:
        traces = self._traces(scope, plan, name, part)
        doubted = {item.subject for item in plan.items if item.action is Action.EMBED}
        for chunk in self._expected(scope, part):
            plan.checked_chunks += 1
            found = traces.pop(_key(chunk.chunk_id), None)
            if chunk.text_hash in doubted:
                # Its point is written anew with its vector, whatever is wrong with it.
                continue
            if item := judge(chunk, found, placed=chunk.chunk_id not in unplaced):
                plan.items.append(item)
        strays = {_name(key): found for key, found in traces.items()}
        plan.items += self._orphans(scope, strays)

    def _traces(
        self, scope: Scope, plan: GenerationPlan, name: str, part: _Part
    ) -> dict[bytes, bytes]:
        traces: dict[bytes, bytes] = {}
        scanned, total = 0, self.index.count(scope)
        for page in self.index.scan(scope):
            scanned += len(page)
            self.on_step(f"{name}, generation {plan.number}", scanned, max(total, scanned))
            for point in filter(part.has, page):
                plan.checked_points += 1
                key = _key(point.chunk_id)
                if key in traces:
                    plan.items.append(Item(Finding.DUPLICATE_POINT, Action.WRITE, point.chunk_id))
                traces[key] = trace(point, scope.profile.dimensions)
        return traces

    def _expected(self, scope: Scope, part: _Part) -> Iterator[PendingChunk]:
        for page in self.store.expected(scope):
            yield from filter(part.has, page)

    def _orphans(self, scope: Scope, strays: dict[ChunkId, bytes]) -> Iterator[Item]:
        """Give the points that the store does not know.

        Those it knows in any state are somebody's work in progress, except for a chunk that was set
        aside: its point has nothing to stand for.
        """
        for ids in pages(strays, PAGE):
            records = self.store.read_chunks(scope, ids)
            for chunk_id in ids:
                record = records.get(chunk_id)
                if record is None or record.state is ChunkState.QUARANTINED:
                    seen = digest(strays[chunk_id]).hex()
                    yield Item(Finding.ORPHAN_POINT, Action.DELETE, chunk_id, seen)


def examine(store: TrustedStore, index: VectorIndex, scope: Scope) -> GenerationPlan:
    """Compare every chunk of the scope's generation with its point, and every point with its chunk.

    A search or a count that fails proves nothing about single points: only a whole scan does.
    """
    return Examiner(store, index).generation(scope)


@dataclass(frozen=True, slots=True)
class _Part:
    """One of several equal parts of all ids."""

    number: int
    of: int

    def has(self, one: IndexedPoint | PendingChunk) -> bool:
        """Say whether a point or a chunk belongs to this part."""
        return self.of == 1 or _key(one.chunk_id)[-1] % self.of == self.number


def text_item(flaw: TextFlaw) -> Item:
    """Return a flaw of a chunk's row as an item."""
    if flaw.restorable:
        return Item(Finding.DAMAGED_TEXT, Action.RESTORE, flaw.chunk_id, flaw.seen)
    return Item(Finding.LOST_TEXT, Action.SET_ASIDE, flaw.chunk_id, flaw.seen)


def revision_item(flaw: RevisionFlaw) -> Item:
    """Return a flaw of a revision as an item; its subject is document, revision and part."""
    ref = flaw.revision
    subject = f"{ref.document}.{ref.revision}.{flaw.part}"
    if flaw.restorable and flaw.part is RevisionPart.TEXT:
        return Item(Finding.DAMAGED_DOCUMENT, Action.RESTORE_DOCUMENT, subject, flaw.seen)
    return Item(Finding.LOST_DOCUMENT, Action.INGEST_AGAIN, subject, flaw.seen)


def tally_item(flaw: TallyFlaw) -> Item:
    """Return a wrong count as an item; its subject is document, revision and generation."""
    ref = flaw.revision
    subject = f"{ref.document}.{ref.revision}.{flaw.generation}"
    return Item(Finding.WRONG_TALLY, Action.COUNT_AGAIN, subject, flaw.seen)


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Give items in lists of at most `size`."""
    rest = iter(items)
    while page := list(islice(rest, size)):
        yield page


def _is_of_store(item: Item) -> bool:
    """Say whether an item was found without looking at the index."""
    return item.finding in _OF_STORE or item.action is Action.EMBED


def _present(finding: Finding, action: Action, count: int) -> list[Item]:
    return [Item(finding, action, count=count)] if count else []


def _key(chunk_id: ChunkId) -> bytes:
    """Return an id in 16 bytes, or as it is where an index made one up."""
    try:
        return UUID(chunk_id).bytes
    except ValueError:
        return chunk_id.encode()


def _name(key: bytes) -> ChunkId:
    return ChunkId(str(UUID(bytes=key)) if len(key) == _UUID_BYTES else key.decode())


_UUID_BYTES = 16
_STATUS = frozenset({Finding.PENDING, Finding.QUARANTINED, Finding.QUEUED_REPAIR})
_COUNTED = _STATUS | {Finding.DUPLICATE_POINT}
"""Findings without a state of their own; doing twice what they ask for does no harm."""
_OF_STORE = _STATUS | {Finding.DAMAGED_TEXT, Finding.LOST_TEXT}
_OF_CHUNKS = frozenset(
    {
        Finding.DAMAGED_TEXT,
        Finding.LOST_TEXT,
        Finding.MISSING_POINT,
        Finding.STALE_POINT,
        Finding.CHANGED_VECTOR,
        Finding.ORPHAN_POINT,
        Finding.MISPLACED_POINT,
        Finding.MIXED_MODEL,
        Finding.NON_FINITE,
        Finding.NO_VECTOR,
    }
)
