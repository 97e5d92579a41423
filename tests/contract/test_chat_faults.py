"""Failures of chat models over both protocols: each has an error, and no partial reply is returned.

Every fault contains the question, the reply and the key, so that an error that quotes any of them
is noticed.
"""

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.providers import Answer, Asked, PassingClock, Raw, Reaction
from tests.support.providers.chat import BOUNDS, KEY, TONGUES, ChatServer, Tongue
from truespan.errors import (
    ModelUnavailable,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    TextTooLong,
    TruespanError,
)
from truespan.ingest.embed import ATTEMPTS
from truespan.providers.chat import ChatDialect
from truespan.providers.outbound import Bounds
from truespan.types.answer import Message, Role

SECRET = "butlersecret"
MESSAGES = [Message(Role.SYSTEM, f"Be brief, {SECRET}."), Message(Role.USER, f"Why {SECRET}?")]
BEGUN = [f"The {SECRET} ", "came "]
"""What is said before a reply goes wrong in the middle."""
TIGHT = replace(BOUNDS, read_seconds=0.05, piece_seconds=0.05)
"""For faults that are noticed by nothing happening."""
HASTY = replace(BOUNDS, read_seconds=1000.0, piece_seconds=0.05)
SMALL = replace(BOUNDS, body_bytes=200_000, line_bytes=20_000)
MINUTE = 60.0

Speech = Callable[[ChatServer], Iterable[bytes]]
React = Callable[[ChatServer], Reaction]


@dataclass(frozen=True)
class Fault:
    """A fault, its error code, and the number of requests."""

    name: str
    react: React
    error: str | type[TruespanError]
    asked: int = 1
    bounds: Bounds = BOUNDS
    given: int = 0
    """Pieces that were given out before it was noticed."""


def body(speech: Speech, **more: Any) -> React:
    return lambda server: server.saying(speech(server), **more)


def begun(speech: Speech, **more: Any) -> React:
    """Fail after some pieces, which arrive at once even on a slow machine."""

    def pieces(server: ChatServer) -> Iterator[bytes]:
        yield b"".join(server.spoken(*BEGUN))
        yield from speech(server)

    return body(pieces, **more)


def raw(*content: bytes) -> Speech:
    return lambda server: content


def shaped(openai: Any, ollama: Any) -> Speech:
    """Send JSON of a wrong shape in either protocol."""

    def pieces(server: Any) -> list[bytes]:
        return [server.event(openai) if hasattr(server, "event") else server.line(**ollama)]

    return pieces


def status(number: int, words: str = f"no, {SECRET}", **headers: str) -> React:
    return lambda server: server.complaint(number, words, **headers)


def stalled(server: ChatServer) -> Iterator[bytes]:
    """Send nothing more until the client has disconnected."""
    over = threading.Event()
    server.stopping.append(over)  # type: ignore[attr-defined]
    over.wait(30)
    yield b""


def before_headers(speech: Speech) -> React:
    return lambda server: Raw(speech(server))


def endlessly(content: bytes) -> Speech:
    return lambda server: repeat(content)


