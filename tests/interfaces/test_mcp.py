"""The MCP tools, through a real server process and the SDK's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from mcp.shared.exceptions import MCPError
from msgspec.structs import fields

import truespan
from tests.interfaces.mcp_clients import (
    BOOK,
    UNREAD,
    Session,
    code_of,
    command,
    found_in,
    passages_of,
    session,
    texts_of,
)
from tests.promises import proves
from tests.support.worlds import make_library
from truespan.errors import (
    InvalidArgument,
    LibraryNotFound,
    NotAllowed,
    ProviderUnavailable,
    WorldNotFound,
)
from truespan.extensions.server.mcp.server import call_tool
from truespan.extensions.server.mcp.stdio import open_narrowed
from truespan.extensions.server.mcp.tools import OWNER_ROLE, READER_ROLE
from truespan.types.reading import ReadingPosition
from truespan.types.request import FILTER_NAMES, PassageArguments, RetrievalRequest

QUESTION = "Who had the key to the tower?"


@pytest.fixture(scope="module")
def ann(library: Path) -> Iterator[Session]:
    """A reader at the end of the second chapter of a book."""
    with session(command(library, "--reader", "ann"), library.parent / "ann.log") as connected:
        yield connected


@pytest.fixture(scope="module")
def owner(library: Path) -> Iterator[Session]:
    with session(command(library, "--owner"), library.parent / "owner.log") as connected:
        yield connected


def encoded(value: Any) -> Any:
    """Return a value after a round trip through JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))


def timeless(bundle: Any) -> Any:
    """Return a result as data, without the time it took."""
    result = encoded(bundle)
    account = result.get("metadata", result)
    account["processing_time_ms"] = 0
    return result


# Lists


@proves("mcp.no-position-argument")
def test_reader_tools_take_no_position_or_reader(ann: Session) -> None:
    schemas = {name: tool.input_schema for name, tool in ann.tools().items()}

    assert {name: set(schema["properties"]) for name, schema in schemas.items()} == {
        "list_books": set(),
        "get_reading_position": {"book"},
        "list_notes": {"book", "search"},
        "retrieve_context": {
            "query",
            "book",
            "top_k",
            "mode",
            "rerank",
            "notes",
            "signed",
            *PassageArguments.__annotations__,
        },
    }
    assert all(schema["additionalProperties"] is False for schema in schemas.values())
    top_k = schemas["retrieve_context"]["properties"]["top_k"]
    assert (top_k["default"], top_k["minimum"], top_k["maximum"]) == (20, 1, 20)
    assert schemas["retrieve_context"]["required"] == ["query"]


def test_the_owner_has_search_and_retrieve_and_nothing_else(owner: Session) -> None:
    schemas = {name: tool.input_schema for name, tool in owner.tools().items()}

    assert set(schemas) == {"search", "retrieve"}
    assert set(schemas["search"]["properties"]) == {
        "query", "top_k", "floor", "mode", "rerank", *PassageArguments.__annotations__,
        *FILTER_NAMES, "signed",
    }  # fmt: skip
    request = {entry.name for entry in fields(RetrievalRequest)} - {
        "filters",
        "passages",
        "by_default",
    }
    options = {*FILTER_NAMES, *PassageArguments.__annotations__, "signed"}
    assert set(schemas["retrieve"]["properties"]) == request | options
    assert all(schema["additionalProperties"] is False for schema in schemas.values())


def test_every_type_of_a_result_has_a_description(ann: Session, owner: Session) -> None:
    for server in (ann, owner):
        for name, tool in server.tools().items():
            types = (tool.output_schema or {})["$defs"]
            assert [kind for kind in types if not types[kind].get("description")] == [], name


@proves("mcp.text-as-data", "reading.every-surface")
def test_server_description_has_no_document_text(ann: Session, owner: Session) -> None:
    for server in (ann, owner):
        said = json.dumps([tool.model_dump() for tool in server.tools().values()])
        said += str(server.instructions())

        for word in ("Osric", "Lamp", "lamp.md", "Keeper", *UNREAD):
            assert word not in said


def test_readers_and_owners_have_different_tools(ann: Session, owner: Session) -> None:
    for server, name in ((ann, "search"), (ann, "retrieve"), (owner, "retrieve_context")):
        with pytest.raises(MCPError) as refusal:
            server.call(name, query=QUESTION)
        assert refusal.value.error.code == -32602


# Reading


