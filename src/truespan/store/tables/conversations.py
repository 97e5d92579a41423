"""Conversations and their turns: storing, reading up to a position, moving and deleting."""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Any, Final

import msgspec

from truespan import errors
from truespan.core.decoding import prepare
from truespan.store.engines.session import Part, Row, Session, retry_on_conflict
from truespan.store.integrity.checksums import checksum
from truespan.store.integrity.erasure import queue_files
from truespan.types.answer import Citation, Quote, Support
from truespan.types.conversation import (
    ConversationInfo,
    ConversationRecord,
    NewTurn,
    ReadTo,
    Turn,
    is_conversation_id,
    title_of,
)
from truespan.types.decision import AnswerMode, RewrittenBy
from truespan.types.ids import WorldId
from truespan.types.scope import UNLIMITED, Authority, Unlimited

_DAY: Final = 24 * 3600.0
_CONVERSATION: Final = "c.id, c.reader, c.document, c.token, c.created_at"
"""Cells that the checksum of a conversation covers, in the order of a `ConversationRecord`."""
_TURN: Final = """t.id, t.number, t.asked_at, t.document, t.revision, t.sid, t.documents,
    t.content_hash"""
"""Cells that the checksum of a turn covers, besides its conversation."""
_TURN_COLUMNS: Final = tuple(re.findall(r"t\.(\w+)", _TURN))
_ALL_TURNS: Final = 1_000_000
_PAGE: Final = 256
"""Turns that are examined at a time."""
_DOCUMENTS: Final = 7
"""Index of the used documents in a row of a checksum and the cells of `_TURN`."""
_OWN: Final = "(CAST(:token AS TEXT) IS NULL OR c.token = :token)"
"""Condition for conversations of the caller; without a token, the caller is the owner."""
_VISIBLE: Final = """t.world_id = :world AND t.asked_at >= :oldest
    AND (CAST(:book AS INTEGER) IS NULL
      OR (t.document = :book AND t.revision = :revision AND t.sid <= :sid))"""
"""Condition for turns to show: not too old, and at or before the position of the reader."""


class TurnContent(msgspec.Struct, frozen=True):
    """Stored content of a turn."""

    question: str
    standalone: str
    rewritten_by: RewrittenBy
    answer: str
    mode: AnswerMode
    citations: tuple[Citation, ...] = ()
    quotes: tuple[Quote, ...] = ()
    support: Support | None = None
    record: str | None = None


