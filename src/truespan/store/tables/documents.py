"""Documents and their revisions: staged, activated, retired, purged."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from operator import itemgetter
from typing import Any, Final, LiteralString

from truespan.core.records import copy_fields
from truespan.errors import NotFound, StoreDamaged
from truespan.protocols import Clock
from truespan.store.engines.session import (
    BRIEF_WAIT,
    Database,
    Part,
    Row,
    Session,
    Statements,
    retry_on_conflict,
)
from truespan.store.integrity.checksums import (
    REVISION_CELLS,
    RevisionCells,
    changing_revisions,
    read_revisions,
    revision_checksum,
    vector_checksum,
)
from truespan.store.integrity.erasure import queue_files, redact, rename_in_jobs
from truespan.store.tables.conversations import delete_turns_of
from truespan.store.tables.fragments import REVISION, TAILS
from truespan.store.tables.notes import delete_notes_of
from truespan.store.tables.readers import Moves, move_positions, read_revised
from truespan.store.tables.revisions import pending_chunks, write_revisions
from truespan.store.tables.rows import (
    active_revision,
    drop_words,
    has_generation,
    numbers_of,
    read_outline,
    read_sentences,
    revision_key,
    tags_of,
    tally_each,
)
from truespan.store.tables.word_states import insert_word_states
from truespan.types.audience import EVERYONE, Audience, audience_of, audience_text
from truespan.types.chunk import PendingChunk
from truespan.types.document import Document, Draft, OutlineEntry, RevisionRef
from truespan.types.ids import ChunkId, TextHash, WorldId, hash_bytes
from truespan.types.scope import Scope, Unlimited
from truespan.types.source import DocumentKind
from truespan.types.vectors import Vector, WordStates

_LIST: Final = f"""
    SELECT a.number, s.number, coalesce(t.chunks, 0), coalesce(t.embedded, 0),
      coalesce(t.quarantined, 0), CASE WHEN t.quarantined > 0 THEN (SELECT count(*) FROM states x
        WHERE x.revision = r.key AND x.generation = :generation AND x.state = 'quarantined'
          AND x.warning = 'too_long') ELSE 0 END, r.checksum, {REVISION_CELLS}
    FROM documents d
    LEFT JOIN revisions a ON a.document = d.key AND a.state = 'active' AND SEEN(a)
    LEFT JOIN revisions s ON s.document = d.key AND s.state = 'staged' AND SEEN(s)
    JOIN revisions r ON r.key = coalesce(s.key, a.key,
      (SELECT max(x.key) FROM revisions x WHERE x.document = d.key)) AND SEEN(r)
    LEFT JOIN tallies t ON t.revision = r.key AND t.generation = :generation
    WHERE d.world_id = :world AND d.deleted_at IS NULL
"""
_NUMBER: Final = 7
"""Index of the document's number, the first of `REVISION_CELLS`, in a row of `_LIST`."""

_MAX_INDEXED_PATHS: Final = 8
"""Maximum number of paths to look up by the index.

For more, the documents of the world are scanned, because other worlds may have the same paths.
"""
_OWNERS_BY_PATH: Final = """
    SELECT r.shown_path, d.doc_id FROM revisions r CROSS JOIN documents d
    WHERE d.key = r.document AND r.shown_path IN LIST(:paths) AND r.state IN ('active', 'staged')
      AND d.world_id = :world AND d.deleted_at IS NULL"""
"""A cross join keeps SQLite from starting at the documents."""
_OWNERS_IN_WORLD: Final = """
    SELECT r.shown_path, d.doc_id FROM revisions r JOIN documents d ON d.key = r.document
    WHERE r.shown_path IN LIST(:paths) AND r.state IN ('active', 'staged')
      AND d.world_id = :world AND d.deleted_at IS NULL"""
_KINDS: Final = {kind.value: kind for kind in DocumentKind}


