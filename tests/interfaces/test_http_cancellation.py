"""Requests end when their client disconnects or at their timeout, and callers take turns."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.ollama_parts import embedder_of, on_embed
from tests.interfaces.http_client import Client, Response, serve_library, until
from tests.interfaces.mcp_clients import HELLO
from tests.promises import proves
from tests.support.answer_worlds import QUESTION, study
from tests.support.providers import Asked, Ollama
from tests.support.providers.chat import OpenAiChatServer, openai_chat
from tests.support.providers.issuer import AUDIENCE, Issuer
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library
from tests.unit.test_watch_metrics import number, samples
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.engine.library import Library
from truespan.errors import Interrupted
from truespan.extensions.server.http.app import THREADS, Limits, ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.requests import MAX_GOLDEN_TEXT
from truespan.extensions.server.identities import Identities
from truespan.extensions.server.metrics import MetricsObserver
from truespan.extensions.server.openid import KeyCache, OpenIdVerifier, key_client
from truespan.protocols import ChatModels
from truespan.providers.outbound import Bounds
from truespan.types.answer import Message, Role
from truespan.types.profile import EmbeddingLimits
from truespan.types.scope import OWNER, Verb
from truespan.types.token import AccessRule

ANSWER = "/v1/worlds/world/answer"
PATIENT = Bounds(read_seconds=600.0, total_seconds=600.0)
"""Longer than any test: the silence never ends by itself."""
HASTY = ServerOptions(limits=Limits(seconds=0.2))


class Silent:
    """A library whose model accepts a question and sends nothing, or only headers."""

    def __init__(self, folder: Path, *, head: bool) -> None:
        self.response, self.over = threading.Event(), threading.Event()
        self.model = OpenAiChatServer()
        self.model.fault = self._after_its_head if head else self._before_its_head
        made = study(folder)
        made.scores(0.9)
        self.metrics = MetricsObserver()
        chat = ChatModels(openai_chat(self.model, bounds=PATIENT), None)
        self.library = Library(replace(made.library._components, chat=chat, observer=self.metrics))

    def _before_its_head(self, _: Any) -> Any:
        self.response.set()
        assert self.over.wait(600)
        return self.model.saying([])

    def _after_its_head(self, _: Any) -> Any:
        return self.model.saying(self._nothing())

    def _nothing(self) -> Iterator[bytes]:
        yield b": ping\n\n"
        self.response.set()
        assert self.over.wait(600)

    def abandoned(self) -> float:
        return number(samples(self.metrics.exposition()), "abandoned_total", request="answer")

    def close(self) -> None:
        self.over.set()
        self.model.stop()
        self.library.close()


@pytest.fixture(params=[False, True], ids=["no head", "a head"])
def silent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Silent]:
    made = Silent(tmp_path, head=request.param)
    yield made
    made.close()


def asked(client: Client, *, stream: bool) -> bytes:
    body = json.dumps({"query": QUESTION, "stream": stream}).encode()
    lines = [
        f"POST {ANSWER} HTTP/1.1",
        f"host: 127.0.0.1:{client.port}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize("stream", [True, False])
def test_disconnect_before_the_first_piece_cancels_the_call(silent: Silent, stream: bool) -> None:
    with serve_library(silent.library) as client:
        connection = client.connect()
        connection.sendall(asked(client, stream=stream))
        assert silent.response.wait(30)

        connection.close()

        # The model stays silent meanwhile.
        until(lambda: silent.abandoned() == 1)
        assert client.json("GET", "/v1/worlds").status == 200
    assert len(silent.model.questions) == 1


def test_timeout_cancels_the_call(silent: Silent) -> None:
    with serve_library(silent.library, HASTY) as client:
        response = client.json("POST", ANSWER, {"query": QUESTION})
        until(lambda: silent.abandoned() == 1)

    assert (response.status, response.code) == (504, "deadline_exceeded")
    assert len(silent.model.questions) == 1


def test_cancelled_request_does_not_call_the_model(silent: Silent) -> None:
    token = CancelToken()
    token.cancel()

    with use_cancel_token(token), pytest.raises(Interrupted):
        next(openai_chat(silent.model).stream([Message(Role.USER, "Who is there?")]))

    assert silent.model.questions == []


def test_disconnect_after_the_answer_cancels_nothing() -> None:
    model, token = OpenAiChatServer(), CancelToken()
    try:
        with use_cancel_token(token):
            said = "".join(openai_chat(model).stream([Message(Role.USER, "Who is there?")]))
        token.cancel()
        with use_cancel_token(CancelToken()):
            again = "".join(openai_chat(model).stream([Message(Role.USER, "Who is there?")]))
    finally:
        model.stop()

    assert said == again != ""
    assert token._callbacks == []


@pytest.fixture
def unanswered(tmp_path: Path) -> Iterator[tuple[Library, Ollama]]:
    """A library whose provider stops answering, and the provider."""
    over = threading.Event()

    def never_answer(_: Asked) -> None:
        assert over.wait(600)

    with Ollama() as server:
        embedder: Any = embedder_of(server, in_flight=2, bounds=PATIENT)
        lib = make_library(tmp_path, embedder=embedder)
        lib.world(a__txt="The tide comes in twice a day.")
        server.fault = on_embed(never_answer)
        yield lib.library, server
        over.set()


@proves("tenants.no-stall")
def test_timed_out_search_releases_its_thread(unanswered: tuple[Library, Ollama]) -> None:
    library, server = unanswered
    with serve_library(library, HASTY) as client:
        # More than there are slots for requests: none of them may stay taken.
        for attempt in range(4):
            search = {"query": f"tide {attempt}"}
            response = client.json("POST", "/v1/worlds/world/search", search)
            assert (response.status, response.code) == (504, "deadline_exceeded")
        server.fault = None
        search = {"query": "tide"}
        until(lambda: client.json("POST", "/v1/worlds/world/search", search).status == 200)


@proves("tenants.no-stall")
def test_timed_out_mcp_call_releases_its_thread(unanswered: tuple[Library, Ollama]):
    library, server = unanswered
    options = replace(HASTY, world="world", mcp_owner=True)
    with serve_library(library, options) as client:

        def post(session: str, method: str, **params: Any) -> Response:
            headers = [("accept", "application/json, text/event-stream")]
            headers += [("mcp-session-id", session)] if session else []
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return client.json("POST", "/mcp", body, headers=headers)

        def call(attempt: int) -> bytes:
            arguments = {"query": f"tide {attempt}"}
            return post(session, "tools/call", name="search", arguments=arguments).body

        session = post("", "initialize", **HELLO).header("mcp-session-id") or ""
        # More than there are slots for requests: none of them may stay taken.
        for attempt in range(4):
            assert b"deadline_exceeded" in call(attempt)
        server.fault = None
        until(lambda: b"twice a day" in call(9))


def test_cancelled_request_stops_reading_the_store(tmp_path: Path) -> None:
    lib, token = make_library(tmp_path), CancelToken()
    world = lib.world(a__txt="The tide comes in twice a day.")

    def cancel_and_read() -> None:
        token.cancel()
        world.documents.list()

    with use_cancel_token(token):
        assert world.documents.list()
        with pytest.raises(Interrupted):
            cancel_and_read()
    assert world.documents.list()


SEARCH, EVALUATE = "/v1/worlds/w/search", "/v1/worlds/w/evaluate"


class SlowEmbedder(WordEmbedder):
    """A provider that delays queries with the word "slow" until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.answering, self.waiting = threading.Event(), threading.Semaphore(0)

    def embed_query(self, text: str) -> bytes:  # type: ignore[override]
        if "slow" in text:
            self.waiting.release()
            assert self.answering.wait(60)
        return super().embed_query(text)


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path, embedder=SlowEmbedder())
    made.world("w", lamp__txt="The lamp in the saloon went out at a quarter past one.")
    yield made
    made.library.close()


