"""The stages between the index and a result: verify, reveal and rank are pure, fetch uses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.records import copy_fields
from truespan.protocols import VectorIndex
from truespan.retrieval.deps import RetrievalDeps
from truespan.retrieval.query import SCORE_DECIMALS
from truespan.retrieval.repeats import EqualTexts
from truespan.types.bundle import Notice, Skipped
from truespan.types.chunk import (
    ChunkKind,
    ChunkRecord,
    ChunkState,
    DocumentLabel,
    ParentChunk,
    SourceLabels,
    StoredChunk,
)
from truespan.types.ids import ChunkId, TextHash, WorldId, chunk_id, hash_text, reader_chunk_id
from truespan.types.profile import float32
from truespan.types.reading import TailChunk
from truespan.types.scope import Scope, Unlimited, admits
from truespan.types.telemetry import Stage
from truespan.types.text import NamedPlace, PageStart, PlacedSentence, locate_sentences
from truespan.types.trust import FailureKind, Hit, VerificationFailure, Verified, Visible
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.words.query import WordQuery

SLACK = 8
"""Hits requested beyond k: enough to see the score fall in nearly every search."""
MAX_BOILERPLATE = 64
"""Maximum number of boilerplate candidates before the search for other text ends."""


class Verification(Struct, frozen=True):
    """Verified hits, failed hits, and the number of hits of inactive revisions."""

    verified: list[Verified]
    failures: list[VerificationFailure]
    superseded: int


def verify(hits: Sequence[Hit], records: Mapping[ChunkId, ChunkRecord]) -> Verification:
    """Keep the hits whose stored bytes are still the embedded bytes.

    The records were read through the scope. A hit from outside the scope has none and counts as an
    orphan, even if another world has its chunk.
    """
    verified: list[Verified] = []
    failures: list[VerificationFailure] = []
    superseded = 0
    for hit in hits:
        record = records.get(hit.chunk_id)
        if record is not None and record.labels_intact and not record.live:
            # Staged, replaced or deleted: not damage.
            superseded += 1
            continue
        outcome = _verify(hit, record)
        if isinstance(outcome, Verified):
            verified.append(outcome)
        else:
            failures.append(outcome)
    return Verification(verified, failures, superseded)


def limit_to_scope(
    outcome: Verification, records: Mapping[ChunkId, ChunkRecord], scope: Scope
) -> Verification:
    """Return an outcome without chunks out of scope: a wrong index must not influence the order.

    No caller learns of failed hits in other documents or, for a reader, in another revision or past
    the position; a caller with a limited audience learns of none without a record either. Verified
    chunks past the position are left to `reveal`, since the tail may replace them.
    """

    def is_in_scope(failure: VerificationFailure) -> bool:
        record = records.get(failure.chunk_id)
        if record is None:
            return not scope.is_limited
        document, chunk = record.document, record.chunk
        is_read = scope.position is None or (
            document.revision == scope.revision and (not chunk or chunk.reach <= scope.position)
        )
        return is_read and admits(scope.documents, document.number)

    verified, failures = outcome.verified, [*filter(is_in_scope, outcome.failures)]
    is_whole = isinstance(scope.documents, Unlimited) and not scope.names_place
    if scope.position is None and not is_whole:
        verified = [found for found in verified if reveal(found, scope)]
    return Verification(verified, failures, outcome.superseded)


def _verify(hit: Hit, record: ChunkRecord | None) -> Verified | VerificationFailure:
    def fail(kind: FailureKind, row_hash: TextHash | None = None) -> VerificationFailure:
        return VerificationFailure(kind, hit.chunk_id, hit.text_hash, row_hash, hit.score)

    if record is None:
        return fail(FailureKind.ORPHAN)
    if not record.labels_intact:
        # Labels are shown in results, or decide whether a chunk may be shown.
        return fail(FailureKind.DOCUMENT, record.recorded_hash)
    if record.state is ChunkState.QUARANTINED:
        return fail(FailureKind.QUARANTINED)
    chunk = record.chunk
    if chunk is None:
        return fail(FailureKind.MISSING)
    # 1. Both rows against their checksum, the bytes against their hash: is the store intact?
    if not record.intact:
        return fail(FailureKind.DAMAGED, chunk.text_hash)
    # 2. That hash against the point's: is this the text whose vector was found?
    if chunk.text_hash != hit.text_hash:
        return fail(FailureKind.STALE, chunk.text_hash)
    # The very bytes that were hashed are decoded and returned; nothing is read a second time.
    return Verified(chunk, record.document, chunk.data.decode(), hit.score)


def reveal(found: Verified, scope: Scope) -> list[Visible]:
    """Return the parts of a chunk that the scope makes visible, in order; empty if there are none.

    The index was queried only for chunks in scope that do not depend on unread text. That is an
    optimisation, not the guarantee: the index may be wrong, so document, chapter and section, the
    stored reach and the last sentence are checked again. A chunk that straddles the position is
    dropped whole; the tail replaces it. Of a chunk that straddles the borders of a chapter or
    section in the scope, only the sentences inside are returned: one part, or several if other text
    lies between them.
    """
    chunk, document, position = found.chunk, found.document, scope.position
    parent = chunk.figure.parent if chunk.figure else None
    if not admits(scope.documents, document.number):
        return []
    if position is None:
        title, revision = document.title, document.revision
        identity, parent_identity = chunk.chunk_id, parent_id(found, scope) if parent else None
    elif document.revision != scope.revision or chunk.reach > position or chunk.last_sid > position:
        return []
    else:
        title, revision = document.declared_title or document.name, None
        identity = visible_chunk_id(scope, document.number, chunk)
        parent_identity = visible_chunk_id(scope, document.number, parent) if parent else None
    # As `NamedPlace.of` does.
    chapter = chunk.chapter or title
    section = chunk.section or chapter
    whole = copy_fields(
        Visible,
        labels_of(scope.world, document, for_reader=position is not None),
        chunk,
        found,
        chunk_id=identity,
        document=document.number,
        source=document.name,
        title=title,
        revision=revision,
        chapter=chapter,
        section=section,
        compared_language=found.language,
        parent_id=parent_identity,
    )
    if not scope.names_place:
        return [whole]
    if chunk.kind is ChunkKind.FIGURE:
        return [whole] if scope.covers(NamedPlace(chapter, section)) else []
    return _trim(whole, chunk.sentences, scope)


def language_of_passage(part: Visible, *, contract: bool) -> str | None:
    """Return the language of a passage's text, if it differs from that of its document.

    A search by similarity compares no words, so its passages come without a language. In a world
    with the contract's defaults they stay without.
    """
    document, found = part.language, part.compared_language
    if found is None and document is not None and not contract:
        from truespan.retrieval.chunk_language import find_language_again

        found = find_language_again(part.text, document)
    return None if found == document else found


def labels_of(world: WorldId, document: DocumentLabel, *, for_reader: bool) -> SourceLabels:
    """Return the labels of a document for results."""
    return SourceLabels(
        source_url=document.source_url or document.path,
        address=f"truespan://{world}/{document.number}",
        path=document.path,
        language=None if for_reader and not document.language_declared else document.language,
        version=document.version,
        tags=document.tags,
        metadata=None if for_reader else document.metadata,
    )


def _trim(whole: Visible, sentences: Sequence[PlacedSentence], scope: Scope) -> list[Visible]:
    """Return the runs of sentences of a chunk that are in the scope's chapter and section."""
    parts: list[Visible] = []
    named = ((NamedPlace.of(sentence.place, whole.title), sentence) for sentence in sentences)
    for inside, group in groupby(named, key=lambda pair: scope.covers(pair[0])):
        if not inside:
            continue
        names, run = zip(*group, strict=True)
        part = replace(whole, chapter=names[0].chapter, section=names[0].section)
        if len(run) < len(sentences):
            text = whole.text[run[0].start - whole.start : run[-1].end - whole.start]
            part = replace(
                cut(whole, run, text),
                # The first sentence may have begun on an earlier page than the chunk.
                page=whole.page if run[0].sid == whole.first_sid else run[0].page,
                location=_locate(whole, run),
                embedded_hash=whole.text_hash,
            )
        parts.append(part)
    return parts