class Conversations(Part):
    """Conversations. A caller with a token sees only conversations that this token began."""

    def find(
        self, authority: Authority, world: WorldId, reference: str, *, reader: str | None
    ) -> ConversationRecord:
        """Return a conversation of a reader, or of the whole world."""
        row = None
        if is_conversation_id(reference) and authority.sees(world):
            row = self._db.at(world, token=authority.owner).one(
                f"""SELECT c.checksum, {_CONVERSATION} FROM conversations c
                    WHERE c.world_id = :world AND c.id = :id AND {_OWN}
                      AND c.reader IS NOT DISTINCT FROM CAST(:reader AS TEXT)""",
                id=reference,
                reader=reader,
            )
        if row is None:
            raise errors.NotFound("conversation", reference)
        recorded, *cells = row
        if recorded != conversation_checksum(world, cells):
            raise errors.StoreDamaged(
                f"The record of conversation {reference} does not match its checksum.",
                advice="Delete the conversation.",
            )
        return ConversationRecord(*cells)

    def turns(
        self,
        world: WorldId,
        record: ConversationRecord,
        read_to: ReadTo | None,
        *,
        days: int,
        max_turns: int,
        documents: frozenset[int] | Unlimited = UNLIMITED,
    ) -> list[Turn]:
        """Return the latest turns of a conversation, at most `max_turns`, in order.

        For a reader, only turns up to the position count. A damaged turn has no content. Turns that
        used other `documents`, and later turns, are left out.
        """
        if record.reader is not None and read_to is None:
            return []
        rows = self._db.at(world, id=record.id, **self._visible(read_to, days)).all(
            f"""SELECT BYTES(t.content), t.checksum, {_TURN} FROM turns t
                JOIN conversations c ON c.key = t.conversation AND c.world_id = :world
                WHERE c.id = :id AND {_VISIBLE} ORDER BY t.number DESC LIMIT :max_turns""",
            # Whether a turn is shown depends on those before it.
            max_turns=max_turns if isinstance(documents, Unlimited) else _ALL_TURNS,
        )
        rows.reverse()
        shown = _among(world, record.id, [row[1:] for row in rows], documents)
        return [_read_turn(world, record.id, row) for row in rows[: len(shown)]][-max_turns:]

    def all(
        self,
        authority: Authority,
        world: WorldId,
        *,
        reader: str | None,
        read_to: ReadTo | None,
        days: int,
        max_turns: int,
        limit: int,
        offset: int = 0,
        documents: frozenset[int] | Unlimited = UNLIMITED,
    ) -> list[ConversationInfo]:
        """Return conversations with a visible turn, the latest first.

        They are those about the whole world, or those of a reader about one book. Only the latest
        turns of each count, at most `max_turns`.
        """
        if not authority.sees(world):
            raise errors.NotFound("world", world)
        own = self._visible(read_to, days)
        with self._db.read(world, token=authority.owner, reader=reader, **own) as session:
            found = session.all(
                f"""SELECT c.key, c.checksum, {_CONVERSATION} FROM conversations c JOIN (
                      SELECT t.conversation, max(t.asked_at) AS latest
                      FROM turns t WHERE {_VISIBLE} GROUP BY t.conversation) v
                      ON v.conversation = c.key
                    WHERE c.world_id = :world AND {_OWN}
                      AND c.reader IS NOT DISTINCT FROM CAST(:reader AS TEXT)
                    ORDER BY v.latest DESC, c.key DESC LIMIT :limit OFFSET :offset""",
                limit=limit,
                offset=offset,
            )
            turns: dict[int, list[Row]] = {key: [] for key, *_ in found}
            for key, *row in session.all(
                f"""SELECT t.conversation, t.checksum, {_TURN} FROM turns t
                    WHERE {_VISIBLE} AND t.conversation IN LIST(:keys) ORDER BY t.number""",
                keys=list(turns),
            ):
                turns[key].append(tuple(row))
            ids = {key: row[1] for key, *row in found}
            turns = {
                key: _among(world, ids[key], rows, documents)[-max_turns:]
                for key, rows in turns.items()
            }
            turns = {key: rows for key, rows in turns.items() if rows}
            first = session.all(
                f"""SELECT t.conversation, BYTES(t.content), t.checksum, {_TURN} FROM turns t
                    WHERE {_VISIBLE} AND t.id IN LIST(:ids)""",
                ids=[rows[0][1] for rows in turns.values()],
            )
        titles = dict[int, Row]((key, tuple(row)) for key, *row in first)
        return [
            _summarize(world, reader, row, turns[key], titles[key])
            for key, *row in found
            if key in turns
        ]

    def damaged(self, world: WorldId) -> Iterator[str]:
        """Yield the ids of conversations that do not match their checksum, or have such turns."""
        found: dict[str, None] = {}
        for recorded, *cells in self._db.at(world).all(
            f"""SELECT c.checksum, {_CONVERSATION} FROM conversations c
                WHERE c.world_id = :world ORDER BY c.key"""
        ):
            if recorded != conversation_checksum(world, cells):
                found[cells[0]] = None
        after = -1
        while rows := self._db.at(world).all(
            f"""SELECT t.key, c.id, BYTES(t.content), t.checksum, {_TURN} FROM turns t
                JOIN conversations c ON c.key = t.conversation AND c.world_id = :world
                WHERE t.world_id = :world AND t.key > :after ORDER BY t.key LIMIT :limit""",
            after=after,
            limit=_PAGE,
        ):
            after = rows[-1][0]
            for _, conversation, *cells in rows:
                if _read_turn(world, conversation, tuple(cells)).damaged:
                    found[conversation] = None
        yield from found

    @retry_on_conflict
    def add_turn(
        self,
        authority: Authority,
        world: WorldId,
        record: ConversationRecord,
        new: NewTurn,
        *,
        days: int,
        max_turns: int,
        begins: bool,
    ) -> None:
        """Store a turn; with `begins`, also the conversation, unless it exists.

        The same commit deletes turns older than `days`, and turns of the conversation that are not
        among the latest `max_turns` at any position of the reader.
        """
        if not authority.sees(world):
            raise errors.NotFound("world", world)
        with self._db.write(world, id=record.id) as session:
            key = session.value(
                """SELECT c.key FROM conversations c
                   WHERE c.world_id = :world AND c.id = :id LOCK_ROWS()"""
            )
            if key is None and begins:
                cells = msgspec.structs.astuple(record)
                columns = dict(zip(ConversationRecord.__struct_fields__, cells, strict=True))
                own = conversation_checksum(world, cells)
                key = session.insert_returning("key", "conversations", **columns, checksum=own)
            if key is None:
                raise errors.NotFound("conversation", record.id)
            _require_grounds(session, key, record.id, new)
            number = session.value(
                """SELECT coalesce(max(number), 0) + 1 FROM turns
                   WHERE world_id = :world AND conversation = :key""",
                key=key,
            )
            content = _encode_content(new.turn)
            cells = _turn_cells(new, number, content)
            session.insert(
                "turns",
                conversation=key,
                **dict(zip(_TURN_COLUMNS, cells, strict=True)),
                content=session.text(content.decode()),
                checksum=turn_checksum(world, record.id, cells),
            )
            turns = session.all(
                """SELECT key, revision, sid FROM turns
                   WHERE world_id = :world AND conversation = :key ORDER BY number DESC""",
                key=key,
            )
            session.execute(
                "DELETE FROM turns WHERE world_id = :world AND key IN LIST(:keys)",
                keys=list(_crowded_out(turns, max_turns)),
            )
            # On SQLite in every world, also in idle ones; row security limits it to this world.
            oldest = self._clock.now() - days * _DAY
            if session.execute("DELETE FROM turns WHERE asked_at < :oldest", oldest=oldest):
                session.execute(_DELETE_EMPTY)

    @retry_on_conflict
    def delete(
        self,
        authority: Authority,
        world: WorldId,
        *,
        conversation: str | None = None,
        reader: str | None = None,
        erase: bool,
    ) -> dict[str, int]:
        """Delete one conversation of the caller, all of a reader, or all of the world.

        Returns:
            The number of deleted rows by table.
        """
        if not authority.sees(world):
            raise errors.NotFound("world", world)
        values: dict[str, Any] = {"token": authority.owner, "reader": reader, "id": conversation}
        with self._db.write(world, shared=True, **values) as session:
            keys = session.all(
                f"""SELECT c.key FROM conversations c WHERE c.world_id = :world AND {_OWN}
                      AND (CAST(:id AS TEXT) IS NULL OR c.id = :id)
                      AND (CAST(:reader AS TEXT) IS NULL OR c.reader = :reader)"""
            )
            removed = _delete(session, [key for (key,) in keys])
            if removed:
                queue_files(session, [], self._clock.now(), urgent=erase)
        return removed

    def _visible(self, read_to: ReadTo | None, days: int) -> dict[str, Any]:
        return {
            "oldest": self._clock.now() - days * _DAY,
            "book": read_to and read_to.document,
            "revision": read_to and read_to.revision,
            "sid": read_to and read_to.sid,
        }


