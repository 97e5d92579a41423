"""Later turns of a reader: hidden completely after going back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.answer_worlds import Study, study
from tests.support.failures import raises_code
from tests.support.worlds import WordEmbedder
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.types.conversation import ConversationRules
from truespan.wire.serialize import to_json

BOOK = [f"On night {number} somebody lit lamp {number}." for number in range(8)]


@pytest.fixture(params=["sqlite", "postgres"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Study:
    made = study(tmp_path, embedder=WordEmbedder(), store=request.param)
    path = made.lib.write("book.txt", "\n\n".join(BOOK) + "\n")
    made.world.ingest([path], kind="book")
    return made


def reader_of(made: Study, **rules: Any) -> Reader:
    parts = replace(made.library._components, conversations=ConversationRules(**rules))
    return Library(parts).world("world").reader("ann")


def shown(reader: Reader, conversation: str) -> list[str]:
    opened = reader.conversation(conversation)
    return [
        to_json(opened.turns()),
        to_json(opened.info()),
        to_json(opened.export()),
        opened.to_markdown(),
        to_json(reader.conversations()),
    ]


@proves("conversations.non-interference", "conversations.retention")
def test_later_turns_do_not_displace_a_visible_turn(made: Study) -> None:
    reader = reader_of(made, turns=2)
    reader.set_position("book.txt", sentence=2)
    talk = reader.conversation()
    for number in range(3):
        talk.ask(f"Who lit lamp {number}?")
    before = shown(reader, talk.id)
    reader.set_position("book.txt", sentence=6)
    for number in range(3, 7):
        talk.ask(f"Who lit lamp {number}?")
    assert [turn.question[-2] for turn in talk.turns()] == ["5", "6"]
    assert talk.info().title == "Who lit lamp 5?"

    reader.set_position("book.txt", sentence=2)

    assert shown(reader, talk.id) == before
    assert [turn.question[-2] for turn in talk.turns()] == ["1", "2"]
    # Of each position those are stored that are shown there.
    assert made.lib.sql("SELECT count(*) FROM turns") == [(4,)]
    answer = talk.ask("And who lit lamp 0?")
    assert answer.decision_explain["conversation"]["earlier_turns"] == 2
    assert [turn.question[-2] for turn in talk.turns()] == ["2", "0"]
    # Two later ones count against each of the turns further on.
    reader.set_position("book.txt", sentence=6)
    assert [turn.question[-2] for turn in talk.turns()] == ["6", "0"]


@proves("conversations.non-interference")
def test_conversation_without_visible_turns_is_not_found(made: Study) -> None:
    reader = reader_of(made)
    reader.set_position("book.txt", sentence=6)
    talk = reader.conversation()
    talk.ask("Who lit lamp 5?")
    reader.set_position("book.txt", sentence=2)
    uses: list[Callable[[str], object]] = [
        reader.conversation,
        lambda id: reader.conversation(id, book="book.txt"),
        lambda id: reader.conversation(id, book="nowhere.txt"),
        reader.at_position("book.txt", 3).conversation,
    ]

    for use in uses:
        messages = []
        for id in (talk.id, "0" * 32):
            with raises_code("conversation_not_found") as raised:
                use(id)
            messages.append(str(raised.value).replace(id, "?"))
        assert messages[0] == messages[1]
    # An object that was there before is no way around it.
    for use in (talk.turns, talk.info, talk.export, lambda: talk.ask("And who lit lamp 1?")):
        with raises_code("conversation_not_found"):
            use()
    assert reader.conversations() == []
    reader.set_position("book.txt", sentence=6)
    assert len(talk.turns()) == 1
    assert len(reader.conversations()) == 1


@proves("conversations.non-interference")
def test_tried_position_shows_its_turns_and_stores_none(made: Study) -> None:
    reader = reader_of(made)
    reader.set_position("book.txt", sentence=2)
    talk = reader.conversation()
    talk.ask("Who lit lamp 1?")
    reader.set_position("book.txt", sentence=6)
    talk.ask("Who lit lamp 5?")
    stored = made.lib.sql("SELECT count(*) FROM turns")
    tried = reader.at_position("book.txt", 3)

    answer = tried.conversation(talk.id).ask("And who lit it then?")

    assert [turn.sid for turn in tried.conversation(talk.id).turns()] == [2]
    assert [info.turns for info in tried.conversations()] == [1]
    assert answer.decision_explain["conversation"]["earlier_turns"] == 1
    assert answer.conversation is None
    assert [warning.code for warning in answer.warnings][-1] == "turn_not_stored"
    begun = tried.conversation()
    assert "turn_not_stored" in [warning.code for warning in begun.ask("Who?").warnings]
    assert begun.turns() == []
    assert made.lib.sql("SELECT count(*) FROM turns") == stored
    with raises_code("conversation_not_found"):
        reader.conversation(begun.id)
