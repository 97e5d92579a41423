"""The MCP tools through a server process and the SDK's own client, and resources without one."""

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
    command,
    found_in,
    passages_of,
    session,
    texts_of,
)
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import InvalidArgument, LibraryNotFound, ProviderUnavailable
from truespan.extensions.server.mcp import resources
from truespan.extensions.server.mcp.server import call_tool
from truespan.extensions.server.mcp.stdio import open_narrowed
from truespan.extensions.server.mcp.tools import OWNER_ROLE, READER_ROLE
from truespan.types.reading import ReadingPosition

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
    """Return a result as data, without its duration."""
    result = encoded(bundle)
    result.get("metadata", result)["processing_time_ms"] = 0
    return result


# Lists


def test_tools_are_described_and_differ_by_role(ann: Session, owner: Session) -> None:
    for server in (ann, owner):
        for name, tool in server.tools().items():
            types = (tool.output_schema or {})["$defs"]
            assert [kind for kind in types if not types[kind].get("description")] == [], name

    for server, name in ((ann, "search"), (ann, "retrieve"), (owner, "retrieve_context")):
        with pytest.raises(MCPError) as refusal:
            server.call(name, query=QUESTION)
        assert refusal.value.error.code == -32602


# Reading


@proves("mcp.retrieval", "mcp.text-as-data", "reading.never-past-position")
def test_model_gets_what_the_library_returns_to_the_reader(ann: Session, library: Path) -> None:
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


def test_query_far_from_read_text_gets_a_notice(ann: Session) -> None:
    result = ann.call("retrieve_context", query="How long does a lasagne bake in the oven?")

    found = found_in(result)
    assert [notice["code"] for notice in found["metadata"]["warnings"]][-1:] == ["nothing_close"]
    line, quoted, summary = texts_of(result)
    assert line.startswith("Nothing that has been read is close to the query.")
    assert len(passages_of(quoted)) > 1
    assert line not in summary


@proves("reading.every-surface")
def test_books_are_listed_with_the_reached_chapter_and_no_totals(ann: Session) -> None:
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

    assert current == found_in(ann.call("get_reading_position", book="lamp.md"))
    assert current["position"]["chapter"] == "Two: The Storm"
    assert current["warnings"] == []
    for book in ("other.md", "nowhere.md"):
        absent = found_in(ann.call("get_reading_position", book=book))
        assert absent["position"] is None
        assert [notice["code"] for notice in absent["warnings"]] == ["no_reading_position"]


@proves("reading.no-state")
@pytest.mark.parametrize("book", ["other.md", "nowhere.md"])
def test_book_without_a_position_returns_nothing_and_the_reason(ann: Session, book: str) -> None:
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
def test_reader_without_any_position_can_read_nothing(library: Path, mode: str) -> None:
    log = library.parent / f"bob-{mode}.log"
    with session(command(library, "--reader", "bob"), log, mode) as bob:
        context = found_in(bob.call("retrieve_context", query=QUESTION))
        shelf = found_in(bob.call("list_books"))
        standing = found_in(bob.call("get_reading_position"))

    assert (context["context"], context["metadata"]["funnel"]["in_scope"]) == ("", 0)
    assert (shelf["books"], standing["position"]) == ([], None)
    for warnings in (context["metadata"]["warnings"], shelf["warnings"], standing["warnings"]):
        assert [notice["code"] for notice in warnings] == ["no_reading_position"]


# The owner


@proves("mcp.retrieval")
def test_owner_gets_what_the_library_returns(owner: Session, library: Path) -> None:
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


def test_documents_with_one_title_are_distinguished_in_the_text(
    tmp_path: Path, lib: LibraryFixture
) -> None:
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
def test_a_failed_bundle_is_a_failed_call_with_the_same_code(lib: LibraryFixture) -> None:
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


# The authority behind the tools


def test_unservable_library_is_refused_at_start(library: Path) -> None:
    with raises_code("world_not_found"):
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
        with raises_code("not_allowed", "world_not_found"):
            world.search(QUESTION)
        with raises_code("not_allowed", "world_not_found"):
            world.documents.list()
        with raises_code("not_allowed", "world_not_found"):
            world.reader("bob").retrieve(QUESTION)
        with raises_code("not_allowed", "world_not_found"):
            world.reader("ann").set_position("lamp.md", sentence=9)
        with raises_code("world_not_found"):
            narrow.world("beside")
        assert world.reader("ann").position().sid > 1


@proves("authority.only-narrows")
def test_owner_tools_read_one_world_only(library: Path) -> None:
    with open_narrowed(library, "w", None)[0] as narrow:
        (record,) = narrow.worlds()
        world = narrow.world(record.id)

        assert world.search(QUESTION).passages
        with raises_code("world_not_found"):
            narrow.world("beside")
        with raises_code("not_allowed", "world_not_found"):
            world.documents.delete("lamp.md")
        with raises_code("not_allowed", "world_not_found"):
            world.reader("ann").position()


READER, WORLD = READER_ROLE.resources, OWNER_ROLE.resources


def test_pages_of_documents_list_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resources, "PAGE_SIZE", 2)
    lib = make_library(tmp_path)
    world = lib.library.create_world("w")
    for number in range(5):
        world.ingest(lib.write(f"{number}.md", f"Page {number}."))
    names, cursor = [], None

    for _ in range(3):
        page = resources.list_resources(WORLD, cursor, world)
        names.append([entry["title"] for entry in page["resources"]])
        cursor = page.get("nextCursor")

    assert (names, cursor) == (
        [["files/0.md", "files/1.md"], ["files/2.md", "files/3.md"], ["files/4.md"]],
        None,
    )


def test_sentences_are_joined_like_their_paragraphs(lib: LibraryFixture) -> None:
    world = lib.library.create_world("w")
    world.ingest(lib.write("a b.md", "One ends. Two ends.\n\nThree ends.\n"))
    (entry,) = resources.list_resources(WORLD, None, world)["resources"]

    (content,) = resources.read_resource(WORLD, entry["uri"] + "/sentences/0-2", world)["contents"]
    (named,) = resources.read_resource(WORLD, "truespan://documents/a%20b.md", world)["contents"]

    assert content["text"] == "One ends. Two ends.\n\nThree ends."
    assert msgspec.json.decode(named["text"])["source"] == "a b.md"


def test_stdio_serves_the_documents_of_its_labels(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with truespan.open(folder, create=True) as library:
        world = library.world()
        world.add_text("The lamp of everyone.", id="open")
        world.add_text("The lamp of the lawyers.", id="legal", audience=["group:legal"])
        world.add_text("The lamp of the board.", id="board", audience=["group:board"])

    def names(*labels: str) -> list[str]:
        library, caller = open_narrowed(folder, "main", None, audience=labels)
        with library:
            with raises_code("world_not_found"):
                caller.world.add_text("More.", id="more")
            return sorted(document.name for document in caller.world.documents.list())

    assert names("group:legal") == ["legal.txt", "open.txt"]
    assert names("everyone") == ["open.txt"]
    with pytest.raises(InvalidArgument):
        names("")