# Shared by threads: a set that changes by single operations.
class Documents(Part):
    def __init__(self, database: Database, clock: Clock, lost_words: set[WorldId]) -> None:
        super().__init__(database, clock)
        self._lost_words = lost_words

    def all(self, scope: Scope, *, named: Collection[str] | None = None) -> list[Document]:
        """Return the documents that are not deleted, by number; with `named`, only these ids."""
        statement: LiteralString = _LIST
        values: dict[str, Any] = {}
        if not isinstance(scope.documents, Unlimited):
            statement += " AND d.number IN LIST(:numbers)"
            values["numbers"] = [*scope.documents]
        if named is not None:
            statement += " AND d.doc_id IN LIST(:ids)"
            values["ids"] = [*named]
        else:
            statement += " ORDER BY d.number"
        with self._db.read(scope) as session:
            rows = session.all(statement, **values)
        if named is not None:
            # Sorting in SQLite would scan the whole world for a few documents, or copy all cells.
            rows.sort(key=itemgetter(_NUMBER))
        return [_read_document(scope, row) for row in rows]

    def path_owners(self, scope: Scope, shown_paths: Sequence[str]) -> dict[str, str]:
        """Return the doc ids of the documents that have these shown paths."""
        few = len(shown_paths) <= _MAX_INDEXED_PATHS
        rows = self._db.at(scope).all(
            _OWNERS_BY_PATH if few else _OWNERS_IN_WORLD, paths=[*shown_paths]
        )
        return dict(rows)

    def content_owners(self, scope: Scope, source_hash: str) -> list[str]:
        """Return the ids of a few documents with this content, unverified."""
        rows = self._db.at(scope).all(
            """SELECT d.doc_id FROM revisions r CROSS JOIN documents d
               WHERE d.key = r.document AND r.source_hash = :source_hash
                 AND r.state IN ('active', 'staged')
                 AND d.world_id = :world AND d.deleted_at IS NULL
               ORDER BY d.number LIMIT 8""",
            source_hash=source_hash,
        )
        return [doc_id for (doc_id,) in rows]

    @retry_on_conflict
    def stage(self, scope: Scope, drafts: Sequence[Draft]) -> dict[RevisionRef, list[PendingChunk]]:
        """Write staged revisions with all their rows, in one commit.

        Returns:
            The pending chunks of each revision, in the order of the drafts, without vectors.
        """
        now = self._clock.now()
        with self._db.write(scope, bulk=True) as session:
            if not has_generation(session):
                raise NotFound("generation", scope.generation.number)
            staged = write_revisions(session, scope, drafts, now)
        return {
            ref: [*pending_chunks(ref, draft, ids)]
            for (ref, ids), draft in zip(staged.items(), drafts, strict=True)
        }

    @retry_on_conflict
    def keep_vectors(
        self,
        scope: Scope,
        vectors: Mapping[TextHash, Vector],
        states: Mapping[TextHash, WordStates] | None = None,
        *,
        revisions: Collection[RevisionRef] = (),
        brief: bool = False,
    ) -> None:
        """Commit vectors and states of words, so that a later failure does not waste them.

        Texts that no revision has are left out; `revisions` are those with the texts, if known.
        With `brief`, `StoreBusy` is raised soon if other writers hold the lock.
        """
        world, profile = scope.world, scope.profile.id
        with self._db.write(scope, bulk=True, wait=BRIEF_WAIT if brief else None) as session:
            # Another run may have purged the text. The rows of a revision are purged together, so
            # one chunk shows that all of them exist.
            known = list(vectors)
            if not revisions or _with_chunks(session, revisions) < {*revisions}:
                found = session.all(
                    f"""SELECT s.text_hash FROM states s
                        WHERE s.world_id = :world AND s.text_hash IN LIST(:hashes)
                        UNION SELECT t.text_hash FROM {TAILS} AND t.text_hash IN LIST(:hashes)""",
                    hashes=known,
                )
                known = [text_hash for (text_hash,) in found]
            session.insert_many(
                "vectors",
                ("profile_id", "text_hash", "vector", "checksum"),
                [
                    (profile, text_hash, vector, vector_checksum(world, profile, text_hash, vector))
                    for text_hash in known
                    for vector in [vectors[text_hash]]
                ],
                key=("profile_id", "text_hash"),
            )
            if states:
                own = {text_hash: states[text_hash] for text_hash in known if text_hash in states}
                insert_word_states(session, scope, own)

    @retry_on_conflict
    def mark_embedded(self, scope: Scope, chunks: Sequence[PendingChunk]) -> None:
        """Mark chunks as embedded after the index was flushed, unless they have changed since."""
        marked = {(chunk.chunk_id, chunk.text_hash) for chunk in chunks}
        with self._db.write(scope) as session:
            pending = session.all(
                """SELECT s.revision, s.chunk_id, s.text_hash FROM documents d
                   JOIN revisions r ON r.document = d.key
                   JOIN states s ON s.revision = r.key AND s.generation = :generation
                     AND s.state = 'pending' AND UNINDEXED(s.world_id) = :world
                   WHERE d.world_id = :world AND d.number IN LIST(:numbers)""",
                numbers=[*{chunk.document for chunk in chunks}],
            )
            found = [row for row in pending if row[1:] in marked]
            session.execute(
                """UPDATE states SET state = 'embedded', warning = NULL
                   WHERE UNINDEXED(world_id) = :world AND chunk_id IN LIST(:ids)""",
                ids=[chunk_id for _, chunk_id, _ in found],
            )
            tally_each(session, {(key, scope.generation.number) for key, *_ in found})
            session.touch_world()

    @retry_on_conflict
    def activate(self, scope: Scope, revisions: Sequence[RevisionRef]) -> list[RevisionRef]:
        """Activate the staged revisions that are fully embedded, and return them."""
        first = {ref for ref in revisions if ref.revision == 1}
        # Revisions are compared before the write transaction, which would block other writers.
        with self._db.read(scope) as session:
            others = [ref for ref in revisions if ref not in first]
            keys = {ref: revision_key(session, ref, state="staged") for ref in others}
            revised = {ref: read_revised(session, key) for ref, key in keys.items() if key}
        moves = {ref: book.moves() for ref, book in revised.items()}
        with self._db.write(scope, shared=True) as session:
            activated = _activate_first(session, scope.world, first)
            activated |= {
                ref
                for ref in others
                if _activate(session, scope.world, ref, moves.get(ref, Moves()))
            }
            session.touch_world()
        return [ref for ref in revisions if ref in activated]

    @retry_on_conflict
    def discard_staged(self, scope: Scope, revisions: Sequence[RevisionRef]) -> None:
        """Retire revisions that are still staged; a document without others is deleted."""
        with self._db.write(scope) as session:
            for ref in revisions:
                with changing_revisions(session, scope.world, ref.document):
                    document = session.value(
                        f"""UPDATE revisions SET state = 'retired'
                            WHERE key = {REVISION} AND state = 'staged' RETURNING document""",
                        **numbers_of(ref),
                    )
                session.execute(
                    """UPDATE documents SET deleted_at = :now
                       WHERE world_id = :world AND key = :document AND deleted_at IS NULL
                         AND NOT EXISTS (SELECT 1 FROM revisions r
                           WHERE r.document = documents.key AND r.state <> 'retired')""",
                    document=document,
                    now=self._clock.now(),
                )
            session.touch_world()

    @retry_on_conflict
    def relabel(
        self,
        scope: Scope,
        document: int,
        *,
        tags: Sequence[str],
        audience: Audience,
        **labels: str | None,
    ) -> None:
        """Change labels of a document that do not affect its text and chunks.

        `labels` are `language`, `version`, `source_url`, `metadata`, `origin` and `shown_path`.
        """
        with (
            self._db.write(scope, document=document) as session,
            changing_revisions(session, scope.world, document),
        ):
            session.execute(
                """UPDATE revisions SET version = :version, tags = :tags,
                     audience = :audience,
                     language = coalesce(CAST(:language AS TEXT), language),
                     language_declared = language_declared OR CAST(:language AS TEXT) IS NOT NULL,
                     language_stated = language_stated AND CAST(:language AS TEXT) IS NULL,
                     source_url = :source_url, metadata = :metadata, origin = :origin,
                     shown_path = :shown_path, derived = NULL
                   WHERE state IN ('active', 'staged') AND document =
                     (SELECT key FROM documents WHERE world_id = :world AND number = :document)""",
                tags=json.dumps(tags),
                audience=audience_text(audience),
                **labels,
            )
            session.touch_world()

    @retry_on_conflict
    def move(
        self,
        scope: Scope,
        document: int,
        *,
        doc_id: str,
        path: str,
        name: str,
        shown_path: str,
        reread: bool,
    ) -> bool:
        """Change the id and the paths of a document after its file was renamed.

        A title that was the file's name changes too. With `reread`, or if the document has figures,
        whose ids contain its id, the next ingestion makes a new revision.

        Returns:
            False if the document is gone, or if another document has the id.
        """
        with (
            self._db.write(scope, document=document) as session,
            changing_revisions(session, scope.world, document),
        ):
            previous = session.value(
                """SELECT d.doc_id FROM documents d WHERE d.world_id = :world
                     AND d.number = :document AND d.deleted_at IS NULL AND NOT EXISTS
                       (SELECT 1 FROM documents o WHERE o.world_id = :world
                          AND o.doc_id = :doc_id AND o.deleted_at IS NULL)""",
                doc_id=doc_id,
            )
            if previous is None:
                return False
            session.execute(
                """UPDATE documents SET doc_id = :doc_id
                   WHERE world_id = :world AND number = :document""",
                doc_id=doc_id,
            )
            session.execute(
                """UPDATE revisions SET path = :path, name = :name, shown_path = :shown_path,
                     title = CASE WHEN title = name AND declared_title IS NULL
                       THEN :name ELSE title END,
                     source_hash = CASE WHEN :reread = 1 OR EXISTS (SELECT 1 FROM figures f
                       WHERE f.revision = revisions.key) THEN '' ELSE source_hash END,
                     derived = NULL
                   WHERE state IN ('active', 'staged') AND document =
                     (SELECT key FROM documents WHERE world_id = :world AND number = :document)""",
                path=path,
                name=name,
                shown_path=shown_path,
                reread=int(reread),
            )
            rename_in_jobs(session, previous, doc_id)
            session.touch_world()
        return True

    @retry_on_conflict
    def tombstone(self, scope: Scope, document: int, *, erase: bool = False) -> dict[str, int]:
        """Mark a document as deleted; delete its notes, and turns of conversations that used it.

        Returns:
            The numbers of deleted and redacted rows.
        """
        now = self._clock.now()
        with self._db.write(scope, document=document, erase=erase) as session:
            hidden = session.execute(
                """UPDATE documents SET deleted_at = :now, erase = :erase
                   WHERE world_id = :world AND number = :document AND deleted_at IS NULL""",
                now=now,
            )
            if not hidden:
                raise NotFound("document", str(document))
            changed = delete_turns_of(session, document) | delete_notes_of(session, document)
            changed |= redact(session, document, now) if erase else {}
            with changing_revisions(session, scope.world, document):
                session.execute(
                    """UPDATE revisions SET state = 'retired' WHERE document = (SELECT key
                         FROM documents WHERE world_id = :world AND number = :document)"""
                )
            session.touch_world()
        return changed

    def retired(self, scope: Scope) -> list[RevisionRef]:
        """Return the retired revisions, whose points and rows remain.

        The only revision of a document that was not deleted is left out: its state is damaged.
        """
        # CROSS lets SQLite begin with the few retired revisions, which have their own index.
        rows = self._db.at(scope).all(
            """SELECT d.number, r.number FROM revisions r CROSS JOIN documents d
               WHERE r.state = 'retired' AND d.key = r.document AND d.world_id = :world
                 AND (d.deleted_at IS NOT NULL OR EXISTS (SELECT 1 FROM revisions o
                   WHERE o.document = d.key AND o.state <> 'retired'))
               ORDER BY 1, 2"""
        )
        return [RevisionRef(*row) for row in rows]

    def deleted(self, scope: Scope) -> list[str]:
        """Return the ids of deleted documents with remaining rows, unless reused."""
        rows = self._db.at(scope).all(
            """SELECT DISTINCT d.doc_id FROM documents d
               WHERE d.world_id = :world AND d.deleted_at IS NOT NULL AND NOT EXISTS
                 (SELECT 1 FROM documents n WHERE n.world_id = :world AND n.doc_id = d.doc_id
                   AND n.deleted_at IS NULL) ORDER BY 1"""
        )
        return [row[0] for row in rows]

    def chunk_ids(self, scope: Scope, revision: RevisionRef) -> list[ChunkId]:
        with self._db.read(scope) as session:
            rows = session.all(
                f"""SELECT chunk_id FROM states WHERE world_id = :world AND revision = {REVISION}
                      AND generation = :generation""",
                **numbers_of(revision),
            )
        return [ChunkId(row[0]) for row in rows]

    def revisions_with_chunks(
        self, scope: Scope, revisions: Collection[RevisionRef]
    ) -> set[RevisionRef]:
        """Return the revisions that have chunks in the scope's generation."""
        return _with_chunks(self._db.at(scope), revisions)

    @retry_on_conflict
    def purge(self, scope: Scope, revision: RevisionRef) -> dict[str, int]:
        """Remove the rows of a retired revision, and vectors that nothing else needs."""
        with self._db.write(scope, shared=True) as session:
            key = revision_key(session, revision, state="retired")
            if key is None:
                return {}
            session.disable_timeout()
            profiles = session.all(
                """SELECT DISTINCT g.profile FROM states s JOIN generations g
                     ON g.world_id = s.world_id AND g.number = s.generation
                   WHERE UNINDEXED(s.world_id) = :world AND s.revision = :key ORDER BY 1""",
                key=key,
            )
            erase = session.value(
                "SELECT erase FROM documents WHERE world_id = :world AND number = :document",
                document=revision.document,
            )
            # Only the receipt of an erasure needs the counts.
            with session.count_deleted() if erase else nullcontext({}) as removed:
                others = _purge(session, key)
            # A search that has found its points must notice that its rows are gone.
            session.touch_world()
            # Last, because all worlds share the lock of the queue.
            queue_files(
                session, [row[0] for row in profiles], self._clock.now(), urgent=bool(erase)
            )
        if others:
            self._lost_words.add(scope.world)
        return removed

    def outline(self, scope: Scope, document: int) -> list[OutlineEntry]:
        """Return the chapters and sections of the active revision."""
        with self._db.read(scope) as session:
            found = active_revision(session, document)
            return read_outline(session, scope.world, *found) if found else []

    def sentences_across(
        self, scope: Scope, document: int, start: int, end: int
    ) -> tuple[int, int]:
        """Return the first and last sentence that a span of the active revision touches."""
        with self._db.read(scope) as session:
            found = active_revision(session, document)
            [(first, last)] = session.all(
                """SELECT coalesce(min(s.sid), -1), coalesce(max(s.sid), -1) FROM sentences s
                   WHERE s.revision = :key AND s.finish > :start AND s.start < :end""",
                key=found and found[0],
                start=start,
                end=end,
            )
            if found and last >= 0:
                # With their neighbours: a sentence with damaged offsets may be missing here.
                read_sentences(session, scope.world, found[1], first - 1, last + 1)
        return first, last

    def canonical_text(self, scope: Scope, document: int) -> str:
        """Return the verified text of the active revision."""
        row = self._db.at(scope, document=document).one(
            """SELECT BYTES(t.text), r.text_hash
               FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
               JOIN texts t ON t.revision = r.key
               WHERE d.world_id = :world AND d.number = :document AND SEEN(r)"""
        )
        if row is None:
            raise NotFound("document", str(document))
        data, recorded = row
        if hash_bytes(data) != recorded:
            raise StoreDamaged(f"The text of document {document} does not match its hash.")
        return data.decode()