def golden(queries: int, word: str) -> str:
    return "".join(f"- query: {word} lamp {n}\n  expected: [lamp.txt]\n" for n in range(queries))


def post(client: Client, path: str, body: object, authorization: str = "") -> bytes:
    content = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"host: 127.0.0.1:{client.port}",
        "content-type: application/json",
        f"content-length: {len(content)}",
        *([f"authorization: {authorization}"] if authorization else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


@proves("tenants.no-stall")
def test_calls_of_one_token_do_not_stall_another(lib: LibraryFixture) -> None:
    slow = lib.embedder
    assert isinstance(slow, SlowEmbedder)
    tokens = lib.library.tokens
    many, one = (
        tokens.create(name, worlds=["w"], verbs=[Verb.READ])[1].reveal() for name in ("many", "one")
    )
    with serve_library(lib.library) as client:
        opened = []
        bodies = [(EVALUATE, {"golden": golden(3, "slow")})] * 24
        bodies += [(SEARCH, {"query": f"slow {n}"}) for n in range(60)]
        for path, body in bodies:
            opened.append(client.connect())
            opened[-1].sendall(post(client, path, body, f"Bearer {many}"))
        for _ in range(12):
            assert slow.waiting.acquire(timeout=30)

        # None of those calls gets an answer meanwhile.
        found = client.json("POST", SEARCH, {"query": "lamp"}, token=one)
        compared = client.json("POST", EVALUATE, {"golden": golden(3, "quick")}, token=one)

        assert (found.status, compared.status) == (200, 200)
        assert not any("slow" in query for query in slow.queries)
        slow.answering.set()
        for connection in opened:
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.close()


def spell(token: str, number: int) -> str:
    """Return one of many spellings of the same credentials."""
    scheme = "".join(
        letter.upper() if number >> place & 1 else letter for place, letter in enumerate("bearer")
    )
    return f"{scheme} {' ' * (number % 7)}{token}"


@proves("tenants.no-stall")
@pytest.mark.parametrize("kind", ["spellings of a token", "tokens of a user", "labels of a user"])
def test_one_caller_under_several_names_does_not_stall_another(
    lib: LibraryFixture, kind: str
) -> None:
    slow = lib.embedder
    assert isinstance(slow, SlowEmbedder)
    with Issuer() as issuer:
        keys = KeyCache(key_client(issuer.keys_url, lib.clock), ("ES256",), lib.clock, 3600)
        verifier = OpenIdVerifier(
            keys, issuer=issuer.url, audience=AUDIENCE, algorithms=("ES256",), leeway_seconds=0
        )
        rules = (AccessRule("", "", ("w",), frozenset({Verb.READ})),)
        parts = replace(lib.library._components, identities=Identities(verifier, rules))
        tokens = lib.library.tokens
        own, other = (tokens.create(name, worlds=["w"])[1].reveal() for name in ("own", "other"))

        def header(number: int) -> str:
            if kind == "spellings of a token":
                return spell(own, number)
            if kind == "tokens of a user":
                return f"Bearer {issuer.token(jti=str(number))}"
            return f"Bearer {issuer.token()}\r\nx-truespan-audience: group:{number}"

        with serve_library(
            Library(parts, OWNER), ServerOptions(auth=AuthPolicy(needs_token=True))
        ) as client:
            opened = [client.connect() for _ in range(2 * THREADS)]
            for number, connection in enumerate(opened):
                connection.sendall(post(client, SEARCH, {"query": "slow"}, header(number)))
            for _ in range(12):
                assert slow.waiting.acquire(timeout=30)

            assert client.json("POST", SEARCH, {"query": "lamp"}, token=other).status == 200
            # Three quarters of the threads, and not one more, are for a caller alone.
            assert not slow.waiting.acquire(blocking=False)
            slow.answering.set()
            for connection in opened:
                assert connection.recv(12) == b"HTTP/1.1 200"
                connection.close()


@proves("tenants.no-stall")
def test_identifying_the_caller_of_a_long_body_has_a_deadline(lib: LibraryFixture) -> None:
    released = threading.Event()

    class SilentVerifier:
        issuer = "silent"

        def verify(self, token: str) -> dict[str, object]:
            assert released.wait(60)
            return {"sub": token}

    rules = (AccessRule("", "", ("w",), frozenset({Verb.READ})),)
    parts = replace(lib.library._components, identities=Identities(SilentVerifier(), rules))
    options = ServerOptions(auth=AuthPolicy(needs_token=True), limits=Limits(seconds=0.1))
    with serve_library(Library(parts, OWNER), options) as client:
        reply = client.json("POST", SEARCH, {"query": "lamp" * (64 << 10)}, token="a.b.c")
        released.set()
        assert (reply.status, reply.code) == (504, "deadline_exceeded")


@proves("tenants.no-stall")
@pytest.mark.parametrize("in_flight", [1, 2])
def test_embedding_stops_after_the_current_text_at_the_deadline(tmp_path: Path, in_flight: int):
    embedder = WordEmbedder(limits=EmbeddingLimits(items=1, in_flight=in_flight, joint=False))
    lib = make_library(tmp_path, embedder=embedder)
    lib.world("w", lamp__txt="The lamp in the saloon went out.")
    begun = len(embedder.documents)
    waiting, answering = threading.Semaphore(0), threading.Event()

    def wait() -> None:
        waiting.release()
        assert answering.wait(60)

    embedder.before = wait
    body = {"model": "truespan/w", "input": [f"text {number}" for number in range(40)]}
    with (
        lib.library,
        serve_library(lib.library, ServerOptions(limits=Limits(seconds=0.1))) as client,
    ):
        assert client.json("POST", "/v1/embeddings", body).status == 504
        assert waiting.acquire(timeout=30)
        answering.set()
    assert len(embedder.documents) - begun <= in_flight


@proves("tenants.no-stall")
@pytest.mark.parametrize("stream", [True, False])
def test_evaluation_ends_when_the_client_disconnects(lib: LibraryFixture, stream: bool) -> None:
    slow = lib.embedder
    assert isinstance(slow, SlowEmbedder)
    with serve_library(lib.library) as client:
        connection = client.connect()
        connection.sendall(
            post(client, EVALUATE, {"golden": golden(200, "slow"), "stream": stream})
        )
        assert slow.waiting.acquire(timeout=30)
        connection.close()
        assert client.json("GET", "/v1/worlds").status == 200
        slow.answering.set()
        for number in range(50):
            # Between these, an evaluation that went on would have its turns.
            assert client.json("POST", SEARCH, {"query": f"lamp {number}"}).status == 200

        assert len([query for query in slow.queries if "slow" in query]) <= 2


def test_golden_queries_of_a_request_are_limited(lib: LibraryFixture) -> None:
    with serve_library(lib.library) as client:
        reply = client.json("POST", EVALUATE, {"golden": "#" * (MAX_GOLDEN_TEXT + 1)})
    assert (reply.status, reply.code) == (400, "invalid_argument")
