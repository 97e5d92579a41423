"""The chat model of Ollama: requests and accepted replies.

The contract runs against a loopback server that speaks Ollama's protocol and, where
`OLLAMA_BASE_URL` and `TRUESPAN_CHAT_MODEL` are set, against the Ollama that is there. Faults are
injected in the loopback server only.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.contract.keyed_parts import failure_of
from tests.support.providers import Answer, PassingClock
from tests.support.providers.chat import REPLY, OllamaChatServer, ollama_chat
from truespan.errors import ModelUnavailable, ProviderBadReply, ProviderUnavailable
from truespan.protocols import ChatModel
from truespan.providers.chat import ChatDialect
from truespan.providers.ollama import OllamaChat
from truespan.types.answer import Message, Role

QUESTION = [Message(Role.SYSTEM, "Answer in one word."), Message(Role.USER, "Is water wet?")]


@pytest.fixture
def server() -> Iterator[OllamaChatServer]:
    with OllamaChatServer() as started:
        yield started


# The contract, on the loopback server and on a real one


@pytest.fixture(params=["loopback", "real"])
def model(request: pytest.FixtureRequest) -> Iterator[OllamaChat]:
    if request.param == "loopback":
        with OllamaChatServer() as started:
            yield ollama_chat(started)
        return
    url, name = os.environ.get("OLLAMA_BASE_URL"), os.environ.get("TRUESPAN_CHAT_MODEL")
    if not url or not name:
        pytest.skip("OLLAMA_BASE_URL and TRUESPAN_CHAT_MODEL are not set; no real Ollama tried")
    yield OllamaChat(url, name, clock=PassingClock())


def test_reply_is_read_piece_by_piece(model: OllamaChat, server: OllamaChatServer) -> None:
    port: ChatModel = model

    pieces = list(port.stream(QUESTION))

    assert port.name.startswith("ollama/")
    assert all(pieces)
    assert "".join(pieces).strip()

    whole = b"".join(server.whole())

    assert said(server, (whole[at : at + 1] for at in range(len(whole)))) == "".join(REPLY)
    assert said(server, [whole]) == "".join(REPLY)

    lines = [server.piece("", thinking="hm"), server.piece("Wet", thinking="hm"), server.end()]

    assert said(server, lines) == "Wet"

    last = server.line(message={"content": "."}, done=True, done_reason="stop")
    bare = server.line(done=True, done_reason="stop")

    assert said(server, [*server.spoken("Wet"), last]) == "Wet."
    assert said(server, [*server.spoken("Wet"), bare]) == "Wet"
    assert said(server, [server.end()]) == ""


def test_errors_have_the_command_that_helps(model: OllamaChat, server: OllamaChatServer) -> None:
    model._model = "no-such-model-anywhere:7b"

    error = failure_of(lambda: list(model.stream(QUESTION)), ModelUnavailable)

    assert "ollama pull no-such-model-anywhere:7b" in error.advice

    server.stop()

    error = failure_of(lambda: list(ollama_chat(server).stream(QUESTION)), ProviderUnavailable)

    assert "ollama serve" in error.advice


# Asking


def test_request_begins_with_the_first_piece_and_ends_when_abandoned(
    server: OllamaChatServer, model: OllamaChat
) -> None:
    pieces = ollama_chat(server).stream(QUESTION)

    assert server.connections == 0
    assert next(pieces) == REPLY[0]
    pieces.close()

    with closing(model.stream(QUESTION)) as pieces:
        assert next(pieces)

    assert list(pieces) == []
    assert list(model.stream(QUESTION))


def test_chat_request_states_all_options_and_forbids_cutting(server: OllamaChatServer) -> None:
    dialect = ChatDialect(max_tokens=77, temperature=0.5, context=2048)

    list(ollama_chat(server, dialect=dialect).stream(QUESTION))

    assert server.questions == [
        {
            "model": "tide-teller",
            "messages": [
                {"role": "system", "content": "Answer in one word."},
                {"role": "user", "content": "Is water wet?"},
            ],
            "stream": True,
            "truncate": False,
            "shift": False,
            "options": {"temperature": 0.5, "num_predict": 77, "num_ctx": 2048},
        }
    ]


# What is taken for a reply


def said(server: OllamaChatServer, pieces: Iterable[bytes], **more: Any) -> str:
    server.fault = lambda asked: server.saying(pieces, **more)
    return "".join(ollama_chat(server).stream(QUESTION))


@pytest.mark.parametrize(
    "rewritten",
    [
        lambda whole: whole.replace(b"\n", b"\r\n"),
        lambda whole: whole.replace(b"\n", b"\n\n \n"),
        lambda whole: whole.removesuffix(b"\n"),
        lambda whole: whole.replace(b', "done_reason": "stop"', b""),
        lambda whole: whole + b'{"message": {"content": "more"}, "done": false}\n',
    ],
    ids=["CRLF", "blank lines", "no end of line", "no reason", "more"],
)
def test_lines_are_read_in_every_valid_spelling(server: OllamaChatServer, rewritten: Any) -> None:
    whole = b"".join(server.whole())

    assert rewritten(whole) != whole
    assert said(server, [rewritten(whole)]) == "".join(REPLY)


def test_reply_without_its_end_mark_is_detected(server: OllamaChatServer) -> None:
    """The connection stays open, so waiting for more would take long."""
    part = Answer(body=b"".join(server.spoken("The ")), content_type=server.content_type)
    server.fault = lambda asked: part

    error = failure_of(lambda: list(ollama_chat(server).stream(QUESTION)), ProviderBadReply)

    assert "broke off" in error.message


@pytest.mark.parametrize("reason", ["load", "unload", "error"])
def test_other_end_reason_is_a_bad_reply(server: OllamaChatServer, reason: str) -> None:
    failure_of(lambda: said(server, [*server.spoken("The "), server.end(reason)]), ProviderBadReply)


def test_reply_cut_at_its_limit_names_the_setting(server: OllamaChatServer) -> None:
    ended = [*server.spoken("The "), server.end("length")]

    error = failure_of(lambda: said(server, ended), ProviderBadReply)

    assert "chat_max_tokens" in error.advice
