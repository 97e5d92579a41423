"""Readers: positions, tails, and the sentences, pages and figures that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from truespan.errors import DocumentNotFound
from truespan.store.alignment import Alignment
from truespan.store.rows import (
    OUTLINE,
    REVISION,
    figure_mark,
    numbers_of,
    read_chunking,
    read_layout,
    revision_key,
)
from truespan.store.session import Part, Session, retry_on_conflict
from truespan.types.chunk import Vector
from truespan.types.document import OutlineEntry, RevisionRef, assets_token
from truespan.types.ids import ChunkId, TextHash
from truespan.types.reading import (
    Anchor,
    InForce,
    Passage,
    Position,
    StoredFigure,
    StoredSentence,
    TailChunk,
)
from truespan.types.scope import Scope

_TAIL_COLUMNS: Final = (
    *("position", "part", "start", "finish", "first_sid", "last_sid", "text", "text_hash"),
    *("tokens", "chapter", "section", "page"),
)
"""In the order of the fields of a `TailChunk`, whose vector is held elsewhere."""
_TEXT: Final = 6

_WHOLE: Final = f"""FROM states WHERE world_id = :world AND revision = {REVISION}
    AND generation = :generation AND reach <= :position AND state = 'embedded'"""


class Readers(Part):
    @retry_on_conflict
    def set_position(
        self, scope: Scope, reader: str, revision: RevisionRef, sid: int, *, current: bool
    ) -> None:
        """Record the last sentence read of a revision that readers see."""
        with self._db.write(scope) as session:
            document = session.value(
                """SELECT d.key FROM documents d JOIN revisions r ON r.document = d.key
                   WHERE d.world_id = :world AND d.number = :document AND r.number = :revision
                     AND r.state = 'active' AND d.deleted_at IS NULL""",
                **numbers_of(revision),
            )
            if document is None:
                raise DocumentNotFound(str(revision.document))
            session.execute(
                """INSERT INTO readers (world_id, name) VALUES (:world, :reader)
                   ON CONFLICT DO NOTHING""",
                reader=reader,
            )
            key = session.value(
                "SELECT key FROM readers WHERE world_id = :world AND name = :reader", reader=reader
            )
            session.insert(
                "positions",
                key=("reader", "document"),
                reader=key,
                document=document,
                revision=revision.revision,
                sid=sid,
                updated_at=self._clock.now(),
            )
            if current:
                session.execute(
                    "UPDATE readers SET current = :document WHERE world_id = :world AND key = :key",
                    document=document,
                    key=key,
                )

    def positions(self, scope: Scope, reader: str) -> list[Position]:
        """Return every position of a reader in documents that readers see, by number."""
        rows = self._db.at(scope, reader=reader).all(
            """SELECT d.number, d.doc_id, r.name, r.declared_title,
                 r.chunking, r.chunking_profile, p.revision, p.sid,
                 e.current IS NOT DISTINCT FROM p.document
               FROM readers e
               JOIN positions p ON p.reader = e.key
               JOIN documents d ON d.key = p.document AND d.deleted_at IS NULL
               JOIN revisions r ON r.document = d.key AND r.state = 'active'
                 AND r.number = p.revision
               WHERE e.world_id = :world AND e.name = :reader ORDER BY d.number"""
        )
        return [
            Position(
                reader,
                *names,
                chunking=scope.generation.chunking or read_chunking(chunking, profile),
                revision=revision,
                sid=sid,
                current=bool(current),
            )
            for *names, chunking, profile, revision, sid, current in rows
        ]

    def sentences(
        self, scope: Scope, revision: RevisionRef, first: int, last: int
    ) -> list[StoredSentence]:
        """Return the sentences from `first` to `last` of a revision."""
        rows = self._db.at(scope, **numbers_of(revision), first=first, last=last).all(
            f"""SELECT sid, start, finish, tokens, text_hash FROM sentences
                WHERE revision = {REVISION} AND sid BETWEEN :first AND :last ORDER BY sid"""
        )
        return [StoredSentence(*row) for row in rows]

    def sentence_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int:
        """Return the last sentence that begins at or before `offset`; -1 before the first."""
        return self._db.at(scope, **numbers_of(revision), offset=offset).value(
            f"""SELECT coalesce(max(sid), -1) FROM sentences
                WHERE revision = {REVISION} AND start <= :offset"""
        )

    def text_between(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> str:
        """Return a part of a revision's text. The caller checks it sentence by sentence."""
        with self._db.read(scope) as session:
            data = _read_part(session, revision_key(session, revision), start, end)
        return "" if data is None else data.decode()

    def places_until(self, scope: Scope, revision: RevisionRef, offset: int) -> list[OutlineEntry]:
        """Return the chapters and sections of a revision that begin before `offset`."""
        rows = self._db.at(scope).all(
            f"""{OUTLINE} WHERE p.revision = {REVISION} AND p.start < :offset ORDER BY p.start""",
            **numbers_of(revision),
            offset=offset,
        )
        return [OutlineEntry(*row) for row in rows]

    def page_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int | None:
        """Return the page that an offset of a revision lies on; None without pages."""
        return self._db.at(scope, **numbers_of(revision), offset=offset).value(
            f"""SELECT page FROM pages WHERE revision = {REVISION} AND start <= :offset
                ORDER BY start DESC LIMIT 1"""
        )

    def anchor(
        self, scope: Scope, revision: RevisionRef, position: int, *, at_sentence: bool
    ) -> Anchor | None:
        """Return the last stored chunk that nothing past `position` decided. With `at_sentence`,
        the last one that also begins where a sentence does."""
        row = self._db.at(scope).one(
            f"""SELECT s.chunk_id, s.position, s.start, s.first_sid FROM states s
                WHERE s.world_id = :world AND s.revision = {REVISION}
                  AND s.generation = :generation AND s.reach <= :position AND s.kind = 'text'
                  AND (:anywhere OR EXISTS (SELECT 1 FROM sentences e
                    WHERE e.revision = s.revision AND e.sid = s.first_sid AND e.start = s.start))
                ORDER BY s.position DESC LIMIT 1""",
            **numbers_of(revision),
            position=position,
            anywhere=not at_sentence,
        )
        return Anchor(ChunkId(row[0]), *row[1:]) if row else None

    def whole_chunks(self, scope: Scope, revision: RevisionRef, position: int) -> int:
        """Return how many embedded chunks nothing past `position` decided."""
        return self._db.at(scope).value(
            f"SELECT count(*) {_WHOLE}", **numbers_of(revision), position=position
        )

    def whole_marks(
        self, scope: Scope, revision: RevisionRef, position: int
    ) -> list[tuple[int, int, int, TextHash]]:
        """Return first and last sentence, start and hash of each chunk `whole_chunks` counts."""
        rows = self._db.at(scope).all(
            f"SELECT first_sid, last_sid, start, text_hash {_WHOLE} ORDER BY states.position",
            **numbers_of(revision),
            position=position,
        )
        return [(first, last, start, text_hash) for first, last, start, text_hash in rows]

    def tail(self, scope: Scope, revision: RevisionRef, sid: int) -> list[TailChunk] | None:
        """Return the chunks held for a position, with vectors where there are any; None when the
        position was not asked from yet."""
        rows = self._db.at(scope).all(
            f"""SELECT t.position, t.part, t.start, t.finish, t.first_sid, t.last_sid,
                  BYTES(t.text), t.text_hash, t.tokens, t.chapter, t.section, t.page, v.vector
                FROM tail_marks m
                LEFT JOIN tails t ON t.revision = m.revision AND t.generation = m.generation
                  AND t.sid = m.sid
                LEFT JOIN vectors v ON v.world_id = :world AND v.profile_id = :profile
                  AND v.text_hash = t.text_hash
                WHERE m.revision = {REVISION} AND m.generation = :generation
                  AND m.sid = :position ORDER BY t.position""",
            **numbers_of(revision),
            position=sid,
            profile=scope.profile.id,
        )
        if not rows:
            return None
        return [
            TailChunk(*(*row[:_TEXT], row[_TEXT].decode(errors="replace"), *row[_TEXT + 1 :]))
            for row in rows
            if row[0] is not None
        ]

    @retry_on_conflict
    def keep_tail(
        self, scope: Scope, revision: RevisionRef, sid: int, chunks: Sequence[TailChunk]
    ) -> None:
        generation = scope.generation.number
        with self._db.write(scope) as session:
            key = revision_key(session, revision)
            if key is None:
                return
            where = ("revision", "generation", "sid")
            session.insert_many("tail_marks", where, [(key, generation, sid)], key=where)
            session.insert_many(
                "tails",
                (*where, *_TAIL_COLUMNS),
                [
                    (
                        *(key, generation, sid, chunk.index, chunk.part, chunk.start, chunk.end),
                        *(chunk.first_sid, chunk.last_sid, session.text(chunk.text)),
                        *(chunk.text_hash, chunk.tokens, chunk.chapter, chunk.section, chunk.page),
                    )
                    for chunk in chunks
                ],
                key=(*where, "position"),
            )

    def vectors(self, scope: Scope, hashes: Sequence[TextHash]) -> dict[TextHash, Vector]:
        rows = self._db.at(scope, profile=scope.profile.id, hashes=list(hashes)).all(
            """SELECT text_hash, vector FROM vectors
               WHERE world_id = :world AND profile_id = :profile AND text_hash IN LIST(:hashes)"""
        )
        return {text_hash: Vector(vector) for text_hash, vector in rows}

    def in_force(self, scope: Scope, reference: int | str) -> InForce | None:
        """Return the revision readers see of a document, named by its number or its doc id."""
        row = self._db.at(scope, reference=reference).one(
            """SELECT d.number, r.number, d.doc_id, r.name, r.title, r.source_hash, r.recipe
               FROM documents d JOIN revisions r ON r.document = d.key AND r.state = 'active'
               WHERE d.world_id = :world AND d.deleted_at IS NULL"""
            + (" AND d.number" if isinstance(reference, int) else " AND d.doc_id")
            + " = :reference"
        )
        if row is None:
            return None
        number, revision, doc_id, name, title, source, recipe = row
        token = assets_token(source, recipe)
        return InForce(RevisionRef(number, revision), doc_id, name, title, token)

    def passage(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> Passage | None:
        """Return a part of a revision's text in one read; None when the revision is gone."""
        with self._db.read(scope) as session:
            key = revision_key(session, revision)
            text = _read_part(session, key, start, end)
            layout = read_layout(session, key, end)
        return None if text is None else Passage(text, *layout)

    def figures(self, scope: Scope, revision: RevisionRef) -> list[StoredFigure]:
        """Return the figures of a revision, in reading order."""
        with self._db.read(scope) as session:
            rows = session.all(
                # A figure's chunk has the same place among the chunks of figures as the figure has
                # among the figures.
                """SELECT f.start, f.figure_id, f.image_ref, BYTES(f.description), f.mark, s.reach,
                     s.text_hash
                   FROM figures f
                   LEFT JOIN states s ON s.world_id = :world AND s.revision = f.revision
                     AND s.generation = :generation AND s.kind = 'figure'
                     AND s.position = f.number - 1 + (SELECT min(x.position) FROM states x
                       WHERE x.world_id = :world AND x.revision = :key
                         AND x.generation = :generation AND x.kind = 'figure')
                   WHERE f.revision = :key ORDER BY f.number""",
                key=revision_key(session, revision),
            )
        return [
            StoredFigure(
                *described,
                # What decided the figure by itself; rows of an earlier version have its chunk's.
                reach=reach if (own := figure_mark(mark).reach) is None else own,
                text_hash=text_hash,
            )
            for *described, mark, reach, text_hash in rows
        ]


class RevisedBook(Struct, frozen=True):
    """The positions in a document, and its sentences before and after a change."""

    positions: Sequence[tuple[int, int, int]]
    """The earlier revision, the position in it, and how far it is the same in the new one."""
    earlier: Mapping[int, Sequence[str] | None]
    new: Sequence[str] | None

    def moves(self) -> dict[tuple[int, int], int]:
        """Return the new position for each earlier revision and position in it."""
        aligned = {
            key: Alignment(sentences, self.new)
            for key, sentences in self.earlier.items()
            if sentences is not None and self.new is not None
        }
        return {
            (key, sid): aligned[key].move(sid) if same < sid and key in aligned else same
            for key, sid, same in self.positions
        }


def read_revised(session: Session, key: int) -> RevisedBook:
    """Return what decides where the positions in a document go when a revision becomes visible."""
    rows = session.all(
        """SELECT DISTINCT old.key, p.sid FROM revisions new
           JOIN positions p ON p.document = new.document
           JOIN revisions old ON old.document = new.document AND old.number = p.revision
           WHERE new.key = :key ORDER BY 1, 2""",
        key=key,
    )
    positions = list[tuple[int, int, int]]()
    for old, sid in rows:
        changed = session.value(
            """SELECT min(o.sid) FROM sentences o
               LEFT JOIN sentences n ON n.revision = :new AND n.sid = o.sid
               WHERE o.revision = :old AND o.sid <= :sid
                 AND (n.text_hash IS NULL OR n.text_hash <> o.text_hash)""",
            new=key,
            old=old,
            sid=sid,
        )
        positions.append((old, sid, sid if changed is None else changed - 1))
    changed_in = {old for old, sid, same in positions if same < sid}
    return RevisedBook(
        positions,
        {old: _read_sentences(session, old) for old in changed_in},
        _read_sentences(session, key) if changed_in else None,
    )


def move_positions(session: Session, key: int, moves: Mapping[tuple[int, int], int]) -> None:
    """Move every position in a document to the revision that is about to be seen. `moves` was
    computed before the transaction, which it would hold up; a position set since is computed here.
    """
    rows = session.all(
        """SELECT p.reader, p.document, p.sid, old.key, new.number
           FROM revisions new
           JOIN positions p ON p.document = new.document
           JOIN revisions old ON old.document = new.document AND old.number = p.revision
           WHERE new.key = :key""",
        key=key,
    )
    if any((old, sid) not in moves for _, _, sid, old, _ in rows):
        moves = read_revised(session, key).moves()
    for reader, document, sid, old, number in rows:
        session.execute(
            """UPDATE positions SET revision = :number, sid = :sid
               WHERE reader = :reader AND document = :document""",
            number=number,
            sid=moves[old, sid],
            reader=reader,
            document=document,
        )


def _read_sentences(session: Session, revision: int) -> list[str] | None:
    """Return the sentences of a revision; None if one of them does not match its hash."""
    data = session.value("SELECT BYTES(text) FROM texts WHERE revision = :key", key=revision)
    whole = (data or b"").decode(errors="replace")
    rows = session.all(
        "SELECT start, finish, text_hash FROM sentences WHERE revision = :key ORDER BY sid",
        key=revision,
    )
    sentences = [whole[start:end] for start, end, _ in rows]
    pairs = zip(sentences, rows, strict=True)
    sound = all(sha256(sentence.encode()).digest() == row[2] for sentence, row in pairs)
    return sentences if sound else None


def _read_part(session: Session, revision: int | None, start: int, end: int) -> bytes | None:
    """Return a part of a revision's text; None when there is no such text. Only that part is sent,
    unless the bytes are damaged or hold what the engine cannot read."""
    rows = session.all(
        "SELECT PART(text, :start, :length) FROM texts WHERE revision = :revision",
        start=start,
        length=end - start,
        revision=revision,
    )
    if not rows or rows[0][0] is not None:
        return rows[0][0] if rows else None
    whole = session.value("SELECT BYTES(text) FROM texts WHERE revision = :key", key=revision)
    return whole.decode(errors="replace")[start:end].encode()
