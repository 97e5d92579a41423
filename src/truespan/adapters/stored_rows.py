"""How stores spell what they keep, whatever engine they keep it in: figures, tags, tokens."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from truespan.errors import StoreDamaged
from truespan.types.chunk import ChunkKind, FigureMark, PendingChunk, Vector
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.profile import Distance, EmbeddingProfile, read_chunking
from truespan.types.scope import UNLIMITED, Generation, Unlimited, Verb
from truespan.types.token import TokenRecord

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


def generation_of(number: int, profile: str, chunking: str | None) -> Generation:
    """Return a generation as its row spells it."""
    return Generation(number, _profile(profile), read_chunking(chunking) if chunking else None)


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
    """Return what the index should hold, from a row as both stores select it for that."""
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


def names_text(names: frozenset[Any] | Unlimited) -> str:
    """Return names as the text that is stored; that there is no limit stands beside it."""
    return msgspec.json.encode([] if isinstance(names, Unlimited) else sorted(names)).decode()


def token_record(row: tuple[Any, ...]) -> TokenRecord:
    """Return a token's row as a record; a damaged one gives nobody any right."""
    _, token, name, every_world, verbs, every_reader, readers, created, expires, revoked, worlds = (
        row
    )
    try:
        return TokenRecord(
            token,
            name,
            UNLIMITED if every_world else frozenset(_names(worlds, WorldId)),
            frozenset(_names(verbs, Verb)),
            UNLIMITED if every_reader else frozenset(_names(readers, str)),
            created,
            expires,
            revoked,
        )
    except ValueError:
        raise StoreDamaged("A token of the library is damaged.") from None


def _names(spelled: str, kind: Any) -> list[Any]:
    return [kind(name) for name in msgspec.json.decode(spelled, type=list[str])]
