"""Connections that are bounded before there is a request: how long its head may be, and take.

Nobody is known yet then, so neither token nor limit of a body helps; uvicorn itself takes heads of
any length, for as long as it likes somebody to take.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from truespan.doors.http.problems import PROBLEM, problem_reply
from truespan.errors import DeadlineExceeded, RequestTooLarge, TruespanError

LONGEST_HEAD = 1 << 16
"""Bytes after which no more of a head is read; what came in one piece is read whole."""
HEAD_SECONDS = 30.0


class BoundedConnection(HttpToolsProtocol):
    """A connection whose requests begin within bounds, or end it."""

    _head = 0
    _reading_head = True
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head has grown too long."""
        if self._reading_head:
            if self._head > LONGEST_HEAD:
                self._refuse(RequestTooLarge(LONGEST_HEAD), 431)
                return
            self._head += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        if not self._reading_head:
            self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Pass the request on."""
        self._stop_waiting()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head, self._reading_head = 0, True
        loop: Any = self.loop
        self._late = loop.call_later(HEAD_SECONDS, self._on_late)

    def _stop_waiting(self) -> None:
        self._reading_head = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _on_late(self) -> None:
        self._refuse(DeadlineExceeded(HEAD_SECONDS), 408)

    def _refuse(self, error: TruespanError, status: int) -> None:
        """Say why, and leave. Statuses of heads are the protocol's own."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        title = HTTPStatus(status).phrase
        told = msgspec.structs.replace(problem_reply(error).value, status=status, title=title)
        body = msgspec.json.encode(told)
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: {PROBLEM}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
