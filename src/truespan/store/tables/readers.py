"""Readers: positions, tails, and the sentences, pages and figures that they read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.records import copy_fields
from truespan.errors import NotFound, StoreDamaged
from truespan.store.engines.session import BRIEF_WAIT, Part, Session, retry_on_conflict
from truespan.store.integrity.checksums import (
    CHUNK_CELLS,
    CHUNK_TABLES,
    REVISION_CELLS,
    RevisionCells,
    checksum,
    chunk_checksum,
    damaged_labels,
    figure_checksum,
    part_of,
    position_checksum,
    revision_checksum,
    vector_checksum,
    verify_places,
    word_states_checksum,
)
from truespan.store.tables.conversations import move_turns, turn_places
from truespan.store.tables.fragments import REVISION
from truespan.store.tables.notes import move_notes, note_places
from truespan.store.tables.rows import (
    document_label,
    figure_mark,
    numbers_of,
    read_chosen_sentences,
    read_layout,
    read_places,
    read_sentences,
    revision_key,
)
from truespan.types.document import OutlineEntry, RevisionRef, assets_token
from truespan.types.ids import ChunkId, TextHash, WorldId
from truespan.types.profile import chunking_from_json
from truespan.types.reading import (
    ActiveRevision,
    Anchor,
    Passage,
    Position,
    StoredFigure,
    StoredSentence,
    TailChunk,
)
from truespan.types.scope import Scope, admits
from truespan.types.text import PageStart, PlacedSentence

_TAIL_FIELDS: Final = (
    *("index", "part", "start", "end", "first_sid", "last_sid", "text", "text_hash"),
    *("tokens", "chapter", "section", "page", "location"),
)
"""Stored members of a `TailChunk`; vector and states are in other tables."""
_TAIL_COLUMNS: Final = tuple(
    {"index": "position", "end": "finish"}.get(name, name) for name in _TAIL_FIELDS
)
_TEXT: Final = 6


class Readers(Part):
    @retry_on_conflict
    def set_position(
        self, scope: Scope, reader: str, revision: RevisionRef, sid: int, *, current: bool
    ) -> None:
        """Set the last sentence that a reader has read of an active revision."""
        with self._db.write(scope) as session:
            document = session.value(
                """SELECT d.key FROM documents d JOIN revisions r ON r.document = d.key
                   WHERE d.world_id = :world AND d.number = :document AND r.number = :revision
                     AND r.state = 'active' AND d.deleted_at IS NULL""",
                **numbers_of(revision),
            )
            if document is None:
                raise NotFound("document", str(revision.document))
            session.execute(
                """INSERT INTO readers (world_id, name) VALUES (:world, :reader)
                   ON CONFLICT DO NOTHING""",
                reader=reader,
            )
            key = session.value(
                "SELECT key FROM readers WHERE world_id = :world AND name = :reader", reader=reader
            )
            now = self._clock.now()
            session.insert(
                "positions",
                key=("reader", "document"),
                reader=key,
                document=document,
                revision=revision.revision,
                sid=sid,
                updated_at=now,
                checksum=position_checksum(scope.world, reader, revision, sid, now),
            )
            if current:
                session.execute(
                    "UPDATE readers SET current = :document WHERE world_id = :world AND key = :key",
                    document=document,
                    key=key,
                )

    def all(self, scope: Scope) -> list[str]:
        """Return the names of readers with a position in a document that is not deleted."""
        rows = self._db.at(scope).all(
            """SELECT DISTINCT e.name, d.number FROM readers e
               JOIN positions p ON p.reader = e.key
               JOIN documents d ON d.key = p.document AND d.deleted_at IS NULL
               JOIN revisions r ON r.document = d.key AND r.state = 'active' AND SEEN(r)
               WHERE e.world_id = :world ORDER BY e.name"""
        )
        return list(dict.fromkeys(name for name, number in rows if admits(scope.documents, number)))

    def damaged_positions(self, world: WorldId) -> Iterator[str]:
        """Yield the documents, with their readers, whose positions do not match their checksums."""
        for reader, document, revision, sid, updated_at, recorded in self._db.at(world).all(
            """SELECT e.name, d.number, p.revision, p.sid, p.updated_at, p.checksum
               FROM readers e JOIN positions p ON p.reader = e.key
               JOIN documents d ON d.key = p.document
               WHERE e.world_id = :world ORDER BY 1, 2"""
        ):
            ref = RevisionRef(document, revision)
            if recorded != position_checksum(world, reader, ref, sid, updated_at):
                yield f"{reader}, document {document}"

    def positions(self, scope: Scope, reader: str) -> list[Position]:
        """Return the positions of a reader in active documents, by number.

        For a caller with an audience, the book whose position was set last is the current one: the
        recorded current book may be a hidden one.
        """
        rows = self._db.at(scope, reader=reader).all(
            f"""SELECT p.revision, p.sid, e.current IS NOT DISTINCT FROM p.document, p.updated_at,
                 p.checksum, r.checksum, {REVISION_CELLS}
               FROM readers e
               JOIN positions p ON p.reader = e.key
               JOIN documents d ON d.key = p.document AND d.deleted_at IS NULL
               JOIN revisions r ON r.document = d.key AND r.state = 'active' AND SEEN(r)
               WHERE e.world_id = :world AND e.name = :reader ORDER BY p.updated_at, d.number"""
        )
        positions = []
        for revision, sid, current, updated_at, recorded, recorded_labels, *values in rows:
            cells = RevisionCells._make(values)
            number = cells.document
            if not admits(scope.documents, number):
                continue
            ref = RevisionRef(number, revision)
            if recorded != position_checksum(scope.world, reader, ref, sid, updated_at):
                raise StoreDamaged(
                    f"The reading position of {reader!r} in document {number} is damaged.",
                    advice="Set it again.",
                )
            if recorded_labels != revision_checksum(scope.world, cells):
                raise damaged_labels(number)
            if revision != cells.number:
                # Its revision no longer exists.
                continue
            positions.append(_position(scope, reader, cells, sid, current=bool(current)))
        if scope.is_limited and positions:
            positions = [replace(position, current=False) for position in positions]
            positions[-1] = replace(positions[-1], current=True)
        return sorted(positions, key=lambda position: position.document)

    def position_at(self, scope: Scope, reader: str, document: int, sid: int) -> list[Position]:
        """Return the position of a reader at a sentence; empty if the document is gone.

        A sentence past the end means the last one.
        """
        row = self._db.at(scope, document=document).one(
            f"""SELECT r.checksum, {REVISION_CELLS} FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active' AND SEEN(r)
               WHERE d.world_id = :world AND d.number = :document AND d.deleted_at IS NULL"""
        )
        if row is None or not admits(scope.documents, document):
            return []
        cells = _verified_cells(scope.world, row[0], row[1:])
        return [_position(scope, reader, cells, min(sid, cells.sentences - 1), current=True)]

    def sentences(
        self, scope: Scope, revision: RevisionRef, first: int, last: int
    ) -> list[StoredSentence]:
        """Return the sentences from `first` to `last` of a revision."""
        return read_sentences(self._db.at(scope), scope.world, revision, first, last)

    def sentences_of_chunks(
        self, scope: Scope, chosen: Collection[tuple[str, int]]
    ) -> dict[tuple[str, int], PlacedSentence]:
        """Return sentences of chunks, by chunk id and sentence number, without missing ones."""
        return read_chosen_sentences(self._db.at(scope), scope.world, chosen)

    def sentence_at(self, scope: Scope, revision: RevisionRef, offset: int) -> int:
        """Return the last sentence that begins at or before `offset`; -1 before the first."""
        return self._db.at(scope).value(
            f"""SELECT coalesce(max(sid), -1) FROM sentences
                WHERE revision = {REVISION} AND start <= :offset""",
            **numbers_of(revision),
            offset=offset,
        )

    def text_between(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> str:
        """Return a part of a revision's text, unverified; the caller verifies each sentence."""
        with self._db.read(scope) as session:
            data = _read_part(session, revision_key(session, revision), start, end)
        return "" if data is None else data.decode()

    def places_until(self, scope: Scope, revision: RevisionRef, offset: int) -> list[OutlineEntry]:
        """Return the chapters and sections of a revision that begin before `offset`."""
        with self._db.read(scope) as session:
            rows = read_places(session, revision_key(session, revision), offset)
        return verify_places(scope.world, revision, rows)[0]

    def anchor(
        self, scope: Scope, revision: RevisionRef, position: int, *, at_sentence: bool
    ) -> Anchor | None:
        """Return the last stored chunk that depends on nothing past `position`.

        With `at_sentence`, only chunks that begin with a sentence count.
        """
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

    def whole_marks(
        self, scope: Scope, revision: RevisionRef, position: int
    ) -> list[tuple[int, int, int, TextHash]]:
        """Return first and last sentence, start and hash of the chunks of `whole_chunks`."""
        rows = self._db.at(scope).all(
            f"""SELECT s.checksum, {CHUNK_CELLS} FROM {CHUNK_TABLES}
                WHERE s.world_id = :world AND s.revision = {REVISION}
                  AND s.generation = :generation AND s.reach <= :position
                  AND s.state = 'embedded' ORDER BY s.position""",
            **numbers_of(revision),
            position=position,
        )
        return [
            (cells[6], cells[7], cells[4], cells[10])
            for recorded, *cells in rows
            if recorded == chunk_checksum(scope.world, scope.generation.number, revision, cells)
        ]

    def tail(self, scope: Scope, revision: RevisionRef, sid: int) -> list[TailChunk] | None:
        """Return the stored chunks of a position, with vectors and states of words if stored.

        None if they are missing or damaged, so that they have to be made again.
        """
        rows = self._db.at(scope).all(
            f"""SELECT m.checksum, v.vector, v.checksum, w.states, w.checksum,
                  t.position, t.part, t.start, t.finish, t.first_sid, t.last_sid, BYTES(t.text),
                  t.text_hash, t.tokens, t.chapter, t.section, t.page, t.location
                FROM tail_marks m
                LEFT JOIN tails t ON t.revision = m.revision AND t.generation = m.generation
                  AND t.sid = m.sid
                LEFT JOIN vectors v ON v.world_id = :world AND v.profile_id = :profile
                  AND v.text_hash = t.text_hash
                LEFT JOIN word_states w ON w.world_id = :world AND w.profile_id = :profile
                  AND w.text_hash = t.text_hash
                WHERE m.revision = {REVISION} AND m.generation = :generation
                  AND m.sid = :position ORDER BY t.position""",
            **numbers_of(revision),
            position=sid,
            profile=scope.profile.id,
        )
        if not rows:
            return None
        kept = [row[5:] for row in rows if row[5] is not None]
        if rows[0][0] != _tail_checksum(scope, revision, sid, kept):
            return None
        world, profile = scope.world, scope.profile.id
        tail = []
        for _, vector, of_vector, states, of_states, *cells in rows:
            if cells[0] is None:
                continue
            values = dict(zip(_TAIL_FIELDS, cells, strict=True))
            values["text"], key = values["text"].decode(), (world, profile, values["text_hash"])
            if vector is not None and of_vector != vector_checksum(*key, vector):
                vector = None
            if states is not None and of_states != word_states_checksum(*key, states):
                states = None
            tail.append(TailChunk(**values, vector=vector, states=states))
        return tail

    @retry_on_conflict
    def keep_tail(
        self, scope: Scope, revision: RevisionRef, sid: int, chunks: Sequence[TailChunk]
    ) -> None:
        """Store the chunks of a position, in place of previous ones."""
        generation = scope.generation.number
        rows = [
            (
                *(chunk.index, chunk.part, chunk.start, chunk.end, chunk.first_sid, chunk.last_sid),
                *(chunk.text.encode(), chunk.text_hash, chunk.tokens, chunk.chapter, chunk.section),
                *(chunk.page, chunk.location),
            )
            for chunk in chunks
        ]
        with self._db.write(scope, wait=BRIEF_WAIT, sid=sid) as session:
            key = revision_key(session, revision)
            if key is None:
                return
            session.execute(
                """DELETE FROM tails
                   WHERE revision = :key AND generation = :generation AND sid = :sid""",
                key=key,
            )
            where = ("revision", "generation", "sid")
            session.insert(
                "tail_marks",
                key=where,
                revision=key,
                generation=generation,
                sid=sid,
                checksum=_tail_checksum(scope, revision, sid, rows),
            )
            session.insert_many(
                "tails",
                (*where, *_TAIL_COLUMNS),
                [
                    (key, generation, sid, *row[:_TEXT], session.text(chunk.text), *row[7:])
                    for chunk, row in zip(chunks, rows, strict=True)
                ],
            )

    def in_force(self, scope: Scope, reference: int | str) -> ActiveRevision | None:
        """Return the active revision of a document, given by its number or id."""
        row = self._db.at(scope, reference=reference).one(
            f"""SELECT r.checksum, {REVISION_CELLS}
               FROM documents d
               JOIN revisions r ON r.document = d.key AND r.state = 'active' AND SEEN(r)
               WHERE d.world_id = :world AND d.deleted_at IS NULL"""
            + (" AND d.number" if isinstance(reference, int) else " AND d.doc_id")
            + " = :reference"
        )
        if row is None or not admits(scope.documents, row[1]):
            return None
        recorded, *values = row
        cells = _verified_cells(scope.world, recorded, values)
        return copy_fields(
            ActiveRevision,
            cells,
            ref=cells.ref,
            path=cells.shown_path,
            images=assets_token(cells.source_hash, cells.recipe),
        )

    def passage(self, scope: Scope, revision: RevisionRef, start: int, end: int) -> Passage | None:
        """Return a part of a revision's text with its places; None if the revision is gone."""
        with self._db.read(scope) as session:
            key = revision_key(session, revision)
            text = _read_part(session, key, start, end)
            layout = read_layout(session, key, start, end)
        return None if text is None else Passage(text, *layout)

    def page_starts(self, scope: Scope, revision: RevisionRef) -> list[PageStart]:
        """Return the starts of all pages of a revision, verified."""
        with self._db.read(scope) as session:
            key = revision_key(session, revision)
            rows = session.all(
                "SELECT start, page, unit FROM pages WHERE revision = :key ORDER BY start", key=key
            )
            parts = session.value("SELECT parts FROM revisions WHERE key = :key", key=key)
        if part_of(parts, "pages") != checksum("pages", scope.world, revision, *rows):
            raise StoreDamaged(
                f"The pages of document {revision.document} do not match their checksum.",
                advice="Run 'truespan doctor'.",
            )
        return [PageStart(*row) for row in rows]

    def figures(
        self, scope: Scope, revision: RevisionRef, *, all_of_them: bool
    ) -> list[StoredFigure]:
        """Return the figures of a revision, in reading order.

        With `all_of_them`, missing figures are an error; for a reader, unread figures must not
        make a difference.
        """
        with self._db.read(scope) as session:
            key = revision_key(session, revision)
            rows = session.all(
                """SELECT f.checksum, f.number, f.figure_id, f.start, f.image_ref,
                     BYTES(f.description), f.mark
                   FROM figures f WHERE f.revision = :key ORDER BY f.number""",
                key=key,
            )
            chunks = session.all(
                f"""SELECT s.checksum, {CHUNK_CELLS} FROM {CHUNK_TABLES}
                    WHERE s.world_id = :world AND s.revision = :key
                      AND s.generation = :generation AND s.kind = 'figure'""",
                key=key,
            )
            parts = session.value("SELECT parts FROM revisions WHERE key = :key", key=key)
        complete = checksum("figures", *(row[0] for row in rows)) == part_of(parts, "figures")
        if all_of_them and not complete:
            raise StoreDamaged(
                f"Figures of document {revision.document} are missing or damaged.",
                advice="Run 'truespan doctor'.",
            )
        world, generation = scope.world, scope.generation.number
        reaches = {
            figure_mark(cells[17]).figure_id: cells[8]
            for recorded, *cells in chunks
            if recorded == chunk_checksum(world, generation, revision, cells)
        }
        figures = []
        for recorded, *cells in rows:
            _, figure_id, start, image_ref, description, mark = cells
            intact = recorded == figure_checksum(scope.world, revision, cells)
            # The reach in a damaged record is unknown; the reach of its chunk is not lower.
            own = figure_mark(mark).reach if intact else None
            reach = reaches.get(figure_id) if own is None else own
            figures.append(
                StoredFigure(
                    start=start,
                    figure_id=figure_id,
                    image_ref=image_ref,
                    description=description,
                    reach=reach,
                    has_chunk=bool(chunks),
                    intact=intact,
                )
            )
        return figures


