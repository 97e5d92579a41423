"""A conversation: questions that follow up on earlier ones, of a world or of one reader."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, NamedTuple, Unpack

from msgspec import Struct
from msgspec.structs import replace

from truespan import errors
from truespan.core.records import copy_fields
from truespan.engine.access import WorldAccess
from truespan.engine.answering import Answerer, Find, final_answer, with_request
from truespan.engine.arguments import list_arguments
from truespan.maintenance.delete import Receipt
from truespan.observer import RequestTrace
from truespan.retrieval.reading.book import find_position
from truespan.store.tables.conversations import new_id
from truespan.types.answer import Answer, AnswerEvent, ConversationNote, Finished, Retrieved
from truespan.types.bundle import Notice
from truespan.types.conversation import (
    MAX_CONVERSATIONS,
    ConversationInfo,
    ConversationRecord,
    NewTurn,
    Question,
    ReadTo,
    Turn,
    title_of,
    to_markdown,
)
from truespan.types.decision import FollowUp, ModelOutcome
from truespan.types.origin import copy_origin
from truespan.types.reading import LAST_FIRST, Position
from truespan.types.request import QueryArguments, check_whole, is_blank
from truespan.types.scope import UNLIMITED, Scope, Unlimited, Verb

NOT_STORED: Final = Notice(
    "turn_not_stored", "This turn could not be added to the conversation just now."
)
TRIED: Final = Notice(
    "turn_not_stored",
    "This turn is not part of the conversation: nothing is recorded at a trial position.",
)
DAMAGED: Final = "turn_damaged"
_ATTEMPTS: Final = 5
"""Maximum number of attempts for a question whose reader goes back meanwhile."""


Positions = Callable[[Scope], list[Position]]
"""Reads the positions of a reader."""


class _Found(NamedTuple):
    """A stored conversation, the position of its reader in its book, and its visible turns."""

    record: ConversationRecord
    read_to: ReadTo | None
    turns: list[Turn]


class _Seen(Struct, frozen=True):
    """Part of a conversation that may be used for a question."""

    record: ConversationRecord
    begins: bool
    """Whether the conversation is not stored yet."""
    read_to: ReadTo | None
    turns: tuple[Turn, ...]
    damaged: int

    def is_visible_in(self, scope: Scope | None) -> bool:
        """Return whether a reader at the position of a search may see all used turns."""
        if self.read_to is None:
            return True
        if scope is None or scope.position is None or scope.revision != self.read_to.revision:
            return False
        position = scope.position
        return all(turn.sid is not None and turn.sid <= position for turn in self.turns)


class Conversation:
    """One conversation. The visible turns of a reader depend only on the read part of the book.

    Its state is in the store: two objects for the same conversation see the same turns.
    """

    def __init__(
        self,
        access: WorldAccess,
        prepare: Callable[..., Find],
        id: str | None = None,
        *,
        reader: str | None = None,
        book: str | None = None,
        positions: Positions | None = None,
        records: bool = True,
    ) -> None:
        """Open a conversation, or begin one without `id`; see `World.conversation`.

        `positions` reads the positions of the reader; without `records`, no turn is stored.
        """
        self._access = access
        self._positions = positions
        self._records = records
        self._prepare = prepare
        self._reader = reader
        self._book = book
        self._new = id is None
        self.id = new_id() if id is None else id
        _require_on(access)
        _require_access(access, reader)
        if id is not None:
            # A damaged one can be deleted; everything else raises the error again.
            try:
                self._open(max_turns=1)
            except errors.StoreDamaged:
                return

    @list_arguments
    def ask(self, query: str, **options: Unpack[QueryArguments]) -> Answer:
        """Answer a question that may follow up on the visible turns, and store both as a turn.

        A conversation of a reader takes no filters.

        Args:
            query: The question.

        Raises:
            StoreDamaged: The record of the conversation does not match its checksum.
        """
        return final_answer(self.ask_stream(query, **options))

    @list_arguments
    def ask_stream(self, query: str, **options: Unpack[QueryArguments]) -> Iterator[AnswerEvent]:
        """Answer piece by piece. The turn is stored when the answer is complete.

        Args:
            query: The question.

        Returns:
            An iterator of events, as `World.answer_stream` returns. Closing it early stores
            nothing.
        """
        # Only readers name a book.
        book = {} if self._reader is None else {"book": self._book}
        find = self._prepare(query, **options, **book)
        if is_blank(query):
            raise errors.InvalidArgument(code="blank_query")
        components, authority = self._access.components, self._access.authority
        answerer = Answerer(components, authority)
        events = self._events(query.strip(), find, answerer)
        return with_request(events, query, {**options, **book})

    def turns(self) -> list[Turn]:
        """Return the visible turns, the oldest first. A damaged turn has no text."""
        found = self._open()
        return [] if found is None else found.turns

    def info(self) -> ConversationInfo:
        """Return the entry of the conversation in a list; without turns it has no title."""
        found = self._open()
        if found is None:
            now = self._access.components.clock.now()
            return ConversationInfo(
                id=self.id,
                reader=self._reader,
                book=None,
                title="",
                created_at=now,
                updated_at=now,
                turns=0,
            )
        return _describe(found.record, found.turns)

    def export(self) -> dict[str, Any]:
        """Return the conversation and its visible turns as plain values for JSON."""
        info, turns = self._export()
        return {**info.to_json(), "turns": [turn.to_json() for turn in turns]}

    def to_markdown(self) -> str:
        """Return the conversation and its visible turns as Markdown."""
        return to_markdown(*self._export())

    def delete(self, *, erase: bool = True) -> Receipt:
        """Delete the conversation with all its turns, also those that are not visible now.

        Args:
            erase: Whether to rewrite the files that contained it; see `Documents.delete`.
        """
        receipt = delete_conversations(
            self._access, conversation=self.id, reader=self._reader, erase=erase
        )
        if not receipt.rows:
            raise errors.NotFound("conversation", self.id)
        return receipt

    # Asking

    def _events(self, query: str, find: Find, answerer: Answerer) -> Generator[AnswerEvent]:
        asked: list[tuple[_Seen, Question, Retrieved]] = []

        def ask(trace: RequestTrace) -> tuple[Question, Retrieved]:
            for _ in range(_ATTEMPTS):
                seen = self._look()
                question = answerer.understand(query, seen.turns, trace)
                book = str(seen.record.document) if seen.read_to else None
                question, retrieved = answerer.search_for(question, trace, find, book)
                # A reader who went back meanwhile must not get later turns.
                if seen.is_visible_in(retrieved.scope):
                    if seen.damaged:
                        retrieved = replace(
                            retrieved, warnings=(*retrieved.warnings, _damage_notice(seen.damaged))
                        )
                    asked.append((seen, question, retrieved))
                    return question, retrieved
            raise errors.StoreBusy

        for event in answerer.events(ask, reading=self._reader is not None):
            if isinstance(event, Finished):
                stored = self._store(event.answer, *asked[-1])
                yield Finished(copy_origin(event.answer, stored))
            else:
                yield event

    def _look(self) -> _Seen:
        """Return the visible turns for a question asked now."""
        found = self._open()
        if found is not None:
            record, read_to, turns = found
            intact = tuple(turn for turn in turns if not turn.damaged)
            return _Seen(record, False, read_to, intact, len(turns) - len(intact))
        read_to = self._find_book(self._book) if self._reader is not None else None
        if self._reader is not None and read_to is None:
            raise errors.NotFound("position")
        begun = ConversationRecord(
            id=self.id,
            reader=self._reader,
            document=read_to.document if read_to else None,
            token=self._access.authority.owner,
            created_at=self._access.components.clock.now(),
        )
        return _Seen(begun, True, read_to, (), 0)

    def _store(
        self, answer: Answer, seen: _Seen, question: Question, retrieved: Retrieved
    ) -> Answer:
        """Store the turn; return the answer with its id, or with a warning if it was not stored."""
        if not self._records:
            return replace(answer, warnings=(*answer.warnings, TRIED))
        components, scope = self._access.components, retrieved.scope
        used = set(answer.used_chunks)
        documents = {chunk.document for chunk in retrieved.chunks if chunk.chunk_id in used}
        follow_up = question.follow_up or FollowUp()
        turn = copy_fields(
            Turn,
            answer,
            id=new_id(),
            asked_at=components.clock.now(),
            question=question.asked,
            standalone=question.standalone,
            rewritten_by=follow_up.rewritten_by,
            document=seen.record.document,
            sid=scope.position if scope and seen.read_to else None,
        )
        revision = scope.revision if scope and seen.read_to else None
        rules, record = components.conversations, seen.record
        try:
            components.store.conversations.add_turn(
                self._access.authority,
                retrieved.world.id,
                record,
                NewTurn(
                    turn, frozenset(documents), revision, seen.turns[-1].id if seen.turns else None
                ),
                days=rules.days,
                max_turns=rules.turns,
                begins=seen.begins,
            )
        except errors.TruespanError:
            # The answer is complete. No failure of the store may withhold it.
            return replace(answer, warnings=(*answer.warnings, NOT_STORED))
        self._new = False
        asked_model = answer.decision_explain["models"]["primary"] not in (
            ModelOutcome.NOT_RUN,
            ModelOutcome.ABSENT,
        )
        note = ConversationNote(
            id=self.id,
            turn=turn.id,
            rewritten_by=follow_up.rewritten_by,
            standalone=question.standalone,
            history=follow_up.history_turns if asked_model else 0,
        )
        return replace(answer, conversation=note)

    # Reading

    def _open(self, max_turns: int | None = None) -> _Found | None:
        """Return the record and the latest visible turns; None for a conversation without turns.

        Raises:
            NotFound: no such conversation, or none of its turns is visible.
        """
        access, rules = self._access, self._access.components.conversations
        _require_access(access, self._reader)
        store, world = access.components.store, access.record().id

        def read() -> _Found:
            record = store.conversations.find(access.authority, world, self.id, reader=self._reader)
            self._new = False
            read_to = self._find_book(str(record.document)) if self._reader is not None else None
            turns = store.conversations.turns(
                world,
                record,
                read_to,
                days=rules.days,
                max_turns=max_turns or rules.turns,
                documents=_visible_documents(access),
            )
            if not turns:
                raise errors.NotFound("conversation", self.id)
            self._require_book(record)
            return _Found(record, read_to, turns)

        try:
            # All turns are read at one position, even if the book changes meanwhile.
            return access.with_stable_snapshot(read)
        except errors.NotFound as missing:
            missing.raise_unless("conversation_not_found")
            if self._new:
                return None
            raise

    def _require_book(self, record: ConversationRecord) -> None:
        wanted = self._find_book(self._book) if self._book is not None else None
        if self._book is not None and (wanted is None or wanted.document != record.document):
            raise errors.InvalidArgument(
                "This conversation is about another book.",
                advice="Leave the book out, or begin a new conversation.",
            )

    def _find_book(self, book: str | None) -> ReadTo | None:
        scope = self._access.scope()
        if scope is None or self._positions is None:
            return None
        found = find_position(self._positions(scope), book)
        return None if found is None else ReadTo(found.document, found.revision, found.sid)

    def _export(self) -> tuple[ConversationInfo, list[Turn]]:
        found = self._open()
        if found is None:
            raise errors.NotFound("conversation", self.id)
        return _describe(found.record, found.turns), found.turns


def _describe(record: ConversationRecord, turns: list[Turn]) -> ConversationInfo:
    times = [turn.asked_at for turn in turns if not turn.damaged] or [record.created_at]
    return ConversationInfo(
        id=record.id,
        reader=record.reader,
        book=record.document,
        title=title_of(turns[0].question),
        created_at=min(times),
        updated_at=max(times),
        turns=len(turns),
        damaged=any(turn.damaged for turn in turns),
    )


def list_conversations(
    access: WorldAccess,
    reader: str | None = None,
    book: str | None = None,
    *,
    limit: int,
    offset: int,
    positions: Positions | None = None,
) -> list[ConversationInfo]:
    """Return the conversations of a world or a reader; see `Reader.conversations`."""
    check_whole("limit", limit, 1, MAX_CONVERSATIONS)
    check_whole("offset", offset, 0, LAST_FIRST)
    if not isinstance(book, str | None):
        raise errors.InvalidArgument("book must be a string.")
    _require_on(access)
    _require_access(access, reader)
    components, world = access.components, access.record().id
    places: list[ReadTo | None] = [None]
    if reader is not None:
        scope = access.scope()
        known = positions(scope) if scope and positions else []
        if book is not None:
            known = [found] if (found := find_position(known, book)) else []
        places = [ReadTo(one.document, one.revision, one.sid) for one in known]
    found = [
        info
        for place in places
        for info in components.store.conversations.all(
            access.authority,
            world,
            reader=reader,
            read_to=place,
            days=components.conversations.days,
            max_turns=components.conversations.turns,
            limit=limit + offset,
            documents=_visible_documents(access),
        )
    ]
    # Of one book they are sorted already; a stable sort keeps that order for equal times.
    found.sort(key=lambda info: -info.updated_at)
    return found[offset : offset + limit]


def delete_conversations(
    access: WorldAccess, *, conversation: str | None = None, reader: str | None = None, erase: bool
) -> Receipt:
    """Delete conversations that are the caller's; see `World.delete_conversations`."""
    _require_access(access, reader)
    remover = access.components.remover()
    return remover.conversations(
        access.authority, access.record(), conversation=conversation, reader=reader, erase=erase
    )


def _visible_documents(access: WorldAccess) -> frozenset[int] | Unlimited:
    """Return the documents of the caller's audience; only turns about them are visible."""
    if isinstance(access.authority.audience, Unlimited):
        return UNLIMITED
    scope = access.scope()
    return frozenset() if scope is None else scope.documents


def _require_on(access: WorldAccess) -> None:
    if not access.components.conversations.days:
        raise errors.NotAllowed.of("conversations_off")


def _require_access(access: WorldAccess, reader: str | None) -> None:
    """Raise NotAllowed unless the caller may read as this reader, or the whole world."""
    authority, world = access.authority, access.record().id
    if reader is None and not authority.may(Verb.READ, world):
        raise errors.NotAllowed("read without a reader")
    if reader is not None and not authority.may_follow(reader, world):
        raise errors.NotAllowed("read as this reader")


def _damage_notice(count: int) -> Notice:
    turns = "One earlier turn does" if count == 1 else f"{count} earlier turns do"
    return Notice(DAMAGED, f"{turns} not match the recorded checksum. Nothing of that was used.")
