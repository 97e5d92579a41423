"""MCP over streamable HTTP, for readers and owners.

The gateway has checked Host and Origin, so the SDK's own check stays off: two lists could differ.
The target is selected for each request, so that a revoked or narrowed token takes effect at the
next request, also within a session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
from anyio import to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from msgspec import Struct, field

from truespan import errors
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.core.strict_json import DuplicateKey, JsonError, require_unique_keys
from truespan.extensions.server.http.operation import Reply
from truespan.extensions.server.http.pool import Pool
from truespan.extensions.server.http.replies import problem_reply, send_reply
from truespan.extensions.server.mcp.caller import (
    NOTHING_WRITTEN,
    AnonymousAccess,
    CallerContext,
    Role,
    WritePermissions,
    narrow_caller,
)
from truespan.extensions.server.mcp.server import (
    SHUTDOWN_SECONDS,
    Work,
    make_server,
    parse_error,
    protocol_error,
    report_bug,
    restrict_logger,
)
from truespan.extensions.server.mcp.tools import ROLES, role_for
from truespan.types.ids import WorldId
from truespan.types.request import check_reader_name
from truespan.types.scope import UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import Principal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from truespan.engine.library import Library
    from truespan.engine.world import World

MAX_BODY_BYTES = 1 << 20
MAX_SESSIONS = 10_000
"""Of all callers together, for each role."""
IDLE_SECONDS = 30 * 60
MAX_CALLS = 32
"""Maximum number of calls that run at the same time."""
MAX_WAITING = 256
"""Maximum number of calls that wait for one of the threads."""
MAX_SESSIONS_PER_CALLER = 50
"""Many clients forget to end their sessions; beyond this, the oldest is ended."""
METHODS = ("POST", "DELETE")
"""GET would open a stream of unrequested messages. There are none, and an open stream would delay
the shutdown."""
TARGET = "truespan.extensions.server.mcp"
"""The key of a request's target in its scope."""
_SESSION_ID = b"mcp-session-id"
_SMALL_BODY = 1 << 16


class Target(Struct, frozen=True):
    """The target of a request: a role, and its world or reader."""

    role: Role
    caller: CallerContext
    session_owner: tuple[str, str, str]
    """Caller, world and reader by their ids and names. A session belongs to all three."""
    token: str | None
    """The token or user whose turns a call takes, whatever labels the request names."""


def select_target(
    library: Library,
    anonymous: AnonymousAccess,
    principal: Principal,
    world: str | None = None,
    reader: str | None = None,
    permissions: WritePermissions = NOTHING_WRITTEN,
) -> Target:
    """Return the target of a request, always within the caller's authority.

    World and reader are those in the path, which may leave them out if there is only one.
    """
    authority = principal.authority
    if principal.token is None:
        authority = _anonymous_authority(library, anonymous, authority)
    found = _select_world(library.under(authority), world)
    requested = reader or _only_reader(authority)
    world_id, name = WorldId(found.id), check_reader_name(requested) if requested else None
    if name is not None and not authority.may_follow(name, world_id):
        raise errors.NotAllowed("read as this reader")
    caller = narrow_caller(library, principal.authority, world_id, name, permissions)
    if caller.writer is None:
        # A reader's own notes need no permission to write to the world.
        permissions = WritePermissions(may_note=permissions.may_note)
    role = role_for(name, permissions)
    owner = principal.identity, world_id, name or ""
    return Target(role, caller, owner, principal.token)


def _anonymous_authority(
    library: Library, anonymous: AnonymousAccess, authority: Authority
) -> Authority:
    """Narrow the authority of a caller without a token to the configured one."""
    if anonymous.reader is None and not anonymous.owner:
        raise _refuse("Send a token, or start the server with --mcp-reader NAME or --mcp-owner.")
    worlds = authority.worlds
    if anonymous.world is not None:
        worlds = frozenset(
            [WorldId(library.under(authority).world(anonymous.world, create=False).id)]
        )
    verb = Verb.READ if anonymous.reader is None else Verb.FOLLOW
    readers = UNLIMITED if anonymous.reader is None else frozenset([anonymous.reader.strip()])
    return authority.within(Authority(worlds, frozenset([verb]), readers))


def _refuse(advice: str) -> errors.NotAllowed:
    refusal = errors.NotAllowed("use MCP")
    refusal.advice = advice
    return refusal


def _select_world(library: Library, name: str | None) -> World:
    """Return the named world, or the only one that the caller may see."""
    try:
        return library.world(name, create=False)
    except errors.WorldNotNamed as error:
        if not error.names:
            raise _refuse("There is no world that this caller may see.") from None
        error.advice = "Name one by name or id: /mcp/WORLD."
        raise


def _only_reader(authority: Authority) -> str | None:
    """Return the only reader of an authority; None if it may read whole documents."""
    if isinstance(authority.readers, Unlimited):
        if Verb.READ in authority.verbs:
            return None
        if Verb.FOLLOW not in authority.verbs:
            raise _refuse("Use a token that may read, or one that is bound to a reader.")
    elif len(authority.readers) == 1:
        return next(iter(authority.readers))
    raise errors.CallerError(
        "There is more than one reader.", advice="Name one: /mcp/WORLD/READER."
    )


