"""Progress: a client that asked for it is told which stage a call has come to, in fixed words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio

from truespan.model.names import Stage

OnStage: TypeAlias = Callable[[Stage], None]
"""Takes a stage that a call has come to; called on the thread of the call."""

WORDS = {
    Stage.VECTOR: "embedding",
    Stage.TAIL: "embedding",
    Stage.WORDS: "searching",
    Stage.HITS: "searching",
    Stage.VERIFIED: "verifying",
    Stage.RANKED: "packing",
    Stage.PACKED: "packing",
}
"""What clients are told of each stage. A stage that is not here is not spoken of."""

BEGUN, DONE = "started", "done"


async def reported(session: Any, run: Callable[[OnStage], Awaitable[Any]]) -> Any:
    """Run a call and return what it gives, while its stages are told to the client.

    Every report is out before the result is: a client may forget the call once it has that.
    """
    loop = asyncio.get_running_loop()
    words: asyncio.Queue[str | None] = asyncio.Queue()
    found: list[Any] = []

    def on_stage(stage: Stage) -> None:
        if word := WORDS.get(stage):
            # When the loop is closed, the client has gone.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(words.put_nowait, word)

    async with anyio.create_task_group() as reporting:
        words.put_nowait(BEGUN)
        reporting.start_soon(_report, session, words)
        found.append(await run(on_stage))
        words.put_nowait(DONE)
        words.put_nowait(None)
    return found[0]


async def _report(session: Any, words: asyncio.Queue[str | None]) -> None:
    """Send each word once, with a number that grows."""
    sent: list[str] = []
    while (word := await words.get()) is not None:
        if word not in sent:
            await session.report_progress(float(len(sent)), None, word)
            sent.append(word)
