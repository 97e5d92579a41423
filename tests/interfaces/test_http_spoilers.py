"""Text past a reader's position or of other worlds never leaves through HTTP or MCP."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.http_client import Response, serve_library
from tests.interfaces.mcp_asking import Message, addresses, messages, result_of
from tests.interfaces.tenants import Names, Request, requests, without_time
from tests.interfaces.test_tenants import CHANGING
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.sample_books import canaries, canary, plain_book
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.routes import OPERATIONS

LENGTH, READ = 120, 40
CLOSED = ServerOptions(auth=AuthPolicy(needs_token=True), sessions=False)
QUERIES = ("who was seen by the harbour?", canary(LENGTH - 3))


class Shelf:
    """A world with a half-read book, and the token of its reader."""

    def __init__(self, folder: Path) -> None:
        self.lib: LibraryFixture = make_library(folder)
        self.world: World = self.lib.library.create_world("world")
        self.write(plain_book(LENGTH))
        self.world.reader("ann").set_position("book.md", sentence=READ)
        tokens = self.lib.library.tokens
        self.key = tokens.create("ann's", worlds=["world"], readers=["ann"])[1].reveal()
        self.reading = tokens.create("all", worlds=["world"])[1].reveal()

    def write(self, text: str) -> None:
        self.world.ingest(self.lib.write("book.md", text), kind="book")

    def names(self) -> Iterator[Names]:
        document, job = self.world.documents.get("1"), self.world.jobs.list()[0].id
        chunks = [row[0] for row in self.lib.sql("SELECT chunk_id FROM states ORDER BY reach")]
        for chunk, named in ((chunks[0], "book.md"), (chunks[-1], document.doc_id)):
            yield Names("world", named, chunk, f"{document.doc_id}/img_001.png", job,
                        "record", "ann", "1", named, "domain")  # fmt: skip

    def requests(self) -> list[Request | Message]:
        """Return every request, allowed or not, with a reader's token."""
        asked: list[Request | Message] = []
        for names in self.names():
            for call in OPERATIONS:
                if call.name in ("createWorld", "deleteWorld") or call.takes_form:
                    continue
                for one in requests(call, names):
                    asked += [with_query(one, query) for query in QUERIES]
        asked += messages(addresses("world", "ann")[::2], QUERIES[0], "book.md", "1")
        asked += messages(addresses("world", "ann")[:1], QUERIES[1], "book.md", "1")
        unique = {(str(one), *(repr(part) for part in parts(one))): one for one in asked}
        return list(unique.values())


def parts(one: Request | Message) -> tuple[Any, ...]:
    return (
        (one.target, one.headers, one.body) if isinstance(one, Request) else (one.path, one.params)
    )


def with_query(one: Request, query: str) -> Request:
    body = one.body and one.body.replace(b"Who wound the great clock?", query.encode())
    return Request(one.call, one.target, one.headers, body)


def asked_for(one: Request | Message) -> set[str]:
    return canaries(" ".join(map(str, parts(one))))


def shown(response: Response) -> tuple[object, ...]:
    kept = [
        (name, re.sub("[0-9a-f]{32}", "a random id", value) if name == "location" else value)
        for name, value in response.headers
        if name not in ("date", "content-length")
    ]
    content = response.header("content-type") or ""
    body = (
        without_time(result_of(response))
        if "json" in content or "event" in content
        else response.body
    )
    return response.status, kept, body


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path)
    yield made
    made.lib.library.close()


@proves("reading.never-past-position", "reading.every-surface")
@pytest.mark.parametrize("sid", in_test_or_prove([-1, 24, READ], [-1, 0, 24, 25, READ, LENGTH - 2]))
def test_reader_replies_have_no_text_past_the_position(shelf: Shelf, sid: int) -> None:
    shelf.world.reader("ann").set_position("book.md", sentence=sid)
    unread = {canary(number) for number in range(sid + 1, LENGTH)}
    heard: set[str] = set()
    with serve_library(shelf.lib.library, CLOSED) as client:
        for one in shelf.requests():
            response = one.sent(client, shelf.key)
            found = canaries(response.everything().decode("latin-1"))
            assert not (found & unread) - asked_for(one), (str(one), parts(one))
            assert response.status < 500
            heard |= found

    assert len(heard - unread) >= min(sid + 1, 20)