UNDELIVERED = [
    Fault("hangs up", before_headers(raw()), ProviderUnavailable, ATTEMPTS),
    Fault("reset before the head", before_headers(ChatServer.reset), ProviderUnavailable, ATTEMPTS),
    Fault("breaks off in the head", before_headers(raw(b"HTTP/1.1 2")), ProviderBadReply),
    Fault("no HTTP", before_headers(raw(b"SSH-2.0-tide\r\n\r\n")), ProviderBadReply),
    Fault("reset after the head", body(ChatServer.reset), ProviderUnavailable, ATTEMPTS),
    Fault("no end of chunks", body(raw(), ended=False), ProviderUnavailable, ATTEMPTS),
    Fault("stalls at once", before_headers(stalled), ProviderUnavailable, ATTEMPTS, TIGHT),
    Fault("stalls after the head", body(stalled), ProviderUnavailable, ATTEMPTS, TIGHT),
    Fault("reset in the middle", begun(ChatServer.reset), ProviderBadReply, given=2),
    Fault("stalls in the middle", begun(stalled), ProviderUnavailable, 1, HASTY, given=2),
    Fault("no end of chunks either", begun(raw(), ended=False), ProviderBadReply, given=2),
    Fault("half a line", begun(raw(b'data: {"mess')), ProviderBadReply, given=2),
]
STATUSES = [
    Fault("400", status(400), ProviderRefused),
    Fault("401", status(401), ProviderRefused),
    Fault("402", status(402), ProviderRefused),
    Fault("403", status(403), ProviderRefused),
    Fault("404", status(404), ProviderRefused),
    Fault("408", status(408), ProviderUnavailable, ATTEMPTS),
    Fault("413", status(413), "provider_batch_too_large"),
    Fault("422", status(422), ProviderRefused),
    Fault("500", status(500), ProviderUnavailable, ATTEMPTS),
    Fault("502", status(502), ProviderUnavailable, ATTEMPTS),
    Fault("503", status(503), ProviderUnavailable, ATTEMPTS),
    Fault("504", status(504), ProviderUnavailable, ATTEMPTS),
    Fault("501", status(501), ProviderRefused),
    Fault("301", status(301, Location="/elsewhere"), ProviderRefused),
    Fault("307", status(307, Location=f"http://{SECRET}/"), ProviderRefused),
    Fault("no such model", status(404, f"model '{SECRET}' not found"), ModelUnavailable),
    Fault("no chat", status(400, '"tide" does not support chat'), ModelUnavailable),
    Fault("too long", status(400, "the input exceeds the context length"), TextTooLong),
    Fault("filter", status(400, f"content_filter: {SECRET}"), ProviderRefused),
    Fault(
        "a page for 502",
        lambda server: Answer(502, body=b"<html>" + SECRET.encode(), content_type="text/html"),
        ProviderUnavailable,
        ATTEMPTS,
    ),
    Fault("an endless complaint", body(endlessly(b"no " * 999), status=500), ProviderBadReply),
]
NONSENSE = [
    Fault("text", body(ChatServer.whole, content_type="text/plain"), ProviderBadReply),
    Fault("a page", body(raw(b"<html>"), content_type="text/html"), ProviderBadReply),
    Fault("a page that lies", body(raw(f"<html>{SECRET}\n\n".encode())), ProviderBadReply),
    Fault("nothing", body(raw()), ProviderBadReply),
    Fault("no content", lambda server: Answer(204, body=b""), ProviderBadReply),
    Fault("blank lines", body(raw(b"\n" * 50)), ProviderBadReply),
    Fault("invalid JSON", body(raw(b"data: {,}\n\n")), ProviderBadReply),
    Fault("a list", body(raw(b"data: [1]\n\n", b"[1]\n")), ProviderBadReply),
    Fault(
        "broken UTF-8",
        body(lambda server: [server.piece("tide").replace(b"tide", b"\xff\xfe")]),
        ProviderBadReply,
    ),
    Fault(
        "half a character",
        begun(lambda server: [server.piece("潮").replace("潮".encode(), "潮".encode()[:2])]),
        ProviderBadReply,
        given=2,
    ),
    Fault("no fields", body(shaped({}, {})), ProviderBadReply),
    Fault(
        "other fields",
        body(shaped({"choices": [{"text": SECRET}]}, {"response": SECRET, "done": False})),
        ProviderBadReply,
    ),
    Fault(
        "a number for text",
        body(
            shaped(
                {"choices": [{"delta": {"content": 7}}]}, {"message": {"content": 7}, "done": False}
            )
        ),
        ProviderBadReply,
    ),
    Fault(
        "text for an object",
        body(shaped({"choices": SECRET}, {"message": SECRET, "done": False})),
        ProviderBadReply,
    ),
    Fault(
        "text for a mark",
        body(
            shaped(
                {"choices": [{"delta": {}, "finish_reason": 1}]},
                {"message": {"content": ""}, "done": "true"},
            )
        ),
        ProviderBadReply,
    ),
    Fault("deep nesting", body(raw(b"data: " + b"[" * 9000 + b"\n\n")), ProviderBadReply),
]
TOO_MUCH = [
    Fault(
        "a huge line",
        body(lambda server: [server.piece("tide").replace(b"{", b"{" + b" " * 300_000, 1)]),
        ProviderBadReply,
        bounds=replace(SMALL, body_bytes=1 << 20),
    ),
    Fault("a line without end", body(endlessly(b"tide")), ProviderBadReply, bounds=SMALL),
    Fault("an endless pause", body(endlessly(b"\n" * 999)), ProviderBadReply, bounds=SMALL),
    Fault(
        "an endless reply",
        lambda server: server.saying(repeat(server.piece(SECRET * 999))),
        ProviderBadReply,
        given=65_536 // (999 * len(SECRET)),
    ),
]
ENDS = [
    Fault("no end mark", begun(raw()), ProviderBadReply, given=2),
    Fault("fewer bytes than declared", begun(raw(), ended=False), ProviderBadReply, given=2),
    Fault(
        "cut at the limit", begun(lambda server: [server.end("length")]), ProviderBadReply, given=2
    ),
    Fault(
        "an unknown end", begun(lambda server: [server.end("unload")]), ProviderBadReply, given=2
    ),
    Fault(
        "an error in the middle",
        begun(lambda server: [server.trouble(f"an error, {SECRET} {KEY}"), server.end()]),
        ProviderUnavailable,
        given=2,
    ),
    Fault(
        "an error at first",
        body(lambda server: [server.trouble(f"an error, {SECRET} {KEY}"), server.end()]),
        ProviderUnavailable,
        ATTEMPTS,
    ),
    Fault(
        "no such model after all",
        body(lambda server: [server.trouble(f"model '{SECRET}' not found")]),
        ModelUnavailable,
    ),
    Fault(
        "too long after all",
        body(lambda server: [server.trouble("the input exceeds the context length")]),
        TextTooLong,
    ),
]
FAULTS = [*UNDELIVERED, *STATUSES, *NONSENSE, *TOO_MUCH, *ENDS]


