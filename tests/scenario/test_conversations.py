"""Conversations: follow-up questions, and storage of turns."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.answer_worlds import Scripted, Study, study, told
from tests.support.failures import raises_code
from tests.support.worlds import WordEmbedder
from truespan.engine.conversations import Conversation
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import (
    InvalidArgument,
    NotAllowed,
    NotFound,
    ProviderUnavailable,
    StoreDamaged,
    TruespanError,
)
from truespan.maintenance.delete import digest_of
from truespan.maintenance.doctor.plan import Finding
from truespan.types.answer import Message
from truespan.types.conversation import ConversationRules
from truespan.types.decision import RewrittenBy

FIRST = "Who lost a leg to the whale of Nantucket?"
AHAB = "Captain Ahab lost a leg to the whale of Nantucket. He left the harbour in winter."
COOK = "The cook of the inn baked bread for the guests of the harbour in the morning."
FOLLOWING = "And who lost a leg to the whale of Nantucket in winter?"
BOOK = (
    "Ann lit the lamp in the hut.", "Bob saw the lamp from the boat.",
    "Carl stole the lamp at night.", "Dora found Carl in the harbour.",
    "Carl gave the lamp to Dora.",
)  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest) -> str:
    return request.param


def whale(folder: Path, *replies: Any, fallback: Any = None, **parts: Any) -> Study:
    """Create a world with two documents; with replies there is a chat model."""
    primary = Scripted(*replies) if replies else None
    made = study(folder, embedder=WordEmbedder(), primary=primary, fallback=fallback, **parts)
    made.add(ahab__txt=AHAB, cook__txt=COOK)
    return made


def reading(folder: Path, primary: Any = None, **parts: Any) -> Study:
    made = study(folder, embedder=WordEmbedder(), primary=primary, **parts)
    write_book(made, BOOK)
    return made


def write_book(made: Study, sentences: Sequence[str]) -> None:
    path = made.lib.write("book.txt", "\n\n".join(sentences) + "\n")
    made.world.ingest([path], kind="book")


def with_rules(made: Study, **rules: Any) -> World:
    parts = replace(made.library._components, conversations=ConversationRules(**rules))
    return Library(parts).world("world")


# Understanding a question


@proves("conversations.standalone")
def test_follow_up_is_searched_for_as_a_complete_question(tmp_path: Path) -> None:
    rewritten = "And did Captain Ahab leave the whale of Nantucket in winter?"
    made = whale(tmp_path, "Captain Ahab did [1].", rewritten, "Because of the winter [1].")
    talk = made.world.conversation()

    first = talk.ask(FIRST)
    second = talk.ask("And did he leave in winter?")

    assert first.conversation
    assert (first.conversation.rewritten_by, first.conversation.history) == ("none", 0)
    assert second.conversation
    assert second.conversation.standalone == rewritten
    assert (second.conversation.rewritten_by, second.conversation.history) == ("model", 1)
    assert second.decision_explain["effective_query"] == rewritten
    assert second.decision_explain["conversation"] == {
        "rewritten_by": "model",
        "earlier_turns": 1,
        "history_turns": 1,
    }
    assert made.lib.library._components.embedder.queries[-1] == rewritten  # type: ignore[attr-defined]
    assert [turn.question for turn in talk.turns()] == [FIRST, "And did he leave in winter?"]
    # The log has neither the question nor the conversation.
    assert "Ahab" not in str(made.log)
    assert talk.id not in str(made.log)


@proves("conversations.standalone")
def test_rewrite_with_a_new_word_is_not_used(tmp_path: Path) -> None:
    made = whale(tmp_path, "Ahab did [1].", "Why did Ishmael drown?", "Because of winter [1].")
    talk = made.world.conversation()
    talk.ask(FIRST)

    answer = talk.ask("And why did he leave?")

    assert answer.conversation
    assert answer.conversation.rewritten_by is RewrittenBy.RULE
    assert "Ishmael" not in answer.conversation.standalone
    assert "Nantucket" in answer.conversation.standalone
    assert "Ishmael" not in made.primary.prompt


@proves("conversations.standalone")
def test_rewrite_over_the_model_limit_is_dropped(tmp_path: Path) -> None:
    talk = whale(tmp_path).world.conversation()
    talk.ask(FIRST)
    words = "harbour " * 120

    answer = talk.ask(f"And he saw the {words}?")

    assert answer.conversation
    assert answer.conversation.standalone.startswith("And he saw the harbour")


@proves("conversations.standalone")
def test_independent_question_is_not_rewritten(tmp_path: Path) -> None:
    talk = whale(tmp_path).world.conversation()
    talk.ask(FIRST)

    answer = talk.ask("Which guests of the inn got bread from the cook?")

    assert answer.conversation
    assert answer.conversation.rewritten_by is RewrittenBy.NONE


# Earlier turns are no evidence


@proves("conversations.history-no-evidence")
def test_earlier_turns_reach_the_model_fenced_and_unnumbered(tmp_path: Path) -> None:
    said = "Ahab lost it in a great storm of the north"
    made = whale(tmp_path, f"{said} [1], they say [2].", FOLLOWING, f'So "{said}" [1].')
    talk = made.world.conversation()
    talk.ask(FIRST)

    answer = talk.ask(FOLLOWING)

    earlier = made.primary.prompt.split("BEGIN EARLIER")[-1].split("END EARLIER")[0]
    assert f"Question: {FIRST}\nAnswer: {said}, they say." in earlier
    assert "[1]" not in earlier
    # Its words are in an earlier answer, and in no passage of this turn.
    assert [quote.verified for quote in answer.quotes] == [False]
    assert all(cited.document is not None for cited in answer.citations)


class Repeating(Scripted):
    """A chat model that gives one answer, and leaves every question unchanged."""

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        question = messages[-1].text.rpartition("\n")[2]
        self.replies = [[question if "LAST QUESTION" in messages[-1].text else "Ahab did [1]."]]
        return super().stream(messages)


@proves("conversations.history-budget")
def test_history_has_a_separate_budget(tmp_path: Path) -> None:
    made = study(tmp_path, embedder=WordEmbedder(), primary=Repeating())
    made.add(ahab__txt=AHAB, cook__txt=COOK)
    long = "word " * 40

    def prompt(tokens: int) -> str:
        talk = with_rules(made, history_tokens=tokens).conversation()
        for question in (FIRST, f"Who saw the whale? {long}", "Who baked bread for the guests?"):
            talk.ask(question)
        return made.primary.prompt

    whole, part, none = prompt(1000), prompt(70), prompt(0)
    assert FIRST in whole
    assert FIRST not in part
    assert part.count(long.strip()) == 1
    assert "EARLIER" not in none
    # The passages are the same, however much history there is.
    passages = [text[text.index("BEGIN SOURCE") :].count("Text:") for text in (whole, part, none)]
    assert len(set(passages)) == 1


@proves("conversations.history-no-evidence")
def test_fallback_model_gets_no_history(tmp_path: Path) -> None:
    fallback = Scripted("Paris.")
    made = whale(tmp_path, "Ahab did [1].", "What is the capital?", fallback=fallback)
    talk = made.world.conversation()
    talk.ask(FIRST)

    answer = talk.ask("xylophone zither quokka vuvuzela?")

    assert answer.mode == "fallback"
    assert "Ahab" not in fallback.prompt
    assert "EARLIER" not in fallback.prompt
    assert answer.conversation
    assert answer.conversation.history == 0


# What is stored


@proves("conversations.whole-turns")
def test_only_complete_answers_become_turns(tmp_path: Path) -> None:
    broken = ProviderUnavailable("The model does not answer.")
    made = whale(tmp_path, ["Ahab ", "did."], ["Ahab ", broken], "Ahab did.")
    talk = made.world.conversation()

    with raises_code("conversation_not_found"):
        talk.delete()
    assert talk.turns() == []
    assert talk.info().turns == 0
    stopped = talk.ask_stream(FIRST)
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    with pytest.raises(ProviderUnavailable):
        talk.ask(FIRST)
    assert made.lib.sql("SELECT count(*) FROM conversations") == [(0,)]

    _, _, answer = told(talk.ask_stream(FIRST))

    assert answer.conversation
    [turn] = made.world.conversation(talk.id).turns()
    assert (turn.id, turn.answer) == (answer.conversation.turn, answer.answer)
    assert (turn.citations, turn.quotes) == (answer.citations, answer.quotes)
    assert (turn.support, turn.record) == (answer.support, answer.record)
    assert talk.export()["turns"][0]["question"] == FIRST
    assert talk.to_markdown().startswith(f"# {FIRST}\n\n## {FIRST}\n")


@proves("conversations.whole-turns")
def test_question_is_returned_with_every_character(tmp_path: Path, stores: str) -> None:
    made = whale(tmp_path, store=stores)
    question = "Who lost a leg \x00 to the whale \u202e of 'Nantucket'; DROP TABLE turns; --?"

    talk = made.world.conversation()
    talk.ask(question)

    assert made.world.conversation(talk.id).turns()[0].question == question
    assert made.world.conversations()[0].id == talk.id


@proves("conversations.retention")
def test_old_turns_are_hidden_and_then_deleted(tmp_path: Path, stores: str) -> None:
    made = whale(tmp_path, store=stores)
    clock: Any = made.library._components.clock
    old, new = made.world.conversation(), made.world.conversation()
    old.ask(FIRST)
    new.ask(FIRST)
    clock.time += 89 * 86400
    new.ask("Who baked bread?")
    assert len(new.turns()) == 2

    clock.time += 2 * 86400
    assert [info.id for info in made.world.conversations()] == [new.id]
    assert [turn.question for turn in new.turns()] == ["Who baked bread?"]
    new.ask("Who saw the guests?")
    assert made.lib.sql("SELECT count(*) FROM turns") == [(2,)]
    with raises_code("conversation_not_found"):
        made.world.conversation(old.id)

    few = with_rules(made, turns=3).conversation(new.id)
    for number in range(4):
        few.ask(f"Who baked bread {number}?")
    assert [turn.question[-2] for turn in few.turns()] == ["1", "2", "3"]


@proves("conversations.off")
def test_operator_can_turn_conversations_off(tmp_path: Path) -> None:
    made = whale(tmp_path)
    talk = made.world.conversation()
    talk.ask(FIRST)
    off = with_rules(made, days=0)

    for attempt in (off.conversation, lambda: off.conversation(talk.id), off.conversations):
        with raises_code("conversations_off"):
            attempt()
    assert off.answer(FIRST).conversation is None
    # What was kept before can be deleted all the same.
    assert off.delete_conversations().rows == {"conversations": 1, "turns": 1}


# Whose it is


@proves("conversations.own-caller")
def test_conversation_is_found_by_its_caller_alone(tmp_path: Path, stores: str) -> None:
    made = reading(tmp_path, store=stores)
    made.add(ahab__txt=AHAB)
    other = made.library.create_world("other")
    for name in ("ann", "bob"):
        made.world.reader(name).set_position("book.txt", sentence=4)

    def token(name: str, **options: Any) -> World:
        _, secret = parts.tokens.create(name, worlds=["world"], **options)
        return parts.under(parts.authenticate(secret.reveal())).world("world")

    parts = Library(replace(made.library._components, random_bytes=lambda size: take(size)))
    counter = iter(range(1000))

    def take(size: int) -> bytes:
        return next(counter).to_bytes(size, "big")

    mine, yours = token("mine", verbs=["read", "follow"]), token("yours", verbs=["read", "follow"])
    bound = token("bound", readers=["ann"])
    whole = mine.conversation()
    whole.ask(FIRST)
    read = mine.reader("ann").conversation()
    read.ask("Who lit the lamp?")
    begun = bound.reader("ann").conversation()
    begun.ask("Who lit the lamp?")
    owner = made.world

    def found(asker: Any, id: str) -> bool:
        with suppress(NotFound):
            return bool(asker.conversation(id))
        return False

    for asker, talk, wanted in [
        (mine, whole, True), (owner, whole, True), (yours, whole, False), (other, whole, False),
        (mine.reader("ann"), read, True), (owner.reader("ann"), read, True),
        (mine.reader("bob"), read, False), (yours.reader("ann"), read, False),
        (bound.reader("ann"), read, False), (mine, read, False), (owner, read, False),
        (mine.reader("ann"), whole, False), (bound.reader("ann"), begun, True),
        (mine.reader("ann"), begun, False), (owner.reader("ann"), begun, True),
    ]:  # fmt: skip
        assert found(asker, talk.id) is wanted
    for id in ("0" * 32, "", "x" * 40, "'; --", "\x00"):
        assert not found(owner, id)
    with pytest.raises(NotAllowed):
        bound.conversation()
    with pytest.raises(NotAllowed):
        bound.reader("bob").conversations()
    assert yours.conversations() == yours.reader("ann").conversations() == []
    assert len(owner.reader("ann").conversations()) == 2
    # Each deletes its own.
    assert yours.delete_conversations().rows == {}
    assert bound.reader("ann").delete_conversations().rows == {"conversations": 1, "turns": 1}
    assert mine.delete_conversations().rows == {"conversations": 2, "turns": 2}


# Deletion


@proves("conversations.deletion")
def test_deleted_conversation_leaves_only_a_receipt(tmp_path: Path) -> None:
    made = whale(tmp_path)
    talk, kept = made.world.conversation(), made.world.conversation()
    talk.ask("Who lost a Zauberlehrling to the whale?")
    talk.ask("And why did he leave?")
    kept.ask(FIRST)

    receipt = talk.delete()

    assert receipt.rows == {"conversations": 1, "turns": 2}
    assert receipt.conversation == talk.id
    assert receipt.erased
    assert receipt.digest == digest_of(receipt.to_json())
    for attempt in (talk.turns, talk.info, talk.export, talk.delete):
        with raises_code("conversation_not_found"):
            attempt()
    with raises_code("conversation_not_found"):
        talk.ask(FIRST)
    assert len(kept.turns()) == 1
    files = [path for path in made.lib.folder.rglob("store.db*") if path.is_file()]
    assert files
    assert not any(b"Zauberlehrling" in path.read_bytes() for path in files)


@proves("conversations.deletion")
def test_turn_of_a_deleted_conversation_is_not_stored(tmp_path: Path) -> None:
    made = whale(tmp_path, "Ahab did [1].")
    talk = made.world.conversation()
    talk.ask(FIRST)

    events = talk.ask_stream("Who baked bread for the guests?")
    next(events)
    made.world.conversation(talk.id).delete()
    answer = list(events)[-1].answer  # type: ignore[union-attr]

    assert answer.conversation is None
    assert [warning.code for warning in answer.warnings][-1] == "turn_not_stored"
    assert made.lib.sql("SELECT count(*) FROM turns") == [(0,)]


@proves("conversations.deletion")
@pytest.mark.parametrize("deleted", ["ahab.txt", "cook.txt"])
def test_document_deleted_during_an_answer_leaves_nothing_in_its_turn(
    tmp_path: Path, deleted: str, stores: str
) -> None:
    made = study(tmp_path, embedder=WordEmbedder(), primary=Repeating(), store=stores)
    made.add(ahab__txt=AHAB, cook__txt=COOK, mate__txt="The mate of the ship saw the whale.")
    talk = made.world.conversation()
    talk.ask("Which mate of the ship saw the whale?", documents=["mate.txt"])
    talk.ask("Who baked bread for the guests of the inn?", documents=["cook.txt"])

    events = talk.ask_stream(FOLLOWING, documents=["ahab.txt"])
    next(events)
    made.world.documents.delete(deleted)
    answer = list(events)[-1].answer  # type: ignore[union-attr]

    # The one is a source of the answer, the other of a turn that the model was told of.
    assert answer.conversation is None
    assert [warning.code for warning in answer.warnings][-1] == "turn_not_stored"
    rows = made.lib.sql("SELECT count(*) FROM turns")
    assert rows == [(2 if deleted == "ahab.txt" else 1,)]


@proves("conversations.deletion")
def test_deleting_a_document_deletes_its_turns(tmp_path: Path, stores: str) -> None:
    made = whale(tmp_path, store=stores)
    write_book(made, BOOK)
    world, reader = made.world, made.world.reader("ann")
    reader.set_position("book.txt", sentence=4)
    only: Any = {"documents": ["cook.txt"]}
    late, unconcerned, read = world.conversation(), world.conversation(), reader.conversation()
    late.ask("Who baked bread for the guests?", **only)
    late.ask(FIRST, documents=["ahab.txt"])
    late.ask("And what did he bake?", **only)
    unconcerned.ask("Who baked bread for the guests?", **only)
    read.ask("Who lit the lamp?")

    receipt = world.documents.delete("ahab.txt")
    assert {name: receipt.rows[name] for name in ("turns",)} == {"turns": 2}
    assert "conversations" not in receipt.rows
    assert [turn.question for turn in late.turns()] == ["Who baked bread for the guests?"]
    assert len(unconcerned.turns()) == len(read.turns()) == 1

    receipt = world.documents.delete("book.txt", erase=False)
    assert (receipt.rows["turns"], receipt.rows["conversations"]) == (1, 1)
    receipt = world.documents.delete("cook.txt")
    assert (receipt.rows["turns"], receipt.rows["conversations"]) == (2, 2)
    rows = made.lib.sql("SELECT (SELECT count(*) FROM turns), count(*) FROM conversations")
    assert rows == [(0, 0)]


@proves("conversations.deletion")
def test_deleting_a_world_deletes_its_conversations(tmp_path: Path, stores: str) -> None:
    made = whale(tmp_path, store=stores)
    made.world.conversation().ask(FIRST)

    receipt = made.library.delete_world("world")

    assert (receipt.rows["conversations"], receipt.rows["turns"]) == (1, 1)


# Readers


@proves("conversations.non-interference")
def test_reader_without_a_position_gets_the_reason(tmp_path: Path) -> None:
    reader = reading(tmp_path).world.reader("ann")

    with raises_code("no_reading_position"):
        reader.conversation().ask("Who lit the lamp?")
    with raises_code("no_reading_position"):
        reader.conversation(book="nowhere.txt").ask("Who lit the lamp?")
    assert reader.conversations() == []


@proves("conversations.non-interference")
def test_conversation_belongs_to_its_book(tmp_path: Path) -> None:
    made = reading(tmp_path)
    other = made.lib.write("other.txt", "The sea was calm.\n\nThe night was dark.\n")
    made.world.ingest([other], kind="book")
    reader = made.world.reader("ann")
    reader.set_position("book.txt", sentence=2)
    talk = reader.conversation()
    talk.ask("Who lit the lamp?")
    reader.set_position("other.txt", sentence=1)

    answer = talk.ask("And who saw it?")

    assert {note.source for note in answer.retrieved_chunks_metadata} == {"book.txt"}
    assert [info.book for info in reader.conversations(book="book.txt")] == [1]
    assert reader.conversations(book="other.txt") == []
    with pytest.raises(InvalidArgument):
        reader.conversation(talk.id, book="other.txt").ask("Why?")
    with pytest.raises(InvalidArgument):
        reader.conversations(limit=0)


class Retreat(Scripted):
    """A chat model that runs a function during its first request."""

    def __init__(self, *replies: str) -> None:
        super().__init__(*replies)
        self.happens: Callable[[], object] | None = None

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        happens, self.happens = self.happens, None
        if happens:
            happens()
        return super().stream(messages)


@proves("conversations.non-interference")
def test_moving_back_during_a_question_hides_later_text(tmp_path: Path) -> None:
    model = Retreat("They say so [1].")
    reader = reading(tmp_path, model).world.reader("ann")
    reader.set_position("book.txt", sentence=1)
    talk = reader.conversation()
    talk.ask("Who lit the lamp?")
    reader.set_position("book.txt", sentence=4)
    talk.ask("Who gave the lamp to Dora?")
    model.happens = lambda: reader.set_position("book.txt", sentence=1)
    asked = len(model.asked)

    answer = talk.ask("And who saw the lamp from the boat?")

    # The first attempt to understand the question was made at the later position.
    told = ["\n".join(message.text for message in one) for one in model.asked[asked:]]
    assert "Dora" in told[0]
    assert not any("Dora" in text for text in told[1:])
    assert answer.decision_explain["conversation"]["earlier_turns"] == 1
    assert [turn.sid for turn in talk.turns()] == [1, 1]


@proves("conversations.non-interference")
def test_turn_hidden_by_a_new_revision_while_asking_is_not_used(tmp_path: Path) -> None:
    model = Retreat("They say so [1].")
    made = reading(tmp_path, model)
    reader = made.world.reader("ann")
    reader.set_position("book.txt", sentence=1)
    talk = reader.conversation()
    talk.ask("Who lit the lamp?")
    reader.set_position("book.txt", sentence=4)
    talk.ask("Who gave the lamp to Dora?")
    other = "Completely different words stood here instead of it."
    model.happens = lambda: write_book(made, [*BOOK[:2], other, *BOOK[3:]])

    answer = talk.ask("And who saw the lamp from the boat?")

    # The position has the same number in both revisions.
    assert reader.position().sid == 4
    assert answer.decision_explain["conversation"]["earlier_turns"] == 1
    assert [turn.sid for turn in talk.turns()] == [1, 4]


@proves("conversations.non-interference")
def test_turns_move_with_a_new_revision_or_stay_hidden(tmp_path: Path, stores: str) -> None:
    made = reading(tmp_path, store=stores)
    reader = made.world.reader("ann")
    reader.set_position("book.txt", sentence=1)
    talk = reader.conversation()
    talk.ask("Who lit the lamp?")
    reader.set_position("book.txt", sentence=3)
    talk.ask("Who found Carl?")

    # What follows has changed: nothing that was said is concerned.
    write_book(made, [*BOOK[:4], "Dora kept the lamp for good."])
    assert [turn.sid for turn in talk.turns()] == [1, 3]
    # A foreword moves all positions.
    write_book(made, ["This is a new foreword to the book.", *BOOK[:4], "The end."])
    assert [turn.sid for turn in talk.turns()] == [2, 4]
    # A corrected sentence says the same.
    corrected = "Ann lit the big lamp in the hut."
    write_book(made, ["This is a new foreword to the book.", corrected, *BOOK[1:4]])
    assert [turn.sid for turn in talk.turns()] == [2, 4]
    # The last sentence that was read is another now, so what was said of it stays hidden.
    changed = [
        "This is a new foreword to the book.",
        corrected,
        *BOOK[1:3],
        "Eve met a stranger.",
        "The end.",
    ]
    write_book(made, changed)
    reader.set_position("book.txt", sentence=5)
    assert [turn.question for turn in talk.turns()] == ["Who lit the lamp?"]
    assert reader.conversations()[0].turns == 1


# Damage


def spoil(made: Study, statement: str) -> None:
    connection = made.lib.store._db.connection  # type: ignore[attr-defined]
    connection.execute(statement)


@proves("conversations.damage")
def test_damaged_turn_is_named_and_never_used(tmp_path: Path) -> None:
    made = whale(tmp_path, "Ahab did [1].")
    talk = made.world.conversation()
    talk.ask("Who saw the Zauberlehrling of Nantucket?")
    talk.ask(FIRST)
    spoil(made, "UPDATE turns SET content = replace(content, 'Zauber', 'Meister') WHERE number = 1")

    turns = talk.turns()
    assert [turn.damaged for turn in turns] == [True, False]
    assert (turns[0].question, turns[0].answer, turns[0].citations) == ("", "", ())
    assert talk.info().damaged
    [damage] = made.lib.library.doctor().all_items()
    assert (damage.finding, damage.subject) == (Finding.DAMAGED_CONVERSATION, talk.id)
    [listed] = made.world.conversations()
    assert (listed.damaged, listed.turns, listed.title) == (True, 2, "")

    answer = talk.ask("And why did he leave?")

    assert "turn_damaged" in [warning.code for warning in answer.warnings]
    assert answer.decision_explain["conversation"]["earlier_turns"] == 1
    assert "lehrling" not in made.primary.prompt
    assert "lehrling" not in str(talk.export()) + talk.to_markdown()


@proves("conversations.damage")
def test_damaged_conversation_can_only_be_deleted(tmp_path: Path) -> None:
    made = whale(tmp_path)
    talk = made.world.conversation()
    talk.ask(FIRST)
    spoil(made, "UPDATE conversations SET created_at = created_at + 1")
    [damage] = made.lib.library.doctor().all_items()
    assert (damage.finding, damage.subject) == (Finding.DAMAGED_CONVERSATION, talk.id)

    again = made.world.conversation(talk.id)
    for attempt in (again.turns, again.info, again.export, lambda: again.ask("Why?")):
        with pytest.raises(StoreDamaged):
            attempt()
    assert [(info.damaged, info.title) for info in made.world.conversations()] == [(True, "")]
    assert again.delete().rows == {"conversations": 1, "turns": 1}


@proves("conversations.own-caller")
def test_conversations_are_paged(tmp_path: Path, stores: str) -> None:
    made = whale(tmp_path, store=stores)
    clock: Any = made.library._components.clock
    talks: list[Conversation] = []
    for number in range(4):
        clock.time += 1
        talks.append(made.world.conversation())
        talks[-1].ask(f"Who baked bread {number}?")
    clock.time += 1
    talks[0].ask("And who ate it?")

    order = [talks[0], talks[3], talks[2], talks[1]]
    whole = made.world.conversations()
    assert [info.id for info in whole] == [talk.id for talk in order]
    assert whole[0].title == "Who baked bread 0?"
    pages = [made.world.conversations(limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [*pages[0], *pages[1]] == whole
    assert pages[2] == []
    for wrong in ({"limit": 0}, {"limit": 5000}, {"offset": -1}, {"limit": True}):
        with pytest.raises(TruespanError):
            made.world.conversations(**wrong)  # type: ignore[arg-type]


@proves("conversations.standalone")
def test_refused_question_adds_no_words_to_the_next(tmp_path: Path) -> None:
    room = study(tmp_path)
    room.scores(0.1)
    talk = room.world.conversation()

    refused = talk.ask("Who married the queen of Sweden?")
    followed = talk.ask("And why?")

    assert refused.decision_explain["refusal"] == "no_fallback_model"
    assert followed.conversation is not None
    assert followed.conversation.standalone == "And why?"
