"""A revision on its way into SQLite: its row, its text, and everything that hangs on it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import apsw

from truespan.adapters.sqlite_store.connection import fetch
from truespan.adapters.stored_rows import figure_text
from truespan.types.chunk import FigureMark, NewChunk
from truespan.types.document import Draft, RevisionRef
from truespan.types.ids import chunk_id, hash_text
from truespan.types.profile import spelled
from truespan.types.scope import Scope

_INSERT_REVISION = """
    INSERT INTO revisions ({columns}) VALUES ({marks}) RETURNING key
"""


def revision_key(
    connection: apsw.Connection, world: int, ref: RevisionRef, *, state: str | None = None
) -> int | None:
    """Return the number that a revision's rows carry; None when it is gone."""
    rows = fetch(
        connection,
        """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
           WHERE d.world = ? AND d.number = ? AND r.number = ?
             AND r.state = coalesce(?, r.state)""",
        (world, ref.document, ref.revision, state),
    )
    return rows[0][0] if rows else None


def tally(connection: apsw.Connection, revision: int, generation: int) -> None:
    """Count a revision's states again, in the transaction that changed them."""
    connection.execute(
        """INSERT OR REPLACE INTO tallies
           SELECT ?1, ?2, count(*), count(*) FILTER (WHERE state = 'embedded'),
             count(*) FILTER (WHERE state = 'quarantined')
           FROM states WHERE revision = ?1 AND generation = ?2""",
        (revision, generation),
    )


def stage(
    connection: apsw.Connection, scope: Scope, world: int, draft: Draft, now: float
) -> RevisionRef:
    """Write one revision with all its rows, in place of one that was staged before."""
    document, number, revision = _document(connection, world, draft.doc_id, now)
    connection.execute(
        "UPDATE revisions SET state = 'retired' WHERE document = ? AND state = 'staged'",
        (document,),
    )
    row = _revision_row(draft, document, revision, now)
    sql = _INSERT_REVISION.format(
        columns=", ".join(row), marks=", ".join(f":{name}" for name in row)
    )
    key = fetch(connection, sql, row)[0][0]
    connection.execute("INSERT INTO texts VALUES (?, ?)", (key, draft.canonical.text))
    places = zip(draft.canonical.starts, draft.canonical.places, strict=True)
    connection.executemany(
        "INSERT INTO places VALUES (?, ?, ?, ?)",
        [(key, start, place.chapter, place.section) for start, place in places],
    )
    connection.executemany(
        "INSERT INTO sentences VALUES (?, ?, ?, ?, ?, ?)",
        [
            (key, sid, start, end, measured.tokens, measured.digest)
            for measured in draft.sentences
            for sid, start, end in (measured.sentence,)
        ],
    )
    _write_surroundings(connection, draft, key)
    write_chunks(connection, scope, world, draft.chunks, RevisionRef(number, revision), key)
    return RevisionRef(number, revision)


def _revision_row(draft: Draft, document: int, revision: int, now: float) -> dict[str, Any]:
    text = draft.canonical.text
    return {
        "document": document,
        "number": revision,
        "state": "staged",
        "name": draft.name,
        "path": draft.path,
        "kind": draft.kind.value,
        "title": draft.title,
        "language": draft.language,
        "language_declared": int(draft.language_declared),
        "language_stated": int(draft.language_stated),
        "version": draft.version,
        "declared_title": draft.declared_title,
        "stated_title": draft.stated_title,
        "tags": json.dumps(draft.tags),
        "chunking": draft.chunking.name,
        "chunking_profile": spelled(draft.chunking),
        "source_hash": draft.source_hash,
        "recipe": draft.recipe,
        "source_url": draft.source_url,
        "metadata": draft.metadata,
        "origin": draft.origin,
        "properties": json.dumps(asdict(draft.properties)),
        "text_hash": hash_text(text),
        "characters": len(text),
        "sentences": len(draft.sentences),
        "created_at": now,
    }


def _write_surroundings(connection: apsw.Connection, draft: Draft, key: int) -> None:
    """Write what stands beside a revision's text: pages, figures, and what the sanitiser found."""
    connection.executemany(
        "INSERT INTO pages VALUES (?, ?, ?)", [(key, *start) for start in draft.canonical.pages]
    )
    connection.executemany(
        "INSERT INTO figures VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                key,
                figure.number,
                figure.figure_id,
                figure.offset,
                figure.image_ref,
                figure.description,
                figure_text(
                    FigureMark(
                        figure.figure_id,
                        figure.image_ref,
                        figure.parent,
                        figure.between,
                        figure.own_reach,
                    )
                ),
            )
            for figure in draft.figures
        ],
    )
    connection.executemany(
        "INSERT INTO audits VALUES (?, ?, ?, ?, ?)",
        [(key, one.label, one.rule, one.count, int(one.redacted)) for one in draft.audit],
    )


def _document(
    connection: apsw.Connection, world: int, doc_id: str, now: float
) -> tuple[int, int, int]:
    """Return a document's key, its number and its next revision, making the row if need be."""
    rows = fetch(
        connection,
        """UPDATE documents SET next_revision = next_revision + 1
           WHERE world = ? AND doc_id = ? AND deleted_at IS NULL
           RETURNING key, number, next_revision - 1""",
        (world, doc_id),
    )
    if rows:
        return rows[0]
    number = fetch(
        connection,
        "UPDATE worlds SET next_document = next_document + 1 WHERE key = ? "
        "RETURNING next_document - 1",
        (world,),
    )[0][0]
    key = fetch(
        connection,
        """INSERT INTO documents (world, number, doc_id, next_revision, created_at)
           VALUES (?, ?, ?, 2, ?) RETURNING key""",
        (world, number, doc_id, now),
    )[0][0]
    return key, number, 1


def write_chunks(
    connection: apsw.Connection,
    scope: Scope,
    world: int,
    chunks: Sequence[NewChunk],
    ref: RevisionRef,
    key: int,
) -> None:
    """Write the chunks that the scope's generation has of a revision, all of them pending."""
    generation = scope.generation.number
    connection.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                key,
                generation,
                chunk.index,
                chunk.text,
                chunk.text_hash,
                chunk.overlap_text,
                array("I", chunk.sentence_ends).tobytes(),
                chunk.chapter,
                chunk.section,
                chunk.page,
                figure_text(chunk.figure) if chunk.figure else None,
                chunk.dedupe_hash,
            )
            for chunk in chunks
        ],
    )
    connection.executemany(
        "INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', NULL)",
        [
            (
                key,
                generation,
                chunk.index,
                world,
                chunk_id(scope.world, generation, ref.document, ref.revision, chunk.index),
                chunk.kind.value,
                chunk.start - len(chunk.overlap_text),
                chunk.start,
                chunk.end,
                chunk.first_sid,
                chunk.last_sid,
                chunk.reach,
                chunk.tokens,
                chunk.text_hash,
            )
            for chunk in chunks
        ],
    )
    tally(connection, key, generation)