@pytest.fixture(params=TONGUES, ids=str)
def tongue(request: pytest.FixtureRequest) -> Tongue:
    return request.param


@pytest.fixture
def server(tongue: Tongue) -> Iterator[Any]:
    with tongue.start() as started:
        started.stopping = []
        yield started
        for over in started.stopping:
            over.set()


def asked_for(server: ChatServer) -> int:
    return len(server.to(server.path))


def failure_of(
    pieces: Iterator[str], kind: str | type[TruespanError]
) -> tuple[TruespanError, list[str]]:
    """Return the error of a reply and the earlier pieces; neither key nor text is in the error."""
    given: list[str] = []
    with raises_code(kind) as caught:
        given.extend(pieces)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
    assert SECRET not in told.lower()
    assert KEY not in told
    return caught.value, given


@proves("errors.no-secrets")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_has_its_error_and_no_partial_reply_is_returned(
    tongue: Tongue, server: ChatServer, fault: Fault
) -> None:
    def react(asked: Asked) -> Reaction:
        return fault.react(server)

    server.fault = react
    model = tongue.model(server, bounds=fault.bounds)

    _, given = failure_of(model.stream(MESSAGES), fault.error)

    assert len(given) == fault.given
    assert server.wait_for(server.path, fault.asked) == fault.asked


def test_unreachable_server_is_retried_and_then_reported(tongue: Tongue, server: ChatServer):
    clock = PassingClock()
    model = tongue.model(server, clock=clock)
    server.stop()

    error, given = failure_of(model.stream(MESSAGES), ProviderUnavailable)

    assert (given, len(clock.slept)) == ([], ATTEMPTS - 1)
    assert "cannot be reached" in error.message


def test_temporary_fault_before_the_first_piece_is_retried(
    tongue: Tongue, server: ChatServer
) -> None:
    troubles = iter([server.complaint(503, "busy"), Raw(), server.saying([server.trouble("no")])])
    server.fault = lambda asked: next(troubles, None)

    assert list(tongue.model(server).stream(MESSAGES)) == server.reply
    assert asked_for(server) == 4


