"""Incomplete requests: endless headers, and idle connections."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, Response, read_reply, serve_library
from tests.support.worlds import make_library
from truespan.extensions.server.http import server as connection
from truespan.extensions.server.http.app import Limits, ServerOptions

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
def test_a_head_that_does_not_end_is_refused(client: Client, piece: bytes) -> None:
    response = sent(client, BEGUN + (b"" if piece is PIECE else b"x-a: "), *[piece] * 200)

    assert (response.status, response.code) == (431, "request_too_large")
    assert client.json("GET", "/health").status == 200


def test_a_long_head_that_ends_is_read(client: Client) -> None:
    assert sent(client, BEGUN + PIECE * 6, b"\r\n").status == 200


def test_a_long_body_is_no_long_head(client: Client) -> None:
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
def test_a_connection_on_which_no_request_comes_is_ended(
    client: Client, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)

    response = sent(client, begun)

    assert (response.status, response.code) == (408, "deadline_exceeded")


def test_the_second_head_of_a_connection_is_bounded_as_the_first(
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


def test_a_message_to_mcp_that_never_comes_whole_is_given_up(client: Client) -> None:
    head = (
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"accept: application/json, text/event-stream\r\ncontent-length: 100\r\n\r\n{"
    )

    response = sent(client, head)

    assert (response.status, response.code) == (504, "deadline_exceeded")