@proves("mcp.retrieval", "mcp.text-as-data", "reading.never-past-position")
def test_a_model_gets_what_the_library_gives_the_reader(ann: Session, library: Path) -> None:
    result = ann.call("retrieve_context", query=QUESTION)

    with truespan.open(library) as opened:
        twin = opened.world("w").reader("ann").retrieve(QUESTION)
    assert timeless(found_in(result)) == timeless(twin)
    quoted, _ = texts_of(result)
    in_order = zip(twin.retrieved_chunks, twin.metadata.sources, strict=True)
    chunks = [chunk for chunk, _ in sorted(in_order, key=lambda pair: pair[1].first_sid)]
    assert [text for _, text in passages_of(quoted)] == [chunk.content for chunk in chunks]
    assert passages_of(quoted)[1][0] == "[2] lamp.md › One: The Keeper, sentences 1-5"
    assert "red cord" in twin.context
    assert twin.retrieved_chunks
    for word in UNREAD:
        assert word not in result.model_dump_json()


@proves("mcp.retrieval")
def test_the_number_of_passages_and_the_book_can_be_chosen(ann: Session) -> None:
    one = found_in(ann.call("retrieve_context", query=QUESTION, top_k=1, book="lamp.md"))

    assert one["metadata"]["returned_count"] == 1
    assert one["metadata"]["sources"][0]["source"] == "lamp.md"


def test_query_far_from_what_was_read_gets_a_line_before_the_passages(ann: Session) -> None:
    result = ann.call("retrieve_context", query="How long does a lasagne bake in the oven?")

    found = found_in(result)
    assert [notice["code"] for notice in found["metadata"]["warnings"]][-1:] == ["nothing_close"]
    line, quoted, summary = texts_of(result)
    assert line.startswith("Nothing that has been read is close to the query.")
    assert len(passages_of(quoted)) > 1
    assert line not in summary


@proves("reading.every-surface")
def test_books_are_listed_with_what_was_reached_and_no_totals(ann: Session) -> None:
    result = ann.call("list_books")

    (book,) = found_in(result)["books"]
    assert set(book) == {entry.name for entry in fields(ReadingPosition)}
    assert (book["source"], book["current"]) == ("lamp.md", True)
    assert book["chapter"] == "Two: The Storm"
    assert book["chapters_reached"][-2:] == ["One: The Keeper", "Two: The Storm"]
    assert book["last_sentence"] == "Osric lit the lamp and counted the ships."
    assert str(book["sid"]) in texts_of(result)[0]
    for word in (*UNREAD, "other.md", "Three"):
        assert word not in result.model_dump_json()


def test_position_of_current_and_named_book(ann: Session) -> None:
    current = found_in(ann.call("get_reading_position"))
    named = found_in(ann.call("get_reading_position", book="lamp.md"))

    assert current == named
    assert current["position"]["chapter"] == "Two: The Storm"
    assert current["warnings"] == []
    for book in ("other.md", "nowhere.md"):
        absent = found_in(ann.call("get_reading_position", book=book))
        assert absent["position"] is None
        assert [notice["code"] for notice in absent["warnings"]] == ["no_reading_position"]


@proves("reading.no-state")
@pytest.mark.parametrize("book", ["other.md", "nowhere.md"])
def test_book_without_position_gives_nothing_and_the_reason(ann: Session, book: str) -> None:
    result = ann.call("retrieve_context", query="What did the gardener hide?", book=book)

    found = found_in(result)
    assert (found["retrieved_chunks"], found["context"]) == ([], "")
    assert [notice["code"] for notice in found["metadata"]["warnings"]] == ["no_reading_position"]
    assert len(texts_of(result)) == 1
    assert "no reading position in this book" in texts_of(result)[0]
    assert "lamp.md" in texts_of(result)[0]
    assert "truespan reader set BOOK --reader ann" in texts_of(result)[0]


@proves("reading.no-state")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_reader_without_any_position_can_read_nothing(library: Path, mode: str) -> None:
    log = library.parent / f"bob-{mode}.log"
    with session(command(library, "--reader", "bob"), log, mode) as bob:
        context = found_in(bob.call("retrieve_context", query=QUESTION))
        shelf = found_in(bob.call("list_books"))
        standing = found_in(bob.call("get_reading_position"))

    assert (context["context"], context["metadata"]["funnel"]["in_scope"]) == ("", 0)
    assert (shelf["books"], standing["position"]) == ([], None)
    for warnings in (context["metadata"]["warnings"], shelf["warnings"], standing["warnings"]):
        assert [notice["code"] for notice in warnings] == ["no_reading_position"]


