"""Compare store and index of a world both ways, in every generation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, TypeVar
from uuid import UUID

from msgspec import Struct, field
from msgspec.structs import replace

from truespan import errors
from truespan.maintenance.doctor.plan import (
    CHUNK_ACTIONS,
    Action,
    Finding,
    GenerationPlan,
    Item,
    WorldPlan,
)
from truespan.protocols import Embedder, VectorIndex
from truespan.types.chunk import ChunkState, IndexedPoint, PendingChunk, PointCounts, PointPlace
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.maintenance import Check, CountFlaw, Ownership, RevisionFlaw, TextFlaw, Verdict
from truespan.types.profile import EmbeddingLimits, EmbeddingProfile
from truespan.types.scope import Authority, Scope, World
from truespan.types.text import fold_names
from truespan.types.vectors import cosine, is_sound, norm_of

if TYPE_CHECKING:
    from truespan.store import Store

DIGEST = 16
UNIT_WITHIN = 1e-3
"""Stored vectors have norm 1. Rounding changes it far less than this."""
SAME_WITHIN = 1e-6
"""Two vectors this close give the same results."""


def point_digest(point: IndexedPoint, dimensions: int) -> bytes:
    """Return the digests of a point's parts, followed by the flaw of its vector, if any.

    One bytes object for each point limits the memory of a scan for any number of dimensions.
    """
    flaw = vector_flaw(point.vector, dimensions)
    return (
        digest((point.text_hash or "?").encode())
        + digest(_place_bytes(point.place))
        + digest(point.vector)
        + (flaw.value if flaw else "").encode()
    )


def compare_chunk(chunk: PendingChunk, found: bytes | None, *, placed: bool = True) -> Item | None:
    """Return the most serious difference between a chunk and its point; None if they agree.

    `placed` is false if the chunk's row is damaged, so that its place is unknown.
    """
    place = PointPlace(
        document=chunk.document,
        pos_start=chunk.first_sid,
        pos_end=chunk.last_sid,
        pos_reach=chunk.reach,
        chapter=fold_names(chunk.chapters),
        section=fold_names(chunk.sections),
        kind=chunk.kind.value,
    )
    parts = [(found or b"")[at : at + DIGEST] for at in (0, DIGEST, 2 * DIGEST)]
    if chunk.vector is None:
        finding = Finding.NO_VECTOR
    elif found is None:
        finding = Finding.MISSING_POINT
    elif parts[0] != digest(chunk.text_hash.encode()):
        finding = Finding.STALE_POINT
    elif flaw := found[3 * DIGEST :]:
        finding = Finding(flaw.decode())
    elif parts[2] != digest(chunk.vector):
        finding = Finding.CHANGED_VECTOR
    elif placed and parts[1] != digest(_place_bytes(place)):
        finding = Finding.MISPLACED_POINT
    else:
        return None
    expected = repr((chunk.text_hash, _place_bytes(place), chunk.revision, chunk.index))
    state = digest(expected.encode()) + digest(chunk.vector or b"") + (found or b"none")
    return Item(finding, Action.WRITE, chunk.chunk_id, digest(state).hex())


def vector_flaw(vector: bytes, dimensions: int) -> Finding | None:
    """Return why this cannot be a vector of the profile; None if it can."""
    if len(vector) != 4 * dimensions:
        return Finding.MIXED_MODEL
    return None if is_sound(vector, dimensions) else Finding.NON_FINITE


def stored_vector_flaw(vector: bytes, dimensions: int) -> Finding | None:
    """Return why a stored vector is wrong, besides its checksum; its norm must be 1."""
    flaw = vector_flaw(vector, dimensions)
    if flaw is None and abs(norm_of(vector) - 1.0) > UNIT_WITHIN:
        return Finding.CHANGED_VECTOR
    return flaw


def digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST).digest()


def _place_bytes(place: PointPlace | None) -> bytes:
    if place is None:
        return b""
    numbers = place.document, place.pos_start, place.pos_end, place.pos_reach
    return repr((*numbers, place.chapter, place.section, str(place.kind))).encode()


MAX_TENANTS = 20_000
"""Maximum number of tenants of a collection to list; others are found after a deletion."""


def check_index(name: str, index: VectorIndex) -> Check:
    """Return whether the index answers; if it does not, the reason and advice."""
    try:
        count = len(index.collections())
    except errors.TruespanError as error:
        return Check(name, Verdict.PROBLEM, error.message, error.advice)
    collections = "1 collection" if count == 1 else f"{count} collections"
    return Check(name, Verdict.OK, f"answers, with {collections}")


def survey(index: VectorIndex, scopes: Sequence[Scope]) -> dict[str, PointCounts]:
    """Return the tenants in the collections of the scopes' profiles that can be read."""
    held: dict[str, PointCounts] = {}
    for scope in scopes:
        if scope.profile.id not in held:
            # One that cannot be read is reported already as an unreadable index.
            with suppress(errors.IndexRefused, errors.IndexSchemaMismatch, errors.IndexNotOwned):
                held[scope.profile.id] = index.tenants(scope, limit=MAX_TENANTS)
    return held