@proves("search.non-interference", "reading.non-interference")
def test_other_worlds_do_not_change_replies(shelf: Shelf) -> None:
    asked = shelf.requests()
    library = shelf.lib.library
    stays = {"me", "listUsage", "listJobs", "showJob"}
    quiet = [
        one for one in asked
        if not isinstance(one, Request)
        or not (one.call.writes or one.call.name in stays | CHANGING)
    ]  # fmt: skip
    with serve_library(library, CLOSED) as client:

        def replies() -> list[tuple[object, ...]]:
            keys = (shelf.key, shelf.reading)
            found = [shown(one.sent(client, key)) for key in keys for one in quiet]
            shelf.world.delete_conversations(erase=False)
            return found

        before = replies()
        other = library.create_world("another")
        path = shelf.lib.write("another/book.md", plain_book(LENGTH))
        other.ingest(path, kind="book")
        other.reader("ann").set_position("book.md", sentence=3)
        other.generations.promote(1, domain="another")
        added = replies()
        shelf.lib.write("another/book.md", plain_book(30))
        other.ingest(path, kind="book")
        changed = replies()
        library.delete_world("another")
        deleted = replies()

    assert before == added == changed == deleted
    assert sum(reply[0] == 200 for reply in before) > 30


@proves("errors.no-secrets")
def test_logs_have_no_query_token_or_document_text(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("truespan", "truespan.http", "uvicorn", "mcp", "asyncio"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    secret = "zqquerycanary of the harbour"
    with serve_library(shelf.lib.library, CLOSED) as client:
        for one in shelf.requests():
            for key in (shelf.key, shelf.reading, "ts_zqtokencanary"):
                one.sent(client, key)
        response = client.json(
            "POST", "/v1/worlds/world/search", {"query": secret, "zqmember": 1}, token=shelf.reading
        )
        client.json("POST", "/v1/worlds/world/search", {"query": secret}, token=shelf.reading)
        client.send("GET", "/v1/worlds/zqworldcanary", token=shelf.reading)
        client.send("GET", "/zqaddresscanary?x=zqaddresscanary", hosts=["zqhostcanary"])
        client.send("BAD zq\x01canary", "/")
    said = capsys.readouterr()
    logged = "\n".join([caplog.text, said.out, said.err])

    assert response.code == "invalid_argument"
    assert "truespan.http" in caplog.text
    for word in (secret, "zqquerycanary", "zqmember", "zqtokencanary", "zqworldcanary",
                 "zqaddresscanary", "zqhostcanary", shelf.key, shelf.key[20:], shelf.reading[20:],
                 *(canary(number) for number in range(LENGTH)), "book.md", "harbour"):  # fmt: skip
        assert word not in logged, word


@pytest.mark.contract
@proves("errors.no-secrets")
def test_no_error_repeats_a_query_or_a_text(shelf: Shelf) -> None:
    world = "/v1/worlds/world"
    long = "zqlongcanary " * 100
    wrong: list[tuple[str, Any]] = [
        (f"{world}/search", {"query": "zqlongcanary", "top_k": "zqlongcanary"}),
        (f"{world}/search", {"query": long * 5}),
        (f"{world}/retrieve", {"query": long}),
        (f"{world}/retrieve", {"selected_text": long * 9}),
        (f"{world}/retrieve", {"query": "zqlongcanary", "selected_text": ["zqlongcanary"]}),
        (f"{world}/answer", {"query": {"zqlongcanary": 1}}),
        (f"{world}/readers/ann/retrieve", {"query": long}),
    ]
    with serve_library(shelf.lib.library, CLOSED) as client:
        for path, content in wrong:
            response = client.json("POST", path, content, token=shelf.reading)
            assert response.status in (400, 403), (path, response.status)
            assert b"zqlongcanary" not in response.everything(), (path, response.body)


def test_owner_sees_unread_text(shelf: Shelf) -> None:
    with serve_library(shelf.lib.library, CLOSED) as client:
        response = client.json(
            "GET", "/v1/worlds/world/documents/1/sentences?offset=100", token=shelf.reading
        )
    assert canary(LENGTH - 3) in canaries(response.body.decode())
