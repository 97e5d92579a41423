"""Replies: problem details (RFC 9457), complete replies, and streams of server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from starlette.types import Receive, Send

from truespan.errors import Overloaded, TruespanError
from truespan.extensions.server.http.operation import EVENTS, Event, Events, JobStream, Reply
from truespan.types.bundle import ContextBundle
from truespan.wire.serialize import failure_of, members, status_of

if TYPE_CHECKING:
    from truespan.extensions.server.http.pool import Pool

PROBLEM = "application/problem+json"
POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
# Shared by threads: a msgspec encoder keeps no state between calls.
_ENCODER = msgspec.json.Encoder()


class StreamContext(Struct, frozen=True):
    """The resources of event streams: threads, and the handler of unexpected exceptions."""

    pool: Pool
    streams: Pool
    """For work that may wait for a model."""
    ending: asyncio.Event
    """Set when the server shuts down."""
    on_bug: Callable[[str, Exception], TruespanError]


class NamedError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as clients of OpenAI expect it."""

    message: str
    type: str
    code: str
    param: None = None


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed. `code` is stable; `retryable` says whether to retry the same request.

    `bundle` is the bundle of a retrieval that failed. `error` is the same error in the format of
    OpenAI, in replies of its operations.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    advice: str = ""
    bundle: ContextBundle | msgspec.UnsetType = msgspec.UNSET
    error: NamedError | msgspec.UnsetType = msgspec.UNSET


HTTP_ADVICE = {
    "world_not_found": "GET /v1/worlds lists the worlds; POST /v1/worlds creates one.",
    "document_not_found": "GET /v1/worlds/{world}/documents lists the documents.",
    "job_not_found": "GET /v1/worlds/{world}/jobs lists the jobs.",
    "domain_not_found": "GET /v1/domains lists the domains.",
    "generation_not_found": "GET /v1/worlds/{world}/generations lists the generations.",
    "no_reading_position": "PUT /v1/worlds/{world}/readers/{reader}/position records one.",
    "world_busy": "Wait for the job, or stop it with POST /v1/worlds/{world}/jobs/{job}/cancel.",
}
"""Advice in the words of HTTP for errors whose usual advice names a command."""
_CALLS = {
    "'truespan show DOCUMENT'": "GET /v1/worlds/{world}/documents/{document}",
    "'truespan evaluate'": "POST /v1/worlds/{world}/evaluate",
}
"""HTTP calls by the commands that the own advice of an error names."""


def advice_for(error: TruespanError) -> str:
    """Return the advice of an error to a caller over HTTP, with calls instead of commands."""
    if error.own_advice is None:
        return HTTP_ADVICE.get(error.code, error.advice)
    advice = error.own_advice
    for command, call in _CALLS.items():
        advice = advice.replace(command, call)
    return advice


def problem_reply(
    error: TruespanError, bundle: ContextBundle | None = None
) -> Reply[ProblemDetails]:
    """Return an error as problem details, with the headers of its kind."""
    status = status_of(error).http
    details = ProblemDetails(
        type=f"urn:truespan:problem:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.message,
        **members(error, "code", "retryable"),
        advice=advice_for(error),
        bundle=msgspec.UNSET if bundle is None else bundle,
    )
    headers: list[tuple[str, str]] = []
    wait = error.retry_after
    if wait is not None and math.isfinite(wait):
        headers.append(("retry-after", str(max(1, math.ceil(wait)))))
    if error.code == "unauthorized":
        headers.append(("www-authenticate", 'Bearer realm="truespan"'))
    if allowed := error.values.get("allowed"):
        headers.append(("allow", str(allowed)))
    return Reply(details, status, tuple(headers), PROBLEM)


def name_error(error: TruespanError) -> NamedError:
    """Return an error as clients of OpenAI expect it."""
    kind = "server_error" if status_of(error).http >= 500 else "invalid_request_error"
    message = f"{error.message} {advice_for(error)}".rstrip()
    return NamedError(message=message, type=kind, code=error.code)


def openai_problem(error: TruespanError) -> Reply[ProblemDetails]:
    """Return an error as problem details that clients of OpenAI understand too."""
    reply = problem_reply(error)
    return msgspec.structs.replace(
        reply, value=msgspec.structs.replace(reply.value, error=name_error(error))
    )


def bundle_reply(bundle: ContextBundle) -> Reply[Any]:
    """Return a bundle, or the problem of a failed retrieval with its bundle."""
    failure = failure_of(bundle)
    return Reply(bundle) if failure is None else problem_reply(failure, bundle)


def encode_reply(reply: Reply[Any]) -> Reply[bytes]:
    """Return a reply whose value is encoded as JSON."""
    body = reply.value if isinstance(reply.value, bytes) else _ENCODER.encode(reply.value)
    return Reply(body, reply.status, reply.headers, reply.media_type)