def _summarize(
    world: WorldId, reader: str | None, row: Sequence[Any], turns: Sequence[Row], first: Row
) -> ConversationInfo:
    """Return the entry of a conversation in a list; `first` is its first visible turn."""
    recorded, *cells = row
    record = ConversationRecord(*cells)
    row_intact = recorded == conversation_checksum(world, cells)
    intact = [turn for turn in turns if _is_intact(world, record.id, turn)]
    title = _read_turn(world, record.id, first) if row_intact else None
    times = [turn[3] for turn in intact] or [record.created_at]
    return ConversationInfo(
        id=record.id,
        reader=reader,
        book=record.document if row_intact else None,
        title=title_of(title.question) if title else "",
        created_at=min(times),
        updated_at=max(times),
        turns=len(turns),
        damaged=title is None or title.damaged or len(intact) < len(turns),
    )


def _among(
    world: WorldId, conversation: str, turns: list[Row], documents: frozenset[int] | Unlimited
) -> list[Row]:
    """Return the turns before the first that used other documents; later ones may repeat its text.

    The rows have the checksum and the cells of `_TURN`. A damaged row may name wrong documents.
    """
    if isinstance(documents, Unlimited):
        return turns

    def is_shown(row: Row) -> bool:
        used = {int(number) for number in row[_DOCUMENTS].split()}
        return _is_intact(world, conversation, row) and used <= documents

    return list(takewhile(is_shown, turns))