def cut(whole: Visible, sentences: Sequence[PlacedSentence], text: str) -> Visible:
    """Return consecutive sentences of a passage with their text as a separate passage."""
    first, last = sentences[0], sentences[-1]
    names = NamedPlace.of(first.place, whole.title)
    return replace(
        whole,
        start=first.start,
        end=last.end,
        first_sid=first.sid,
        last_sid=last.sid,
        chapter=names.chapter,
        section=names.section,
        text=text,
        text_hash=hash_text(text),
        tokens=sum(sentence.tokens for sentence in sentences),
        page=first.page,
        location=locate_sentences(sentences),
        sentence_ends=b"",
    )


def _locate(whole: Visible, run: Sequence[PlacedSentence]) -> str | None:
    first, *others = run
    if first.sid == whole.first_sid and whole.page is not None:
        first = replace(first, page_start=PageStart(first.start, whole.page))
    return locate_sentences([first, *others])


def parent_id(found: Verified, scope: Scope) -> ChunkId | None:
    """Return the id of the text chunk that a figure belongs to."""
    figure, document = found.chunk.figure, found.document
    if figure is None or figure.parent is None:
        return None
    number = scope.generation.number
    return chunk_id(scope.world, number, document.number, document.revision, figure.parent.index)


def visible_chunk_id(
    scope: Scope, document: int, chunk: StoredChunk | ParentChunk | TailChunk
) -> ChunkId:
    """Return the id of a chunk for a reader, derived only from its visible part."""
    return reader_chunk_id(
        scope.world,
        scope.generation.number,
        document,
        chunk.first_sid,
        chunk.last_sid,
        chunk.start,
        chunk.text_hash,
    )


