"""Callers of the HTTP server take turns, and work ends when its client is gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, serve_library
from tests.promises import proves
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library
from truespan.http.requests import MAX_GOLDEN_TEXT
from truespan.types.scope import Verb

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


def post(client: Client, path: str, body: object, token: str = "") -> bytes:
    content = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"host: 127.0.0.1:{client.port}",
        "content-type: application/json",
        f"content-length: {len(content)}",
        *([f"authorization: Bearer {token}"] if token else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


@proves("tenants.no-stall")
def test_many_calls_of_one_token_do_not_stall_another(lib: LibraryFixture) -> None:
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
            opened[-1].sendall(post(client, path, body, many))
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
