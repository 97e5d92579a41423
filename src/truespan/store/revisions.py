"""Revisions of documents: how one is found, and how it is written with all its rows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from truespan.store.rows import figure_text
from truespan.store.session import Row, Session
from truespan.types.chunk import FigureMark, NewChunk
from truespan.types.document import Draft, RevisionRef
from truespan.types.ids import chunk_id, hash_text
from truespan.types.profile import chunking_to_json
from truespan.types.scope import Scope

REVISION: Final = """(
    SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.world_id = :world AND d.number = :document AND r.number = :revision)"""
"""The key of a revision, by the numbers that it is known by; as a value of `:document` and
`:revision`."""

ACTIVE_REVISION: Final = """(
    SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.world_id = :world AND d.number = :document AND r.state = 'active')"""
"""The key of the revision of `:document` that readers see."""

TAILS: Final = """tails t CROSS JOIN revisions r CROSS JOIN documents d
    WHERE r.key = t.revision AND d.key = r.document AND d.world_id = :world"""
"""The tails of the world. CROSS keeps SQLite from starting with all documents of the world."""

OUTLINE: Final = """
    SELECT (SELECT coalesce(min(s.sid), 0) FROM sentences s
        WHERE s.revision = p.revision AND s.start >= p.start),
      p.start, p.chapter, p.section
    FROM places p"""
"""Where chapters and sections begin: the first sentence, the offset, and the names."""


def numbers_of(ref: RevisionRef) -> dict[str, int]:
    """Return the values of `:document` and `:revision` for a revision."""
    return {"document": ref.document, "revision": ref.revision}


def revision_key(session: Session, ref: RevisionRef, *, state: str | None = None) -> int | None:
    """Return the key that a revision's rows carry; None when it is gone or in another state."""
    return session.value(
        """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
           WHERE d.world_id = :world AND d.number = :document AND r.number = :revision
             AND r.state = coalesce(CAST(:state AS TEXT), r.state)""",
        **numbers_of(ref),
        state=state,
    )


def has_generation(session: Session, generation: int) -> bool:
    """Say whether the world has a generation that is not being removed."""
    return bool(
        session.all(
            """SELECT 1 FROM generations
               WHERE world_id = :world AND number = :generation AND removed_at IS NULL""",
            generation=generation,
        )
    )


def tally(session: Session, revision: int, generation: int) -> None:
    """Count a revision's states again, in the transaction that changed them."""
    [(chunks, embedded, quarantined)] = session.all(
        """SELECT count(*), count(*) FILTER (WHERE state = 'embedded'),
             count(*) FILTER (WHERE state = 'quarantined')
           FROM states
           WHERE world_id = :world AND revision = :revision AND generation = :generation""",
        revision=revision,
        generation=generation,
    )
    session.insert(
        "tallies",
        key=("revision", "generation"),
        revision=revision,
        generation=generation,
        chunks=chunks,
        embedded=embedded,
        quarantined=quarantined,
    )


def tally_each(session: Session, changed: Iterable[Row]) -> None:
    """Count the states again of each revision and generation that occurs among changed rows."""
    for revision, generation in sorted({row[:2] for row in changed}):
        tally(session, revision, generation)


def write_revision(session: Session, scope: Scope, draft: Draft, now: float) -> RevisionRef:
    """Write one staged revision with all its rows, in place of one that was staged before."""
    document, number, revision = _find_or_make_document(session, draft.doc_id, now)
    session.execute(
        "UPDATE revisions SET state = 'retired' WHERE document = :document AND state = 'staged'",
        document=document,
    )
    text = draft.canonical.text
    key = session.insert_returning(
        "key",
        "revisions",
        document=document,
        number=revision,
        state="staged",
        name=draft.name,
        path=draft.path,
        kind=draft.kind.value,
        title=draft.title,
        language=draft.language,
        language_declared=draft.language_declared,
        language_stated=draft.language_stated,
        version=draft.version,
        declared_title=draft.declared_title,
        stated_title=draft.stated_title,
        tags=json.dumps(draft.tags),
        chunking=draft.chunking.name,
        chunking_profile=chunking_to_json(draft.chunking),
        source_hash=draft.source_hash,
        recipe=draft.recipe,
        source_url=draft.source_url,
        metadata=draft.metadata,
        origin=draft.origin,
        properties=json.dumps(asdict(draft.properties)),
        text_hash=hash_text(text),
        characters=len(text),
        sentences=len(draft.sentences),
        created_at=now,
    )
    session.insert("texts", revision=key, text=session.text(text))
    _write_structure(session, draft, key)
    write_chunks(session, scope, draft.chunks, RevisionRef(number, revision), key)
    return RevisionRef(number, revision)


def _find_or_make_document(session: Session, doc_id: str, now: float) -> tuple[int, int, int]:
    """Return a document's key, its number and the number of its next revision."""
    found = session.one(
        """UPDATE documents SET next_revision = next_revision + 1
           WHERE world_id = :world AND doc_id = :doc_id AND deleted_at IS NULL
           RETURNING key, number, next_revision - 1""",
        doc_id=doc_id,
    )
    if found:
        return found[0], found[1], found[2]
    number = session.value(
        """UPDATE worlds SET next_document = next_document + 1 WHERE world_id = :world
           RETURNING next_document - 1"""
    )
    key = session.insert_returning(
        "key", "documents", number=number, doc_id=doc_id, next_revision=2, created_at=now
    )
    return key, number, 1


def _write_structure(session: Session, draft: Draft, key: int) -> None:
    """Write what describes a revision's text: places, sentences, pages, figures, audits."""
    canonical = draft.canonical
    session.insert_many(
        "places",
        ("revision", "start", "chapter", "section"),
        [
            (key, start, place.chapter, place.section)
            for start, place in zip(canonical.starts, canonical.places, strict=True)
        ],
    )
    session.insert_many(
        "sentences",
        ("revision", "sid", "start", "finish", "tokens", "text_hash"),
        [
            (key, *measured.sentence, measured.tokens, measured.digest)
            for measured in draft.sentences
        ],
    )
    session.insert_many(
        "pages", ("revision", "start", "page"), [(key, *start) for start in canonical.pages]
    )
    session.insert_many(
        "figures",
        ("revision", "number", "figure_id", "start", "image_ref", "description", "mark"),
        [
            (
                key,
                figure.number,
                figure.figure_id,
                figure.offset,
                figure.image_ref,
                session.text(figure.description),
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
    session.insert_many(
        "audits",
        ("revision", "label", "rule", "count", "redacted"),
        [(key, entry.label, entry.rule, entry.count, entry.redacted) for entry in draft.audit],
    )


def write_chunks(
    session: Session, scope: Scope, chunks: Sequence[NewChunk], ref: RevisionRef, key: int
) -> None:
    """Write the chunks that the scope's generation has of a revision, all of them pending."""
    generation = scope.generation.number
    session.insert_many(
        "chunks",
        (
            *("revision", "generation", "position", "text", "text_hash", "overlap_text"),
            *("sentence_ends", "chapter", "section", "page", "figure", "dedupe_hash"),
        ),
        [
            (
                key,
                generation,
                chunk.index,
                session.text(chunk.text),
                chunk.text_hash,
                session.text(chunk.overlap_text),
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
    session.insert_many(
        "states",
        (
            *("revision", "generation", "position", "chunk_id", "kind", "context_start", "start"),
            *("finish", "first_sid", "last_sid", "reach", "tokens", "text_hash", "state"),
        ),
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
                "pending",
            )
            for chunk in chunks
        ],
    )
    tally(session, key, generation)
