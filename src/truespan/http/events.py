"""Server-sent events: an answer piece by piece, or a job as it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from starlette.types import Receive, Send

from truespan.errors import Overloaded, TruespanError
from truespan.http.call import EVENTS, Event, Events, JobStream
from truespan.http.problems import problem_reply

if TYPE_CHECKING:
    from truespan.http.pool import Pool

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_BETWEEN_BEATS = 15.0
OnBug = Callable[[str, Exception], TruespanError]


async def send_events(
    given: Events, send: Send, receive: Receive, pool: Pool, ending: asyncio.Event, on_bug: OnBug
) -> None:
    """Send events as they are made; whoever leaves ends their making."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    loop, gone = asyncio.get_running_loop(), threading.Event()

    def tell(event: Event | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, event)

    await _begin(send, given.headers)
    leaving = asyncio.create_task(_until_left(receive, gone, ending, given.leave))
    making = asyncio.ensure_future(pool.run(partial(_make, given, tell, gone, on_bug)))
    try:
        while (event := await _next(queue, making)) is not None:
            await _tell(send, event)
    except Overloaded as error:
        await _tell(send, _problem(error))
    finally:
        gone.set()
        given.leave()
        leaving.cancel()
    await _end(send)


async def _next(queue: asyncio.Queue[Event | None], making: asyncio.Future[None]) -> Event | None:
    """Return the next event; None after the last. Where nothing is made, say why."""
    waiting = asyncio.ensure_future(queue.get())
    done, _ = await asyncio.wait({waiting, making}, return_when=asyncio.FIRST_COMPLETED)
    if waiting in done:
        return waiting.result()
    making.result()  # Raises where the work was refused.
    return await waiting


def _make(
    given: Events, tell: Callable[[Event | None], None], gone: threading.Event, on_bug: OnBug
) -> None:
    """Make events in a thread, until they are over or nobody wants them."""
    try:
        for event in given.events:
            if gone.is_set():
                break
            tell(event)
    except TruespanError as error:
        # What was cut short because nobody wants it is no problem of anybody's.
        if not gone.is_set():
            tell(_problem(error))
    except Exception as error:
        tell(_problem(on_bug("events", error)))
    finally:
        close = getattr(given.events, "close", None)
        if close is not None:
            close()
        tell(None)


async def send_followed(
    given: JobStream, send: Send, receive: Receive, pool: Pool, ending: asyncio.Event, on_bug: OnBug
) -> None:
    """Send how something stands whenever that changes, until it is over."""
    await _begin(send, ())
    gone = threading.Event()
    leaving = asyncio.create_task(_until_left(receive, gone, ending))
    (event, over), told, quiet = given.first, b"", 0.0
    try:
        while not gone.is_set():
            spelled = _spelled(event)
            if spelled != told:
                await _write(send, spelled)
                told, quiet = spelled, 0.0
            elif quiet >= SECONDS_BETWEEN_BEATS:
                await _write(send, b": still there\n\n")
                quiet = 0.0
            if over:
                break
            await asyncio.wait({leaving}, timeout=SECONDS_BETWEEN_LOOKS)
            quiet += SECONDS_BETWEEN_LOOKS
            with contextlib.suppress(Overloaded):
                # Whoever follows can wait for the next look.
                event, over = await pool.run(given.look)
    except TruespanError as error:
        await _tell(send, _problem(error))
    except Exception as error:
        await _tell(send, _problem(on_bug("events", error)))
    finally:
        leaving.cancel()
    await _end(send)


async def _until_left(
    receive: Receive,
    gone: threading.Event,
    ending: asyncio.Event,
    leave: Callable[[], object] = bool,
) -> None:
    """Notice that the client has gone, or that the server is about to."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            continue

    tasks = {asyncio.create_task(left()), asyncio.create_task(ending.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        gone.set()
        leave()
    finally:
        for task in tasks:
            task.cancel()


def _problem(error: TruespanError) -> Event:
    return Event("problem", problem_reply(error).value)


def _spelled(event: Event) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.name.encode(), msgspec.json.encode(event.value))


async def _begin(send: Send, headers: tuple[tuple[str, str], ...]) -> None:
    told = [
        (b"content-type", EVENTS.encode()),
        (b"x-accel-buffering", b"no"),
        *((name.encode(), value.encode()) for name, value in headers),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": told})


async def _tell(send: Send, event: Event) -> None:
    await _write(send, _spelled(event))


async def _write(send: Send, block: bytes) -> None:
    await send({"type": "http.response.body", "body": block, "more_body": True})


async def _end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b""})