def rank(found: Sequence[Verified], k: int) -> list[Verified]:
    """Return the best `k`: by score at six decimals, then document number, then chunk index.

    In a fused search the blend comes before the score, and chunks without a blend follow.
    """
    return sorted(found, key=lambda part: _order(part, part.document.number, part.chunk.index))[:k]


class Best(Struct, frozen=True):
    """The best chunks, the number of further chunks needed, and the score where choosing ended.

    `last` is None if there was nothing left to choose from. `copies` are the chunks with the text
    of one of the best, by the id of that one.
    """

    found: list[Verified]
    missing: int
    last: float | None
    copies: dict[ChunkId, list[Verified]] = field(default_factory=dict)


def choose_best(
    found: Sequence[Verified],
    k: int,
    *,
    is_boilerplate: Callable[[str], bool] | None = None,
    merged_in: Scope | None = None,
) -> Best:
    """Return the best `k` by rank; boilerplate, if there is a test for it, only if others lack.

    The search for other text ends after `MAX_BOILERPLATE` chunks of boilerplate. With `merged_in`,
    chunks whose text visible in that scope is equal count as one.
    """
    others: list[Verified] = []
    boilerplate: list[Verified] = []
    texts, copies = EqualTexts[ChunkId](), dict[ChunkId, list[Verified]]()
    last: float | None = None
    for part in rank(found, len(found)):
        is_full = len(others) == k or len(boilerplate) == MAX_BOILERPLATE
        score, own = round(part.score, SCORE_DECIMALS), part.chunk.chunk_id
        # Copies of the last one have its score.
        if is_full and (merged_in is None or score != last):
            break
        if merged_in is not None and part.chunk.kind is ChunkKind.TEXT:
            text = part.text
            if merged_in.names_place:
                text = " ".join(visible.text for visible in reveal(part, merged_in))
            known = texts.add(text, own)
            if known != own:
                copies.setdefault(known, []).append(part)
                continue
        if not is_full:
            (boilerplate if is_boilerplate and is_boilerplate(part.text) else others).append(part)
            last = score
    if len(others) == k:
        return Best(others, 0, others[-1].score if others else None, copies)
    is_over = len(boilerplate) == MAX_BOILERPLATE
    missing, end = (0, boilerplate[-1].score) if is_over else (k - len(others), None)
    return Best([*others, *boilerplate][:k], missing, end, copies)


def put_boilerplate_last(
    ranked: Sequence[Visible], is_boilerplate: Callable[[str], bool]
) -> list[Visible]:
    """Return chunks in their order, boilerplate after the others."""
    return sorted(ranked, key=lambda part: is_boilerplate(part.text))


