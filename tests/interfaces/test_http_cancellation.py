"""A client that disconnects before the model answers cancels the call."""

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
from tests.support.worlds import make_library
from tests.unit.test_watch_metrics import number, samples
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.engine.library import Library
from truespan.errors import Interrupted
from truespan.extensions.server.http.app import Limits, ServerOptions
from truespan.extensions.server.metrics import MetricsObserver
from truespan.protocols import ChatModels
from truespan.providers.outbound import Bounds
from truespan.types.answer import Message, Role

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


def test_a_model_is_not_asked_for_a_cancelled_request(silent: Silent) -> None:
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
    """A library whose provider answers nothing from now on, and the provider."""
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
def test_a_search_over_its_time_gives_up_its_thread(unanswered: tuple[Library, Ollama]) -> None:
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
def test_a_call_of_mcp_over_its_time_gives_up_its_thread(unanswered: tuple[Library, Ollama]):
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


def test_reading_the_store_ends_for_a_cancelled_request(tmp_path: Path) -> None:
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
