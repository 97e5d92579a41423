"""Chunk rows written again from what PostgreSQL holds beside them."""

from __future__ import annotations

from array import array
from typing import Final, LiteralString, NamedTuple

from truespan.adapters.postgres_store.connection import Row, Session, fetch
from truespan.types.chunk import ChunkKind
from truespan.types.ids import ChunkId, hash_bytes

_PLACE: Final = """SELECT chapter, section FROM places WHERE revision = %s AND start <= %s
    ORDER BY start DESC LIMIT 1"""
_PAGE: Final = """SELECT page FROM pages WHERE revision = %s AND start <= %s
    ORDER BY start DESC LIMIT 1"""


class _State(NamedTuple):
    revision: int
    generation: int
    position: int
    kind: str
    context: int
    start: int
    finish: int
    recorded: str
    data: bytes | None
    data_hash: str


class _Content(NamedTuple):
    text: bytes
    overlap: bytes
    figure: str | None


def rebuild(session: Session, chunk_id: ChunkId) -> bool | None:
    """Write a chunk row again from canonical text, or from the figure it describes.

    False when that does not give the recorded hash, None when there is no such chunk.
    """
    found = _found(session, chunk_id)
    if found is None:
        return None
    state, content = found
    if content is None:
        return False
    _write(session, state, content)
    return True


def restorable(session: Session, chunk_id: ChunkId) -> bool:
    """Say whether `rebuild` would write the row again; nothing is changed."""
    found = _found(session, chunk_id)
    return found is not None and found[1] is not None


def _found(session: Session, chunk_id: ChunkId) -> tuple[_State, _Content | None] | None:
    """Return a chunk's state, and its content where that can be had with the recorded hash."""
    rows = fetch(
        session,
        """SELECT s.revision, s.generation, s.position, s.kind, s.context_start, s.start, s.finish,
             s.text_hash, t.text, r.text_hash
           FROM states s JOIN revisions r ON r.key = s.revision
           LEFT JOIN texts t ON t.revision = r.key WHERE s.chunk_id = %s""",
        (chunk_id,),
    )
    if not rows:
        return None
    state = _State(*rows[0])
    content = _figure(session, state) if state.kind == ChunkKind.FIGURE else _passage(state)
    if content is None or hash_bytes(content.text) != state.recorded:
        return state, None
    return state, content


def _passage(state: _State) -> _Content | None:
    if state.data is None or hash_bytes(state.data) != state.data_hash:
        return None
    source = state.data.decode()
    passage, before = source[state.start : state.finish], source[state.context : state.start]
    return _Content(passage.encode(), before.encode(), None)


def _figure(session: Session, state: _State) -> _Content | None:
    """Return the description of a figure; its chunk is as far among the figures as its record."""
    rows = fetch(
        session,
        """SELECT description, mark FROM figures WHERE revision = %(revision)s ORDER BY number
           LIMIT 1 OFFSET %(position)s - (SELECT min(position) FROM states
             WHERE revision = %(revision)s AND generation = %(generation)s AND kind = 'figure')""",
        state._asdict(),
    )
    return _Content(rows[0][0], b"", rows[0][1]) if rows else None


def _write(session: Session, state: _State, content: _Content) -> None:
    ends = fetch(
        session,
        """SELECT least(finish, %(finish)s) - %(start)s FROM sentences
           WHERE revision = %(revision)s AND finish > %(start)s AND start < %(finish)s
           ORDER BY sid""",
        state._asdict(),
    )
    place = _nearest(session, _PLACE, state) or (None, None)
    page = _nearest(session, _PAGE, state) or (None,)
    session.execute(
        """INSERT INTO chunks (revision, generation, position, text, text_hash, overlap_text,
             sentence_ends, chapter, section, page, figure)
           VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
           ON CONFLICT (world_id, revision, generation, position) DO UPDATE SET
             text = excluded.text, text_hash = excluded.text_hash,
             overlap_text = excluded.overlap_text, sentence_ends = excluded.sentence_ends,
             chapter = excluded.chapter, section = excluded.section, page = excluded.page,
             figure = excluded.figure""",
        (
            state.revision,
            state.generation,
            state.position,
            content.text,
            state.recorded,
            content.overlap,
            array("I", [end for (end,) in ends]).tobytes(),
            *place,
            *page,
            content.figure,
        ),
    )


def _nearest(session: Session, sql: LiteralString, state: _State) -> Row | None:
    """Return what the last entry at or before a chunk's start says."""
    rows = fetch(session, sql, (state.revision, state.start))
    return rows[0] if rows else None
