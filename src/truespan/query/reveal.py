"""From a verified chunk to what this caller may see of it."""

from __future__ import annotations

from truespan.model.ids import ChunkId, TextHash, chunk_id, reader_chunk_id
from truespan.model.scope import Scope, admits
from truespan.model.trail import Verified, Visible


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
        identity = seen_as(
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
    return seen_as(
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


def seen_as(
    scope: Scope, document: int, first: int, last: int, start: int, text_hash: TextHash
) -> ChunkId:
    """Return the id of a chunk for a reader: made of what is visible of it, and nothing else."""
    return reader_chunk_id(
        scope.world, scope.generation.number, document, first, last, start, text_hash
    )
