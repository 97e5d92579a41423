"""How long a body is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from truespan.errors import DeadlineExceeded
from truespan.http.bodies import BODY_RECEIVED, read_body


async def _receive() -> Any:
    # Some other task runs first, as it may where the body is there already.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return {"type": "http.request", "body": b"{}"}


def _read(scope: dict[str, Any]) -> bytes:
    scope["headers"] = [(b"content-length", b"2")]
    return asyncio.run(read_body(scope, _receive, limit=2, seconds=0.0))


def test_only_a_body_that_has_not_arrived_can_be_late() -> None:
    assert _read({BODY_RECEIVED: True}) == b"{}"
    with pytest.raises(DeadlineExceeded):
        _read({})
