"""Chunks of existing revisions for another generation: what they are made of, and their rows."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final, LiteralString

from truespan.errors import StoreDamaged
from truespan.store.revisions import has_generation, numbers_of, revision_key, write_chunks
from truespan.store.rows import figure_mark
from truespan.store.session import Part, Row, retry_on_conflict
from truespan.types.chunk import ChunkKind, NewChunk
from truespan.types.document import RevisionRef, StoredText
from truespan.types.ids import TextHash, hash_bytes
from truespan.types.profile import STANDARD_CHUNKING, chunking_from_json
from truespan.types.scope import Scope, Unlimited
from truespan.types.text import PageStart, Place, Sentence

_MISSING: Final = """
    SELECT d.number, r.number FROM documents d
    JOIN revisions r ON r.document = d.key AND r.state IN ('active', 'staged')
    WHERE d.world_id = :world AND d.deleted_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM tallies t
        WHERE t.revision = r.key AND t.generation = :generation)
"""


class Rechunking(Part):
    """The part of the store that gives a generation its own chunks of existing revisions."""

    def missing_chunks(self, scope: Scope) -> list[RevisionRef]:
        """Return revisions, staged or active, that the generation has no chunks of."""
        asked: LiteralString = _MISSING
        values: dict[str, Any] = {"generation": scope.generation.number}
        if not isinstance(scope.documents, Unlimited):
            asked += " AND d.number IN LIST(:numbers)"
            values["numbers"] = [*scope.documents]
        rows = self._db.all(scope.world, f"{asked} ORDER BY 1, 2", **values)
        return [RevisionRef(*row) for row in rows]

    def stored_text(self, scope: Scope, revision: RevisionRef) -> StoredText | None:
        """Return all that chunks are made of; None when the revision is gone."""
        with self._db.read(scope.world) as session:
            key = revision_key(session, revision)
            row = session.one(
                """SELECT BYTES(t.text), r.text_hash, r.chunking, r.chunking_profile
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
                key=key,
            )
            if row is None:
                return None
            data, recorded, name, profile = row
            if hash_bytes(data) != recorded:
                raise StoreDamaged(f"The text of document {revision.document} is damaged.")
            places = session.all(
                "SELECT start, chapter, section FROM places WHERE revision = :key ORDER BY start",
                key=key,
            )
            pages = session.all(
                "SELECT start, page FROM pages WHERE revision = :key ORDER BY start", key=key
            )
            sentences = session.all(
                "SELECT sid, start, finish FROM sentences WHERE revision = :key ORDER BY sid",
                key=key,
            )
            figures = session.all(
                """SELECT s.position, s.start, s.finish, s.first_sid, s.last_sid, s.reach,
                     BYTES(c.text), s.text_hash, BYTES(c.overlap_text), s.tokens, c.sentence_ends,
                     c.chapter, c.section, c.page, c.figure
                   FROM states s JOIN chunks c ON c.revision = s.revision
                     AND c.generation = s.generation AND c.position = s.position
                   WHERE s.world_id = :world AND s.revision = :key AND s.kind = 'figure'
                     AND s.generation = (SELECT min(generation) FROM tallies WHERE revision = :key)
                   ORDER BY s.position""",
                key=key,
            )
        return StoredText(
            text=data.decode(),
            starts=tuple(row[0] for row in places),
            places=tuple(Place(*row[1:]) for row in places),
            pages=tuple(PageStart(*row) for row in pages),
            sentences=tuple(Sentence(*row) for row in sentences),
            chunking=chunking_from_json(profile) if profile else STANDARD_CHUNKING[name],
            figures=tuple(_read_figure(row) for row in figures),
        )

    @retry_on_conflict
    def write_chunks(self, scope: Scope, revision: RevisionRef, chunks: Sequence[NewChunk]) -> bool:
        """Give the scope's generation its chunks of a revision, unless it has them."""
        generation = scope.generation.number
        with self._db.write(scope.world) as session:
            key = session.value(
                """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
                   WHERE d.world_id = :world AND d.number = :document AND r.number = :revision
                     AND r.state <> 'retired'""",
                **numbers_of(revision),
            )
            if key is None or not has_generation(session, generation):
                return False
            exists = session.one(
                "SELECT 1 FROM tallies WHERE revision = :key AND generation = :generation",
                key=key,
                generation=generation,
            )
            if not exists:
                write_chunks(session, scope, chunks, revision, key)
                session.touch_world()
        return True


def _read_figure(row: Row) -> NewChunk:
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
