"""The chat model for OpenAI-compatible servers: requests and accepted replies.

The contract runs against a loopback server that speaks the protocol and, where `OPENAI_TEST_URL`
and `OPENAI_TEST_CHAT_MODEL` are set (with perhaps `OPENAI_TEST_KEY`), against the server that is
there. Faults are injected in the loopback server only.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.contract.keyed_parts import failure_of
from tests.support.providers import Answer, Asked, PassingClock, Reaction
from tests.support.providers.chat import REPLY, OpenAiChatServer, openai_chat, ring
from tests.support.providers.cooldowns import keyless_ring
from tests.support.providers.openai import complaint
from truespan.errors import ModelUnavailable, ProviderBadReply, ProviderRefused
from truespan.protocols import ChatModel
from truespan.providers.chat import RETRY_SECONDS, ChatDialect
from truespan.providers.keys import COOLDOWN
from truespan.providers.openai import OpenAiChat
from truespan.types.answer import Message, Role

QUESTION = [Message(Role.SYSTEM, "Answer in one word."), Message(Role.USER, "Is water wet?")]


@pytest.fixture
def server() -> Iterator[OpenAiChatServer]:
    with OpenAiChatServer() as started:
        yield started


# The contract, on the loopback server and on a real one


@pytest.fixture(params=["loopback", "real"])
def model(request: pytest.FixtureRequest) -> Iterator[OpenAiChat]:
    if request.param == "loopback":
        with OpenAiChatServer() as started:
            yield openai_chat(started)
        return
    url, name = os.environ.get("OPENAI_TEST_URL"), os.environ.get("OPENAI_TEST_CHAT_MODEL")
    if not url or not name:
        pytest.skip("OPENAI_TEST_URL and OPENAI_TEST_CHAT_MODEL are not set; no real server tried")
    key = os.environ.get("OPENAI_TEST_KEY")
    clock = PassingClock()
    keys = ring(key) if key else keyless_ring(clock)
    yield OpenAiChat(url, name, keys=keys, clock=clock)


def test_reply_is_read_piece_by_piece(model: OpenAiChat, server: OpenAiChatServer) -> None:
    port: ChatModel = model

    pieces = list(port.stream(QUESTION))

    assert port.name.startswith("openai/")
    assert all(pieces)
    assert "".join(pieces).strip()

    whole = b"".join(server.whole())

    assert said(server, (whole[at : at + 1] for at in range(len(whole)))) == "".join(REPLY)
    assert said(server, [whole]) == "".join(REPLY)

    whole = Answer(body=b"".join(server.whole()), content_type=server.content_type)
    server.fault = lambda asked: whole

    assert list(openai_chat(server).stream(QUESTION)) == REPLY

    assert said(server, [server.end()]) == ""


def test_missing_model_is_reported(model: OpenAiChat) -> None:
    model._model = "no-such-model-anywhere"

    failure_of(lambda: list(model.stream(QUESTION)), ModelUnavailable)


# Asking


def test_request_begins_with_the_first_piece_and_ends_when_abandoned(
    server: OpenAiChatServer, model: OpenAiChat
) -> None:
    pieces = openai_chat(server).stream(QUESTION)

    assert server.connections == 0
    assert next(pieces) == REPLY[0]
    pieces.close()

    with closing(model.stream(QUESTION)) as pieces:
        assert next(pieces)

    assert list(pieces) == []
    assert list(model.stream(QUESTION))


def test_chat_request_states_all_options(server: OpenAiChatServer) -> None:
    dialect = ChatDialect(max_tokens=77, temperature=0.5)

    list(openai_chat(server, dialect=dialect, keys=ring("sk-one")).stream(QUESTION))

    [asked] = server.asked
    assert asked.content == {
        "model": "tide-teller",
        "messages": [
            {"role": "system", "content": "Answer in one word."},
            {"role": "user", "content": "Is water wet?"},
        ],
        "stream": True,
        "max_tokens": 77,
        "temperature": 0.5,
    }
    assert asked.headers["authorization"] == "Bearer sk-one"
    assert asked.headers["accept"] == "text/event-stream"


def test_temperature_is_zero_by_default(server: OpenAiChatServer) -> None:
    list(openai_chat(server).stream(QUESTION))

    [question] = server.questions
    assert (question["temperature"], question["max_tokens"]) == (0, 1024)


def test_question_with_a_lone_surrogate_is_sent(server: OpenAiChatServer) -> None:
    list(openai_chat(server).stream([Message(Role.USER, "wet\ud83d?")]))

    assert server.questions[0]["messages"] == [{"role": "user", "content": "wet??"}]


@pytest.mark.parametrize(
    ("words", "without", "limit"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "max_completion_tokens",
        ),
        (
            "Unsupported value: 'temperature' does not support 0 with this model.",
            "temperature",
            "max_tokens",
        ),
    ],
)
def test_refused_parameter_is_left_out_afterwards(
    server: OpenAiChatServer, words: str, without: str, limit: str
) -> None:
    server.fault = lambda asked: complaint(400, words) if without in asked.content else None
    model = openai_chat(server)

    assert [list(model.stream(QUESTION)) for _ in range(2)] == [REPLY, REPLY]
    assert [without in asked for asked in server.questions] == [True, False, False]
    assert server.questions[-1][limit] == 1024


def test_repeated_parameter_error_is_a_refusal(server: OpenAiChatServer) -> None:
    words = "'temperature' is not supported, nor 'max_tokens': use 'max_completion_tokens'"
    server.fault = lambda asked: complaint(400, words)

    failure_of(lambda: list(openai_chat(server).stream(QUESTION)), ProviderRefused)

    assert len(server.asked) == 3


# Keys


def test_limited_key_is_replaced_by_the_next(server: OpenAiChatServer) -> None:
    def busy(asked: Asked) -> Reaction | None:
        first = asked.headers["authorization"] == "Bearer sk-one"
        return complaint(429, "slow down", **{"Retry-After": "5"}) if first else None

    server.fault = busy
    clock = PassingClock()
    model = openai_chat(server, clock=clock, keys=ring("sk-one", "sk-two", clock=clock))

    assert [list(model.stream(QUESTION)) for _ in range(2)] == [REPLY, REPLY]
    assert clock.slept == []
    used = [asked.headers["authorization"][-3:] for asked in server.asked]
    assert used == ["one", "two", "two"]


def test_long_cooldown_of_every_key_is_an_error(server: OpenAiChatServer) -> None:
    server.fault = lambda asked: complaint(429, "slow down")
    clock = PassingClock()
    model = openai_chat(server, clock=clock, keys=ring("sk-one", "sk-two", clock=clock))

    error = failure_of(lambda: list(model.stream(QUESTION)), "provider_cooldown")

    assert error.retry_after == COOLDOWN  # type: ignore[attr-defined]
    assert (len(server.asked), clock.slept) == (2, [])


def test_short_pause_is_respected(server: OpenAiChatServer) -> None:
    answers = iter([complaint(429, "slow down", **{"Retry-After": "7"})])
    server.fault = lambda asked: next(answers, None)
    clock = PassingClock()
    model = openai_chat(server, clock=clock, keys=ring("sk-one", clock=clock))

    assert list(model.stream(QUESTION)) == REPLY
    assert clock.slept == [pytest.approx(7)]
    assert RETRY_SECONDS > 7


def test_denied_chat_key_is_not_used_again(server: OpenAiChatServer) -> None:
    def denied(asked: Asked) -> Reaction | None:
        first = asked.headers["authorization"] == "Bearer sk-one"
        return complaint(401, "Incorrect API key provided") if first else None

    server.fault = denied
    model = openai_chat(server, keys=ring("sk-one", "sk-two"))

    for _ in range(3):
        assert list(model.stream(QUESTION)) == REPLY
    assert len(server.asked) == 4


def test_quota_excess_is_not_retried_with_another_key(server: OpenAiChatServer) -> None:
    server.fault = lambda asked: complaint(429, "Request too large for tide-teller (TPM)")
    model = openai_chat(server, keys=ring("sk-one", "sk-two"))

    failure_of(lambda: list(model.stream(QUESTION)), "provider_batch_too_large")

    assert len(server.asked) == 1


def test_key_is_sent_only_if_the_server_needs_one(server: OpenAiChatServer) -> None:
    failure_of(
        lambda: list(openai_chat(server, keys=ring()).stream(QUESTION)), "credentials_missing"
    )

    assert server.connections == 0

    keys = keyless_ring(PassingClock())

    assert list(openai_chat(server, keys=keys).stream(QUESTION)) == REPLY
    assert "authorization" not in server.asked[0].headers


# What is taken for a reply


def said(server: OpenAiChatServer, pieces: Iterable[bytes], **more: Any) -> str:
    server.fault = lambda asked: server.saying(pieces, **more)
    return "".join(openai_chat(server).stream(QUESTION))


def choice(content: str, **more: Any) -> dict[str, Any]:
    return {"index": 0, "delta": {"content": content}, "finish_reason": None} | more


@pytest.mark.parametrize(
    "rewritten",
    [
        lambda whole: whole.replace(b"\n", b"\r\n"),
        lambda whole: whole.replace(b"data: ", b"data:"),
        lambda whole: whole.replace(b"data: ", b"event: message\nid: 7\nretry: 9\ndata: "),
        lambda whole: whole.replace(b"\n\n", b"\n\n: keep-alive\n\n"),
        lambda whole: whole.replace(b', "created"', b'\ndata: , "created"'),
        lambda whole: whole.removesuffix(b"\n\n"),
        lambda whole: whole.removesuffix(b"\n"),
    ],
    ids=["CRLF", "no space", "named", "comments", "lines", "no end of line", "no blank"],
)
def test_events_are_read_in_every_valid_spelling(server: OpenAiChatServer, rewritten: Any) -> None:
    assert said(server, [rewritten(b"".join(server.whole()))]) == "".join(REPLY)


def test_reply_requires_its_reason_and_its_end_mark(server: OpenAiChatServer) -> None:
    """The connection stays open, so waiting for more would take long."""
    part = Answer(body=b"".join(server.spoken("The ")), content_type=server.content_type)
    server.fault = lambda asked: part

    error = failure_of(lambda: list(openai_chat(server).stream(QUESTION)), ProviderBadReply)

    assert "broke off" in error.message

    reason, mark = server.end().split(b"data: [DONE]\n\n")[0], b"data: [DONE]\n\n"

    for end in (reason, mark):
        error = failure_of(
            lambda end=end: said(server, [*server.spoken("The "), end]), ProviderBadReply
        )
        assert "broke off" in error.message


def test_only_content_is_part_of_the_reply(server: OpenAiChatServer) -> None:
    thought = {"reasoning_content": "hm", "reasoning": "hm", "content": None}
    events = [
        server.chunk(choice("", delta=thought)),
        server.chunk(choice("wet", delta={"content": "Wet", "reasoning": "hm"})),
        server.chunk(choice("Dry", index=1), choice(".")),
        server.event({"choices": None, "usage": {"total_tokens": 3}}),
        server.chunk(choice("", delta=None)),
        server.end(),
    ]

    assert said(server, events) == "Wet."

    assert said(server, [*server.whole(), server.piece(" And more.")]) == "".join(REPLY)

    assert said(server, [b"\xef\xbb\xbf" + server.piece("Wet"), server.end()]) == "Wet"


@pytest.mark.parametrize("reason", ["content_filter", "safety"])
def test_a_filtered_reply_is_a_refusal(server: OpenAiChatServer, reason: str) -> None:
    ended = [*server.spoken("The "), server.end(reason)]

    failure_of(lambda: said(server, ended), ProviderRefused)


def test_refusal_message_of_the_model_is_a_refusal(server: OpenAiChatServer) -> None:
    refusing = server.chunk(choice("", delta={"refusal": "I will not."}))

    failure_of(lambda: said(server, [refusing, server.end()]), ProviderRefused)


@pytest.mark.parametrize("reason", ["tool_calls", "function_call", "error", "unheard-of"])
def test_other_end_reason_is_a_bad_reply(server: OpenAiChatServer, reason: str) -> None:
    ended = [*server.spoken("The "), server.end(reason)]

    failure_of(lambda: said(server, ended), ProviderBadReply)


def test_reply_cut_at_its_limit_names_the_setting(server: OpenAiChatServer) -> None:
    ended = [*server.spoken("The "), server.end("length")]

    error = failure_of(lambda: said(server, ended), ProviderBadReply)

    assert "chat_max_tokens" in error.advice


@pytest.mark.parametrize(("code", "kind"), [(400, ProviderRefused), (401, ProviderRefused)])
def test_error_within_a_reply_uses_its_code(
    server: OpenAiChatServer, code: int, kind: type[ProviderRefused]
) -> None:
    trouble = server.event({"error": {"message": "no", "code": code}})

    failure_of(lambda: said(server, [trouble]), kind)
