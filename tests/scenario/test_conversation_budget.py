"""Context for several requests of one conversation: no text twice, and a limited sum."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.promises import proves
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import InvalidArgument

PARAGRAPHS = [
    f"The {name} of the harbour was built by {who}. It stands on {place} and is painted {colour}. "
    f"Every spring the keepers scrape the {name}, oil its hinges and write the date on its door."
    for name, who, place, colour in (
        ("lighthouse", "Wrenfield", "the north mole", "white"),
        ("boathouse", "Marten", "the slip", "green"),
        ("signal box", "Quist", "the quay", "red"),
        ("tar shed", "Anna", "the beach", "black"),
    )
]
TEXT = "# Harbour\n\n" + "\n\n".join(PARAGRAPHS)
QUERIES = ("Who built the lighthouse?", "Which colour has the boathouse?", "Who scrapes the shed?")


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with a book, in which Ann has read nine sentences; it is only asked."""
    with truespan.open(tmp_path_factory.mktemp("harbour") / "library", create=True) as library:
        world = library.world(create=True)
        report = world.add_text(TEXT, id="harbour", kind="book", chunking="sentences")
        world.reader("ann").set_position(report.ingested[0], sentence=9)
        yield world


@pytest.fixture(params=["world", "reader"])
def asked(harbour: World, request: pytest.FixtureRequest) -> World | Reader:
    return harbour if request.param == "world" else harbour.reader("ann")


@proves("context.conversation-budget")
def test_text_that_the_client_has_is_named_and_not_sent(asked: World | Reader) -> None:
    first = asked.retrieve(QUERIES[0], top_k=3)
    keys = [note.text_key for note in first.metadata.sources]
    assert len(set(keys)) == len(first.retrieved_chunks) > 0

    again = asked.retrieve(QUERIES[0], top_k=3, seen=keys)

    assert again.retrieved_chunks == ()
    assert (again.context, again.total_tokens) == ("", 0)
    assert [note.text_key for note in again.metadata.referred] == keys
    assert again.metadata.saved_tokens == first.total_tokens
    assert again.status == first.status
    part = asked.retrieve(QUERIES[0], top_k=3, seen=keys[:1])
    assert [note.text_key for note in part.metadata.sources] == keys[1:]
    assert part.total_tokens == first.total_tokens - part.metadata.saved_tokens


@proves("context.conversation-budget")
@pytest.mark.parametrize("options", [{}, {"neighbours": 2}, {"granularity": "sentence"}], ids=str)
def test_conversation_never_takes_more_tokens_than_its_budget(
    asked: World | Reader, options: dict[str, Any]
) -> None:
    budget, spent, seen, texts = 110, 0, list[str](), list[str]()
    for query in QUERIES * 2:
        bundle = asked.retrieve(query, seen=seen, conversation_tokens=budget, **options)
        spent += bundle.total_tokens
        seen += [note.text_key for note in bundle.metadata.sources]
        texts += [chunk.content for chunk in bundle.retrieved_chunks]
        assert spent <= budget
    assert spent > 0
    assert len(set(texts)) == len(texts)
    last = asked.retrieve(QUERIES[0], seen=seen, conversation_tokens=budget)
    assert last.metadata.referred or options


@proves("context.conversation-budget")
def test_longer_passages_count_although_a_part_was_sent(asked: World | Reader) -> None:
    first = asked.retrieve(QUERIES[0], top_k=1)
    seen = [note.text_key for note in first.metadata.sources]
    budget = first.total_tokens + 5
    for granularity in ("passage", "sentence"):
        bundle = asked.retrieve(
            QUERIES[0],
            top_k=1,
            seen=seen,
            conversation_tokens=budget,
            neighbours=5,
            granularity=granularity,
        )
        assert bundle.total_tokens <= 5


@proves("context.conversation-budget")
def test_changed_text_is_sent_again(tmp_path: Path) -> None:
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.world(create=True)
        world.add_text(TEXT, id="harbour")
        seen = [note.text_key for note in world.retrieve(QUERIES[0]).metadata.sources]
        world.add_text(TEXT.replace("white", "yellow"), id="harbour")

        bundle = world.retrieve(QUERIES[0], seen=seen)

        assert "yellow" in bundle.context
        assert bundle.metadata.saved_tokens == 0


@proves("context.conversation-budget")
@pytest.mark.parametrize(
    "seen", ["0123456789abcdef-12", ["x"], [1], ["0123456789abcdef-12"] * 5001]
)
def test_wrong_keys_are_refused(harbour: World, seen: Any) -> None:
    with pytest.raises(InvalidArgument, match="keys"):
        harbour.retrieve(QUERIES[0], seen=seen)