def unclaimed(
    collections: Sequence[str],
    holdings: Mapping[str, PointCounts],
    scopes: Sequence[Scope],
    owners: Mapping[str, Ownership] = MappingProxyType({}),
) -> Iterator[Item]:
    """Yield collections and points that no generation claims.

    The scopes must be read after the survey: otherwise a new world would look like a deleted one.
    Only collections of this library are changed.
    """

    def item(finding: Finding, action: Action, profile: str, subject: str, count: int = 1) -> Item:
        own = owners.get(profile, Ownership.OWN) is Ownership.OWN
        return Item(finding, action if own else Action.CHECK_OWNER, subject, count=count)

    profiles = {scope.profile.id for scope in scopes}
    tenants = {scope.tenant for scope in scopes}
    for name in collections:
        if name not in profiles and owners.get(name) is not Ownership.OTHER:
            yield item(Finding.UNUSED_COLLECTION, Action.DISCARD, name, name)
    for profile, held in holdings.items():
        for tenant, points in held.tenants.items():
            if tenant not in tenants:
                subject = f"{profile} {tenant}"
                yield item(Finding.UNKNOWN_WORLD, Action.DROP_WORLD, profile, subject, count=points)
        without = held.points - sum(held.tenants.values())
        if without > 0 and len(held.tenants) < MAX_TENANTS:
            yield item(Finding.UNCLAIMED_POINTS, Action.REBUILD, profile, profile, count=without)


MIN_SIMILARITY = 0.99
"""Rounding, batches and machines change a vector less than this, another model far more."""
A_FEW = 3


def sample(
    store: Store, scope: Scope, embedder: Embedder, count: int, *, world: str
) -> tuple[list[Item], Check]:
    """Embed a sample of texts again; return those with another vector, and a check."""
    name = f"model of {world}, generation {scope.generation.number}"
    found: list[Item] = []
    tried = 0
    try:
        for chunk, text in store.scrub.sample(scope, count):
            tried += 1
            stored = chunk.vector or b""
            if cosine(embedder.embed_documents([text])[0], stored) < MIN_SIMILARITY:
                seen = digest(stored).hex()
                found.append(Item(Finding.MIXED_MODEL, Action.EMBED, chunk.text_hash, seen))
    except errors.TruespanError as error:
        return found, Check(name, Verdict.WARNING, f"could not be checked ({error.code})")
    if found:
        says = f"{len(found)} of {tried} texts have another vector"
        remedy = "Check more texts with a larger --embed-sample."
        return found, Check(name, Verdict.WARNING, says, remedy)
    says = f"{tried} of {tried} texts have the vector that the model returns"
    return found, Check(name, Verdict.OK, says)


class AbsentEmbedder(Struct, frozen=True):
    """Stands in for a model that is not configured or cannot be reached.

    Another model must never be used instead: its vectors would be stored as this model's.
    """

    profile: EmbeddingProfile
    reason: errors.TruespanError
    endpoint: str = ""
    limits: EmbeddingLimits = field(default_factory=lambda: EmbeddingLimits(joint=False))

    def embed_documents(self, texts: Sequence[str]) -> NoReturn:  # noqa: ARG002
        raise self.reason

    def embed_query(self, text: str) -> NoReturn:  # noqa: ARG002
        raise self.reason

    count_query = embed_query


