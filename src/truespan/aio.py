"""The library for asynchronous programs: the same names, awaitable, cancellable and streaming.

    import truespan.aio

    async with truespan.aio.open("library", create=True) as library:
        world = await library.world()
        await world.ingest("examples/the-glass-ferry.md", kind="book")
        found = await world.search("Who held the spare key?")
        async for event in world.answer_stream("Who held the spare key?"):
            print(event)

Every method runs on a thread of the event loop's executor. Cancelling its task stops the work at
the next step that can be stopped; attributes are read as they are. The types are in `aio.pyi`,
which `make reference` writes from the classes of the library.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import truespan
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.engine.access import LibraryPart, WorldPart
from truespan.engine.conversations import Conversation
from truespan.engine.library import Library
from truespan.engine.notes import ReaderNotes
from truespan.engine.world import World

__all__ = ["AsyncProxy", "open", "open_temporary"]

WRAPPED = (Library, LibraryPart, World, WorldPart, Conversation, ReaderNotes)
"""Classes of the library whose methods take time, and bases of such classes."""
STREAMS = frozenset({"answer_stream", "ask_stream", "report_stream"})
"""Methods that return an iterator, which is not awaited."""


class AsyncProxy:
    """An object of the library whose methods are awaited."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if name in STREAMS:
            return partial(_stream, found)
        if callable(found):
            return partial(_call, found)
        return _wrap(found)

    def __repr__(self) -> str:
        return f"Async{self._wrapped!r}"


@asynccontextmanager
async def open(path: str | Path, **options: Any) -> AsyncIterator[Any]:
    """Open the library in a folder, as `truespan.open` does, and close it afterwards."""
    library = await _call(truespan.open, path, **options)
    try:
        yield library
    finally:
        # Also if the task is cancelled: open resources must be closed.
        await asyncio.shield(asyncio.to_thread(library._wrapped.close))


@asynccontextmanager
async def open_temporary(settings_folder: str | Path = ".") -> AsyncIterator[Any]:
    """Open a new library in a temporary folder, as `truespan.open_temporary` does."""
    manager = truespan.open_temporary(settings_folder)
    library = await asyncio.to_thread(manager.__enter__)
    try:
        yield AsyncProxy(library)
    finally:
        await asyncio.shield(asyncio.to_thread(manager.__exit__, None, None, None))


def _wrap(value: Any) -> Any:
    return AsyncProxy(value) if isinstance(value, WRAPPED) else value


def _unwrap(value: Any) -> Any:
    return value._wrapped if isinstance(value, AsyncProxy) else value


async def _call(method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a method on a thread; if the task is cancelled, the work is stopped."""
    token = CancelToken()
    given = [*map(_unwrap, arguments)]

    def run() -> Any:
        with use_cancel_token(token):
            return method(*given, **options)

    try:
        return _wrap(await asyncio.to_thread(run))
    except asyncio.CancelledError:
        token.cancel()
        raise


async def _stream(
    method: Callable[..., Iterator[Any]], *arguments: Any, **options: Any
) -> AsyncIterator[Any]:
    """Yield the items of an iterator of the library; closing the generator closes the iterator."""
    token = CancelToken()
    ended = object()

    def begin() -> Iterator[Any]:
        with use_cancel_token(token):
            return method(*arguments, **options)

    def step(events: Iterator[Any]) -> Any:
        with use_cancel_token(token):
            return next(events, ended)

    events = await asyncio.to_thread(begin)
    running: asyncio.Future[Any] | None = None
    try:
        while True:
            running = asyncio.ensure_future(asyncio.to_thread(step, events))
            event = await asyncio.shield(running)
            if event is ended:
                return
            yield event
    finally:
        token.cancel()
        if running is not None and not running.done():
            # An iterator cannot be closed while it runs.
            await asyncio.wait([running])
        close = getattr(events, "close", None)
        if close is not None:
            await asyncio.to_thread(close)
