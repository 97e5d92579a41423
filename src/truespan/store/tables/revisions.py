"""Revisions: writing all their rows, chunks for another generation, and derived metadata."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final, LiteralString, NamedTuple

import msgspec
from msgspec import to_builtins

from truespan.core.decoding import prepare
from truespan.errors import StoreDamaged
from truespan.store.engines.session import Part, Row, Session, retry_on_conflict
from truespan.store.integrity.checksums import (
    DETAILS,
    RevisionCells,
    Structure,
    StructureChecksums,
    audits_checksum,
    changing_revisions,
    chunk_checksum,
    damaged_labels,
    details_checksum,
    part_of,
    read_revisions,
    revision_checksum,
    tally_checksum,
)
from truespan.store.tables.rows import (
    active_revision,
    figure_mark,
    figure_text,
    has_generation,
    read_layout,
    read_outline,
    revision_key,
)
from truespan.store.tables.word_rows import WrittenWords, write_staged_words, write_words
from truespan.types.audience import EVERYONE, audience_text
from truespan.types.chunk import ChunkKind, FigureMark, NewChunk, PendingChunk
from truespan.types.document import (
    AuditEntry,
    CountedWords,
    Derivable,
    Derived,
    Draft,
    RevisionRef,
    StoredText,
)
from truespan.types.ids import ChunkId, chunk_id, hash_bytes, hash_text, uncounted_number
from truespan.types.profile import chunking_from_json, chunking_to_json
from truespan.types.scope import Scope, Unlimited
from truespan.types.text import Place, Properties, Sentence, Validators, name_places

_COPIED: Final = (
    *("name", "path", "title", "language", "language_declared", "language_stated", "version"),
    *("declared_title", "stated_title", "source_hash", "recipe", "source_url", "metadata"),
    *("origin", "shown_path"),
)
"""Columns of a revision with the value of the draft's field of the same name."""


_DERIVED: Final = 2
"""Index of the derived metadata in `DETAILS`."""