def drop_boilerplate(
    ranked: Sequence[Visible], is_boilerplate: Callable[[str], bool]
) -> list[Visible]:
    """Return ranked chunks without boilerplate; all of them if there is nothing else."""
    return [part for part in ranked if not is_boilerplate(part.text)] or list(ranked)


def rank_visible(found: Iterable[Visible]) -> list[Visible]:
    """Return visible chunks in the order of `rank`."""
    return sorted(found, key=lambda part: _order(part, part.document, part.index))


def _order(found: Verified | Visible, document: int, index: int) -> tuple[bool, float, int, int]:
    fused = found.fused
    blend = None if fused is None else fused.blend
    score = found.score if blend is None else blend
    return (fused is not None and blend is None, -round(score, SCORE_DECIMALS), document, index)


def complete_until(hits: Sequence[Hit], wanted: int, *, exhausted: bool) -> int | None:
    """Return the number of hits that contain the `wanted` best, ties included.

    None if the list ends between equal scores and the index has more: the choice of the index among
    equal scores must not decide the result.
    """
    if len(hits) <= wanted:
        return len(hits) if exhausted else None
    last = round(hits[wanted - 1].score, SCORE_DECIMALS)
    for place in range(wanted, len(hits)):
        if round(hits[place].score, SCORE_DECIMALS) < last:
            return place
    return len(hits) if exhausted else None


class Selection(Protocol):
    """A choice from chunks. `missing` is the minimum number of further chunks that it needs."""

    @property
    def missing(self) -> int: ...


SelectionT = TypeVar("SelectionT", bound=Selection)
Select: TypeAlias = Callable[[list[Verified]], SelectionT]
"""Chooses from all chunks that were verified so far."""


class Fetched(Struct, frozen=True):
    """Verified hits, and the hits that failed verification."""

    verified: list[Verified] = field(default_factory=list)
    failures: list[VerificationFailure] = field(default_factory=list)
    changes: int | None = None
    """Change count of the world, if it came with the last read of the store."""
    notices: tuple[Notice, ...] = ()
    """Notices about the words of the query: none occur, or similar ones were searched for."""
    seen: int | None = None
    """Number of points in the index at or above the floor, if fewer than wanted."""
    unreturned: int = 0
    """Number of chunks named by the words of the query that the index did not return."""
    words: WordQuery | None = None
    """Words that chunks were compared with; None in a search by similarity alone."""

    def down_to(self, last: float | None) -> Fetched:
        """Return the hits that score at least as much as the last result; all if it is None.

        The number of hits beyond the last result depends on what was skipped, including hits of
        inactive revisions. The caller must not learn about those.
        """
        if last is None:
            return self
        least = round(last, SCORE_DECIMALS)
        return Fetched(
            [found for found in self.verified if round(found.score, SCORE_DECIMALS) >= least],
            [failed for failed in self.failures if round(failed.score, SCORE_DECIMALS) >= least],
        )

    def skipped(self) -> tuple[Skipped, ...]:
        if not self.failures:
            return ()
        counts = Counter(failed.kind.value for failed in self.failures)
        return tuple(Skipped(code, count) for code, count in sorted(counts.items()))


class HitPager:
    """The best hits of one query to the index, extended when more are needed."""

    def __init__(
        self,
        index: VectorIndex,
        scope: Scope,
        vector: Vector,
        floor: float | None,
        *,
        limit: int,
        first: Callable[[int], list[Hit]] | None = None,
    ) -> None:
        """Query the index; `first` replaces the first query, not the following ones."""
        self._query = lambda limit: index.search(scope, vector, limit=limit, floor=floor)
        self._floor = floor
        self._limit = limit
        found = (first or self._query)(limit)
        self.hits = drop_invalid_hits(found, floor)
        self.exhausted = len(found) < limit

    def extend(self, wanted: int) -> None:
        """Query again for at least twice as many hits as before."""
        self._limit = max(self._limit * 2, wanted + SLACK)
        before, found = len(self.hits), self._query(self._limit)
        self.hits = drop_invalid_hits(found, self._floor)
        # An index that pads its replies must not cause endless queries: no new hit ends them.
        self.exhausted = len(found) < self._limit or len(self.hits) == before