def _read_document(scope: Scope, row: Row) -> Document:
    """Return a document from a row of `_LIST`.

    A caller with a limited audience learns only the labels by which the document is visible.
    """
    world, labels = scope.world, scope.authority.audience
    active, staged, chunks, embedded, quarantined, skipped, recorded = row[:_NUMBER]
    cells = RevisionCells._make(row[_NUMBER:])
    intact = recorded == revision_checksum(world, cells)
    audience = audience_of(cells.audience) if intact else ()
    if not isinstance(labels, Unlimited):
        audience = tuple(label for label in audience if label in labels or label == EVERYONE)
    return copy_fields(
        Document,
        cells,
        number=cells.document,
        kind=_KINDS.get(cells.kind, DocumentKind.DOCUMENT),
        tags=tags_of(cells.tags) if intact else (),
        language_declared=bool(cells.language_declared),
        language_stated=bool(cells.language_stated),
        active=active,
        staged=staged,
        chunks=chunks,
        embedded=embedded,
        # Skipped chunks are quarantined too, but are not damage.
        quarantined=quarantined - skipped,
        skipped=skipped,
        metadata=cells.metadata if intact else None,
        damaged=not intact,
        audience=audience,
    )


def _unfinished(session: Session, keys: Sequence[int]) -> set[int]:
    """Return the revisions without chunks, or with pending ones, in a generation in use."""
    rows = session.all(
        """SELECT r.key FROM revisions r
           CROSS JOIN (SELECT generation FROM worlds WHERE world_id = :world
             UNION SELECT generation FROM aliases WHERE world_id = :world) named
           LEFT JOIN tallies t ON t.revision = r.key AND t.generation = named.generation
           WHERE r.key IN LIST(:keys)
             AND (t.chunks IS NULL OR t.chunks > t.embedded + t.quarantined)""",
        keys=[*keys],
    )
    return {row[0] for row in rows}


