"""Chunks of a revision for another generation, in SQLite: what they are made of, and their rows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence

import apsw

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.staging import revision_key, write_chunks
from truespan.adapters.sqlite_store.worlds import touch_world, world_key
from truespan.adapters.stored_rows import figure_mark
from truespan.errors import StoreDamaged
from truespan.types.chunk import ChunkKind, NewChunk
from truespan.types.document import RevisionRef, StoredText
from truespan.types.ids import TextHash, hash_bytes
from truespan.types.profile import STANDARD_CHUNKING, read_chunking
from truespan.types.scope import Scope, Unlimited
from truespan.types.text import PageStart, Place, Sentence

_FIGURES = """
    SELECT s.position, s.start, s.finish, s.first_sid, s.last_sid, s.reach, CAST(c.text AS BLOB),
      s.text_hash, c.overlap_text, s.tokens, c.sentence_ends, c.chapter, c.section, c.page, c.figure
    FROM states s JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    WHERE s.revision = ?1 AND s.kind = 'figure' AND s.generation =
      (SELECT min(generation) FROM tallies WHERE revision = ?1)
    ORDER BY s.position
"""

_UNCUT = """
    SELECT d.number, r.number FROM documents d
    JOIN revisions r ON r.document = d.key AND r.state IN ('active', 'staged')
    WHERE d.world = (SELECT key FROM worlds WHERE id = ?) AND d.deleted_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM tallies t WHERE t.revision = r.key AND t.generation = ?)
"""
_AMONG = " AND d.number IN (SELECT value FROM json_each(?))"


class SqliteRecutting:
    """The part of the store that gives a generation its own chunks of what is there."""

    _connections: Connections

    def uncut(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions, staged or in force, that the generation has no chunks of."""
        asked, bound = _UNCUT, [scope.world, scope.generation.number]
        if not isinstance(scope.documents, Unlimited):
            asked, bound = asked + _AMONG, [*bound, json.dumps([*scope.documents])]
        rows = self._connections.query(f"{asked} ORDER BY 1, 2", tuple(bound))
        return [RevisionRef(*row) for row in rows]

    def recuttable(self, scope: Scope, revision: RevisionRef) -> StoredText | None:
        """Return all that chunks are made of; None when the revision is gone."""
        with self._connections.reading() as connection:
            key = revision_key(connection, world_key(connection, scope), revision)
            rows = fetch(
                connection,
                """SELECT CAST(t.text AS BLOB), r.text_hash, r.chunking, r.chunking_profile
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = ?""",
                (key,),
            )
            if not rows:
                return None
            data, recorded, name, profile = rows[0]
            if hash_bytes(data) != recorded:
                raise StoreDamaged(f"The text of document {revision.document} is damaged.")
            places = fetch(
                connection,
                "SELECT start, chapter, section FROM places WHERE revision = ? ORDER BY start",
                (key,),
            )
            pages = fetch(
                connection,
                "SELECT start, page FROM pages WHERE revision = ? ORDER BY start",
                (key,),
            )
            sentences = fetch(
                connection,
                "SELECT sid, start, finish FROM sentences WHERE revision = ? ORDER BY sid",
                (key,),
            )
            figures = fetch(connection, _FIGURES, (key,))
        return StoredText(
            text=data.decode(),
            starts=tuple(row[0] for row in places),
            places=tuple(Place(*row[1:]) for row in places),
            pages=tuple(PageStart(*row) for row in pages),
            sentences=tuple(Sentence(*row) for row in sentences),
            chunking=read_chunking(profile) if profile else STANDARD_CHUNKING[name],
            figures=tuple(_figure(row) for row in figures),
        )

    def write_chunks(self, scope: Scope, revision: RevisionRef, chunks: Sequence[NewChunk]) -> bool:
        """Give the scope's generation its chunks of a revision, unless it has them."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            key = _unretired(connection, world, revision)
            if key is None or not is_kept(connection, world, scope.generation.number):
                return False
            there = fetch(
                connection,
                "SELECT 1 FROM tallies WHERE revision = ? AND generation = ?",
                (key, scope.generation.number),
            )
            if not there:
                write_chunks(connection, scope, world, chunks, revision, key)
                touch_world(connection, world)
        return True


def is_kept(connection: apsw.Connection, world: int, generation: int) -> bool:
    """Say whether a generation is there and not being removed."""
    return bool(
        fetch(
            connection,
            "SELECT 1 FROM generations WHERE world = ? AND number = ? AND removed_at IS NULL",
            (world, generation),
        )
    )


def _unretired(connection: apsw.Connection, world: int, revision: RevisionRef) -> int | None:
    for state in ("active", "staged"):
        key = revision_key(connection, world, revision, state=state)
        if key is not None:
            return key
    return None


def _figure(row: tuple) -> NewChunk:
    index, start, end, first, last, reach, data, text_hash, overlap, tokens = row[:10]
    ends, chapter, section, page, figure = row[10:]
    if hash_bytes(data) != text_hash:
        raise StoreDamaged("The description of a figure does not match its hash.")
    return NewChunk(
        index=index,
        start=start,
        end=end,
        first_sid=first,
        last_sid=last,
        reach=reach,
        text=data.decode(),
        text_hash=TextHash(text_hash),
        overlap_text=overlap,
        tokens=tokens,
        sentence_ends=list(array("I", ends)),
        chapter=chapter,
        section=section,
        kind=ChunkKind.FIGURE,
        page=page,
        figure=figure_mark(figure) if figure else None,
    )