def _verified_cells(world: WorldId, recorded: bytes, values: Sequence[Any]) -> RevisionCells:
    """Return the cells of a revision; raises StoreDamaged if their checksum differs."""
    cells = RevisionCells._make(values)
    if recorded != revision_checksum(world, cells):
        raise damaged_labels(cells.document)
    return cells


def _tail_checksum(
    scope: Scope, revision: RevisionRef, sid: int, rows: Sequence[Sequence[object]]
) -> bytes:
    return checksum("tails", scope.world, scope.generation.number, revision, sid, *rows)


class RevisedBook(Struct, frozen=True):
    """Positions in a document, and its sentences before and after a change."""

    positions: Sequence[tuple[int, int, int]]
    """Previous revision, position, and the last sentence up to which the new one is the same."""
    turns: Sequence[tuple[int, int, int]]
    """The same for the turns of conversations, and for notes and the sentences they mark."""
    previous: Mapping[int, Sequence[str] | None]
    new: Sequence[str] | None

    def moves(self) -> Moves:
        """Return the new positions."""
        from truespan.text.alignment import Alignment

        aligned = {
            key: Alignment(sentences, self.new)
            for key, sentences in self.previous.items()
            if sentences is not None and self.new is not None
        }
        positions = {
            (key, sid): aligned[key].move(sid) if same < sid and key in aligned else same
            for key, sid, same in self.positions
        }
        turns = {
            (key, sid): sid
            if same >= sid
            else (aligned[key].move_all(sid) if key in aligned else None)
            for key, sid, same in self.turns
        }
        return Moves(positions, turns)


