"""From what the index claims to what the store confirms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from truespan.model.chunk import ChunkRecord, ChunkState
from truespan.model.ids import ChunkId, TextHash, hash_bytes
from truespan.model.trail import Flaw, FlawKind, Hit, Verified


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a list of hits: shown, broken, or merely not in force."""

    verified: list[Verified]
    flaws: list[Flaw]
    superseded: int


def verify(hits: Sequence[Hit], records: Mapping[ChunkId, ChunkRecord]) -> Verdict:
    """Keep the hits whose stored bytes are, right now, the bytes that were embedded.

    The records were read through the scope, so a hit from elsewhere has none and counts as an
    orphan here, whoever it belongs to.
    """
    verified: list[Verified] = []
    flaws: list[Flaw] = []
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


def _verify(hit: Hit, record: ChunkRecord | None) -> Verified | Flaw:
    if record is None:
        return _flaw(FlawKind.ORPHAN, hit)
    if record.state is ChunkState.QUARANTINED:
        return _flaw(FlawKind.QUARANTINED, hit)
    chunk = record.chunk
    if chunk is None:
        return _flaw(FlawKind.MISSING, hit)
    # 1. The bytes against the hash recorded with them: is the store itself intact?
    if hash_bytes(chunk.data) != chunk.text_hash:
        return _flaw(FlawKind.DAMAGED, hit, chunk.text_hash)
    # 2. That hash against the point's: is this the text whose vector was found?
    if chunk.text_hash != hit.text_hash:
        return _flaw(FlawKind.STALE, hit, chunk.text_hash)
    # The very bytes that were hashed are decoded and shown; nothing is read a second time.
    return Verified(chunk, record.document, chunk.data.decode(), hit.score)


def _flaw(kind: FlawKind, hit: Hit, row_hash: TextHash | None = None) -> Flaw:
    return Flaw(kind, hit.chunk_id, hit.text_hash, row_hash, hit.score)
