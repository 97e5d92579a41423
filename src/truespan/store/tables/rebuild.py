"""Restoration of damaged or missing chunk rows from canonical text."""

from __future__ import annotations

from array import array
from itertools import product
from typing import Literal

from truespan.store.engines.session import Row, Session
from truespan.store.integrity.checksums import CHUNK_CELLS, JOIN_CHUNKS, chunk_checksum
from truespan.store.tables.rows import read_layout
from truespan.types.chunk import ChunkKind
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, WorldId, dedupe_hash, hash_bytes
from truespan.types.text import CanonicalText


def rebuild(session: Session, world: WorldId, chunk_id: ChunkId) -> bool | None:
    """Rewrite a chunk row from canonical text or from its figure.

    False if the result does not match the checksum, None if there is no such chunk.
    """
    found = _find_content(session, world, chunk_id)
    if found is None or isinstance(found, bool):
        return found
    revision, generation, text, cells = found
    # The order is that of `CHUNK_CELLS`.
    text_hash, overlap, ends, chapter, section, page, figure, dedupe, location = cells[11:]
    session.insert(
        "chunks",
        key=("revision", "generation", "position"),
        revision=revision,
        generation=generation,
        position=cells[0],
        text=session.text(text),
        text_hash=text_hash,
        overlap_text=session.text(overlap.decode()),
        sentence_ends=ends,
        chapter=chapter,
        section=section,
        page=page,
        figure=figure,
        dedupe_hash=dedupe,
        location=location,
    )
    return True


def restorable(session: Session, world: WorldId, chunk_id: ChunkId) -> bool:
    """Return whether `rebuild` would restore the row; nothing is changed."""
    return isinstance(_find_content(session, world, chunk_id), tuple)


def _find_content(
    session: Session, world: WorldId, chunk_id: ChunkId
) -> tuple[int, int, str, Row] | Literal[False] | None:
    """Return the revision's key, the generation, and the original text and cells of a chunk.

    False if nothing matches the recorded checksum, None if there is no such chunk.
    """
    row = session.one(
        f"""SELECT s.revision, s.generation, d.number, r.number, BYTES(t.text), r.text_hash,
              s.checksum, BYTES(c.text), {CHUNK_CELLS}
            FROM states s JOIN revisions r ON r.key = s.revision
            JOIN documents d ON d.key = r.document
            LEFT JOIN texts t ON t.revision = r.key
            {JOIN_CHUNKS}
            WHERE UNINDEXED(s.world_id) = :world AND s.chunk_id = :chunk_id""",
        chunk_id=chunk_id,
    )
    if row is None:
        return None
    revision, generation, document, number, data, data_hash, recorded, present, *cells = row
    state, held = cells[:11], cells[12:]
    position, _, kind, context, start, end, *_, text_hash = state
    text, overlap, ends, figure = None, b"", b"", None
    if kind == ChunkKind.FIGURE:
        # Chunks of figures have the order of the figures.
        found = session.one(
            """SELECT BYTES(description), mark FROM figures WHERE revision = :revision
               ORDER BY number LIMIT 1 OFFSET :position - (SELECT min(s.position) FROM states s
                 WHERE s.world_id = :world AND s.revision = :revision
                   AND s.generation = :generation AND s.kind = 'figure')""",
            revision=revision,
            generation=generation,
            position=position,
        )
        if found:
            text, figure = found[0], found[1]
    elif data is not None and hash_bytes(data) == data_hash:
        source = data.decode()
        text, overlap = source[start:end].encode(), source[context:start].encode()
        sentences = session.all(
            """SELECT finish FROM sentences
               WHERE revision = :revision AND finish > :start AND start < :end ORDER BY sid""",
            revision=revision,
            start=start,
            end=end,
        )
        ends = array("I", [min(stop, end) - start for (stop,) in sentences]).tobytes()
    if text is None or hash_bytes(text) != text_hash:
        # The row itself may be intact, and another one damaged.
        text = present
    if text is None or hash_bytes(text) != text_hash:
        return False
    starts, places, pages = read_layout(session, revision, start, max(start + 1, end))
    layout, content = CanonicalText("", starts, places, pages=pages), text.decode()
    shown_from = start if kind == ChunkKind.FIGURE else end - len(content.lstrip())
    made = [overlap, ends, *layout.place_at(start), layout.page_at(start), figure]
    made += [dedupe_hash(content), layout.location(shown_from, end)]
    # Cells that cannot be derived, such as the parent of a figure in a later generation, may still
    # be in the row.
    ref = RevisionRef(document, number)
    for choice in product(*({*pair, None} for pair in zip(made, held, strict=True))):
        candidate = (*state, text_hash, *choice)
        if chunk_checksum(world, generation, ref, candidate) == recorded:
            return revision, generation, text.decode(), candidate
    return False
