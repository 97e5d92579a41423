"""Chunks of a revision for another generation: what they are made of, and their rows."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from truespan.adapters.postgres_store.connection import (
    Connections,
    Row,
    Session,
    again_on_conflict,
    fetch,
)
from truespan.adapters.postgres_store.generations import is_kept
from truespan.adapters.postgres_store.staging import revision_key, write_chunks
from truespan.adapters.postgres_store.worlds import lock_world, require_world, touch_world
from truespan.adapters.stored_rows import figure_mark
from truespan.errors import StoreDamaged
from truespan.types.chunk import ChunkKind, NewChunk
from truespan.types.document import RevisionRef, StoredText
from truespan.types.ids import TextHash, hash_bytes
from truespan.types.profile import STANDARD_CHUNKING, read_chunking
from truespan.types.scope import Scope, Unlimited
from truespan.types.text import PageStart, Place, Sentence

_FIGURES: Final = """
    SELECT s.position, s.start, s.finish, s.first_sid, s.last_sid, s.reach, c.text,
      s.text_hash, c.overlap_text, s.tokens, c.sentence_ends, c.chapter, c.section, c.page, c.figure
    FROM states s JOIN chunks c
      ON c.revision = s.revision AND c.generation = s.generation AND c.position = s.position
    WHERE s.revision = %(revision)s AND s.kind = 'figure' AND s.generation =
      (SELECT min(generation) FROM tallies WHERE revision = %(revision)s)
    ORDER BY s.position
"""

_UNCUT: Final = """
    SELECT d.number, r.number FROM documents d
    JOIN revisions r ON r.document = d.key AND r.state IN ('active', 'staged')
    WHERE d.deleted_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM tallies t WHERE t.revision = r.key AND t.generation = %s)
"""
_AMONG: Final = "AND d.number = ANY(%s)"


class PostgresRecutting:
    """The part of the store that gives a generation its own chunks of what is there."""

    _connections: Connections

    def uncut(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions, staged or in force, that the generation has no chunks of."""
        generation = scope.generation.number
        if isinstance(scope.documents, Unlimited):
            rows = self._connections.query(scope.world, f"{_UNCUT} ORDER BY 1, 2", (generation,))
        else:
            bound = (generation, [*scope.documents])
            rows = self._connections.query(scope.world, f"{_UNCUT} {_AMONG} ORDER BY 1, 2", bound)
        return [RevisionRef(*row) for row in rows]

    def recuttable(self, scope: Scope, revision: RevisionRef) -> StoredText | None:
        """Return all that chunks are made of; None when the revision is gone."""
        with self._connections.reading(scope.world) as session:
            require_world(session, scope.world)
            key = revision_key(session, revision)
            rows = fetch(
                session,
                """SELECT t.text, r.text_hash, r.chunking, r.chunking_profile
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = %s""",
                (key,),
            )
            if key is None or not rows:
                return None
            if hash_bytes(rows[0][0]) != rows[0][1]:
                raise StoreDamaged(f"The text of document {revision.document} is damaged.")
            return _recuttable(session, key, *rows[0])

    @again_on_conflict
    def write_chunks(self, scope: Scope, revision: RevisionRef, chunks: Sequence[NewChunk]) -> bool:
        """Give the scope's generation its chunks of a revision, unless it has them."""
        generation = scope.generation.number
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            key = _unretired(session, revision)
            if key is None or not is_kept(session, generation):
                return False
            there = fetch(
                session,
                "SELECT 1 FROM tallies WHERE revision = %s AND generation = %s",
                (key, generation),
            )
            if not there:
                write_chunks(session, scope, chunks, revision, key)
                touch_world(session)
        return True


def _recuttable(
    session: Session, key: int, data: bytes, _recorded: str, name: str, profile: str | None
) -> StoredText:
    places = fetch(
        session,
        "SELECT start, chapter, section FROM places WHERE revision = %s ORDER BY start",
        (key,),
    )
    pages = fetch(
        session, "SELECT start, page FROM pages WHERE revision = %s ORDER BY start", (key,)
    )
    sentences = fetch(
        session, "SELECT sid, start, finish FROM sentences WHERE revision = %s ORDER BY sid", (key,)
    )
    figures = fetch(session, _FIGURES, {"revision": key})
    return StoredText(
        text=data.decode(),
        starts=tuple(row[0] for row in places),
        places=tuple(Place(*row[1:]) for row in places),
        pages=tuple(PageStart(*row) for row in pages),
        sentences=tuple(Sentence(*row) for row in sentences),
        chunking=read_chunking(profile) if profile else STANDARD_CHUNKING[name],
        figures=tuple(_figure(row) for row in figures),
    )


def _unretired(session: Session, revision: RevisionRef) -> int | None:
    for state in ("active", "staged"):
        key = revision_key(session, revision, state=state)
        if key is not None:
            return key
    return None


def _figure(row: Row) -> NewChunk:
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
        overlap_text=overlap.decode(errors="replace"),
        tokens=tokens,
        sentence_ends=list(array("I", ends)),
        chapter=chapter,
        section=section,
        kind=ChunkKind.FIGURE,
        page=page,
        figure=figure_mark(figure) if figure else None,
    )
