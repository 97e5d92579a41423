"""The same requests through library, command line, HTTP and MCP give the same results."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.interfaces.clients import (
    CliInterface,
    HttpInterface,
    LibraryInterface,
    McpInterface,
    Outcome,
)
from tests.interfaces.http_client import Client, serve_library
from tests.promises import proves

QUESTION = "Who had the key to the tower?"
LONG = "lamp " * 2001
GOOD: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": QUESTION}),
    ("search", {"query": QUESTION, "top_k": 1, "floor": 0.5}),
    ("search", {"query": QUESTION, "top_k": 0}),
    ("search", {"query": "quite unheard-of", "floor": 1.0}),
    ("search", {"query": QUESTION, "mode": "hybrid"}),
    ("search", {"query": QUESTION, "mode": "keyword"}),
    ("search", {"query": QUESTION, "rerank": False}),
    ("retrieve", {"query": QUESTION}),
    ("retrieve", {"query": QUESTION, "top_k": 20, "language": None}),
    ("retrieve", {"selected_text": "A storm came up from the south that night."}),
    (
        "retrieve",
        {"query": QUESTION, "selected_text": "The key to the tower hung from a red cord."},
    ),
    ("retrieve", {"query": QUESTION, "chapter": "The Lamp", "version": None}),
    ("retrieve", {"query": QUESTION, "section": "two: the storm"}),
    ("retrieve", {"query": QUESTION, "documents": ["lamp.md"], "mode": "hybrid"}),
    ("retrieve", {"query": QUESTION, "tags": ["unknown"]}),
    ("search", {"query": QUESTION, "chapter": "The Lamp", "documents": ["lamp.md"]}),
    ("search", {"query": QUESTION, "language": "de", "tags": ["unknown"]}),
    ("search", {"query": QUESTION, "kinds": ["book"], "source": "*/other.md"}),
    ("search", {"query": QUESTION, "metadata": {"team": "a", "year": {"gte": 2020}}}),
    ("search", {"query": QUESTION, "metadata": {"team": {"exists": False}}}),
    ("retrieve", {"query": QUESTION, "kinds": ["document"], "source": "lamp.md"}),
    ("retrieve", {"query": QUESTION, "metadata": {"team": {"any_of": ["a", 1, True]}}}),
    ("answer", {"query": QUESTION, "metadata": {"team": {"exists": True}}}),
    ("answer", {"query": "How is bread baked with rye flour?", "documents": ["lamp.md"]}),
    ("answer", {"query": QUESTION, "kinds": ["document"], "source": "*.md"}),
    ("search", {"query": QUESTION, "neighbours": 2, "granularity": "sentence", "max_tokens": 90}),
    ("retrieve", {"query": QUESTION, "neighbours": 2, "max_tokens": 90}),
    ("retrieve", {"query": QUESTION, "granularity": "sentence", "include_boilerplate": True}),
    ("read", {"query": QUESTION, "reader": "ann", "neighbours": 1, "max_tokens": 60}),
    ("read", {"query": QUESTION, "reader": "ann", "granularity": "sentence"}),
    ("answer", {"query": QUESTION, "neighbours": 2, "max_tokens": 500}),
    ("read_answer", {"query": QUESTION, "reader": "ann", "granularity": "sentence"}),
    ("retrieve", {"query": QUESTION, "language": "de"}),
    ("retrieve", {"query": QUESTION, "near_misses": True}),
    ("read", {"query": QUESTION, "reader": "ann"}),
    ("read", {"query": QUESTION, "reader": "ann", "book": "lamp.md", "top_k": 2}),
    ("read", {"query": QUESTION, "reader": "ann", "mode": "vector"}),
    ("read", {"query": QUESTION, "reader": "nobody"}),
    ("answer", {"query": QUESTION}),
    ("answer", {"query": QUESTION, "mode": "hybrid"}),
    ("answer", {"query": "quite unheard-of matters of state", "documents": ["other.md"]}),
    ("read_answer", {"query": QUESTION, "reader": "ann"}),
    ("books", {"reader": "ann"}),
    ("books", {"reader": "nobody"}),
    ("position", {"reader": "ann"}),
    ("position", {"reader": "ann", "book": "lamp.md"}),
    ("generations", {}),
    ("document", {"reference": "lamp.md"}),
    ("document", {"reference": "1"}),
    ("converse", {"query": QUESTION}),
    ("converse", {"query": QUESTION, "documents": ["lamp.md"], "mode": "keyword"}),
    ("conversations", {}),
    ("conversations", {"limit": 1}),
]
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("search", {"query": " "}, "blank_query"),
    ("search", {"query": ""}, "blank_query"),
    ("search", {"query": LONG}, "query_too_long"),
    ("search", {"query": QUESTION, "top_k": -1}, "invalid_argument"),
    ("search", {"query": QUESTION, "top_k": True}, "invalid_argument"),
    ("search", {"query": QUESTION, "top_k": 1.5}, "invalid_argument"),
    ("search", {"query": QUESTION, "top_k": "many"}, "invalid_argument"),
    ("search", {"query": QUESTION, "floor": float("nan")}, "invalid_argument"),
    ("search", {"query": QUESTION, "floor": float("inf")}, "invalid_argument"),
    ("search", {"query": QUESTION, "floor": 1.1}, "invalid_argument"),
    ("search", {"query": QUESTION, "floor": 10**400}, "invalid_argument"),
    ("search", {"query": QUESTION, "max_tokens": 10**400}, "invalid_argument"),
    ("search", {"query": QUESTION, "floor": True}, "invalid_argument"),
    ("search", {"query": QUESTION, "floor": "low"}, "invalid_argument"),
    ("search", {"query": 7}, "invalid_argument"),
    ("search", {"query": QUESTION, "mode": "fuzzy"}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "mode": "fuzzy"}, "invalid_argument"),
    ("retrieve", {"selected_text": "The key.", "mode": "keyword"}, "invalid_argument"),
    ("answer", {"query": QUESTION, "mode": "fuzzy"}, "invalid_argument"),
    ("read", {"query": QUESTION, "reader": "ann", "mode": "fuzzy"}, "invalid_argument"),
    ("read_answer", {"query": QUESTION, "reader": "ann", "mode": "fuzzy"}, "invalid_argument"),
    ("search", {"query": QUESTION, "rerank": True}, "invalid_argument"),
    ("search", {"query": QUESTION, "rerank": "yes"}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "rerank": True}, "invalid_argument"),
    ("retrieve", {"selected_text": "The key.", "rerank": True}, "invalid_argument"),
    ("answer", {"query": QUESTION, "rerank": True}, "invalid_argument"),
    ("read", {"query": QUESTION, "reader": "ann", "rerank": True}, "invalid_argument"),
    ("read_answer", {"query": QUESTION, "reader": "ann", "rerank": True}, "invalid_argument"),
    ("search", {"query": None}, "invalid_argument"),
    ("search", {"query": QUESTION, "no_such": "x"}, "invalid_argument"),
    ("search", {"query": QUESTION, "world": "absent"}, "world_not_found"),
    ("search", {"query": QUESTION, "domain": "absent"}, "domain_not_found"),
    ("retrieve", {}, "invalid_argument"),
    ("retrieve", {"query": LONG}, "query_too_long"),
    ("retrieve", {"query": "  "}, "blank_query"),
    ("search", {"query": "\u200b\ufeff"}, "blank_query"),
    ("retrieve", {"query": "\u200b"}, "blank_query"),
    ("search", {"query": QUESTION, "neighbours": 11}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "neighbours": -1}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "granularity": "word"}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "max_tokens": 0}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "max_tokens": 32001}, "invalid_argument"),
    ("read", {"query": QUESTION, "reader": "ann", "max_tokens": 32001}, "invalid_argument"),
    ("read", {"query": LONG, "reader": "ann"}, "query_too_long"),
    ("answer", {"query": QUESTION, "max_tokens": 32001}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "top_k": 21}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "top_k": 10**400}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "top_k": 0}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "top_k": False}, "invalid_argument"),
    ("retrieve", {"selected_text": "x" * 5001}, "invalid_argument"),
    ("retrieve", {"selected_text": ""}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "chapter": ""}, "invalid_argument"),
    ("search", {"query": QUESTION, "chapter": ""}, "invalid_argument"),
    ("search", {"query": QUESTION, "kinds": ["novel"]}, "invalid_argument"),
    ("search", {"query": QUESTION, "source": ""}, "invalid_argument"),
    ("search", {"query": "q", "metadata": {"a": {"gt": 1, "lt": "b"}}}, "invalid_argument"),
    ("answer", {"query": QUESTION, "metadata": {"a": {"gte": True}}}, "invalid_argument"),
    ("read", {"query": QUESTION, "reader": "ann", "tags": ["x"]}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "no_such": "x"}, "invalid_argument"),
    ("retrieve", {"query": QUESTION, "world": "absent"}, "world_not_found"),
    ("read", {"query": QUESTION, "reader": "ann", "top_k": 0}, "invalid_argument"),
    ("read", {"query": " ", "reader": "ann"}, "blank_query"),
    ("read", {"query": QUESTION, "reader": "ann", "book": "absent.md"}, "document_not_found"),
    ("read", {"query": QUESTION, "reader": "ann", "top_k": 21}, "invalid_argument"),
    ("read", {"query": QUESTION, "reader": "ann", "no_such": "x"}, "invalid_argument"),
    ("read", {"query": QUESTION, "reader": " "}, "invalid_argument"),
    ("read", {"query": QUESTION, "reader": "r" * 201}, "invalid_argument"),
    ("answer", {"query": " "}, "blank_query"),
    ("answer", {"query": LONG}, "query_too_long"),
    ("answer", {"query": QUESTION, "world": "absent"}, "world_not_found"),
    ("read_answer", {"query": QUESTION, "reader": "ann", "book": "no.md"}, "document_not_found"),
    ("position", {"reader": "nobody"}, "no_reading_position"),
    ("position", {"reader": "ann", "book": "other.md"}, "no_reading_position"),
    ("document", {"reference": "absent.md"}, "document_not_found"),
    ("document", {"reference": "99"}, "document_not_found"),
    ("chunk", {"chunk_id": "6f1e0d6c-57cf-5ad4-bb0b-0d3bb9f9f8a1"}, "chunk_not_found"),
    ("job", {"job": "absent"}, "job_not_found"),
    ("converse", {"query": " "}, "blank_query"),
    ("converse", {"query": LONG}, "query_too_long"),
    ("converse", {"query": QUESTION, "no_such": "x"}, "invalid_argument"),
    ("turns", {"conversation": "absent"}, "conversation_not_found"),
    ("turns", {"conversation": "0" * 32}, "conversation_not_found"),
    ("conversations", {"limit": 0}, "invalid_argument"),
    ("conversations", {"world": "absent"}, "world_not_found"),
    ("generations", {"world": "absent"}, "world_not_found"),
    ("why_not", {"chunk_id": "x", "query": " "}, "blank_query"),
    ("why_not", {"chunk_id": "x", "query": QUESTION, "top_k": 21}, "invalid_argument"),
]  # fmt: skip


ANN = {"query": QUESTION, "reader": "ann"}
WRONG_TYPES: list[tuple[str, dict[str, Any]]] = [
    *(("read", ANN | {"query": query}) for query in (None, 5, ["key"])),
    *(("read", ANN | {"top_k": count}) for count in ("5", 5.5, True, None)),
    *(("read", ANN | {"book": book}) for book in ("", 1)),
    ("retrieve", {"query": QUESTION, "tags": "one"}),
    ("retrieve", {"query": QUESTION, "documents": [1]}),
    ("retrieve", {"query": QUESTION, "chapters": "One"}),
]
"""Requests that the command line cannot spell, or spells like valid ones."""


@pytest.fixture(scope="module")
def opened(library: Path) -> Iterator[truespan.Library]:
    with truespan.open(library) as found:
        yield found
        found.world("w").delete_conversations(erase=False)


@pytest.fixture(scope="module")
def client(opened: truespan.Library) -> Iterator[Client]:
    with serve_library(opened) as running:
        yield running


@pytest.fixture
def interfaces(
    library: Path,
    opened: truespan.Library,
    client: Client,
    capsys: pytest.CaptureFixture[str],
) -> list[Any]:
    terminal = CliInterface(library, capsys)
    # The library comes first, so that the others find the vector of the query in the cache.
    return [LibraryInterface(opened), HttpInterface(client), McpInterface(opened), terminal]


def ask_all(interfaces: list[Any], operation: str, given: dict[str, Any]) -> dict[str, Outcome]:
    found = {interface.name: interface.ask(operation, given) for interface in interfaces}
    return {name: one for name, one in found.items() if one is not None}


def shown(case: Any) -> str:
    return str(case)[:70]


@proves("mcp.retrieval", "request.filters-everywhere")
@pytest.mark.parametrize(("operation", "given"), GOOD, ids=shown)
def test_same_request_gets_the_same_answer_on_every_interface(
    interfaces: list[Any], operation: str, given: dict[str, Any]
) -> None:
    found = ask_all(interfaces, operation, given)

    assert len(found) >= 2
    assert found["library"].code is None
    for name, one in found.items():
        assert one == found["library"], name


@proves("defaults.explained")
def test_defaults_of_a_world_apply_on_every_interface(
    interfaces: list[Any], opened: truespan.Library
) -> None:
    """The library belongs to the session, so its defaults are restored."""
    world = opened.world("w")
    rows = [row for row in GOOD if row[0] in ("search", "retrieve", "read", "answer")][::3]
    assert {row[0] for row in rows} >= {"search", "retrieve", "read"}
    before = world.defaults
    for defaults, mode in (("recommended", "hybrid"), ("contract", "vector")):
        try:
            world.set_defaults(defaults)
            for operation, given in rows:
                found = ask_all(interfaces, operation, given)
                for name, one in found.items():
                    assert one == found["library"], (name, defaults, operation, given)
                value = found["library"].value
                told = value.get("decision_explain") or value.get("metadata") or value
                assert told["defaults"] == defaults
                if "mode" not in given and given.get("query"):
                    assert told.get("search_mode", told["mode"]) == mode
        finally:
            world.set_defaults(before)


@proves("errors.stable-codes")
@pytest.mark.parametrize(("operation", "given", "code"), BAD, ids=shown)
def test_same_mistake_gets_the_same_code_on_every_interface(
    interfaces: list[Any], operation: str, given: dict[str, Any], code: str
) -> None:
    found = ask_all(interfaces, operation, given)

    assert len(found) >= 2
    for name, one in found.items():
        assert (one.code, one.retryable) == (code, False), name


@proves("reading.query-required")
def test_wrong_types_are_refused_by_all_interfaces_with_types(interfaces: list[Any]) -> None:
    for operation, given in WRONG_TYPES:
        for name, one in ask_all(interfaces[:3], operation, given).items():
            assert (one.code, one.retryable) == ("invalid_argument", False), (name, given)


def test_why_not_and_jobs_are_equal_on_every_interface(
    interfaces: list[Any], opened: truespan.Library
) -> None:
    world = opened.world("w")
    chunks = [passage.chunk_id for passage in world.search(QUESTION, floor=0.0).passages]
    for chunk in (chunks[0], chunks[-1], "6f1e0d6c-57cf-5ad4-bb0b-0d3bb9f9f8a1"):
        reasons = ask_all(interfaces, "why_not", {"chunk_id": chunk, "query": QUESTION, "top_k": 1})
        assert set(reasons) == {"library", "http"}
        assert reasons["http"] == reasons["library"]
    for operation, given in (("chunk", {"chunk_id": chunks[0]}), ("job", {"job": job_of(world)})):
        found = ask_all(interfaces, operation, given)
        assert set(found) == {"library", "http", "cli"}
        assert all(one == found["library"] for one in found.values())
        assert found["library"].code is None


def job_of(world: Any) -> str:
    return world.jobs.list()[0].id


@proves("conversations.own-caller")
def test_conversation_has_the_same_turns_on_every_interface(
    interfaces: list[Any], opened: truespan.Library
) -> None:
    conversation = opened.world("w").conversation()
    conversation.ask(QUESTION)
    conversation.ask("And who took it?")

    found = ask_all(interfaces, "turns", {"conversation": conversation.id})

    assert set(found) == {"library", "http", "cli"}
    assert all(one == found["library"] for one in found.values())
    assert [turn["rewritten_by"] for turn in found["library"].value["turns"]] == ["none", "rule"]


def test_unrelated_selection_is_the_same_failure_everywhere(interfaces: list[Any]) -> None:
    given = {"query": QUESTION, "selected_text": "0xDEADBEEF ffff 1234 %%% qqq zzzz"}
    found = ask_all(interfaces, "retrieve", given)

    assert len(found) == 4
    assert all(one == found["library"] for one in found.values())
