"""A revision on its way into PostgreSQL: its row, its text, and everything that hangs on it."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import asdict

from truespan.adapters.postgres_store.connection import Session, change_each, fetch
from truespan.adapters.stored_rows import figure_text
from truespan.types.chunk import FigureMark, NewChunk
from truespan.types.document import Draft, RevisionRef
from truespan.types.ids import chunk_id, hash_text
from truespan.types.profile import spelled
from truespan.types.scope import Scope


def revision_key(session: Session, ref: RevisionRef, *, state: str | None = None) -> int | None:
    """Return the number that a revision's rows carry; None when it is gone."""
    rows = fetch(
        session,
        """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
           WHERE d.number = %s AND r.number = %s AND r.state = coalesce(%s::text, r.state)""",
        (ref.document, ref.revision, state),
    )
    return rows[0][0] if rows else None


def tally(session: Session, revision: int, generation: int) -> None:
    """Count a revision's states again, in the transaction that changed them."""
    session.execute(
        """INSERT INTO tallies (revision, generation, chunks, embedded, quarantined)
           SELECT %(revision)s, %(generation)s, count(*),
             count(*) FILTER (WHERE state = 'embedded'),
             count(*) FILTER (WHERE state = 'quarantined')
           FROM states WHERE revision = %(revision)s AND generation = %(generation)s
           ON CONFLICT (world_id, revision, generation) DO UPDATE SET chunks = excluded.chunks,
             embedded = excluded.embedded, quarantined = excluded.quarantined""",
        {"revision": revision, "generation": generation},
    )


def stage(session: Session, scope: Scope, draft: Draft, now: float) -> RevisionRef:
    """Write one revision with all its rows, in place of one that was staged before."""
    document, number, revision = _document(session, draft.doc_id, now)
    session.execute(
        "UPDATE revisions SET state = 'retired' WHERE document = %s AND state = 'staged'",
        (document,),
    )
    key = _write_revision(session, draft, document, revision, now)
    session.execute(
        "INSERT INTO texts (revision, text) VALUES (%s, %s)", (key, draft.canonical.text.encode())
    )
    _write_structure(session, draft, key)
    _write_surroundings(session, draft, key)
    write_chunks(session, scope, draft.chunks, RevisionRef(number, revision), key)
    return RevisionRef(number, revision)


def _write_revision(
    session: Session, draft: Draft, document: int, revision: int, now: float
) -> int:
    text = draft.canonical.text
    return fetch(
        session,
        """INSERT INTO revisions (document, number, state, name, path, kind, title, language,
             language_declared, language_stated, version, declared_title, stated_title, tags,
             chunking, chunking_profile, source_hash, recipe, source_url, metadata, origin,
             properties, text_hash, characters, sentences, created_at)
           VALUES (%s, %s, 'staged', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
             %s, %s, %s, %s, %s, %s, %s, %s) RETURNING key""",
        (
            document,
            revision,
            draft.name,
            draft.path,
            draft.kind.value,
            draft.title,
            draft.language,
            draft.language_declared,
            draft.language_stated,
            draft.version,
            draft.declared_title,
            draft.stated_title,
            json.dumps(draft.tags),
            draft.chunking.name,
            spelled(draft.chunking),
            draft.source_hash,
            draft.recipe,
            draft.source_url,
            draft.metadata,
            draft.origin,
            json.dumps(asdict(draft.properties)),
            hash_text(text),
            len(text),
            len(draft.sentences),
            now,
        ),
    )[0][0]


def _write_structure(session: Session, draft: Draft, key: int) -> None:
    places = zip(draft.canonical.starts, draft.canonical.places, strict=True)
    change_each(
        session,
        "INSERT INTO places (revision, start, chapter, section) VALUES (%s, %s, %s, %s)",
        [(key, start, place.chapter, place.section) for start, place in places],
    )
    # A book has thousands of sentences, and they all go in at once.
    columns = list(zip(*_sentence_rows(draft), strict=True)) or [()] * 5
    session.execute(
        """INSERT INTO sentences (revision, sid, start, finish, tokens, text_hash)
           SELECT %s, * FROM unnest(%s::int[], %s::int[], %s::int[], %s::int[], %s::bytea[])""",
        (key, *map(list, columns)),
    )


def _sentence_rows(draft: Draft) -> list[tuple[int, int, int, int, bytes]]:
    return [
        (sid, start, end, measured.tokens, measured.digest)
        for measured in draft.sentences
        for sid, start, end in (measured.sentence,)
    ]


def _write_surroundings(session: Session, draft: Draft, key: int) -> None:
    """Write what stands beside a revision's text: pages, figures, and what the sanitiser found."""
    change_each(
        session,
        "INSERT INTO pages (revision, start, page) VALUES (%s, %s, %s)",
        [(key, *start) for start in draft.canonical.pages],
    )
    change_each(
        session,
        """INSERT INTO figures
             (revision, number, figure_id, start, image_ref, description, mark)
           VALUES (%s, %s, %s, %s, %s, %s, %s)""",
        [
            (
                key,
                figure.number,
                figure.figure_id,
                figure.offset,
                figure.image_ref,
                figure.description.encode(),
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
    change_each(
        session,
        "INSERT INTO audits (revision, label, rule, count, redacted) VALUES (%s, %s, %s, %s, %s)",
        [(key, one.label, one.rule, one.count, one.redacted) for one in draft.audit],
    )


def _document(session: Session, doc_id: str, now: float) -> tuple[int, int, int]:
    """Return a document's key, its number and its next revision, making the row if need be."""
    rows = fetch(
        session,
        """UPDATE documents SET next_revision = next_revision + 1
           WHERE doc_id = %s AND deleted_at IS NULL RETURNING key, number, next_revision - 1""",
        (doc_id,),
    )
    if rows:
        return rows[0][0], rows[0][1], rows[0][2]
    number = fetch(
        session, "UPDATE worlds SET next_document = next_document + 1 RETURNING next_document - 1"
    )[0][0]
    key = fetch(
        session,
        """INSERT INTO documents (number, doc_id, next_revision, created_at)
           VALUES (%s, %s, 2, %s) RETURNING key""",
        (number, doc_id, now),
    )[0][0]
    return key, number, 1


def write_chunks(
    session: Session, scope: Scope, chunks: Sequence[NewChunk], ref: RevisionRef, key: int
) -> None:
    """Write the chunks that the scope's generation has of a revision, all of them pending."""
    generation = scope.generation.number
    change_each(
        session,
        """INSERT INTO chunks (revision, generation, position, text, text_hash, overlap_text,
             sentence_ends, chapter, section, page, figure, dedupe_hash)
           VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
        [
            (
                key,
                generation,
                chunk.index,
                chunk.text.encode(),
                chunk.text_hash,
                chunk.overlap_text.encode(),
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
    change_each(
        session,
        """INSERT INTO states (revision, generation, position, chunk_id, kind, context_start, start,
             finish, first_sid, last_sid, reach, tokens, text_hash, state)
           VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'pending')""",
        [
            (
                key,
                generation,
                chunk.index,
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
    tally(session, key, generation)