class Moves(Struct, frozen=True):
    """New positions, by previous revision and position."""

    positions: Mapping[tuple[int, int], int] = field(default_factory=dict)
    turns: Mapping[tuple[int, int], int | None] = field(default_factory=dict)
    """None if no new position covers everything that a turn may mention."""


def read_revised(session: Session, key: int) -> RevisedBook:
    """Return the data that decides how positions move when a revision becomes active."""
    rows = session.all(
        """SELECT DISTINCT old.key, p.sid FROM revisions new
           JOIN positions p ON p.document = new.document
           JOIN revisions old ON old.document = new.document AND old.number = p.revision
           WHERE new.key = :key ORDER BY 1, 2""",
        key=key,
    )
    turns = list(dict.fromkeys([*turn_places(session, key), *note_places(session, key)]))
    same = dict[tuple[int, int], int]()
    for old, sid in dict.fromkeys([*((old, sid) for old, sid in rows), *turns]):
        changed = session.value(
            """SELECT min(o.sid) FROM sentences o
               LEFT JOIN sentences n ON n.revision = :new AND n.sid = o.sid
               WHERE o.revision = :old AND o.sid <= :sid
                 AND (n.text_hash IS NULL OR n.text_hash <> o.text_hash)""",
            new=key,
            old=old,
            sid=sid,
        )
        same[old, sid] = sid if changed is None else changed - 1
    changed_in = {old for (old, sid), last in same.items() if last < sid}
    return RevisedBook(
        [(old, sid, same[old, sid]) for old, sid in rows],
        [(old, sid, same[old, sid]) for old, sid in turns],
        {old: _read_sentences(session, old) for old in changed_in},
        _read_sentences(session, key) if changed_in else None,
    )


