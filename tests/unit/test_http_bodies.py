"""Time limits of request bodies."""

import asyncio
from typing import Any

import pytest

from truespan.errors import DeadlineExceeded
from truespan.extensions.server.http.bodies import read_body

SCOPE: dict[str, Any] = {"headers": [(b"content-length", b"2")]}


def test_read_body_has_a_time_limit() -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    assert asyncio.run(read_body(SCOPE, receive, limit=2, seconds=5.0)) == b"{}"

    async def wait_for_ever() -> Any:
        await asyncio.Event().wait()

    with pytest.raises(DeadlineExceeded):
        asyncio.run(read_body(SCOPE, wait_for_ever, limit=2, seconds=0.0))