@proves("mcp.no-position-argument", "store.second-process")
def test_new_position_is_seen_by_every_server(ann: Session, library: Path) -> None:
    with session(command(library, "--reader", "ann"), library.parent / "twin.log") as twin:
        before = [found_in(server.call("get_reading_position")) for server in (ann, twin)]
        with truespan.open(library) as opened:
            opened.world("w").reader("ann").set_position("lamp.md", sentence=1)
        try:
            after = [found_in(server.call("get_reading_position")) for server in (ann, twin)]
            asked = ann.call("retrieve_context", query=QUESTION)
        finally:
            with truespan.open(library) as opened:
                opened.world("w").reader("ann").set_position("lamp.md", through_chapter="Two")

    assert before[0] == before[1]
    assert after[0] == after[1]
    assert after[0]["position"]["sid"] == 1
    assert "red cord" not in asked.model_dump_json()


@proves("reading.non-interference")
def test_unread_text_does_not_change_mcp_replies(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("w")
    reader = world.reader("ann")
    world.ingest(lib.write("lamp.md", BOOK), kind="book")
    reader.set_position("lamp.md", through_chapter="Two")

    def answers() -> list[bytes]:
        calls = ({}, {"book": "lamp.md"}, {"query": QUESTION}, {"query": "culprit", "top_k": 1})
        results = [call_tool(tool, given, reader) for tool in READER_ROLE.tools for given in calls]
        for result in results:
            result["structuredContent"].get("metadata", {})["processing_time_ms"] = 0
        return [msgspec.json.encode(result) for result in results]

    before = answers()
    read = BOOK.partition("## Three")[0]
    for ahead in (
        "## Three: Kyoto\n\nIt was the gardener.\n\n## Four\n\nThe end.\n",
        "",
        "He slept.",
    ):
        world.ingest(lib.write("lamp.md", read + ahead), kind="book")

        assert answers() == before


# The owner


@proves("mcp.retrieval")
def test_the_owner_gets_what_the_library_gives(owner: Session, library: Path) -> None:
    searched = owner.call("search", query="Who was the culprit?", top_k=2, floor=0.2)
    retrieved = owner.call("retrieve", query="Who was the culprit?", language=None)

    with truespan.open(library) as opened:
        world = opened.world("w")
        search = world.search("Who was the culprit?", top_k=2, floor=0.2)
        bundle = world.retrieve("Who was the culprit?", language=None)
    assert timeless(found_in(searched)) == timeless(search)
    assert timeless(found_in(retrieved)) == timeless(bundle)
    for result, texts in (
        (searched, [found.text for found in search.passages]),
        (retrieved, [chunk.content for chunk in bundle.retrieved_chunks]),
    ):
        assert [text for _, text in passages_of(texts_of(result)[0])] == texts
    assert "Quillfeather" in bundle.context


def test_two_documents_with_one_title_are_told_apart_in_the_text(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("w")
    for team in ("a", "b"):
        (tmp_path / "teams" / team).mkdir(parents=True)
        notes = f"# Readme\n\nThe key of team {team} is in the drawer.\n"
        (tmp_path / "teams" / team / "README.md").write_text(notes)
    world.ingest(str(tmp_path / "teams"))

    for tool in OWNER_ROLE.tools:
        result = call_tool(tool, {"query": "the key of team a"}, world)

        headers = [header for header, _ in passages_of(result["content"][0]["text"])]
        assert len(headers) == 2
        assert sorted(header.partition(" ")[2] for header in headers) == [
            "Readme (teams/a/README.md), sentences 0-1",
            "Readme (teams/b/README.md), sentences 0-1",
        ]


@proves("embedding.down-is-an-error")
def test_a_failed_bundle_is_a_failed_call_with_the_same_code(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("w")
    world.ingest(lib.write("lamp.md", BOOK), kind="book")
    reader = world.reader("ann")
    reader.set_position("lamp.md", sentence=3)
    lib.embedder.before = fail

    for tool, subject in ((READER_ROLE.tools[2], reader), (OWNER_ROLE.tools[1], world)):
        result = call_tool(tool, {"query": QUESTION}, subject)

        assert result["isError"] is True
        error = result["structuredContent"]["error"]
        assert (error["code"], error["retryable"]) == ("provider_unavailable", True)
        assert result["content"][0]["text"].startswith("provider_unavailable: ")
        jsonschema.validate(encoded(result["structuredContent"]), tool.to_json()["outputSchema"])


def fail() -> None:
    raise ProviderUnavailable("The provider does not answer.")


# Refusals


@proves("mcp.no-position-argument", "errors.stable-codes")
@pytest.mark.parametrize(
    "extra",
    [{"position": 99}, {"user_pos": 99}, {"sid": 99}, {"reader": "bob"}, {"Query": "x"}],
    ids=str,
)
def test_an_argument_that_no_tool_has_is_refused(ann: Session, extra: dict[str, Any]) -> None:
    for tool, arguments in (
        ("retrieve_context", {"query": QUESTION}),
        ("get_reading_position", {}),
        ("list_books", {}),
    ):
        result = ann.call(tool, **arguments, **extra)

        assert code_of(result) == "invalid_argument"
        assert next(iter(extra)) in texts_of(result)[0]
        jsonschema.validate(result.structured_content, ann.tools()[tool].output_schema or {})


@proves("reading.query-required")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": None},
        {"query": 5},
        {"query": ["key"]},
        {"query": ""},
        {"query": QUESTION, "top_k": 0},
        {"query": QUESTION, "top_k": 21},
        {"query": QUESTION, "top_k": "5"},
        {"query": QUESTION, "top_k": 5.5},
        {"query": QUESTION, "top_k": True},
        {"query": QUESTION, "top_k": None},
        {"query": QUESTION, "book": 1},
        {"query": QUESTION, "book": ""},
    ],
    ids=lambda given: str(given)[:50],
)
def test_a_wrong_type_or_size_is_refused(ann: Session, arguments: dict[str, Any]) -> None:
    result = ann.call("retrieve_context", **arguments)

    assert code_of(result) == "invalid_argument"
    wrong = result.structured_content or {}
    assert wrong["error"]["retryable"] is False
    assert "argument" in wrong["error"]["message"]


def test_a_blank_query_has_a_code_of_its_own(ann: Session) -> None:
    assert code_of(ann.call("retrieve_context", query="   ")) == "blank_query"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {"query": "x", "floor": 1.5}),
        ("search", {"query": "x", "floor": True}),
        ("search", {"query": "x", "top_k": -1}),
        ("search", {"query": "x", "topk": 1}),
        ("retrieve", {}),
        ("retrieve", {"query": "x", "top_k": 21}),
        ("retrieve", {"query": "x", "tags": "one"}),
        ("retrieve", {"query": "x", "documents": [1]}),
        ("retrieve", {"query": "x", "chapters": "One"}),
        ("retrieve", {"selected_text": "x" * 5001}),
    ],
    ids=str,
)
def test_the_owners_arguments_are_checked_as_well(
    owner: Session, tool: str, arguments: dict[str, Any]
) -> None:
    assert code_of(owner.call(tool, **arguments)) == "invalid_argument"


