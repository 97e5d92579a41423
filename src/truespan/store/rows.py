"""How rows spell records: figures, tags, profiles, tokens."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from truespan.types.chunk import ChunkKind, FigureMark, PendingChunk, Vector
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import Distance, EmbeddingProfile, chunking_from_json
from truespan.types.scope import Generation

_profiles: dict[str, EmbeddingProfile] = {}


def figure_text(mark: FigureMark) -> str:
    """Return a mark as the text that is stored."""
    return msgspec.json.encode(mark).decode()


def figure_mark(stored: str) -> FigureMark:
    """Return the mark that stored text spells."""
    return msgspec.json.decode(stored, type=FigureMark)


def tags_of(stored: str) -> tuple[str, ...]:
    """Return the tags that a row spells."""
    return () if stored == "[]" else tuple(json.loads(stored))


def read_generation(number: int, profile: str, chunking: str | None) -> Generation:
    """Return a generation as its row spells it."""
    return Generation(number, _profile(profile), chunking_from_json(chunking) if chunking else None)


def _profile(stored: str) -> EmbeddingProfile:
    """Return the profile spelled by `stored`; the text is read from the store every time, but equal
    text need not be parsed twice."""
    known = _profiles.get(stored)
    if known is None:
        fields = json.loads(stored)
        known = EmbeddingProfile(**{**fields, "distance": Distance(fields["distance"])})
        _profiles[stored] = known
    return known


def pending_chunk(row: tuple[Any, ...]) -> PendingChunk:
    """Return what the index should hold of a chunk, from a row of `POINTS`."""
    chunk, document, revision, index, text_hash, vector = row[:6]
    first, last, reach, kind, title, chapter, section, _, data = row[6:]
    return PendingChunk(
        chunk_id=ChunkId(chunk),
        document=document,
        revision=revision,
        index=index,
        text_hash=TextHash(text_hash),
        text="" if data is None else data.decode(),
        vector=None if vector is None else Vector(vector),
        first_sid=first,
        last_sid=last,
        reach=reach,
        kind=ChunkKind(kind),
        chapter=chapter or title,
        section=section or chapter or title,
    )
