"""Which world or reader an HTTP request is for, and the sessions of each caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truespan.errors import CallerError, NotAllowed
from truespan.mcp.tools import OWNER_ROLE, READER_ROLE, CallerContext, Role
from truespan.types.ids import WorldId
from truespan.types.scope import UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import Principal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from truespan.library import Library
    from truespan.world import World

MAX_SESSIONS_PER_CALLER = 50
"""Many clients forget to end their sessions; beyond this, the oldest is ended."""
_SESSION_ID = b"mcp-session-id"


@dataclass(frozen=True, slots=True)
class AnonymousAccess:
    """What callers without a token may use; by default nothing.

    With a reader, that reader's tools; with `owner`, the owner's. A world restricts both to it.
    """

    world: str | None = None
    reader: str | None = None
    owner: bool = False


@dataclass(frozen=True, slots=True)
class TargetPath:
    """The world and the reader in a path after `/mcp`."""

    world: str | None = None
    reader: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is for: a role, and its world or reader."""

    role: Role
    caller: CallerContext
    session_owner: tuple[str, str, str]
    """The token's id, the world's id and the reader's name. A session belongs to all three."""


def select_target(
    library: Library, anonymous: AnonymousAccess, principal: Principal, path: TargetPath
) -> Target:
    """Return what a request is for, always within the caller's authority.

    Raises:
        WorldNotFound: the world does not exist, or the caller may not see it.
        NotAllowed: the caller may not use MCP.
        CallerError: there are several worlds or readers, and the path names none.
    """
    authority = principal.authority
    if principal.token is None:
        authority = _anonymous_authority(library, anonymous, authority)
    found = _select_world(library.under(authority), path.world)
    requested = path.reader or _only_reader(authority)
    world, reader = WorldId(found.id), found.reader(requested).name if requested else None
    if reader is None:
        role, narrowed = OWNER_ROLE, authority.narrow(worlds=[world], verbs=[Verb.READ])
    elif authority.may_follow(reader, world):
        role, narrowed = READER_ROLE, authority.as_reader(world, reader)
    else:
        raise NotAllowed("read as this reader")
    caller = CallerContext(library.under(narrowed).world(world), reader)
    return Target(role, caller, (principal.token or "", world, reader or ""))


def _anonymous_authority(
    library: Library, anonymous: AnonymousAccess, authority: Authority
) -> Authority:
    """Narrow the authority of a caller without a token to what the operator chose."""
    if anonymous.reader is None and not anonymous.owner:
        raise _refuse("Send a token, or start the server with --mcp-reader NAME or --mcp-owner.")
    worlds = authority.worlds
    if anonymous.world is not None:
        worlds = frozenset([WorldId(library.under(authority).world(anonymous.world).id)])
    verb = Verb.READ if anonymous.reader is None else Verb.FOLLOW
    readers = UNLIMITED if anonymous.reader is None else frozenset([anonymous.reader.strip()])
    return authority.within(Authority(worlds, frozenset([verb]), readers))


def _refuse(advice: str) -> NotAllowed:
    refusal = NotAllowed("use MCP")
    refusal.advice = advice
    return refusal


def _select_world(library: Library, name: str | None) -> World:
    """Return the named world, or the only one that the caller may see."""
    if name is not None:
        return library.world(name)
    worlds = library.worlds()
    if not worlds:
        raise _refuse("There is no world that this caller may see.")
    if len(worlds) > 1:
        raise CallerError(
            "There is more than one world.", advice="Name one by name or id: /mcp/WORLD."
        )
    return library.world(worlds[0].id)


def _only_reader(authority: Authority) -> str | None:
    """Return the only reader of an authority; None if it may read whole documents."""
    if isinstance(authority.readers, Unlimited):
        if Verb.READ in authority.verbs:
            return None
        if Verb.FOLLOW not in authority.verbs:
            raise _refuse("Use a token that may read, or one that is bound to a reader.")
    elif len(authority.readers) == 1:
        return next(iter(authority.readers))
    raise CallerError("There is more than one reader.", advice="Name one: /mcp/WORLD/READER.")


class SessionLimiter:
    """Ends a caller's oldest session when it opens too many.

    Sessions are counted from the replies of the server; an entry of an ended session is harmless.
    """

    def __init__(self, limit: int = MAX_SESSIONS_PER_CALLER) -> None:
        self._limit = limit
        self._open: dict[str, dict[bytes, None]] = {}

    async def answer(
        self, inner: ASGIApp, owner: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, and end the owner's oldest session if it opens one too many."""
        opened: list[bytes] = []

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                opened.extend(value for name, value in message["headers"] if name == _SESSION_ID)
            await send(message)

        requested = [value for name, value in scope["headers"] if name == _SESSION_ID]
        await inner(scope, receive, send if requested else send_and_record)
        sessions = self._open.setdefault(owner, {})
        if scope["method"] == "DELETE":
            for session in requested:
                sessions.pop(session, None)
        for session in opened:
            sessions[session] = None
        if not sessions:
            self._open.pop(owner, None)
        while len(sessions) > self._limit:
            oldest = next(iter(sessions))
            del sessions[oldest]
            ending = {**scope, "method": "DELETE", "headers": [(_SESSION_ID, oldest)]}
            await inner(ending, _receive_nothing, _send_nothing)


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send_nothing(_message: Message) -> None:
    return