# Shared by threads: changed by the event loop only.
class SessionLimiter(Struct):
    """Ends a caller's oldest session when it opens too many.

    Sessions are counted from the replies of the server; an entry of an ended session is harmless.
    """

    limit: int = MAX_SESSIONS_PER_CALLER
    _open: dict[str, dict[bytes, None]] = field(default_factory=dict)

    async def answer(
        self, inner: ASGIApp, owner: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, and end the owner's oldest session if it opens one too many."""
        opened: list[bytes] = []

        async def receive_nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send_nothing(_message: Message) -> None:
            return

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
        while len(sessions) > self.limit:
            oldest = next(iter(sessions))
            del sessions[oldest]
            ending = {**scope, "method": "DELETE", "headers": [(_SESSION_ID, oldest)]}
            await inner(ending, receive_nothing, send_nothing)


async def _receive_unique(receive: Receive) -> Receive:
    """Read a body and return a `receive` that replays it; raise DuplicateKey for a repeated key.

    A body that is too long or no JSON is left to the SDK, which refuses it.
    """
    messages: list[Message] = []
    length = 0
    while length <= MAX_BODY_BYTES:
        message = await receive()
        messages.append(message)
        length += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            break
    body = b"".join(message.get("body", b"") for message in messages)
    try:
        if length <= _SMALL_BODY:
            require_unique_keys(body)
        elif length <= MAX_BODY_BYTES:
            # On a thread, because it would block the event loop.
            await to_thread.run_sync(require_unique_keys, body)
    except DuplicateKey:
        raise
    except JsonError:
        pass

    async def receive_again() -> Message:
        return messages.pop(0) if messages else await receive()

    return receive_again


# Shared by threads: as above.
class StreamableApp:
    """An ASGI application that serves readers and owners; enter `lifetime` around its use."""

    def __init__(
        self,
        library: Library,
        anonymous: AnonymousAccess,
        *,
        sessions: bool,
        seconds: float = 120.0,
        permissions: WritePermissions = NOTHING_WRITTEN,
    ) -> None:
        self._library = library
        self._seconds = seconds
        self._anonymous = anonymous
        self._permissions = permissions
        self._sessions = sessions
        self._managers: dict[str, StreamableHTTPSessionManager] = {}
        self._calls = Pool(MAX_CALLS, waiting=MAX_WAITING, name="truespan-mcp")
        self._session_limiter = SessionLimiter()

    @asynccontextmanager
    async def lifetime(self) -> AsyncIterator[None]:
        """Serve while this is entered; at the end, running calls are waited for briefly."""
        try:
            async with AsyncExitStack() as running:
                # Debug records of sse_starlette contain events, and so document text.
                for name in ("mcp", "sse_starlette"):
                    running.enter_context(restrict_logger(name))
                for role in ROLES:
                    manager = self._managers[role.name] = StreamableHTTPSessionManager(
                        make_server(role, self._run),
                        # Events stored for replay would be text that outlives the permission to
                        # see it.
                        event_store=None,
                        stateless=not self._sessions,
                        session_idle_timeout=IDLE_SECONDS,
                        max_request_body_size=MAX_BODY_BYTES,
                        max_sessions=MAX_SESSIONS,
                    )
                    await running.enter_async_context(manager.run())
                yield
        finally:
            # The library is about to be closed.
            with anyio.move_on_after(SHUTDOWN_SECONDS, shield=True):
                while not self.idle:
                    await anyio.sleep(0.01)
            self._calls.close()

    @property
    def idle(self) -> bool:
        return self._calls.idle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within the caller's authority, or send a problem."""
        try:
            if scope["method"] not in METHODS:
                raise errors.RequestRefused(
                    code="method_not_allowed", allowed=", ".join(sorted(METHODS))
                )
            target = await to_thread.run_sync(self._select, scope)
        except errors.TruespanError as error:
            await send_reply(problem_reply(error), send)
            return
        except Exception as error:
            self._library.server.count_bug()
            await send_reply(problem_reply(report_bug("target", error)), send)
            return
        answer: ASGIApp = self._managers[target.role.name].handle_request
        token, world, reader = target.session_owner
        # The SDK binds a session to this user. It requires a token's text but does not use it.
        user = AuthenticatedUser(
            AccessToken(token="", client_id=token, scopes=[], subject=f"{world}/{reader}")
        )
        prepared = {**scope, TARGET: target, "user": user}
        if scope["method"] == "POST":
            try:
                receive = await _receive_unique(receive)
            except DuplicateKey as error:
                await send_reply(Reply(parse_error(error), 400), send)
                return
        if self._sessions:
            owner = str(target.session_owner)
            await self._session_limiter.answer(answer, owner, prepared, receive, send)
        else:
            await answer(prepared, receive, send)

    def _select(self, scope: Scope) -> Target:
        principal: Principal = scope["state"]["principal"]
        # Segments are decoded one by one: a name may contain a slash.
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        names = [unquote(part) for part in path.partition("/mcp")[2].split("/") if part]
        if len(names) > 2:
            raise errors.NotFound("route")
        return select_target(
            self._library, self._anonymous, principal, *names, permissions=self._permissions
        )

    async def _run(self, request: Any, work: Work) -> Any:
        """Run work on a thread, which is abandoned on cancellation or at the timeout."""
        target: Target = request.scope[TARGET]
        token = CancelToken()

        def run() -> Any:
            with use_cancel_token(token):
                return work(target.caller)

        try:
            return await self._calls.run(run, caller=target.token, seconds=self._seconds)
        except (errors.DeadlineExceeded, errors.Overloaded) as error:
            raise protocol_error(error) from None
        finally:
            token.cancel()