def move_positions(session: Session, world: WorldId, key: int, moves: Moves) -> None:
    """Move all positions, turns and notes of a document to the revision that becomes active.

    `moves` was computed before the transaction; it is computed again if positions, turns or notes
    were added since.
    """
    rows = session.all(
        """SELECT e.name, d.number, p.updated_at, p.checksum, old.number, new.number, p.reader,
             p.document, old.key, p.sid
           FROM revisions new
           JOIN positions p ON p.document = new.document
           JOIN readers e ON e.key = p.reader
           JOIN documents d ON d.key = p.document AND d.world_id = :world
           JOIN revisions old ON old.document = new.document AND old.number = p.revision
           WHERE new.key = :key""",
        key=key,
    )
    known = all(tuple(row[-2:]) in moves.positions for row in rows)
    others = {*turn_places(session, key), *note_places(session, key)}
    if not known or not moves.turns.keys() >= others:
        moves = read_revised(session, key).moves()
    move_turns(session, world, key, moves.turns)
    move_notes(session, world, key, moves.turns)
    for name, book, updated_at, recorded, before, number, reader, document, old, sid in rows:
        ref = RevisionRef(book, before)
        if recorded != position_checksum(world, name, ref, sid, updated_at):
            # A damaged position stays damaged until it is set again.
            continue
        moved = moves.positions[old, sid]
        ref = RevisionRef(book, number)
        session.execute(
            """UPDATE positions SET revision = :number, sid = :sid, checksum = :checksum
               WHERE reader = :reader AND document = :document""",
            number=number,
            sid=moved,
            checksum=position_checksum(world, name, ref, moved, updated_at),
            reader=reader,
            document=document,
        )


