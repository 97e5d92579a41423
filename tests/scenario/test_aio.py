"""The library for asynchronous programs: awaited calls, streams, cancellation and types."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tools.aio_stub import STUB, WRAPPED, write_stub

import truespan.aio
from tests.promises import proves
from tests.support.failures import raises_code
from truespan.core.cancel import check_cancelled
from truespan.errors import Interrupted
from truespan.testing import WordCounter, WordEmbedder
from truespan.types.answer import Finished, Piece, Started

TEXT = "# One\n\nThe spare key hangs on hook seven. Nobody may touch it.\n"


def run(work: Callable[[truespan.aio.AsyncLibrary], Awaitable[Any]], folder: Path) -> Any:
    """Run a coroutine with a library that has one world with one document."""

    async def main() -> Any:
        async with truespan.aio.open(
            folder, create=True, embedder=WordEmbedder(), counter=WordCounter()
        ) as library:
            world = await library.world("w", create=True)
            await world.add_text(TEXT, id="note.md", kind="book")
            return await work(library)

    return asyncio.run(main())


@proves("library.async")
def test_calls_return_what_the_library_returns(tmp_path: Path) -> None:
    async def work(library: truespan.aio.AsyncLibrary) -> Any:
        world = await library.world("w")
        reader = await world.reader("ada")
        await reader.set_position("note.md", sentence=0)
        found, bundle = await asyncio.gather(world.search("spare key"), reader.retrieve("key"))
        listed = await world.documents.list()
        with raises_code("world_not_found"):
            await library.world("nowhere", create=False)
        return found.passages[0].text, bundle.context, listed, world.name

    found, read, listed, name = run(work, tmp_path / "library")

    with truespan.open(
        tmp_path / "library", embedder=WordEmbedder(), counter=WordCounter()
    ) as same:
        world = same.world("w")
        assert found == world.search("spare key").passages[0].text
        assert read == world.reader("ada").retrieve("key").context
        assert (listed, name) == (world.documents.list(), "w")


@proves("library.async")
def test_answers_are_streamed(tmp_path: Path) -> None:
    async def work(library: truespan.aio.AsyncLibrary) -> list[Any]:
        world = await library.world("w")
        return [event async for event in world.answer_stream("Where is the spare key?")]

    events = run(work, tmp_path)

    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    pieces = "".join(event.text for event in events if isinstance(event, Piece))
    assert pieces == events[-1].answer.answer


class Slow(WordEmbedder):
    """An embedder whose queries wait until they are cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.outcome = threading.Event(), list[str]()

    def embed_query(self, text: str) -> Any:
        self.began.set()
        try:
            for _ in range(600):
                check_cancelled()
                threading.Event().wait(0.05)
        except Interrupted:
            self.outcome.append("interrupted")
            raise
        return super().embed_query(text)


@proves("library.async")
@pytest.mark.parametrize("streamed", [False, True])
def test_cancelling_a_task_stops_the_work(tmp_path: Path, streamed: bool) -> None:
    slow = Slow()

    async def main() -> None:
        async with truespan.aio.open(
            tmp_path, create=True, embedder=slow, counter=WordCounter()
        ) as library:
            world = await library.world("w", create=True)
            await world.add_text(TEXT, id="note.md")

            async def ask() -> None:
                if not streamed:
                    await world.search("spare key", mode="vector")
                async for _ in world.answer_stream("spare key", mode="vector"):
                    pass

            task = asyncio.create_task(ask())
            await asyncio.to_thread(slow.began.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while not slow.outcome:
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(main(), 60))

    assert slow.outcome == ["interrupted"]


@proves("library.async")
def test_stub_is_current() -> None:
    assert STUB.read_text("utf-8") == write_stub(), "run 'make reference'"


@proves("library.async")
def test_every_object_with_methods_has_a_twin() -> None:
    # An object that a method returns and that is not wrapped would block the event loop.
    text = STUB.read_text("utf-8")

    assert len(WRAPPED) == text.count("\nclass Async")
    assert "-> World:" not in text
    assert "-> Reader:" not in text
