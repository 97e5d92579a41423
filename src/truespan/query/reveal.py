"""From a verified chunk to what this caller may see of it."""

from __future__ import annotations

from truespan.model.ids import ChunkId, TextHash, reader_chunk_id
from truespan.model.scope import Scope
from truespan.model.trail import Verified, Visible


def reveal(found: Verified, scope: Scope) -> Visible | None:
    """Return a chunk as the scope allows it to be seen; None when it must not be.

    The index was asked for chunks that nothing unread decided. That is an economy, not the
    guarantee: the index may be wrong, so the stored reach and the last sentence are held against
    the position once more. A chunk that straddles it is dropped whole; the tail stands for it.
    """
    chunk, document = found.chunk, found.document
    position = scope.position
    if position is None:
        title, identity, revision = document.title, chunk.chunk_id, document.revision
    elif chunk.reach > position or chunk.last_sid > position:
        return None
    else:
        title, revision = document.declared_title or document.name, None
        identity = seen_as(
            scope, document.number, chunk.first_sid, chunk.last_sid, chunk.start, chunk.text_hash
        )
    chapter = chunk.chapter or title
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
        section=chunk.section or chapter,
        kind=chunk.kind,
        text=found.text,
        text_hash=chunk.text_hash,
        tokens=chunk.tokens,
        score=found.score,
    )


def seen_as(
    scope: Scope, document: int, first: int, last: int, start: int, text_hash: TextHash
) -> ChunkId:
    """Return the id of a chunk for a reader: made of what is visible of it, and nothing else."""
    return reader_chunk_id(
        scope.world, scope.generation.number, document, first, last, start, text_hash
    )