def _read_sentences(session: Session, revision: int) -> list[str] | None:
    """Return the sentences of a revision; None if any is missing or damaged."""
    data = session.value("SELECT BYTES(text) FROM texts WHERE revision = :key", key=revision)
    whole = (data or b"").decode(errors="replace")
    rows = session.all(
        "SELECT start, finish, text_hash, sid FROM sentences WHERE revision = :key ORDER BY sid",
        key=revision,
    )
    count = session.value("SELECT sentences FROM revisions WHERE key = :key", key=revision)
    sentences = [whole[start:end] for start, end, *_ in rows]
    pairs = zip(sentences, rows, strict=True)
    sound = all(sha256(sentence.encode()).digest() == row[2] for sentence, row in pairs)
    complete = [row[3] for row in rows] == list(range(count or 0))
    return sentences if sound and complete else None


def _read_part(session: Session, revision: int | None, start: int, end: int) -> bytes | None:
    """Return a part of a revision's text; None if there is no text.

    Only that part is sent, unless the engine cannot decode the bytes.
    """
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


def _position(
    scope: Scope, reader: str, cells: RevisionCells, sid: int, *, current: bool
) -> Position:
    own = scope.generation.chunking or chunking_from_json(cells.chunking_profile)
    return copy_fields(
        Position,
        cells,
        reader=reader,
        chunking=own,
        revision=cells.number,
        sid=sid,
        current=current,
        language_declared=bool(cells.language_declared),
        label=document_label(cells),
    )