NO_INDEX = frozenset(
    {Finding.UNREADABLE_INDEX, Finding.UNREACHABLE_INDEX, Finding.FOREIGN_COLLECTION}
)
"""Findings that say that the points of a generation could not be compared."""
POINTS_PER_PASS = 250_000
"""Points compared at a time, about 60 MB of digests; larger generations take several passes."""
PAGE = 256

T = TypeVar("T")


class Examiner(Struct, frozen=True):
    """Examines worlds. It changes nothing."""

    store: Store
    index: VectorIndex
    on_step: Callable[[str, int, int], None] = lambda _what, _done, _total: None

    def world(self, authority: Authority, record: World) -> WorldPlan:
        """Return the findings in a world.

        If the world changed meanwhile, every finding is checked again, so that a document that was
        added or deleted in between is not reported as damage.
        """
        plan = WorldPlan(record.id, record.name, record.changes)
        plan.items += self._records(record.id)
        if record.generation is None:
            return plan
        store, scope = self.store, Scope(authority, record.id, record.generation)
        plan.items += map(revision_item, store.scrub.revision_flaws(scope))
        plan.items += map(tally_item, store.scrub.tally_flaws(scope))
        plan.items += map(chunks_item, store.scrub.chunk_flaws(scope))
        foreign, retired = store.scrub.foreign_vectors(scope), len(store.documents.retired(scope))
        plan.items += _present(Finding.FOREIGN_VECTORS, Action.DROP_VECTORS, foreign)
        plan.items += _present(Finding.RETIRED, Action.CLEAR, retired)
        for kept in store.worlds.kept_generations(scope):
            own = replace(scope, generation=kept.generation)
            plan.items += words_items(store, own)
            generation = self.generation(own, named=kept.named, name=record.name, needs_index=False)
            plan.generations.append(generation)
        after = store.worlds.find(authority, record.id)
        if after is None or after.changes != record.changes:
            for generation in plan.generations:
                self._check_again(authority, record, generation)
        return plan

    def _records(self, world: WorldId) -> Iterator[Item]:
        store = self.store
        for finding, damaged in (
            (Finding.DAMAGED_NOTE, store.notes.damaged(world)),
            (Finding.DAMAGED_CONVERSATION, store.conversations.damaged(world)),
            (Finding.DAMAGED_POSITION, store.readers.damaged_positions(world)),
        ):
            for subject in damaged:
                yield Item(finding, Action.REMOVE, subject)

    def unchanged_items(self, scope: Scope, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Yield the items of a generation whose state is unchanged, in pages."""
        for page in pages(items, PAGE):
            now = set(self._items_now(scope, page))
            yield [item for item in page if item in now or item.finding in _COUNTED]

    def _items_now(self, scope: Scope, items: Sequence[Item]) -> Iterator[Item]:
        ids = [
            ChunkId(item.subject)
            for item in items
            if item.action in CHUNK_ACTIONS and item.finding is not Finding.DUPLICATE_POINT
        ]
        broken = [flaw for page in self.store.scrub.text_flaws(scope, ids) for flaw in page]
        for flaw in broken:
            # A lost row can be restored once the text of its document was restored.
            yield from (text_item(replace(flaw, restorable=False)), text_item(flaw))
        dimensions = scope.profile.dimensions
        points = {point.chunk_id: point for point in self.index.read(scope, ids)}
        expected = {chunk.chunk_id: chunk for chunk in self.store.scrub.expected_among(scope, ids)}
        unplaced = {flaw.chunk_id for flaw in broken}
        for chunk_id, chunk in expected.items():
            found = points.get(chunk_id)
            seen = point_digest(found, dimensions) if found else None
            if item := compare_chunk(chunk, seen, placed=chunk_id not in unplaced):
                yield item
        strays = {
            chunk_id: point_digest(point, dimensions)
            for chunk_id, point in points.items()
            if chunk_id not in expected
        }
        yield from self._orphans(scope, strays)
        hashes = [item.subject for item in items if item.action is Action.COMPUTE_STATES]
        yield from states_items(self.store, scope, hashes)
        doubted = {item.subject: item for item in items if item.action is Action.EMBED}
        for page in self.store.scrub.kept_vectors(
            scope, [TextHash(text_hash) for text_hash in doubted]
        ):
            for text_hash, vector, _ in page:
                if digest(vector).hex() == doubted[text_hash].seen:
                    yield doubted[text_hash]

    def _check_again(self, authority: Authority, record: World, plan: GenerationPlan) -> None:
        now = self.store.worlds.find(authority, record.id, plan.number)
        if now is None or now.generation is None:
            plan.items = []
            return
        if any(item.finding in NO_INDEX for item in plan.items):
            return
        scope = Scope(authority, record.id, now.generation)
        kept = [item for page in self.unchanged_items(scope, plan.items) for item in page]
        plan.items = [item for item in kept if item.finding not in _STATUS] + self._status(scope)

    def generation(
        self, scope: Scope, *, named: bool = True, name: str = "", needs_index: bool = True
    ) -> GenerationPlan:
        """Compare every chunk of a generation with its point, and every point with its chunk.

        Only a full scan proves anything about single points. An index server that does not answer
        or refuses the key is a finding, unless the caller needs the index.
        """
        plan = GenerationPlan(scope.generation.number, str(scope.profile), named)
        plan.items += self._status(scope)
        for page in self.store.scrub.kept_vectors(scope):
            for text_hash, vector, intact in page:
                flaw = stored_vector_flaw(vector, scope.profile.dimensions)
                flaw = flaw or (None if intact else Finding.CHANGED_VECTOR)
                if flaw:
                    plan.items.append(Item(flaw, Action.EMBED, text_hash, digest(vector).hex()))
        plan.items += states_items(self.store, scope)
        broken = [flaw for page in self.store.scrub.text_flaws(scope) for flaw in page]
        plan.items += map(text_item, broken)
        unplaced = frozenset(flaw.chunk_id for flaw in broken)
        try:
            # `prepare` is not called: it would create an empty index where one was lost.
            passes = 1 + self.index.count(scope) // POINTS_PER_PASS
            for number in range(passes):

                def is_now(entry: IndexedPoint | PendingChunk, number: int = number) -> bool:
                    return passes == 1 or _key(entry.chunk_id)[-1] % passes == number

                self._compare(scope, plan, name, is_now, unplaced)
        except (errors.IndexRefused, errors.IndexSchemaMismatch):
            unread = Item(Finding.UNREADABLE_INDEX, Action.REBUILD, scope.profile.id)
        except errors.IndexNotOwned:
            if needs_index:
                raise
            unread = Item(Finding.FOREIGN_COLLECTION, Action.CHECK_OWNER, scope.profile.id)
        except (errors.IndexUnavailable, errors.IndexKeyRefused):
            if needs_index:
                raise
            unread = Item(Finding.UNREACHABLE_INDEX, Action.CHECK_AGAIN, scope.profile.id)
        else:
            return plan
        # Findings that need no index stay.
        plan.items = [
            item for item in plan.items if item.finding in _OF_STORE or item.action is Action.EMBED
        ]
        plan.items.append(unread)
        return plan

    def _status(self, scope: Scope) -> list[Item]:
        # Counted, not read from the tallies, which may be wrong themselves.
        pending, quarantined = self.store.scrub.unsettled(scope)
        repairs = self.store.worlds.status(scope).repairs
        return [
            *_present(Finding.PENDING, Action.EMBED_PENDING, pending),
            *_present(Finding.QUARANTINED, Action.NOTHING, quarantined),
            *_present(Finding.QUEUED_REPAIR, Action.REPAIR, repairs),
        ]

    def _compare(
        self,
        scope: Scope,
        plan: GenerationPlan,
        name: str,
        is_now: Callable[[IndexedPoint | PendingChunk], bool],
        unplaced: frozenset[ChunkId],
    ) -> None:
        digests: dict[bytes, bytes] = {}
        scanned, total = 0, self.index.count(scope)
        for page in self.index.scan(scope):
            scanned += len(page)
            self.on_step(f"{name}, generation {plan.number}", scanned, max(total, scanned))
            for point in filter(is_now, page):
                plan.checked_points += 1
                key = _key(point.chunk_id)
                if key in digests:
                    plan.items.append(Item(Finding.DUPLICATE_POINT, Action.WRITE, point.chunk_id))
                digests[key] = point_digest(point, scope.profile.dimensions)
        doubted = {item.subject for item in plan.items if item.action is Action.EMBED}
        for chunk in filter(is_now, chain.from_iterable(self.store.chunks.expected(scope))):
            plan.checked_chunks += 1
            found = digests.pop(_key(chunk.chunk_id), None)
            if chunk.text_hash in doubted:
                # Its point is written again with the new vector anyway.
                continue
            if item := compare_chunk(chunk, found, placed=chunk.chunk_id not in unplaced):
                plan.items.append(item)
        plan.items += self._orphans(scope, {_name(key): found for key, found in digests.items()})

    def _orphans(self, scope: Scope, strays: dict[ChunkId, bytes]) -> Iterator[Item]:
        """Yield the points without a chunk in the store.

        A chunk in any state may be in progress, except a quarantined one, whose point is useless.
        """
        for ids in pages(strays, PAGE):
            records = self.store.chunks.read(scope, ids)
            for chunk_id in ids:
                record = records.get(chunk_id)
                if record is None or record.state is ChunkState.QUARANTINED:
                    seen = digest(strays[chunk_id]).hex()
                    yield Item(Finding.ORPHAN_POINT, Action.DELETE, chunk_id, seen)


def text_item(flaw: TextFlaw) -> Item:
    if flaw.restorable:
        return Item(Finding.DAMAGED_TEXT, Action.RESTORE, flaw.chunk_id, flaw.seen)
    return Item(Finding.LOST_TEXT, Action.SET_ASIDE, flaw.chunk_id, flaw.seen)


def revision_item(flaw: RevisionFlaw) -> Item:
    """Return a flaw of a revision as an item; its subject is document, revision and part."""
    ref = flaw.revision
    subject = f"{ref.document}.{ref.revision}.{flaw.part}"
    if flaw.restorable:
        return Item(Finding.DAMAGED_DOCUMENT, Action.RESTORE_DOCUMENT, subject, flaw.seen)
    return Item(Finding.LOST_DOCUMENT, Action.INGEST_AGAIN, subject, flaw.seen)


def tally_item(flaw: CountFlaw) -> Item:
    """Return a wrong count as an item; its subject is document, revision and generation."""
    ref = flaw.revision
    subject = f"{ref.document}.{ref.revision}.{flaw.generation}"
    return Item(Finding.WRONG_TALLY, Action.COUNT_AGAIN, subject, flaw.seen)


def chunks_item(flaw: CountFlaw) -> Item:
    """Return missing chunks as an item; its subject is document, revision and generation."""
    return replace(tally_item(flaw), finding=Finding.LOST_CHUNKS, action=Action.REBUILD_CHUNKS)


def words_items(store: Store, scope: Scope) -> Iterator[Item]:
    """Yield the damaged word counts of a generation."""
    for ref, seen in store.catalogs.word_flaws(scope):
        subject = f"{ref.document}.{ref.revision}.{scope.generation.number}"
        yield Item(Finding.WRONG_WORDS, Action.COUNT_WORDS, subject, seen)


def states_items(store: Store, scope: Scope, hashes: Sequence[str] | None = None) -> Iterator[Item]:
    """Yield the damaged states of words, among the texts with `hashes` if given."""
    among = None if hashes is None else [TextHash(text_hash) for text_hash in hashes]
    for text_hash, seen in store.word_states.flaws(scope, among):
        yield Item(Finding.DAMAGED_STATES, Action.COMPUTE_STATES, text_hash, seen)


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while page := list(islice(rest, size)):
        yield page


def _present(finding: Finding, action: Action, count: int) -> list[Item]:
    return [Item(finding, action, count=count)] if count else []


def _key(chunk_id: ChunkId) -> bytes:
    try:
        return UUID(chunk_id).bytes
    except ValueError:
        return chunk_id.encode()


def _name(key: bytes) -> ChunkId:
    return ChunkId(str(UUID(bytes=key)) if len(key) == _UUID_BYTES else key.decode())


_UUID_BYTES = 16
_STATUS = frozenset({Finding.PENDING, Finding.QUARANTINED, Finding.QUEUED_REPAIR})
_COUNTED = _STATUS | {Finding.DUPLICATE_POINT}
"""Findings without a state; applying their action twice does no harm."""
_OF_STORE = _STATUS | {Finding.DAMAGED_TEXT, Finding.LOST_TEXT, Finding.DAMAGED_STATES}
