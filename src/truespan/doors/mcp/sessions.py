"""Sessions by whom they belong to: whoever opens many loses the oldest, and nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_OF_ONE = 50
"""Sessions that one token may have open; clients that forget to end theirs are common."""
_ID = b"mcp-session-id"


class Sessions:
    """Who has which sessions, as far as replies told; one that has ended does no harm here."""

    def __init__(self, most: int = MOST_OF_ONE) -> None:
        self._most = most
        self._open: dict[str, dict[bytes, None]] = {}

    async def answer(
        self, inner: ASGIApp, holder: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, and end the holder's oldest session if it opens one too many."""
        begun: list[bytes] = []

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                begun.extend(value for name, value in message["headers"] if name == _ID)
            await send(message)

        named = [value for name, value in scope["headers"] if name == _ID]
        await inner(scope, receive, send if named else noting)
        if scope["method"] == "DELETE":
            self._forget(holder, named)
        for session in begun:
            await self._begin(inner, holder, session, scope)

    async def _begin(self, inner: ASGIApp, holder: str, session: bytes, scope: Scope) -> None:
        held = self._open.setdefault(holder, {})
        held[session] = None
        while len(held) > self._most:
            oldest = next(iter(held))
            del held[oldest]
            await inner(_ending(scope, oldest), _nothing, _unheard)

    def _forget(self, holder: str, sessions: list[bytes]) -> None:
        held = self._open.get(holder, {})
        for session in sessions:
            held.pop(session, None)
        if not held:
            self._open.pop(holder, None)


def _ending(scope: Scope, session: bytes) -> Scope:
    """Return the request by which its holder would end a session."""
    return {**scope, "method": "DELETE", "headers": [(_ID, session)]}


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_message: Message) -> None:
    return
