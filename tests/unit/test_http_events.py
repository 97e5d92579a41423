"""Events of a stream reach the client once each and in order, from any producer."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.rows import each_row
from truespan.errors import InternalError, InvalidArgument
from truespan.extensions.server.http.operation import Event, Events
from truespan.extensions.server.http.pool import Pool
from truespan.extensions.server.http.replies import StreamContext, send_events


def send_all(
    events: Callable[[Callable[[], None]], Iterator[Event]], threads: int = 1
) -> list[bytes]:
    """Return the blocks of the sent events; the events can wait until a block was sent."""
    sent, blocks = threading.Semaphore(0), list[bytes]()

    def wait() -> None:
        assert sent.acquire(timeout=30)

    async def stream() -> None:
        pool = Pool(threads, waiting=0, name="try")
        ending = asyncio.Event()
        context = StreamContext(pool, pool, ending, lambda *_: InternalError("error"))

        async def send(message: Any) -> None:
            if message.get("body"):
                blocks.append(message["body"])
                sent.release()

        async def receive() -> Any:
            await ending.wait()

        if threads == 0:
            pool.close()
        await send_events(Events(events(wait)), send, receive, context)
        pool.close()

    asyncio.run(stream())
    return blocks


def produce_numbers(wait: Callable[[], None], every: int) -> Iterator[Event]:
    for number in range(50):
        yield Event("piece", number)
        if number % every == 0:
            wait()


@each_row("every", [1, 2, 100])
def test_all_events_are_sent_in_order(every: int) -> None:
    expected = [b"event: piece\ndata: %d\n\n" % number for number in range(50)]
    blocks = send_all(lambda wait: produce_numbers(wait, every))
    assert b"".join(blocks) == b"".join(expected)
    assert len(blocks) >= 50 // every


def test_failure_is_the_last_event() -> None:
    def fail(error: Exception) -> Callable[[Any], Iterator[Event]]:
        def events(_: Any) -> Iterator[Event]:
            yield Event("piece", 1)
            raise error

        return events

    for error, code in (
        (InvalidArgument(code="blank_query"), b"blank_query"),
        (LookupError(), b"internal_error"),
    ):
        body = b"".join(send_all(fail(error)))
        first, last = body.split(b"\n\n")[:2]
        assert first == b"event: piece\ndata: 1"
        assert last.startswith(b"event: problem\n")
        assert b'"code":"%s"' % code in last


def test_stream_without_a_free_thread_is_a_problem() -> None:
    [block] = send_all(lambda _: iter([Event("piece", 1)]), threads=0)
    assert b'"code":"overloaded"' in block