def _with_chunks(statements: Statements, revisions: Collection[RevisionRef]) -> set[RevisionRef]:
    rows = statements.all(
        """SELECT d.number, r.number FROM documents d JOIN revisions r ON r.document = d.key
           WHERE d.world_id = :world AND d.number IN LIST(:numbers) AND EXISTS
             (SELECT 1 FROM states s WHERE UNINDEXED(s.world_id) = :world AND s.revision = r.key
                AND s.generation = :generation)""",
        numbers=[*{ref.document for ref in revisions}],
    )
    return {RevisionRef(*row) for row in rows}.intersection(revisions)


def _activate_first(
    session: Session, world: WorldId, refs: Collection[RevisionRef]
) -> set[RevisionRef]:
    """Activate fully embedded first revisions of documents, all at once.

    No reader has a position in them, and no other revision is active.
    """
    if not refs:
        return set()
    found = [
        revision
        for revision in read_revisions(session, world, *(ref.document for ref in refs))
        if revision.ref in refs and revision.cells.state == "staged"
    ]
    unfinished = _unfinished(session, [revision.key for revision in found])
    ready = [revision for revision in found if revision.key not in unfinished]
    session.execute_many(
        "UPDATE revisions SET state = 'active', checksum = :checksum WHERE key = :key",
        [
            {
                "key": revision.key,
                "checksum": revision_checksum(world, revision.cells._replace(state="active"))
                if revision.sealed
                else revision.checksum,
            }
            for revision in ready
        ],
    )
    return {revision.ref for revision in ready}