def _crowded_out(turns: Iterable[Row], max_turns: int) -> Iterator[int]:
    """Yield the keys of turns that are not among the latest `max_turns` at any position.

    The turns are given as key, revision and position, the latest first. Only later turns at or
    before the position of a turn displace it, so that a reader who moves back still sees it.
    """
    later: dict[int | None, list[int]] = {}
    for key, revision, sid in turns:
        positions = later.setdefault(revision, [])
        if bisect_right(positions, sid or 0) >= max_turns:
            yield key
        insort(positions, sid or 0)


_DELETE_EMPTY: Final = """DELETE FROM conversations WHERE NOT EXISTS
    (SELECT 1 FROM turns t WHERE t.conversation = conversations.key)"""
"""Deletes conversations without turns, in every world of the store."""


def new_id() -> str:
    """Return a new id of a conversation or a turn: 128 random bits."""
    import secrets

    return secrets.token_hex(16)


def conversation_checksum(world: WorldId, cells: Sequence[object]) -> bytes:
    """Return the checksum of a conversation; the cells are those of `_CONVERSATION`."""
    return checksum("conversations", world, *cells)


def turn_checksum(world: WorldId, conversation: str, cells: Sequence[object]) -> bytes:
    """Return the checksum of a turn; the cells are those of `_TURN`."""
    return checksum("turns", world, conversation, *cells)


def _require_grounds(session: Session, key: int, conversation: str, new: NewTurn) -> None:
    """Raise an error if anything that a turn is based on was deleted: its text may repeat it."""
    wanted = sorted({*new.documents, *([new.turn.document] if new.turn.document else [])})
    there = session.all(
        """SELECT number FROM documents
           WHERE world_id = :world AND number IN LIST(:wanted) AND deleted_at IS NULL""",
        wanted=wanted,
    )
    if gone := set(wanted) - {number for (number,) in there}:
        raise errors.NotFound("document", str(min(gone)))
    # Deleting a document deletes the first turn that used it and all later ones.
    last = new.follows and session.one(
        "SELECT 1 FROM turns WHERE world_id = :world AND conversation = :key AND id = :turn",
        key=key,
        turn=new.follows,
    )
    if new.follows and not last:
        raise errors.NotFound("conversation", conversation)


def delete_turns_of(session: Session, document: int) -> dict[str, int]:
    """Delete conversations about a document, and in others all turns from the first that used it.

    Later turns may repeat its text.

    Returns:
        The number of deleted rows by table.
    """
    removed = _delete(
        session,
        [
            key
            for (key,) in session.all(
                "SELECT key FROM conversations WHERE world_id = :world AND document = :document",
                document=document,
            )
        ],
    )
    turns = session.execute(
        """DELETE FROM turns WHERE world_id = :world AND EXISTS (SELECT 1 FROM turns t
             WHERE t.world_id = :world AND t.conversation = turns.conversation
               AND t.number <= turns.number AND t.documents LIKE :mark)""",
        mark=f"% {document} %",
    )
    empty = session.execute(f"{_DELETE_EMPTY} AND world_id = :world")
    counts = {"conversations": empty, "turns": turns}
    total = {name: removed.get(name, 0) + count for name, count in counts.items()}
    return {name: count for name, count in total.items() if count}