@pytest.mark.parametrize(("pause", "asked"), [("7", 3), ("21", 1), ("900", 1)])
def test_pause_is_respected_up_to_the_maximum_wait(
    tongue: Tongue, server: ChatServer, pause: str, asked: int
) -> None:
    server.fault = lambda asked: server.complaint(429, "slow down", **{"Retry-After": pause})
    kind = "provider_cooldown" if tongue.name == "openai" else ProviderUnavailable

    error, _ = failure_of(tongue.model(server).stream(MESSAGES), kind)

    assert asked_for(server) == asked
    assert error.retry_after == pytest.approx(min(float(pause), 300.0))  # type: ignore[attr-defined]


def test_no_attempt_begins_after_the_reply_deadline(tongue: Tongue, server: ChatServer):
    server.fault = lambda asked: server.complaint(503, "busy")
    clock = PassingClock()
    model = tongue.model(server, clock=clock, bounds=replace(BOUNDS, total_seconds=2.0))

    failure_of(model.stream(MESSAGES), ProviderUnavailable)

    assert (asked_for(server), len(clock.slept)) == (3, 2)


def test_first_piece_may_take_longer_than_later_ones(tongue: Tongue, server: ChatServer) -> None:
    """The time between pieces is zero, so a limit from the start would be noticed."""
    server.reply = []
    model = tongue.model(server, bounds=replace(BOUNDS, piece_seconds=1e-9))

    assert list(model.stream(MESSAGES)) == []


class TickingClock(PassingClock):
    """A clock that advances by a second at every call."""

    def monotonic(self) -> float:
        self.time += 1.0
        return self.time


def test_keep_alive_without_content_ends_at_the_deadline(
    tongue: Tongue, server: ChatServer
) -> None:
    content = b": wait\n\n" if tongue.name == "openai" else b"\n"
    server.fault = lambda asked: server.saying(chain(server.spoken("The "), repeat(content)))
    model = tongue.model(server, clock=TickingClock())

    error, given = failure_of(model.stream(MESSAGES), ProviderUnavailable)

    assert given == ["The "]
    assert "in time" in error.message


def test_closing_a_reply_ends_the_request(tongue: Tongue, server: ChatServer) -> None:
    server.fault = lambda asked: server.saying(repeat(server.piece("on and ")))
    pieces = tongue.model(server).stream(MESSAGES)

    assert [next(pieces), next(pieces)] == ["on and ", "on and "]
    assert not server.ended.is_set()
    pieces.close()

    assert server.ended.wait(10)
    assert asked_for(server) == 1


def test_abandoned_reply_ends_the_request(tongue: Tongue, server: ChatServer) -> None:
    server.fault = lambda asked: server.saying(repeat(server.piece("on and ")))
    pieces = tongue.model(server).stream(MESSAGES)

    next(pieces)
    del pieces

    assert server.ended.wait(10)


def test_pieces_are_yielded_as_they_arrive(tongue: Tongue, server: ChatServer) -> None:
    """The server sends the next piece only after the previous one was read."""
    seen = threading.Semaphore(0)

    def in_step() -> Iterator[bytes]:
        for text in server.reply:
            yield server.piece(text)
            assert seen.acquire(timeout=10)
        yield server.end()

    server.fault = lambda asked: server.saying(in_step())

    given = []
    for piece in tongue.model(server).stream(MESSAGES):
        given.append(piece)
        seen.release()
    assert given == server.reply


def test_redirects_are_not_followed(tongue: Tongue, server: ChatServer) -> None:
    with tongue.start() as elsewhere:
        there = elsewhere.base + "/x"
        server.fault = lambda asked: server.complaint(308, "moved", Location=there)

        failure_of(tongue.model(server).stream(MESSAGES), ProviderRefused)

        assert elsewhere.connections == 0


def test_reply_over_the_requested_length_is_cut(tongue: Tongue, server: ChatServer):
    dialect = ChatDialect(max_tokens=10_000)
    server.reply = ["tide " * 1000] * 63
    assert list(tongue.model(server, dialect=dialect).stream(MESSAGES)) == server.reply

    server.reply = ["tide " * 1000] * 65
    failure_of(tongue.model(server, dialect=dialect).stream(MESSAGES), ProviderBadReply)