class Revisions(Part):
    """Chunks of existing revisions for another generation, and derived metadata."""

    def missing_chunks(self, scope: Scope) -> list[RevisionRef]:
        """Return the staged and active revisions without chunks in the generation."""
        statement: LiteralString = """SELECT d.number, r.number FROM documents d
            JOIN revisions r ON r.document = d.key AND r.state IN ('active', 'staged')
            WHERE d.world_id = :world AND d.deleted_at IS NULL
              AND NOT EXISTS (SELECT 1 FROM tallies t
                WHERE t.revision = r.key AND t.generation = :generation)"""
        values: dict[str, Any] = {}
        if not isinstance(scope.documents, Unlimited):
            statement += " AND d.number IN LIST(:numbers)"
            values["numbers"] = [*scope.documents]
        rows = self._db.at(scope).all(f"{statement} ORDER BY 1, 2", **values)
        return [RevisionRef(*row) for row in rows]

    def stored_text(self, scope: Scope, revision: RevisionRef) -> StoredText | None:
        """Return the text of a revision and everything else that chunking needs; None if gone."""
        with self._db.read(scope) as session:
            key = revision_key(session, revision)
            row = session.one(
                """SELECT BYTES(t.text), r.text_hash, r.chunking_profile, r.parts, r.language
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
                key=key,
            )
            if key is None or row is None:
                return None
            data, recorded, profile, parts, language = row
            structure = Structure.read(session, key)
            if hash_bytes(data) != recorded or not structure.checksums(scope.world, revision).match(
                parts
            ):
                raise StoreDamaged(f"The text of document {revision.document} is damaged.")
            layout = read_layout(session, key)
            sentences = [row[:3] for row in structure.sentences]
            figures = session.all(
                """SELECT s.position, s.start, s.finish, s.first_sid, s.last_sid, s.reach,
                     BYTES(c.text), s.text_hash, BYTES(c.overlap_text), s.tokens, c.sentence_ends,
                     c.chapter, c.section, c.page, c.figure, c.location
                   FROM states s JOIN chunks c ON c.revision = s.revision
                     AND c.generation = s.generation AND c.position = s.position
                   WHERE s.world_id = :world AND s.revision = :key AND s.kind = 'figure'
                     AND s.generation = (SELECT min(generation) FROM tallies WHERE revision = :key)
                   ORDER BY s.position""",
                key=key,
            )
        return StoredText(
            text=data.decode(),
            language=language,
            starts=layout.starts,
            places=layout.places,
            pages=layout.pages,
            sentences=tuple(Sentence(*row) for row in sentences),
            chunking=chunking_from_json(profile),
            figures=tuple(_read_figure(row) for row in figures),
        )

    @retry_on_conflict
    def write_chunks(
        self,
        scope: Scope,
        revision: RevisionRef,
        chunks: Sequence[NewChunk],
        words: CountedWords | None = None,
    ) -> bool:
        """Write the chunks of a revision in the scope's generation, unless they exist.

        Returns:
            False if the revision or the generation is gone.
        """
        with self._db.write(scope) as session:
            key = session.value(
                """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
                   WHERE d.world_id = :world AND d.number = :document AND r.number = :revision
                     AND r.state <> 'retired'""",
                document=revision.document,
                revision=revision.revision,
            )
            if key is None or not has_generation(session):
                return False
            exists = session.one(
                "SELECT 1 FROM tallies WHERE revision = :key AND generation = :generation", key=key
            )
            if not exists:
                insert_chunks(session, scope, [(revision, key, chunks)])
                if words is not None:
                    write_words(session, scope, [WrittenWords(revision, key, words)])
                session.touch_world()
        return True

    def missing_metadata(self, scope: Scope) -> list[RevisionRef]:
        """Return the active revisions without derived metadata."""
        rows = self._db.at(scope).all(
            # CROSS makes SQLite start with the few revisions, which have an index of their own.
            """SELECT d.number, r.number FROM revisions r CROSS JOIN documents d
               WHERE d.key = r.document AND r.state = 'active' AND r.derived IS NULL
                 AND d.deleted_at IS NULL AND d.world_id = :world ORDER BY 1, 2"""
        )
        return [RevisionRef(*row) for row in rows]

    def derivable(self, scope: Scope, revision: RevisionRef) -> Derivable | None:
        """Return the input for deriving metadata; None if the revision is gone."""
        with self._db.read(scope) as session:
            key = revision_key(session, revision)
            found = session.one(
                """SELECT r.title, r.declared_title, r.language, r.language_declared, r.metadata,
                     r.properties, BYTES(t.text), r.text_hash, r.sentences
                   FROM revisions r JOIN texts t ON t.revision = r.key WHERE r.key = :key""",
                key=key,
            )
            if key is None or found is None:
                return None
            outline = read_outline(session, scope.world, key, revision)
        title, declared_title, language, declared, metadata, *text = found
        properties, data, recorded, sentences = text
        if hash_bytes(data) != recorded:
            raise StoreDamaged(f"The text of document {revision.document} is damaged.")
        return Derivable(
            title=title,
            declared_title=declared_title,
            language=language,
            language_declared=bool(declared),
            metadata=metadata,
            properties=msgspec.json.decode(properties, type=prepare(Properties)),
            text=data.decode(),
            outline=tuple(outline),
            sentences=sentences,
        )

    @retry_on_conflict
    def keep_derived(self, scope: Scope, derived: Sequence[Derived]) -> None:
        """Store derived metadata, or the codes of the errors that prevented them."""
        numbers = {result.revision.document for result in derived}
        with self._db.write(scope) as session:
            stored = {found.ref: found for found in read_revisions(session, scope.world, *numbers)}
            sealed: list[dict[str, Any]] = []
            damaged: list[dict[str, Any]] = []
            for result in derived:
                if (found := stored.get(result.revision)) is None:
                    continue
                last = result.metadata, result.error
                values = {"derived": last[0], "error": last[1], "key": found.key}
                if not found.sealed:
                    damaged.append(values)
                    continue
                details = (*found.details[:_DERIVED], *last)
                own = details_checksum(scope.world, found.ref, details)
                sealed.append({**values, "details": own})
            change: LiteralString = (
                "UPDATE revisions SET derived = :derived, derived_error = :error"
            )
            session.execute_many(f"{change}, details_checksum = :details WHERE key = :key", sealed)
            session.execute_many(f"{change} WHERE key = :key", damaged)

    def derived(self, scope: Scope, document: int) -> str | None:
        """Return the derived metadata of the active revision; None until they are derived."""
        row = self._db.at(scope, document=document).one(
            f"""SELECT r.number, r.details_checksum, {DETAILS} FROM revisions r
                JOIN documents d ON d.key = r.document
                WHERE d.world_id = :world AND d.number = :document AND r.state = 'active'
                  AND SEEN(r)"""
        )
        if row is None:
            return None
        number, recorded, *details = row
        if recorded != details_checksum(scope.world, RevisionRef(document, number), details):
            raise damaged_labels(document)
        return details[2]

    def validators(self, scope: Scope, document: int) -> Validators | None:
        """Return the HTTP validators of the active revision of a web page, if any."""
        row = self._db.at(scope, document=document).one(
            """SELECT r.properties FROM revisions r JOIN documents d ON d.key = r.document
               WHERE d.world_id = :world AND d.number = :document AND r.state = 'active'"""
        )
        stored = json.loads(row[0]).get("validators") if row else None
        return msgspec.convert(stored, prepare(Validators)) if stored else None

    def audit(self, scope: Scope, document: int) -> list[AuditEntry]:
        """Return the findings of the sanitizer in the active revision."""
        with self._db.read(scope) as session:
            found = active_revision(session, document)
            if found is None:
                return []
            key, ref = found
            rows = session.all(
                """SELECT label, rule, count, redacted FROM audits WHERE revision = :key
                   ORDER BY 1, 2""",
                key=key,
            )
            parts = session.value("SELECT parts FROM revisions WHERE key = :key", key=key)
        if part_of(parts, "audits") != audits_checksum(scope.world, ref, rows):
            raise damaged_labels(document)
        return [AuditEntry(label, rule, count, bool(done)) for label, rule, count, done in rows]


def write_revisions(
    session: Session, scope: Scope, drafts: Sequence[Draft], now: float
) -> dict[RevisionRef, list[ChunkId]]:
    """Write staged revisions with all their rows, in place of previously staged ones.

    Returns:
        The ids of the chunks of each revision, in the order of the drafts.
    """
    staged = [_write_revision(session, scope, draft, now) for draft in drafts]
    session.insert_many(
        "texts",
        ("revision", "text"),
        [
            (row.key, session.text(draft.canonical.text))
            for row, draft in zip(staged, drafts, strict=True)
        ],
    )
    insert_structures(session, [(row.key, row.structure, row.checksums) for row in staged])
    ids = insert_chunks(
        session,
        scope,
        [(row.ref, row.key, draft.chunks) for row, draft in zip(staged, drafts, strict=True)],
    )
    words = [
        WrittenWords(row.ref, row.key, draft.words)
        for row, draft in zip(staged, drafts, strict=True)
        if draft.words is not None
    ]
    write_staged_words(session, scope, words)
    return {row.ref: own for row, own in zip(staged, ids, strict=True)}


def pending_chunks(
    ref: RevisionRef, draft: Draft, ids: Sequence[ChunkId]
) -> Iterator[PendingChunk]:
    """Yield the pending chunks of a staged draft, without vectors."""
    text, title, none = draft.canonical, draft.title, Place(None, None)
    starts = {sid: start for sid, start, *_ in draft.sentences} if text.places else {}
    for chunk, own in zip(draft.chunks, ids, strict=True):
        # A figure has one place: the place of its chunk.
        if chunk.kind is ChunkKind.FIGURE:
            places = [Place(chunk.chapter, chunk.section)]
        elif text.places:
            shown_from = max(chunk.start, starts.get(chunk.first_sid, chunk.start))
            places = text.places_between(shown_from, chunk.end)
        else:
            places = [none]
        chapters, sections = name_places(tuple(places), title)
        yield PendingChunk(
            chunk_id=own,
            document=ref.document,
            revision=ref.revision,
            index=chunk.index,
            text_hash=chunk.text_hash,
            text=chunk.text,
            vector=None,
            first_sid=chunk.first_sid,
            last_sid=chunk.last_sid,
            reach=chunk.reach,
            kind=chunk.kind,
            chapters=chapters,
            sections=sections,
        )


class _Staged(NamedTuple):
    """A revision whose own row is written."""

    ref: RevisionRef
    key: int
    structure: Structure
    checksums: StructureChecksums


def _write_revision(session: Session, scope: Scope, draft: Draft, now: float) -> _Staged:
    found = session.one(
        """UPDATE documents SET next_revision = next_revision + 1
           WHERE world_id = :world AND doc_id = :doc_id AND deleted_at IS NULL
           RETURNING key, number, next_revision - 1""",
        doc_id=draft.doc_id,
    )
    if found:
        document, number, revision = found
        with changing_revisions(session, scope.world, number):
            session.execute(
                """UPDATE revisions SET state = 'retired'
                   WHERE document = :document AND state = 'staged'""",
                document=document,
            )
    else:
        revision = 1
        number = _new_number(session, scope, draft)
        labels = {"number": number, "doc_id": draft.doc_id, "created_at": now}
        document = session.insert_returning("key", "documents", **labels, next_revision=2)
    ref, text, structure = RevisionRef(number, revision), draft.canonical.text, structure_of(draft)
    checksums = structure.checksums(scope.world, ref)
    own: dict[str, Any] = {
        "number": revision,
        "state": "staged",
        "kind": draft.kind.value,
        "tags": json.dumps(draft.tags),
        "audience": audience_text(draft.audience),
        "chunking": draft.chunking.name,
        "chunking_profile": chunking_to_json(draft.chunking),
        "text_hash": hash_text(text),
        "characters": len(text),
        "sentences": len(draft.sentences),
        "created_at": float(now),
        "parts": checksums.parts,
        **{column: getattr(draft, column) for column in _COPIED},
    }
    cells = RevisionCells(document=number, doc_id=draft.doc_id, **own)
    properties = _properties_text(draft)
    details = (draft.metadata, properties, None, None)
    key = session.insert_returning(
        "key",
        "revisions",
        document=document,
        properties=properties,
        checksum=revision_checksum(scope.world, cells),
        details_checksum=details_checksum(scope.world, ref, details),
        **own,
    )
    return _Staged(ref, key, structure, checksums)


def _new_number(session: Session, scope: Scope, draft: Draft) -> int:
    """Return the number of a new document.

    Documents for everyone are counted. Others have a number that depends only on their world and
    id, so neither gaps nor numbers reveal documents that a caller does not see.
    """
    if EVERYONE in draft.audience:
        return session.value(
            """UPDATE worlds SET next_document = next_document + 1 WHERE world_id = :world
               RETURNING next_document - 1"""
        )
    for attempt in count():
        number = uncounted_number(scope.world, draft.doc_id, attempt)
        taken = session.value(
            "SELECT 1 FROM documents WHERE world_id = :world AND number = :number", number=number
        )
        if taken is None:
            return number
    raise AssertionError


def _properties_text(draft: Draft) -> str:
    """Return the properties that a source states, and the HTTP validators of a web page."""
    fields = to_builtins(draft.properties)
    if draft.validators is not None:
        fields["validators"] = to_builtins(draft.validators)
    return json.dumps(fields)


def structure_of(draft: Draft) -> Structure:
    """Return the structure of a draft as rows."""
    canonical = draft.canonical
    return Structure(
        places=[
            (start, *place) for start, place in zip(canonical.starts, canonical.places, strict=True)
        ],
        pages=[tuple(start) for start in canonical.pages],
        sentences=draft.sentences,
        figures=[
            (
                *(figure.number, figure.figure_id, figure.offset, figure.image_ref),
                figure.description.encode(),
                figure_text(
                    FigureMark(
                        *(figure.figure_id, figure.image_ref, figure.parent, figure.between),
                        figure.own_reach,
                    )
                ),
            )
            for figure in draft.figures
        ],
        audits=sorted(
            (entry.label, entry.rule, entry.count, entry.redacted) for entry in draft.audit
        ),
    )


def insert_structures(
    session: Session, written: Sequence[tuple[int, Structure, StructureChecksums]]
) -> None:
    """Write the structures of revisions, given by key."""
    session.insert_many(
        "places",
        ("revision", "start", "chapter", "section", "checksum"),
        [
            (key, *row, own)
            for key, rows, checksums in written
            for row, own in zip(rows.places, checksums.places, strict=True)
        ],
    )
    session.insert_many(
        "sentences",
        ("revision", "sid", "start", "finish", "tokens", "text_hash", "checksum"),
        (
            (key, *row, own)
            for key, rows, checksums in written
            for row, own in zip(rows.sentences, checksums.sentences, strict=True)
        ),
    )
    session.insert_many(
        "pages",
        ("revision", "start", "page", "unit"),
        [(key, *row) for key, rows, _ in written for row in rows.pages],
    )
    session.insert_many(
        "figures",
        (
            *("revision", "number", "figure_id", "start", "image_ref", "description", "mark"),
            "checksum",
        ),
        [
            (key, *row[:4], session.text(row[4].decode()), row[5], own)
            for key, rows, checksums in written
            for row, own in zip(rows.figures, checksums.figures, strict=True)
        ],
    )
    session.insert_many(
        "audits",
        ("revision", "label", "rule", "count", "redacted"),
        [(key, *row) for key, rows, _ in written for row in rows.audits],
    )


def insert_chunks(
    session: Session, scope: Scope, written: Sequence[tuple[RevisionRef, int, Sequence[NewChunk]]]
) -> list[list[ChunkId]]:
    """Write pending chunks of revisions in the scope's generation; return the ids of each."""
    generation = scope.generation.number
    where = ("revision", "generation", "position")
    chunks: list[Row] = []
    states: list[Row] = []
    tallies: list[Row] = []
    ids: list[list[ChunkId]] = []
    for ref, key, found in written:
        checksums: list[bytes] = []
        ids.append([])
        for chunk in found:
            row = _chunk_cells(scope, chunk, ref)
            own = chunk_checksum(scope.world, generation, ref, row)
            checksums.append(own)
            ids[-1].append(row[1])
            texts = session.text(chunk.text), row[11], session.text(chunk.overlap_text)
            chunks.append((key, generation, chunk.index, *texts, *row[13:]))
            states.append((key, generation, *row[:11], own, "pending"))
        whole = tally_checksum(scope.world, generation, ref, checksums)
        tallies.append((key, generation, len(checksums), 0, 0, whole))
    session.insert_many(
        "chunks",
        (
            *(*where, "text", "text_hash", "overlap_text"),
            *("sentence_ends", "chapter", "section", "page", "figure", "dedupe_hash", "location"),
        ),
        chunks,
    )
    session.insert_many(
        "states",
        (
            *(*where, "chunk_id", "kind", "context_start", "start", "finish", "first_sid"),
            *("last_sid", "reach", "tokens", "text_hash", "checksum", "state"),
        ),
        states,
    )
    session.insert_many(
        "tallies",
        ("revision", "generation", "chunks", "embedded", "quarantined", "checksum"),
        tallies,
        key=("revision", "generation"),
    )
    return ids


def chunk_checksums(scope: Scope, chunks: Sequence[NewChunk], ref: RevisionRef) -> list[bytes]:
    """Return the checksums of chunks that are not written yet."""
    generation = scope.generation.number
    cells = (_chunk_cells(scope, chunk, ref) for chunk in chunks)
    return [chunk_checksum(scope.world, generation, ref, row) for row in cells]


def _chunk_cells(scope: Scope, chunk: NewChunk, ref: RevisionRef) -> tuple[Any, ...]:
    """Return the cells of a chunk, in the order of `CHUNK_CELLS`."""
    generation = scope.generation.number
    return (
        chunk.index,
        chunk_id(scope.world, generation, ref.document, ref.revision, chunk.index),
        *(chunk.kind.value, chunk.start - len(chunk.overlap_text), chunk.start, chunk.end),
        *(chunk.first_sid, chunk.last_sid, chunk.reach, chunk.tokens, chunk.text_hash),
        *(chunk.text_hash, chunk.overlap_text.encode(), array("I", chunk.sentence_ends).tobytes()),
        *(chunk.chapter, chunk.section, chunk.page),
        *(figure_text(chunk.figure) if chunk.figure else None, chunk.dedupe_hash, chunk.location),
    )


def _read_figure(row: Row) -> NewChunk:
    index, start, end, first, last, reach, data, text_hash, *cells = row
    overlap, tokens, ends, chapter, section, page, figure, location = cells
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
        text_hash=text_hash,
        overlap_text=overlap.decode(errors="replace"),
        tokens=tokens,
        sentence_ends=list(array("I", ends)),
        chapter=chapter,
        section=section,
        kind=ChunkKind.FIGURE,
        page=page,
        location=location,
        figure=figure_mark(figure) if figure else None,
    )
