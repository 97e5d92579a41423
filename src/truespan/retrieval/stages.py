"""From a verified chunk to what this caller may see of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from truespan.retrieval.query_vector import SCORE_DECIMALS
from truespan.types.chunk import ChunkRecord, ChunkState
from truespan.types.ids import ChunkId, TextHash, chunk_id, reader_chunk_id
from truespan.types.scope import Scope, admits
from truespan.types.trust import FlawKind, Hit, VerificationFailure, Verified, Visible


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a list of hits: shown, broken, or merely not in force."""

    verified: list[Verified]
    flaws: list[VerificationFailure]
    superseded: int


def verify(hits: Sequence[Hit], records: Mapping[ChunkId, ChunkRecord]) -> Verdict:
    """Keep the hits whose stored bytes are, right now, the bytes that were embedded.

    The records were read through the scope, so a hit from elsewhere has none and counts as an
    orphan here, whoever it belongs to.
    """
    verified: list[Verified] = []
    flaws: list[VerificationFailure] = []
    superseded = 0
    for hit in hits:
        record = records.get(hit.chunk_id)
        if record is not None and not record.live:
            # Staged, replaced or deleted: the normal life of a document, not damage.
            superseded += 1
            continue
        outcome = _verify(hit, record)
        if isinstance(outcome, Verified):
            verified.append(outcome)
        else:
            flaws.append(outcome)
    return Verdict(verified, flaws, superseded)


def _verify(hit: Hit, record: ChunkRecord | None) -> Verified | VerificationFailure:
    if record is None:
        return _flaw(FlawKind.ORPHAN, hit)
    if record.state is ChunkState.QUARANTINED:
        return _flaw(FlawKind.QUARANTINED, hit)
    chunk = record.chunk
    if chunk is None:
        return _flaw(FlawKind.MISSING, hit)
    # 1. The bytes against the hash beside them and the one in the state row: is the store intact?
    if not record.is_intact():
        return _flaw(FlawKind.DAMAGED, hit, chunk.text_hash)
    # 2. That hash against the point's: is this the text whose vector was found?
    if chunk.text_hash != hit.text_hash:
        return _flaw(FlawKind.STALE, hit, chunk.text_hash)
    # The very bytes that were hashed are decoded and shown; nothing is read a second time.
    return Verified(chunk, record.document, chunk.data.decode(), hit.score)


def _flaw(kind: FlawKind, hit: Hit, row_hash: TextHash | None = None) -> VerificationFailure:
    return VerificationFailure(kind, hit.chunk_id, hit.text_hash, row_hash, hit.score)


def reveal(found: Verified, scope: Scope) -> Visible | None:
    """Return a chunk as the scope allows it to be seen; None when it must not be.

    The index was asked for chunks in scope that nothing unread decided. That is an economy, not
    the guarantee: the index may be wrong, so document, chapter and section, the stored reach and
    the last sentence are looked at once more. A chunk that straddles the position is dropped
    whole; the tail stands for it.
    """
    chunk, document = found.chunk, found.document
    position = scope.position
    if not admits(scope.documents, document.number):
        return None
    if position is None:
        title, identity, revision = document.title, chunk.chunk_id, document.revision
        parent = parent_id(found, scope)
    elif document.revision != scope.revision or chunk.reach > position or chunk.last_sid > position:
        return None
    else:
        title, revision = document.declared_title or document.name, None
        identity = visible_chunk_id(
            scope, document.number, chunk.first_sid, chunk.last_sid, chunk.start, chunk.text_hash
        )
        parent = _parent_seen_as(found, scope)
    chapter = chunk.chapter or title
    section = chunk.section or chapter
    if not _is_placed(chapter, section, scope):
        return None
    return Visible(
        chunk_id=identity,
        document=document.number,
        source=document.name,
        title=title,
        revision=revision,
        index=chunk.index,
        start=chunk.start,
        end=chunk.end,
        first_sid=chunk.first_sid,
        last_sid=chunk.last_sid,
        chapter=chapter,
        section=section,
        kind=chunk.kind,
        text=found.text,
        text_hash=chunk.text_hash,
        tokens=chunk.tokens,
        score=found.score,
        page=chunk.page,
        figure=chunk.figure,
        parent_id=parent,
        fused=found.fused,
    )


def parent_id(found: Verified, scope: Scope) -> ChunkId | None:
    """Return the id of the text chunk that a figure stands in."""
    figure = found.chunk.figure
    if figure is None or figure.parent is None:
        return None
    document = found.document
    number = scope.generation.number
    return chunk_id(scope.world, number, document.number, document.revision, figure.parent.index)


def _parent_seen_as(found: Verified, scope: Scope) -> ChunkId | None:
    figure = found.chunk.figure
    if figure is None or figure.parent is None:
        return None
    parent = figure.parent
    return visible_chunk_id(
        scope,
        found.document.number,
        parent.first_sid,
        parent.last_sid,
        parent.start,
        parent.text_hash,
    )


def _is_placed(chapter: str, section: str, scope: Scope) -> bool:
    return scope.chapter in (None, chapter.casefold()) and scope.section in (
        None,
        section.casefold(),
    )


def visible_chunk_id(
    scope: Scope, document: int, first: int, last: int, start: int, text_hash: TextHash
) -> ChunkId:
    """Return the id of a chunk for a reader: made of what is visible of it, and nothing else."""
    return reader_chunk_id(
        scope.world, scope.generation.number, document, first, last, start, text_hash
    )


def rank(found: Sequence[Verified], k: int) -> list[Verified]:
    """Return the best `k`: by score at six decimals, then document number, then chunk index.

    Where words counted as well, their blend with the score comes first; chunks that were not
    blended follow.
    """
    return sorted(found, key=lambda one: _order(one, one.document.number, one.chunk.index))[:k]


def rank_visible(found: Iterable[Visible]) -> list[Visible]:
    """Return visible chunks in the same order."""
    return sorted(found, key=lambda one: _order(one, one.document, one.index))


def _order(found: Verified | Visible, document: int, index: int) -> tuple[bool, float, int, int]:
    fused = found.fused
    blend = None if fused is None else fused.blend
    score = found.score if blend is None else blend
    return (fused is not None and blend is None, -round(score, SCORE_DECIMALS), document, index)


def complete_until(hits: Sequence[Hit], wanted: int, *, exhausted: bool) -> int | None:
    """Return how many hits to look at so that the `wanted` best are among them, ties included.

    None when the list ends amid equal scores and the index has more: which of them it happened to
    return would then decide the result.
    """
    if len(hits) <= wanted:
        return len(hits) if exhausted else None
    last = round(hits[wanted - 1].score, SCORE_DECIMALS)
    for place in range(wanted, len(hits)):
        if round(hits[place].score, SCORE_DECIMALS) < last:
            return place
    return len(hits) if exhausted else None