def _activate(session: Session, world: WorldId, ref: RevisionRef, moves: Moves) -> bool:
    """Activate a revision if it is still staged and embedded in every generation in use.

    Otherwise the document would vanish from one generation while it is replaced in another.
    """
    key = revision_key(session, ref, state="staged")
    if key is None:
        return False
    if _unfinished(session, [key]):
        return False
    move_positions(session, world, key, moves)
    with changing_revisions(session, world, ref.document):
        session.execute(
            """UPDATE revisions SET state = 'retired' WHERE state = 'active' AND document =
                 (SELECT key FROM documents WHERE world_id = :world AND number = :document)""",
            document=ref.document,
        )
        session.execute("UPDATE revisions SET state = 'active' WHERE key = :key", key=key)
    return True


def _purge(session: Session, key: int) -> int:
    """Remove the rows of a revision; return the number of others that lose their words."""
    session.execute(
        f"""DELETE FROM vectors WHERE world_id = :world
             AND text_hash IN (SELECT text_hash FROM states
               WHERE UNINDEXED(world_id) = :world AND revision = :key
               UNION SELECT text_hash FROM tails WHERE revision = :key)
             AND NOT EXISTS (SELECT 1 FROM states s WHERE s.world_id = :world
               AND s.text_hash = vectors.text_hash AND s.revision <> :key)
             AND NOT EXISTS (SELECT 1 FROM {TAILS}
               AND t.text_hash = vectors.text_hash AND t.revision <> :key)""",
        key=key,
    )
    session.execute(
        """DELETE FROM repairs WHERE world_id = :world AND chunk_id IN
             (SELECT chunk_id FROM states WHERE world_id = :world AND revision = :key)""",
        key=key,
    )
    session.execute("DELETE FROM states WHERE world_id = :world AND revision = :key", key=key)
    others = drop_words(session, key)
    document = session.value("DELETE FROM revisions WHERE key = :key RETURNING document", key=key)
    deleted = session.execute(
        """DELETE FROM documents WHERE world_id = :world AND key = :document
             AND deleted_at IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM revisions r WHERE r.document = documents.key)""",
        document=document,
    )
    if deleted:
        # PostgreSQL cannot set one column of a composite foreign key to NULL.
        session.execute(
            "UPDATE readers SET current = NULL WHERE world_id = :world AND current = :document",
            document=document,
        )
    return others