def start_hits(
    index: VectorIndex, scope: Scope, vector: Vector, floor: float | None, *, limit: int
) -> Callable[[], HitPager]:
    """Query the index, and return a function that waits for its hits."""
    wait = index.start_search(scope, vector, limit=limit, floor=floor)
    return lambda: HitPager(index, scope, vector, floor, limit=limit, first=lambda _: wait())


def drop_invalid_hits(found: Sequence[Hit], floor: float | None) -> list[Hit]:
    """Drop hits below the floor, with a NaN score or a repeated id; return the others by score.

    The query asked for exactly this, but the index may be wrong.
    """
    least = -1.0 - 1e-5 if floor is None else float32(floor)
    unique: dict[ChunkId, Hit] = {}
    for hit in found:
        # Rounding to single precision can only lift a lower score to the floor.
        if hit.score >= least or float32(hit.score) >= least:
            unique.setdefault(hit.chunk_id, hit)
    return sorted(unique.values(), key=lambda hit: -hit.score)


def read_chunks(
    deps: RetrievalDeps, scope: Scope, ids: Sequence[ChunkId], *, word_states: bool = False
) -> dict[ChunkId, ChunkRecord]:
    """Return the stored records of chunks.

    A sentence of which a chunk has only a part is cut to that part. For a reader, vectors are read
    as well, since they decide the order.
    """
    store, records = deps.store, dict[ChunkId, ChunkRecord]()
    if ids and scope.position is not None:
        return store.chunks.read(scope, ids, vectors=True)
    if ids:
        records = store.chunks.read(scope, ids, word_states=word_states)
    for known, record in records.items():
        if (chunk := record.chunk) is not None and chunk.sentences:
            sentences = tuple(_cut(deps, chunk, sentence) for sentence in chunk.sentences)
            records[known] = replace(record, chunk=replace(chunk, sentences=sentences))
    return records


def _cut(deps: RetrievalDeps, chunk: StoredChunk, sentence: PlacedSentence) -> PlacedSentence:
    start, end = max(sentence.start, chunk.start), min(sentence.end, chunk.end)
    if (start, end) == (sentence.start, sentence.end):
        return sentence
    # The text is not verified yet. If it is damaged, the chunk is dropped later.
    text = chunk.data.decode(errors="replace")[start - chunk.start : end - chunk.start]
    return replace(sentence, start=start, end=end, tokens=deps.counter.count(text))


def fetch_by_similarity(
    deps: RetrievalDeps,
    scope: Scope,
    vector: Vector,
    *,
    k: int,
    floor: float | None,
    select: Select[SelectionT],
) -> tuple[Fetched, SelectionT]:
    """Fetch and verify the hits closest to a vector until `select` has enough of them."""
    with deps.trace.stage(Stage.HITS):
        pager = HitPager(deps.index, scope, vector, floor, limit=k + SLACK)
    return fetch_pages(deps, scope, pager, k=k, select=select)


def fetch_pages(
    deps: RetrievalDeps, scope: Scope, pager: HitPager, *, k: int, select: Select[SelectionT]
) -> tuple[Fetched, SelectionT]:
    """Verify the hits of a pager, with ties at the end, until `select` has enough of them.

    Each row is read once. The selection is of all chunks that are returned.
    """
    records, wanted, changes = dict[ChunkId, ChunkRecord](), k, None
    while True:
        hits = pager.hits
        length = complete_until(hits, wanted, exhausted=pager.exhausted)
        if length is None:
            with deps.trace.stage(Stage.HITS):
                pager.extend(wanted)
            continue
        with deps.trace.stage(Stage.VERIFIED):
            unread = [hit.chunk_id for hit in hits[:length] if hit.chunk_id not in records]
            if unread:
                read = read_chunks(deps, scope, unread)
                records.update(read)
                changes = next((record.changes for record in read.values()), None)
            outcome = limit_to_scope(verify(hits[:length], records), records, scope)
        with deps.trace.stage(Stage.ENOUGH):
            selected = select(outcome.verified)
        if selected.missing <= 0 or (pager.exhausted and length == len(hits)):
            # The tail may make up the number of a reader's results.
            few = pager.exhausted and (selected.missing > 0 or scope.position is not None)
            seen = len(hits) if few else None
            return Fetched(outcome.verified, outcome.failures, changes, seen=seen), selected
        wanted = length + selected.missing
