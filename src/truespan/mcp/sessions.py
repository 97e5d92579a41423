"""Which world a request over HTTP is for, and as whom: always within the caller's authority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truespan.errors import CallerError, NotAllowed
from truespan.mcp.context import CallerContext
from truespan.mcp.tools import OWNING, READING, Role
from truespan.types.ids import WorldId
from truespan.types.scope import UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import Principal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from truespan.library import Library
    from truespan.world import World


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


@dataclass(frozen=True, slots=True)
class Told:
    """What the operator said a caller without a token gets; unless anything was said, nothing.

    With a reader, that reader's tools; as `owner`, the owner's. A world bounds either to that one.
    """

    world: str | None = None
    reader: str | None = None
    owner: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What the address names after `/mcp`: a world, and a reader of it."""

    world: str | None = None
    reader: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A role, and the one world or reader that it is played for."""

    role: Role
    seat: CallerContext
    holder: tuple[str, str, str]
    """The token's id, the world's id and the reader's name: a session is bound to all three."""


def choose(library: Library, told: Told, principal: Principal, place: Place) -> Chosen:
    """Return what a request is for.

    Raises:
        WorldNotFound: the world is absent, or not for this caller.
        NotAllowed: nothing here is for this caller.
        CallerError: there are several worlds or readers, and the address names none.
    """
    authority = principal.authority
    if principal.token is None:
        authority = _without_token(library, told, authority)
    found = _world(library.under(authority), place.world)
    named = place.reader or _only_reader(authority)
    world, reader = WorldId(found.id), found.reader(named).name if named else None
    if reader is None:
        role, bound = OWNING, authority.narrow(worlds=[world], verbs=[Verb.READ])
    else:
        role, bound = READING, authority.as_reader(world, _followed(authority, world, reader))
    seat = CallerContext(library.under(bound).world(world), reader)
    return Chosen(role, seat, (principal.token or "", world, reader or ""))


def _without_token(library: Library, told: Told, authority: Authority) -> Authority:
    """Narrow what a caller without a token has to what the operator said."""
    if told.reader is None and not told.owner:
        raise _refusal("Give a token, or start the server with --mcp-reader NAME or --mcp-owner.")
    worlds = authority.worlds
    if told.world is not None:
        worlds = frozenset([WorldId(library.under(authority).world(told.world).id)])
    verb = Verb.READ if told.reader is None else Verb.FOLLOW
    readers = UNLIMITED if told.reader is None else frozenset([told.reader.strip()])
    return authority.within(Authority(worlds, frozenset([verb]), readers))


def _refusal(advice: str) -> NotAllowed:
    refusal = NotAllowed("use MCP")
    refusal.advice = advice
    return refusal


def _world(library: Library, named: str | None) -> World:
    """Return the world that is named, or the only one there is for this caller."""
    if named is not None:
        return library.world(named)
    worlds = library.worlds()
    if not worlds:
        raise _refusal("No world is left that this caller may see.")
    if len(worlds) > 1:
        raise CallerError(
            "There is more than one world here.", advice="Choose one: /mcp/WORLD, by name or id."
        )
    return library.world(worlds[0].id)


def _only_reader(authority: Authority) -> str | None:
    """Return the reader that the authority is bound to; None if it may read without a bound."""
    if isinstance(authority.readers, Unlimited):
        if Verb.READ in authority.verbs:
            return None
        if Verb.FOLLOW not in authority.verbs:
            raise _refusal("Use a token that may read, or one that follows a reader.")
    elif len(authority.readers) == 1:
        return next(iter(authority.readers))
    raise CallerError("There is more than one reader.", advice="Choose one: /mcp/WORLD/READER.")


def _followed(authority: Authority, world: WorldId, reader: str) -> str:
    if not authority.may_follow(reader, world):
        raise NotAllowed("read as this reader")
    return reader
