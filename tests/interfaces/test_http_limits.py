"""Limits of the HTTP server: sizes, times and rates, incomplete requests, and lost clients."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.interfaces.http_client import Client, Response, read_reply, serve_library, until
from tests.interfaces.tenants import BOUNDARY, form
from tests.support.answer_worlds import QUESTION, study
from tests.support.providers.chat import OpenAiChatServer, openai_chat
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.extensions.server.http import server as connection
from truespan.extensions.server.http.app import THREADS, Limits, ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.protocols import ChatModels

SEARCH, DOCUMENTS = "/v1/worlds/w/search", "/v1/worlds/w/documents"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
SMALL = ServerOptions(limits=Limits(body=1000, upload=5000))
HASTY = ServerOptions(limits=Limits(seconds=0.2, body_seconds=0.2, upload_seconds=0.2))


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    made.world("w", a__txt="The lamp went out at midnight.")
    yield made
    made.library.close()


def head(client: Client, target: str, kind: str, *more: str) -> bytes:
    lines = [f"POST {target} HTTP/1.1", f"host: 127.0.0.1:{client.port}", f"content-type: {kind}"]
    return "\r\n".join([*lines, *more, "", ""]).encode()


def chunked(client: Client, target: str, kind: str, body: bytes, *, end: bool = True) -> Response:
    """Send a body whose length is not announced, in pieces."""
    with client.connect() as connection:
        connection.sendall(head(client, target, kind, "transfer-encoding: chunked"))
        try:
            for start in range(0, len(body), 400):
                piece = body[start : start + 400]
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            connection.sendall(b"0\r\n\r\n" if end else b"")
        except ConnectionError:
            # The server need not read the rest of a refused body.
            pass
        return read_reply(connection)[0]


def test_unknown_caller_is_refused_before_the_body_is_read(lib: LibraryFixture) -> None:
    options = ServerOptions(auth=AuthPolicy(needs_token=True))
    with serve_library(lib.library, options) as client:
        for lines in (
            ["content-length: 50"],
            ["content-length: 10000", "authorization: Bearer ts_wrong"],
            ["transfer-encoding: chunked", "authorization: Bearer ts_wrong"],
        ):
            with client.connect() as connection:
                connection.sendall(head(client, SEARCH, "application/json", *lines))
                response, _ = read_reply(connection)
            assert (response.status, response.code) == (401, "unauthorized"), lines


@pytest.mark.parametrize("length", [1001, 10**9, 10**30])
def test_announced_length_over_the_limit_is_refused_early(lib: LibraryFixture, length: int) -> None:
    with serve_library(lib.library, SMALL) as client, client.connect() as connection:
        announced = f"content-length: {length}"
        connection.sendall(head(client, SEARCH, "application/json", announced))
        response, _ = read_reply(connection)

    assert response.status in (400, 413)
    if length < 10**20:
        assert (response.status, response.code) == (413, "request_too_large")


def test_body_limit_is_inclusive(lib: LibraryFixture) -> None:
    body = json.dumps({"query": "the lamp"}).encode()
    with serve_library(lib.library, SMALL) as client:
        fits = chunked(client, SEARCH, "application/json", body.ljust(1000))
        over = chunked(client, SEARCH, "application/json", body.ljust(1001))
        endless = chunked(client, SEARCH, "application/json", b" " * 10_000, end=False)
        after = client.json("POST", SEARCH, {"query": "the lamp"})

    assert fits.status == after.status == 200
    assert (over.status, over.code) == (413, "request_too_large")
    assert (endless.status, endless.code) == (413, "request_too_large")


def test_an_upload_over_the_limit_is_refused_and_leaves_nothing(lib: LibraryFixture) -> None:
    with serve_library(lib.library, SMALL) as client:
        announced = client.send(
            "POST", DOCUMENTS, headers=[("content-type", FORM)], body=form({}, text=b"a" * 6000)
        )
        unannounced = chunked(client, DOCUMENTS, FORM, form({}, text=b"a" * 6000))
        fits = chunked(client, DOCUMENTS, FORM, form({}, text=b"A note. " * 100))

    for response in (announced, unannounced):
        assert (response.status, response.code) == (413, "request_too_large")
    assert fits.status == 202
    assert len(lib.library.world("w").jobs.list()) == 2


@pytest.mark.parametrize(
    ("target", "kind", "begun"),
    [
        (SEARCH, "application/json", b'{"query":'),
        (DOCUMENTS, FORM, form({}, text=b"a" * 2000)[:-50]),
    ],
)
def test_slow_body_ends_at_the_timeout(
    lib: LibraryFixture, target: str, kind: str, begun: bytes
) -> None:
    with serve_library(lib.library, HASTY) as client, client.connect() as connection:
        connection.sendall(head(client, target, kind, f"content-length: {len(begun) + 50}"))
        connection.sendall(begun)
        response, _ = read_reply(connection)
        after = client.json("GET", "/v1/worlds")

    assert (response.status, response.code, response.content["retryable"]) == (
        504,
        "deadline_exceeded",
        True,
    )
    assert after.status == 200
    assert len(lib.library.world("w").jobs.list()) == 1


def test_slow_work_gets_a_timeout_and_ends(lib: LibraryFixture) -> None:
    go_on, ended = threading.Event(), threading.Event()

    def wait() -> None:
        assert go_on.wait(30)
        ended.set()

    with serve_library(lib.library, HASTY) as client:
        lib.embedder.before = wait
        response = client.json("POST", SEARCH, {"query": "never asked before"})
        meanwhile = client.json("GET", "/v1/worlds")
        go_on.set()
        assert ended.wait(30)
        lib.embedder.before = None
        again = client.json("POST", SEARCH, {"query": "never asked before"})

    assert (response.status, response.code) == (504, "deadline_exceeded")
    assert meanwhile.status == again.status == 200


def test_query_string_length_is_limited(lib: LibraryFixture) -> None:
    with serve_library(lib.library) as client:
        response = client.send("GET", f"/v1/worlds/w/usage?limit={'1' * 9000}")

    assert response.code == "request_too_large"


@pytest.mark.parametrize(
    "body",
    [
        form({}).replace(b'name="file"', b'name="other"'),
        form({"kind": "book", "nonsense": "x"}),
        b"".join([form({"tags": str(n)})[: -len(BOUNDARY) - 6] for n in range(150)]),
        form({f"f{n}": "x" for n in range(300)}),
        form({"title": "x" * 5000}),
        form({}).removesuffix(f"--{BOUNDARY}--\r\n".encode()) + form({}, name="b.txt")[:-30],
        form({})[:-4],
        form({"title": "a"}).removesuffix(f"--{BOUNDARY}--\r\n".encode()) + form({"title": "b"}),
    ],
    ids=[
        "no file", "unknown field", "many files", "many fields", "long field", "cut short",
        "end cut off", "twice",
    ],
)  # fmt: skip
def test_malformed_form_is_refused_and_leaves_nothing(lib: LibraryFixture, body: bytes) -> None:
    with serve_library(lib.library) as client:
        response = client.send("POST", DOCUMENTS, headers=[("content-type", FORM)], body=body)

    assert (response.status, response.code) == (400, "invalid_argument"), response.body
    assert len(lib.library.world("w").jobs.list()) == 1


def test_two_servers_on_one_store_can_share_rate_limits(lib: LibraryFixture) -> None:
    key = lib.library.tokens.create("a", worlds=["w"])[1].reveal()
    options = ServerOptions(auth=AuthPolicy(per_minute=3, shared=True))
    with serve_library(lib.library, options) as one, serve_library(lib.library, options) as two:
        replies = [client.json("GET", "/v1/worlds", token=key) for client in (one, two, one, two)]

    assert [response.status for response in replies] == [200, 200, 200, 429]


def test_each_token_has_a_separate_rate_limit(lib: LibraryFixture) -> None:
    keys = [lib.library.tokens.create(name, worlds=["w"])[1].reveal() for name in ("a", "b")]
    with serve_library(lib.library, ServerOptions(auth=AuthPolicy(per_minute=3))) as client:
        first = [client.json("GET", "/v1/worlds", token=keys[0]) for _ in range(5)]
        other = client.json("GET", "/v1/worlds", token=keys[1])
        owner = [client.json("GET", "/v1/worlds") for _ in range(5)]
        search = client.json("POST", SEARCH, {"query": "the lamp"}, token=keys[0])

    assert [response.status for response in first] == [200, 200, 200, 429, 429]
    assert (first[3].code, first[3].content["retryable"]) == ("too_many_requests", True)
    assert 1 <= int(str(first[3].header("retry-after"))) <= 20
    assert {other.status, *(response.status for response in owner)} == {200}
    assert search.status == 429


# Clients that disconnect


class Speaking:
    """A library whose model writes until the connection is closed."""

    def __init__(self, folder: Path) -> None:
        self.model = OpenAiChatServer()
        self.model.fault = lambda _: self.model.saying(self._words())
        made = study(folder)
        made.scores(0.9)
        parts = replace(made.library._components, chat=ChatModels(openai_chat(self.model), None))
        self.library = Library(parts)
        self.silent = threading.Event()

    def _words(self) -> Iterator[bytes]:
        for number in range(1_000_000):
            yield self.model.piece(f"word {number} ")
            # Slow enough for a disconnect to be noticed.
            self.silent.wait(0.002)

    def close(self) -> None:
        self.silent.set()
        self.model.stop()
        self.library.close()


@pytest.fixture
def speaking(tmp_path: Path) -> Iterator[Speaking]:
    made = Speaking(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("stream", [True, False])
def test_disconnect_ends_the_request_to_the_model(speaking: Speaking, stream: bool) -> None:
    with serve_library(speaking.library) as client:
        body = json.dumps({"query": QUESTION, "stream": stream}).encode()
        connection = client.connect()
        connection.sendall(
            head(
                client,
                "/v1/worlds/world/answer",
                "application/json",
                f"content-length: {len(body)}",
            )
            + body
        )
        if stream:
            assert b"event: started" in received(connection, b"event: piece")
        else:
            until(lambda: bool(speaking.model.asked))
        connection.close()
        ended = speaking.model.ended.wait(30)
        after = client.json("GET", "/v1/worlds")

    assert ended
    assert after.status == 200


def received(connection: socket.socket, until: bytes) -> bytes:
    found = b""
    while until not in found:
        piece = connection.recv(65536)
        assert piece, found
        found += piece
    return found


def test_stream_ends_when_the_server_stops(speaking: Speaking) -> None:
    with ThreadPoolExecutor(1) as pool:
        with serve_library(speaking.library) as client:
            caller = Client(client.port)
            body = {"query": QUESTION, "stream": True}
            streamed = pool.submit(caller.json, "POST", "/v1/worlds/world/answer", body)
            until(lambda: bool(speaking.model.asked))
        response = streamed.result(30)
        caller.close()

    assert response.status == 200
    assert b"event: started" in response.body
    assert b"event: finished" not in response.body
    assert speaking.model.ended.wait(30)


def test_answers_waiting_for_a_model_block_no_other_request(speaking: Speaking) -> None:
    body = json.dumps({"query": QUESTION, "stream": False}).encode()
    with serve_library(speaking.library) as client:
        asked = head(
            client, "/v1/worlds/world/answer", "application/json", f"content-length: {len(body)}"
        )
        waiting = [client.connect() for _ in range(THREADS + 4)]
        for connection in waiting:
            connection.sendall(asked + body)
        until(lambda: len(speaking.model.asked) > THREADS)
        others = [client.json("GET", path).status for path in ("/health", "/", "/v1/worlds")]
        for connection in waiting:
            connection.close()

    assert others == [200, 200, 200]


def test_answer_timeout_ends_the_request_to_the_model(speaking: Speaking) -> None:
    with serve_library(speaking.library, HASTY) as client:
        response = client.json("POST", "/v1/worlds/world/answer", {"query": QUESTION})
        # Without a disconnect, the model would write for longer than this.
        ended = speaking.model.ended.wait(10)

    assert (response.status, response.code) == (504, "deadline_exceeded")
    assert ended


BEGUN = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n"
PIECE = b"x-a: " + b"a" * 8000 + b"\r\n"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = make_library(tmp_path)
    made.world("w", a__txt="The lamp went out at midnight.")
    with serve_library(
        made.library, ServerOptions(limits=Limits(body_seconds=0.2), mcp_owner=True)
    ) as asking:
        yield asking
    made.library.close()


def sent(client: Client, *pieces: bytes) -> Response:
    """Send pieces until the server refuses, and return its reply."""
    with client.connect() as link:
        try:
            for piece in pieces:
                link.sendall(piece)
        except ConnectionError:
            pass
        return read_reply(link)[0]


@pytest.mark.parametrize("piece", [PIECE, b"a" * 100_000], ids=["many headers", "one header"])
def test_endless_request_head_is_refused(client: Client, piece: bytes) -> None:
    response = sent(client, BEGUN + (b"" if piece is PIECE else b"x-a: "), *[piece] * 200)

    assert (response.status, response.code) == (431, "request_too_large")
    assert client.json("GET", "/health").status == 200


def test_long_request_head_is_read(client: Client) -> None:
    assert sent(client, BEGUN + PIECE * 6, b"\r\n").status == 200


def test_long_body_is_not_a_long_head(client: Client) -> None:
    body = b" " * 300_000 + b"{}"
    head = (
        b"POST /v1/worlds HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    )

    response = sent(
        client, head, *[body[start : start + 50_000] for start in range(0, len(body), 50_000)]
    )

    assert (response.status, response.code) == (400, "invalid_argument")


@pytest.mark.parametrize("begun", [b"", BEGUN], ids=["nothing", "half a head"])
def test_connection_without_a_request_is_closed(
    client: Client, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)

    response = sent(client, begun)

    assert (response.status, response.code) == (408, "deadline_exceeded")


def test_second_request_head_has_the_same_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    with client.connect() as link:
        link.sendall(BEGUN + b"\r\n")
        first, stays = read_reply(link)
        link.sendall(BEGUN)
        second, _ = read_reply(link)

    assert (first.status, stays) == (200, True)
    assert second.status == 408


def test_incomplete_mcp_message_times_out(client: Client) -> None:
    head = (
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"accept: application/json, text/event-stream\r\ncontent-length: 100\r\n\r\n{"
    )

    response = sent(client, head)

    assert (response.status, response.code) == (504, "deadline_exceeded")
