"""MCP over HTTP and over pipes: real servers, the SDK's client, and every byte that was sent."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import msgspec
import pytest
from mcp.shared.exceptions import MCPError
from msgspec.structs import fields

import truespan
from tests.interfaces.mcp_clients import (
    READ,
    UNREAD,
    Session,
    code_of,
    command,
    found_in,
    session,
    texts_of,
)
from tests.interfaces.mcp_http import (
    ACCEPT,
    VERSION,
    Address,
    bearer,
    connected,
    message_of,
    serving,
)
from tests.promises import proves
from tests.support.http_server import NO_TLS
from truespan.engine.reader import Reader
from truespan.extensions.server.mcp.caller import AnonymousAccess
from truespan.extensions.server.mcp.resources import DOCUMENT, SENTENCES
from truespan.types.request import FILTER_NAMES, PassageArguments, RetrievalRequest

QUESTION = "Who had the key to the tower?"
FOREIGN = (*UNREAD, "Elsewhere", "gardener", "spade")
"""Unread words: past the position, and in a book without a position."""
OUT_OF_BOOKS = ("Osric", "Lamp", "Keeper", "Storm", *FOREIGN)
READ_UNTIL, LAST = 8, 11
"""The last sentence read, and the last sentence of the book."""


@pytest.fixture(scope="module")
def opened(library: Path) -> Iterator[truespan.Library]:
    with truespan.open(library) as found:
        yield found


@pytest.fixture(scope="module")
def at(opened: truespan.Library) -> Iterator[Address]:
    """A server whose callers without a token own one world."""
    with serving(opened, AnonymousAccess(world="w", owner=True)) as address:
        yield address


@pytest.fixture(scope="module")
def token(opened: truespan.Library) -> str:
    return opened.tokens.create("ann", worlds="w", readers="ann")[1].reveal()


@pytest.fixture(scope="module", params=["http", "http-alone", "pipe"])
def way(request: pytest.FixtureRequest) -> str:
    """A transport: HTTP with or without sessions, or pipes."""
    return request.param


@contextlib.contextmanager
def over(way: str, at: Address, token: str | None, pipe: list[str], log: Path) -> Iterator[Session]:
    with contextlib.ExitStack() as stack:
        if way == "pipe":
            yield stack.enter_context(session(pipe, log))
        else:
            mode = "auto" if way == "http-alone" else "legacy"
            yield stack.enter_context(connected(at.url, token, mode))


@pytest.fixture(scope="module")
def ann(way: str, at: Address, token: str, library: Path) -> Iterator[Session]:
    """A reader at the end of the second chapter of a book."""
    pipe = command(library, "--reader", "ann")
    with over(way, at, token, pipe, library.parent / f"ann-{way}.log") as found:
        yield found


@pytest.fixture(scope="module")
def owner(way: str, at: Address, library: Path) -> Iterator[Session]:
    pipe = command(library, "--owner")
    with over(way, at, None, pipe, library.parent / f"owner-{way}.log") as found:
        yield found


def timeless(bundle: Any) -> Any:
    result = msgspec.json.decode(msgspec.json.encode(bundle))
    result.get("metadata", result)["processing_time_ms"] = 0
    return result


def refusal_of(session: Session, uri: str) -> tuple[int, str, Any]:
    with pytest.raises(MCPError) as refused:
        session.read(uri)
    error = refused.value.error
    return error.code, error.message, error.data


# Tools


@proves("mcp.no-position-argument")
def test_mcp_tools_take_no_position_or_reader(ann: Session, owner: Session) -> None:
    reading = {name: tool.input_schema for name, tool in ann.tools().items()}
    owning = {name: tool.input_schema for name, tool in owner.tools().items()}
    options = {*PassageArguments.__annotations__, "signed"}

    assert {name: set(schema["properties"]) for name, schema in reading.items()} == {
        "list_books": set(),
        "get_reading_position": {"book"},
        "list_notes": {"book", "search"},
        "retrieve_context": {
            "query", "book", "top_k", "mode", "rerank", "notes",
            *options,
        },
    }  # fmt: skip
    assert set(owning["search"]["properties"]) == {
        "query", "top_k", "floor", "mode", "rerank", *options, *FILTER_NAMES,
    }  # fmt: skip
    request = {entry.name for entry in fields(RetrievalRequest)}
    request -= {"filters", "passages", "by_default"}
    assert set(owning["retrieve"]["properties"]) == request | {*FILTER_NAMES, *options}
    assert set(owning) == {"search", "retrieve"}
    for schema in (*reading.values(), *owning.values()):
        assert schema["additionalProperties"] is False
    top_k = reading["retrieve_context"]["properties"]["top_k"]
    assert (top_k["default"], top_k["minimum"], top_k["maximum"]) == (20, 1, 20)
    assert reading["retrieve_context"]["required"] == ["query"]


@proves("mcp.retrieval", "mcp.text-as-data")
def test_owner_and_reader_get_what_the_library_returns(
    ann: Session, owner: Session, opened: truespan.Library
):
    read = ann.call("retrieve_context", query=QUESTION)
    found = owner.call("retrieve", query=QUESTION)

    world = opened.world("w")
    assert timeless(found_in(read)) == timeless(world.reader("ann").retrieve(QUESTION))
    assert timeless(found_in(found)) == timeless(world.retrieve(QUESTION))
    assert "red cord" in texts_of(read)[0]


@proves("mcp.no-position-argument", "errors.stable-codes")
@pytest.mark.parametrize("extra", ["position", "user_pos", "sid", "reader", "Query"])
def test_arguments_that_no_tool_has_are_refused(ann: Session, extra: str) -> None:
    for tool, arguments in (
        ("retrieve_context", {"query": QUESTION}),
        ("get_reading_position", {}),
        ("list_books", {}),
    ):
        result = ann.call(tool, **arguments, **{extra: 99})

        assert code_of(result) == "invalid_argument"
        assert extra in texts_of(result)[0]
        jsonschema.validate(result.structured_content, ann.tools()[tool].output_schema or {})


@proves("store.second-process")
def test_owner_setting_applies_to_an_open_session(ann: Session, opened: truespan.Library) -> None:
    reader = opened.world("w").reader("ann")
    (uri,) = ann.resources()
    reader.set_position("lamp.md", sentence=3)
    try:
        assert "red cord" not in str(ann.call("retrieve_context", query=QUESTION))
        assert refusal_of(ann, f"{uri}/sentences/4-4") == refusal_of(ann, "truespan://nowhere")
    finally:
        reader.set_position("lamp.md", through_chapter=READ)

    assert "red cord" in ann.read(f"{uri}/sentences/4-4").text


# Resources


@proves("mcp.text-as-data", "reading.every-surface")
def test_resources_are_named_by_doc_id_and_path(
    ann: Session, owner: Session, opened: truespan.Library
) -> None:
    lamp, other = opened.world("w").documents.list()

    (book,) = ann.resources().values()
    documents = owner.resources()

    assert (book.name, book.title, book.description) == (lamp.doc_id, lamp.shown_path, None)
    assert [one.name for one in documents.values()] == [lamp.doc_id, other.doc_id]
    for server in (ann, owner):
        listed = [*server.resources().values(), *server.templates()]
        listed += server.tools().values()
        said = json.dumps([one.model_dump(mode="json") for one in listed])
        said += str(server.instructions())
        assert not [word for word in OUT_OF_BOOKS if word in said]


@proves("reading.never-past-position", "reading.every-surface")
def test_reader_resources_stop_at_the_position(ann: Session, opened: truespan.Library) -> None:
    (uri,) = ann.resources()
    texts = [one.text for one in opened.world("w").documents.sentences("lamp.md").sentences]
    absent = refusal_of(ann, "truespan://documents/nowhere/sentences/0-0")

    for first in range(LAST + 3):
        for last in {first, first + 1, READ_UNTIL, READ_UNTIL + 1, LAST, LAST + 1}:
            address = f"{uri}/sentences/{first}-{last}"
            if first <= last <= READ_UNTIL:
                assert ann.read(address).text.split() == " ".join(texts[first : last + 1]).split()
            else:
                assert refusal_of(ann, address) == absent


@proves("reading.never-past-position")
@pytest.mark.parametrize(
    "address",
    [
        "truespan://documents/other.md", "truespan://documents/other.md/sentences/0-0",
        "truespan://documents/2", "truespan://documents/lamp.md/sentences/9-9",
        "truespan://documents/lamp.md/sentences/8-9",
        "truespan://documents/lamp.md/sentences/0-999",
        "truespan://documents/lamp.md/sentences/3-2",
        "truespan://documents/lamp.md/sentences/-1-2",
        "truespan://documents/lamp.md/sentences/0-9999999999",
        "truespan://documents/lamp.md/sentences/0-99999999999",
        "truespan://documents/lamp.md/sentences/", "truespan://documents/lamp.md/sentences/٣-٣",
        "truespan://documents/lamp.md/", "truespan://documents/lamp.md?sid=9",
        "truespan://documents/lamp.md%00", "truespan://documents/..%2Flamp.md",
        "truespan://documents/", "truespan://beside/other.md", "file:///etc/passwd", "",
    ],
)  # fmt: skip
def test_unread_resources_are_reported_as_absent(ann: Session, address: str) -> None:
    assert refusal_of(ann, address) == refusal_of(ann, "truespan://documents/nowhere")


def test_book_is_described_up_to_the_position(ann: Session, opened: truespan.Library) -> None:
    (uri,) = ann.resources()

    response = json.loads(ann.read(uri).text)

    where = opened.world("w").reader("ann").position()
    assert response == msgspec.json.decode(msgspec.json.encode(where))


def test_the_owner_reads_whole_documents_with_their_outlines(
    owner: Session, opened: truespan.Library
) -> None:
    uri, _ = owner.resources()

    response = json.loads(owner.read(uri).text)

    assert [one["chapter"] for one in response["outline"]][-1] == "Three: Zanzibar"
    assert response["sentences"] == LAST + 1
    assert "Quillfeather" in owner.read(f"{uri}/sentences/0-{LAST}").text
    assert refusal_of(owner, f"{uri}/sentences/0-{LAST + 1}") == refusal_of(
        owner, "truespan://documents/nowhere"
    )
    code, message, _ = refusal_of(owner, f"{uri}/sentences/0-1000")
    assert (code, "1000 sentences" in message) == (-32602, True)


def test_there_are_two_resource_templates(ann: Session) -> None:
    assert [one.uri_template for one in ann.templates()] == [DOCUMENT, SENTENCES]


def test_a_cursor_that_the_server_did_not_give_is_refused(at: Address, token: str) -> None:
    session = at.begin(token)

    for cursor in ("x", "-1", "1" * 30):
        error = message_of(at.call(session, "resources/list", token, cursor=cursor))["error"]
        assert error["data"]["code"] == "invalid_argument"


def test_message_with_a_repeated_key_is_refused(at: Address, token: str) -> None:
    session = at.begin(token)
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1%s}}'
    padding = b" " * (1 << 17)
    headers = {
        **ACCEPT,
        **bearer(token),
        "mcp-session-id": session,
        "mcp-protocol-version": str(VERSION),
    }
    for extra, status in ((b"", 200), (b',"a":1', 400)):
        for body in (ping % extra, padding + ping % extra):
            answer = httpx2.post(at.url, content=body, headers=headers, timeout=60, verify=NO_TLS)
            assert answer.status_code == status, answer.text
            assert ("occurs twice" in answer.text) == (status == 400)


# Everything


@proves("reading.never-past-position", "reading.every-surface", "mcp.text-as-data")
def test_mcp_sends_a_reader_no_unread_text(opened: truespan.Library, token: str) -> None:
    with serving(opened, AnonymousAccess()) as alone:
        for mode in ("legacy", "auto"):
            with connected(alone.url, token, mode) as session:
                everything(session)
        began = alone.begin(token)
        for method in ("resources/subscribe", "logging/setLevel", "sampling/createMessage", "x"):
            alone.call(began, method, token, uri="truespan://documents/lamp.md", level="debug")
        alone.post("no message", token)
        alone.request("DELETE", token, mcp_session_id=began)

    sent = alone.sent.everything().decode()
    assert "red cord" in sent
    assert not [word for word in FOREIGN if word in sent]


def everything(session: Session) -> None:
    """Send every request to a reader's server, including those for hidden text."""
    session.tools()
    session.templates()
    for query in (QUESTION, "Who was the culprit?", "Zanz" + "ibar", "What did he hide?"):
        for book in (None, "lamp.md", "other.md", "nowhere.md"):
            named = {"book": book} if book else {}
            session.call("retrieve_context", query=query, **named)
            session.call("get_reading_position", **named)
    session.call("list_books")
    for uri in session.resources():
        for address in (uri, *(f"{uri}/sentences/{sid}-{sid + 1}" for sid in range(LAST + 2))):
            with contextlib.suppress(MCPError):
                session.read(address)


@proves("errors.no-secrets", "errors.stable-codes")
def test_unexpected_error_reveals_nothing_over_http(
    at: Address, token: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("The culprit was Quillfeather.")

    session = at.begin(token)
    for method in ("books", "position", "retrieve", "sentences"):
        monkeypatch.setattr(Reader, method, fail)
    uri = "truespan://documents/lamp.md"
    answers = [
        message_of(at.call(session, "resources/list", token)),
        message_of(at.call(session, "resources/read", token, uri=uri)),
        message_of(at.call(session, "resources/read", token, uri=f"{uri}/sentences/0-0")),
    ]
    called = message_of(at.call(session, "tools/call", token, name="list_books"))

    for answer in answers:
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"]["code"] == "internal_error"
    assert called["result"]["structuredContent"]["error"]["code"] == "internal_error"
    said = json.dumps([*answers, called]) + capfd.readouterr().err
    assert "Quillfeather" not in said
    assert "unexpected ZeroDivisionError" in said