# The authority behind the tools


def test_unservable_library_is_refused_at_start(library: Path) -> None:
    with pytest.raises(WorldNotFound):
        open_narrowed(library, "nowhere", None)
    with pytest.raises(InvalidArgument):
        open_narrowed(library, "w", " ")
    with pytest.raises(LibraryNotFound):
        open_narrowed(library / "nowhere", "w", "ann")


@proves("authority.only-narrows")
def test_reader_authority_allows_nothing_else(library: Path) -> None:
    with open_narrowed(library, "w", " ann ")[0] as narrow:
        (record,) = narrow.worlds()
        world = narrow.world(record.id)

        assert record.name == "w"
        with pytest.raises((NotAllowed, WorldNotFound)):
            world.search(QUESTION)
        with pytest.raises((NotAllowed, WorldNotFound)):
            world.documents.list()
        with pytest.raises((NotAllowed, WorldNotFound)):
            world.reader("bob").retrieve(QUESTION)
        with pytest.raises((NotAllowed, WorldNotFound)):
            world.reader("ann").set_position("lamp.md", sentence=9)
        with pytest.raises(WorldNotFound):
            narrow.world("beside")
        assert world.reader("ann").position().sid > 1


@proves("authority.only-narrows")
def test_owner_tools_read_one_world_only(library: Path) -> None:
    with open_narrowed(library, "w", None)[0] as narrow:
        (record,) = narrow.worlds()
        world = narrow.world(record.id)

        assert world.search(QUESTION).passages
        with pytest.raises(WorldNotFound):
            narrow.world("beside")
        with pytest.raises((NotAllowed, WorldNotFound)):
            world.documents.delete("lamp.md")
        with pytest.raises((NotAllowed, WorldNotFound)):
            world.reader("ann").position()