async def send_reply(reply: Reply[Any], send: Send) -> None:
    body = encode_reply(reply).value
    headers = [
        (b"content-type", reply.media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in reply.headers),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_events(reply: Events, send: Send, receive: Receive, context: StreamContext) -> None:
    """Send events as they are produced; a client that disconnects stops their production.

    Events that are produced while others are being sent are sent together.
    """
    produced: deque[bytes | None] = deque()
    """Encoded events, and None after the last."""
    loop, cancelled, ready = asyncio.get_running_loop(), threading.Event(), asyncio.Event()

    def put(event: Event | None) -> None:
        produced.append(None if event is None else _encode_event(event))
        # Not for each event: waking the loop costs more than the event. The sender clears
        # `ready` before it takes out what there is.
        if not ready.is_set():
            loop.call_soon_threadsafe(ready.set)

    def stop() -> None:
        cancelled.set()
        reply.cancel()

    def produce_next() -> bool:
        """Produce one event; return whether there may be another."""
        event = None
        try:
            event = None if cancelled.is_set() else next(reply.events, None)
            if event is not None:
                put(event)
        except TruespanError as error:
            # An error after a cancellation is its consequence.
            if not cancelled.is_set():
                put(_problem_event(error))
        except Exception as error:
            put(_problem_event(context.on_bug("events", error)))
        return event is not None

    def end_production() -> None:
        close = getattr(reply.events, "close", None)
        # A server that shuts down does not wait for a call that is still producing an event.
        with contextlib.suppress(ValueError):
            if close is not None:
                close()
        put(None)

    def produce_all() -> None:
        try:
            while produce_next():
                continue
        finally:
            end_production()

    async def produce_in_turns() -> None:
        try:
            while await context.pool.run(produce_next, caller=reply.caller):
                continue
        finally:
            end_production()

    await _start_stream(send, reply.headers)
    watching = asyncio.create_task(_watch(receive, context.ending, stop))
    producing = asyncio.ensure_future(
        produce_in_turns()
        if reply.in_turns
        else context.streams.run(produce_all, caller=reply.caller)
    )
    producing.add_done_callback(lambda _: ready.set())
    try:
        ended = False
        while not ended:
            await ready.wait()
            ready.clear()
            blocks = [produced.popleft() for _ in range(len(produced))]
            ended = producing.done() or None in blocks
            if body := b"".join(block for block in blocks if block):
                await _send_block(send, body)
        # Also shows whether it was started.
        await producing
    except Overloaded as error:
        await _send_block(send, _encode_event(_problem_event(error)))
    finally:
        stop()
        watching.cancel()
    await _send_block(send, b"", more=False)


async def send_job(reply: JobStream, send: Send, receive: Receive, context: StreamContext) -> None:
    """Send a job's state whenever it changes, until the job is finished."""
    await _start_stream(send, ())
    cancelled = threading.Event()
    watching = asyncio.create_task(_watch(receive, context.ending, cancelled.set))
    (event, finished), sent, quiet_seconds = reply.first, b"", 0.0
    try:
        while not cancelled.is_set():
            block = _encode_event(event)
            if block != sent:
                await _send_block(send, block)
                sent, quiet_seconds = block, 0.0
            elif quiet_seconds >= HEARTBEAT_SECONDS:
                await _send_block(send, b": still there\n\n")
                quiet_seconds = 0.0
            if finished:
                break
            await asyncio.wait({watching}, timeout=POLL_SECONDS)
            quiet_seconds += POLL_SECONDS
            # Under load, the next poll is soon enough.
            with contextlib.suppress(Overloaded):
                event, finished = await context.pool.run(reply.poll, caller=reply.caller)
    except TruespanError as error:
        await _send_block(send, _encode_event(_problem_event(error)))
    except Exception as error:
        await _send_block(send, _encode_event(_problem_event(context.on_bug("events", error))))
    finally:
        watching.cancel()
    await _send_block(send, b"", more=False)


async def _watch(receive: Receive, ending: asyncio.Event, stop: Callable[[], object]) -> None:
    """Stop the stream when the client disconnects or the server shuts down."""
    waits = (wait_for_disconnect(receive), ending.wait())
    tasks = {asyncio.create_task(coroutine) for coroutine in waits}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        stop()
    finally:
        for task in tasks:
            task.cancel()


async def wait_for_disconnect(receive: Receive) -> bool:
    while (await receive())["type"] != "http.disconnect":
        continue
    return True


def _problem_event(error: TruespanError) -> Event:
    return Event("problem", problem_reply(error).value)


def _encode_event(event: Event) -> bytes:
    name = b"event: %s\n" % event.name.encode() if event.name else b""
    return b"%sdata: %s\n\n" % (name, _ENCODER.encode(event.value))


async def _start_stream(send: Send, headers: tuple[tuple[str, str], ...]) -> None:
    start = [
        (b"content-type", EVENTS.encode()),
        (b"x-accel-buffering", b"no"),
        *((name.encode(), value.encode()) for name, value in headers),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": start})


async def _send_block(send: Send, block: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": block, "more_body": more})
