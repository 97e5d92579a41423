"""Chunk rows written again from what the store holds beside them."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import apsw

from truespan.adapters.sqlite_store.connection import fetch
from truespan.types.chunk import ChunkKind
from truespan.types.ids import ChunkId, hash_bytes


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
    text: str
    overlap: str
    figure: str | None


def rebuild(connection: apsw.Connection, world: int, chunk_id: ChunkId) -> bool | None:
    """Write a chunk row again from canonical text, or from the figure it describes.

    False when that does not give the recorded hash, None when there is no such chunk.
    """
    found = _found(connection, world, chunk_id)
    if found is None:
        return None
    state, content = found
    if content is None:
        return False
    _write(connection, state, content)
    return True


def restorable(connection: apsw.Connection, world: int, chunk_id: ChunkId) -> bool:
    """Say whether `rebuild` would write the row again; nothing is changed."""
    found = _found(connection, world, chunk_id)
    return found is not None and found[1] is not None


def _found(
    connection: apsw.Connection, world: int, chunk_id: ChunkId
) -> tuple[_State, _Content | None] | None:
    """Return a chunk's state, and its content where that can be had with the recorded hash."""
    rows = fetch(
        connection,
        """SELECT s.revision, s.generation, s.position, s.kind, s.context_start, s.start, s.finish,
             s.text_hash, CAST(t.text AS BLOB), r.text_hash
           FROM states s JOIN revisions r ON r.key = s.revision
           LEFT JOIN texts t ON t.revision = r.key
           WHERE s.chunk_id = ? AND s.world = ?""",
        (chunk_id, world),
    )
    if not rows:
        return None
    state = _State(*rows[0])
    content = _figure(connection, state) if state.kind == ChunkKind.FIGURE else _passage(state)
    if content is None or hash_bytes(content.text.encode()) != state.recorded:
        return state, None
    return state, content


def _passage(state: _State) -> _Content | None:
    if state.data is None or hash_bytes(state.data) != state.data_hash:
        return None
    source = state.data.decode()
    return _Content(source[state.start : state.finish], source[state.context : state.start], None)


def _figure(connection: apsw.Connection, state: _State) -> _Content | None:
    """Return the description of a figure; its chunk is as far among the figures as its record."""
    rows = fetch(
        connection,
        """SELECT description, mark FROM figures WHERE revision = ?1 ORDER BY number LIMIT 1
           OFFSET ?3 - (SELECT min(position) FROM states
             WHERE revision = ?1 AND generation = ?2 AND kind = 'figure')""",
        (state.revision, state.generation, state.position),
    )
    return _Content(rows[0][0], "", rows[0][1]) if rows else None


def _write(connection: apsw.Connection, state: _State, content: _Content) -> None:
    ends = fetch(
        connection,
        """SELECT min(finish, ?2) - ?1 FROM sentences
           WHERE revision = ?3 AND finish > ?1 AND start < ?2 ORDER BY sid""",
        (state.start, state.finish, state.revision),
    )
    dedupe_hash: Any = fetch(
        connection,
        "SELECT dedupe_hash FROM chunks WHERE revision = ? AND generation = ? AND position = ?",
        (state.revision, state.generation, state.position),
    )
    connection.execute(
        "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            state.revision,
            state.generation,
            state.position,
            content.text,
            state.recorded,
            content.overlap,
            array("I", [end for (end,) in ends]).tobytes(),
            *_nearest(connection, state, "chapter, section", "places", (None, None)),
            *_nearest(connection, state, "page", "pages", (None,)),
            content.figure,
            dedupe_hash[0][0] if dedupe_hash else None,
        ),
    )


def _nearest(
    connection: apsw.Connection, state: _State, columns: str, table: str, nowhere: tuple[None, ...]
) -> tuple[Any, ...]:
    """Return what the last entry at or before a chunk's start says."""
    rows = fetch(
        connection,
        f"""SELECT {columns} FROM {table} WHERE revision = ? AND start <= ?
            ORDER BY start DESC LIMIT 1""",  # noqa: S608 -- the names are written above
        (state.revision, state.start),
    )
    return rows[0] if rows else nowhere
