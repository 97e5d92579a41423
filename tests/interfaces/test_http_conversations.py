"""Conversations over HTTP: turns are stored completely or not, for their own caller only."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, serve_library, until
from tests.interfaces.test_http_answers import events
from tests.interfaces.test_http_cancellation import Silent
from tests.promises import proves
from tests.support.answer_worlds import QUESTION, Scripted, Study, study
from truespan.errors import ProviderUnavailable

BASE = "/v1/worlds/world/conversations"
OF_READER = "/v1/worlds/world/readers/ann/conversations"
FOLLOW_UP = "And who took it from him?"
SAID = "The keeper held it [1]."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A world with two passages and a model; tests that count use their own conversations."""
    found = study(tmp_path_factory.mktemp("conversations"), primary=Scripted(SAID))
    found.scores(0.9, 0.6)
    found.world.reader("ann").set_position("p0.txt", sentence=1)
    yield found
    found.library.close()


@pytest.fixture(scope="module")
def client(made: Study) -> Iterator[Client]:
    with serve_library(made.library) as running:
        yield running


@pytest.mark.parametrize("base", [BASE, OF_READER])
def test_conversation_can_be_managed_on_the_command_line(client: Client, base: str) -> None:
    begun = client.json("POST", base, {"query": QUESTION})
    assert (begun.status, begun.header("x-answer-mode")) == (200, "rag")
    key = begun.content["conversation"]["id"]
    place = f"{base}/{key}"

    further = client.json("POST", f"{place}/turns", {"query": FOLLOW_UP, "stream": True})
    (first, _), *_, (last, finished) = events(further)
    assert (first, last) == ("started", "finished")
    assert finished["conversation"]["id"] == key

    shown = client.json("GET", place).content
    assert [turn["question"] for turn in shown["turns"]] == [QUESTION, FOLLOW_UP]
    assert [turn["answer"] for turn in shown["turns"]] == [SAID, SAID]
    assert shown["turns"][1]["id"] == finished["conversation"]["turn"]
    assert shown["turns"][0]["citations"][0]["title"]
    assert (shown["id"], shown["title"]) == (key, QUESTION)
    latest = client.json("GET", f"{base}?limit=1").content["conversations"]
    assert latest == [{**shown, "turns": 2}]

    text = client.json("GET", place, headers=[("accept", "text/markdown")])
    assert (text.header("content-type") or "").startswith("text/markdown")
    assert QUESTION in text.body.decode()

    receipt = client.json("DELETE", place)
    assert (receipt.status, receipt.content["rows"]["conversations"]) == (200, 1)
    assert client.json("GET", place).code == "conversation_not_found"
    assert client.json("DELETE", place).code == "conversation_not_found"
    assert client.json("POST", f"{place}/turns", {"query": QUESTION}).status == 404


@proves("conversations.own-caller")
def test_token_sees_only_its_own_conversations(made: Study, client: Client) -> None:
    tokens = made.library.tokens
    one, other = (tokens.create(f"t{n}", worlds="world")[1].reveal() for n in range(2))
    key = client.json("POST", BASE, {"query": QUESTION}, token=one).content["conversation"]["id"]
    absent = client.json("GET", f"{BASE}/absent", token=other).content

    assert client.json("GET", f"{BASE}/{key}", token=one).status == 200
    assert [e["id"] for e in client.json("GET", BASE, token=one).content["conversations"]] == [key]
    assert client.json("GET", BASE, token=other).content == {"conversations": []}
    for method, path, body in (
        ("GET", "", None),
        ("POST", "/turns", {"query": QUESTION}),
        ("DELETE", "", None),
    ):
        response = client.json(method, f"{BASE}/{key}{path}", body, token=other)
        named = absent["detail"].replace("absent", key)
        assert response.content == absent | {"detail": named}, (method, path)
    chat = {"query": QUESTION, "conversation_id": key}
    assert client.json("POST", "/chat", chat, token=other).code == "conversation_not_found"
    # The owner of the library sees all of them.
    assert client.json("GET", f"{BASE}/{key}").status == 200
    assert client.json("DELETE", f"{BASE}/{key}", token=one).status == 200


def test_chat_continues_a_conversation_only_on_request(client: Client) -> None:
    plain = client.json("POST", "/chat", {"query": QUESTION})
    begun = client.json("POST", "/chat", {"query": QUESTION, "conversation_id": "new"})
    key = begun.content["conversation"]["id"]
    further = client.json("POST", "/chat", {"query": FOLLOW_UP, "conversation_id": key})

    assert "conversation" not in plain.content
    assert set(begun.content) - {"support"} == {*set(plain.content) - {"support"}, "conversation"}
    assert further.content["conversation"]["id"] == key
    assert len(client.json("GET", f"{BASE}/{key}").content["turns"]) == 2
    # Null means none, and an invalid id is an unknown conversation.
    null = client.json("POST", "/chat", {"query": QUESTION, "conversation_id": None})
    assert "conversation" not in null.content
    absent = client.json("POST", "/chat", {"query": QUESTION, "conversation_id": "absent"})
    assert (absent.status, absent.code) == (404, "conversation_not_found")


