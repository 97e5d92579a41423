"""Replies that come in pieces, from a provider that the operator named.

Owns: the lines of such a reply, how long each may take to come, and how much may come in all.
Does not own: what a line means; the adapter of a provider reads it.
Must hold: a connection is closed when its reply is no longer wanted, and none is used twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any

import msgspec

from truespan.adapters.providers.http_connection import Bounds, Connection
from truespan.adapters.providers.http_json import JsonClient, Reply, headers_for
from truespan.errors import ProviderBadReply, ServiceError
from truespan.ports.leaving import Leaving, who_asked

_PIECE = 1 << 16


class StreamClient(JsonClient):
    """Asks one provider for replies that come in pieces. Several threads may share it."""

    @property
    def bounds(self) -> Bounds:
        """Return how long a reply may take, and how much may come."""
        return self._bounds

    def stream(
        self, path: str, payload: Any, *, headers: Mapping[str, str], deadline: float
    ) -> StreamedReply:
        """Send a POST of `payload` as JSON; return its reply, of a success only the head of it.

        Whatever of it comes must have come by `deadline`. Whoever gets a reply closes it.

        Raises:
            ProviderUnavailable: it was not reached, or did not answer in time.
            ProviderRefused: its address or its certificate is not one to be trusted.
            ProviderBadReply: the reply is too large, or it is not HTTP.
            Interrupted: whoever asked does not wait any more.
        """
        body = msgspec.json.encode(payload)
        connection = Connection(self.target, self._bounds, self._clock)
        connection.deadline = deadline
        leaving = who_asked()
        leaving.tell(connection.hang_up)
        try:
            sent = headers_for(body, headers)
            response = connection.ask("POST", self.target.path + path, body, sent)
            return self._begun(connection, response, leaving)
        except BaseException as error:
            leaving.forget(connection.hang_up)
            connection.close()
            if isinstance(error, OSError | HTTPException):
                # A request that was ended from here is no failure of the other side.
                leaving.check()
                raise self._failure(error) from None
            raise

    def _begun(
        self, connection: Connection, response: HTTPResponse, leaving: Leaving
    ) -> StreamedReply:
        incoming = Incoming(self, connection, response, leaving)
        if not 200 <= response.status < 300:
            with closing(incoming):
                return StreamedReply.of(self._reply(response), incoming)
        head = Reply(
            who=self.who,
            status=response.status,
            body=b"",
            content_type=response.headers.get("Content-Type", ""),
            retry_after=None,
        )
        return StreamedReply.of(head, incoming)

    def failure_within(self, error: OSError | HTTPException, *, begun: bool) -> ServiceError:
        """Return what a failure is called that comes after the head of a reply.

        One that has begun to speak and breaks off has said something that is not to be believed.
        """
        if begun and not isinstance(error, TimeoutError):
            return broken_off(self.who)
        return self._failure(error)


def broken_off(who: str) -> ProviderBadReply:
    """Return the error for a reply without an end."""
    return ProviderBadReply(
        f"{who} broke off before the end of its reply.", advice="What came is not the whole of it."
    )


@dataclass(frozen=True, slots=True)
class StreamedReply(Reply):
    """A reply of which the head has come; the rest is in `body` if it failed, else `incoming`."""

    incoming: Incoming = field(repr=False)

    @classmethod
    def of(cls, reply: Reply, incoming: Incoming) -> StreamedReply:
        """Return a reply with what is to come of it."""
        return cls(
            reply.who, reply.status, reply.body, reply.content_type, reply.retry_after, incoming
        )

    def close(self) -> None:
        """End the request, whether or not all of its reply has come."""
        self.incoming.close()


class Incoming:
    """What is to come of a reply."""

    def __init__(
        self,
        client: StreamClient,
        connection: Connection,
        response: HTTPResponse,
        leaving: Leaving,
    ) -> None:
        self._leaving = leaving
        self._client = client
        self._connection = connection
        self._response = response
        self._left = response.length
        """Bytes of the body that are still to come; None where its length was not declared."""
        self._room = client.bounds.body_bytes
        self._begun = False

    def close(self) -> None:
        """Close the connection, so that the provider does not go on for nobody."""
        self._leaving.forget(self._connection.hang_up)
        self._response.close()
        self._connection.close()

    def begin(self) -> None:
        """Take note that the provider speaks: from now on pauses are shorter."""
        self._begun = True
        self._connection.patience = self._client.bounds.piece_seconds

    def lines(self) -> Iterator[bytes]:
        """Give each line without its end, also the last one if nothing ends it.

        Raises:
            ProviderUnavailable: nothing more came in time.
            ProviderBadReply: a line or the whole is too long, or it broke off.
            Interrupted: whoever asked does not wait any more.
        """
        pending = bytearray()
        while piece := self._read():
            if b"\n" not in piece:
                pending += piece
            else:
                first, *others = piece.split(b"\n")
                yield _line(pending + first)
                yield from map(_line, others[:-1])
                pending = bytearray(others[-1])
            if len(pending) > self._client.bounds.line_bytes:
                raise self._too_large()
        if pending:
            yield _line(pending)

    def _read(self) -> bytes:
        """Return what came next, at most `_PIECE` bytes; nothing at the end of the body."""
        most = _PIECE if self._left is None else min(self._left, _PIECE)
        if not most:
            return b""
        try:
            piece = self._response.read1(most)
        except (OSError, HTTPException) as error:
            self._leaving.check()
            raise self._client.failure_within(error, begun=self._begun) from None
        if not piece:
            # What was ended from here looks like an end of the reply's own.
            self._leaving.check()
        self._room -= len(piece)
        if self._room < 0:
            raise self._too_large()
        if self._left is not None:
            # Not every version of the library below counts what is read in this way.
            self._left -= len(piece)
        return piece

    def _too_large(self) -> ProviderBadReply:
        return ProviderBadReply(f"{self._client.who} said more in one reply than is taken.")


def _line(content: bytes | bytearray) -> bytes:
    return bytes(content).removesuffix(b"\r")