def turn_places(session: Session, key: int) -> list[tuple[int, int]]:
    """Return the previous revisions and positions at which turns about a document were asked.

    `key` is that of its revision that becomes active.
    """
    rows = session.all(
        """SELECT DISTINCT old.key, t.sid FROM revisions new
           JOIN documents d ON d.key = new.document AND d.world_id = :world
           JOIN turns t ON t.world_id = :world AND t.document = d.number
           JOIN revisions old ON old.document = new.document AND old.number = t.revision
           WHERE new.key = :key ORDER BY 1, 2""",
        key=key,
    )
    return [(old, sid) for old, sid in rows]


def move_turns(
    session: Session, world: WorldId, key: int, moves: Mapping[tuple[int, int], int | None]
) -> None:
    """Move the turns about a document to the revision that becomes active.

    A turn that cannot be moved keeps its revision, so that it is hidden.
    """
    rows = session.all(
        f"""SELECT t.key, old.key, new.number, c.id, t.checksum, {_TURN} FROM revisions new
            JOIN documents d ON d.key = new.document AND d.world_id = :world
            JOIN turns t ON t.world_id = :world AND t.document = d.number
            JOIN conversations c ON c.key = t.conversation AND c.world_id = :world
            JOIN revisions old ON old.document = new.document AND old.number = t.revision
            WHERE new.key = :key""",
        key=key,
    )
    for turn, old, number, conversation, recorded, *cells in rows:
        moved = moves.get((old, cells[5]))
        # A damaged turn stays damaged.
        if moved is None or recorded != turn_checksum(world, conversation, cells):
            continue
        cells[4], cells[5] = number, moved
        session.execute(
            """UPDATE turns SET revision = :revision, sid = :sid, checksum = :checksum
               WHERE world_id = :world AND key = :turn""",
            revision=number,
            sid=moved,
            checksum=turn_checksum(world, conversation, cells),
            turn=turn,
        )


def _encode_content(turn: Turn) -> bytes:
    """Return the content of a turn as JSON, which has no NUL characters."""
    fields = {name: getattr(turn, name) for name in TurnContent.__struct_fields__}
    return msgspec.json.encode(TurnContent(**fields))


def _turn_cells(new: NewTurn, number: int, content: bytes) -> tuple[Any, ...]:
    turn = new.turn
    documents = "".join(f" {document}" for document in sorted(new.documents)) + " "
    place = turn.document, new.revision, turn.sid
    return turn.id, number, turn.asked_at, *place, documents, sha256(content).digest()


def _is_intact(world: WorldId, conversation: str, row: Row) -> bool:
    """Return whether the cells of `_TURN` match the checksum before them."""
    return row[0] == turn_checksum(world, conversation, row[1:])


def _read_turn(world: WorldId, conversation: str, row: Row) -> Turn:
    content, *checked = row
    _, turn, _, asked_at, document, _, sid, _, content_hash = checked
    intact = _is_intact(world, conversation, tuple(checked))
    if not intact or sha256(content).digest() != content_hash:
        return Turn(turn, asked_at, damaged=True)
    found = msgspec.json.decode(content, type=prepare(TurnContent))
    return Turn(turn, asked_at, **msgspec.structs.asdict(found), document=document, sid=sid)


def _delete(session: Session, keys: Sequence[int]) -> dict[str, int]:
    turns = session.execute(
        "DELETE FROM turns WHERE world_id = :world AND conversation IN LIST(:keys)",
        keys=list(keys),
    )
    conversations = session.execute(
        "DELETE FROM conversations WHERE world_id = :world AND key IN LIST(:keys)",
        keys=list(keys),
    )
    counts = {"conversations": conversations, "turns": turns}
    return {name: count for name, count in counts.items() if count}