def test_idempotency_key_for_an_answer_is_refused(made: Study, client: Client) -> None:
    before = len(made.world.conversations())
    headers = [("idempotency-key", "k")]
    for path, body in ((BASE, {}), ("/chat", {"conversation_id": "new"})):
        response = client.json("POST", path, {"query": QUESTION, **body}, headers=headers)
        assert (response.status, response.code) == (400, "invalid_argument")
        assert "Idempotency-Key" in response.content["detail"]
    assert len(made.world.conversations()) == before
    assert client.json("POST", "/chat", {"query": QUESTION}, headers=headers).status == 200
    # A deletion takes one: its receipt has no text.
    key = client.json("POST", BASE, {"query": QUESTION}).content["conversation"]["id"]
    first, again = (
        client.json("DELETE", f"{BASE}/{key}", headers=[("idempotency-key", key)]) for _ in "ab"
    )
    assert first.status == again.status == 200
    assert first.body == again.body


@proves("conversations.whole-turns")
def test_a_turn_that_fails_is_not_stored(tmp_path: Path) -> None:
    down = ProviderUnavailable("test")
    made = study(tmp_path, primary=Scripted([down], ["The keeper [1] ", down], SAID))
    made.scores(0.9)
    with serve_library(made.library) as client:
        failed = client.json("POST", BASE, {"query": QUESTION})
        broken = client.json("POST", BASE, {"query": QUESTION, "stream": True})
        assert (failed.status, events(broken)[-1][0]) == (503, "problem")
        assert client.json("GET", BASE).content == {"conversations": []}
        assert client.json("POST", BASE, {"query": " "}).code == "blank_query"
        assert client.json("GET", BASE).content == {"conversations": []}
        assert client.json("POST", BASE, {"query": QUESTION}).status == 200
        assert len(client.json("GET", BASE).content["conversations"]) == 1


class Speaking(Silent):
    """A library whose model never ends its answer."""

    def _nothing(self) -> Iterator[bytes]:
        # Longer than the beginning that is held back until the mode is certain.
        yield self.model.piece(f"{SAID} Everybody in the valley knew that very well. " * 3)
        yield from super()._nothing()


@proves("conversations.whole-turns")
@pytest.mark.parametrize("stream", [True, False])
def test_disconnected_turn_is_not_stored(tmp_path: Path, stream: bool) -> None:
    made = Speaking(tmp_path, head=True)
    with serve_library(made.library) as client:
        body = json.dumps({"query": QUESTION, "stream": stream}).encode()
        head = (
            f"POST {BASE} HTTP/1.1\r\nhost: 127.0.0.1:{client.port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        connection = client.connect()
        connection.sendall(head.encode() + body)
        assert made.response.wait(30)
        connection.close()
        until(lambda: made.abandoned() == 1)
    # The server is idle now, so nothing will be stored any more.
    assert made.library.world("world").conversations() == []
    made.close()


@proves("conversations.non-interference")
def test_hidden_conversation_is_answered_like_an_unknown_id(made: Study, client: Client) -> None:
    reader = made.world.reader("bea")
    reader.set_position("p0.txt", sentence=1)
    of_reader = OF_READER.replace("ann", "bea")
    hidden = client.json("POST", of_reader, {"query": QUESTION}).content["conversation"]["id"]
    reader.set_position("p0.txt", sentence=0)
    requests = [
        ("GET", "", None),
        ("GET", "?", None),
        ("POST", "/turns", {"query": FOLLOW_UP}),
        ("POST", "/turns", {"query": FOLLOW_UP, "stream": True}),
        ("DELETE", "", None),
    ]
    for method, path, body in requests:
        bodies = []
        for id in (hidden, "0" * 32):
            headers = [("accept", "text/markdown")] if path == "?" else []
            reply = client.json(method, f"{of_reader}/{id}{path}", body, headers=headers)
            assert (reply.status, reply.code) == (404, "conversation_not_found")
            bodies.append(reply.body.replace(id.encode(), b"?"))
        assert bodies[0] == bodies[1]
    assert client.json("GET", of_reader).content["conversations"] == []
    reader.set_position("p0.txt", sentence=1)
    assert client.json("GET", f"{of_reader}/{hidden}").status == 200
