"""One address: a request is read, admitted, asked of the engine in a thread, and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from truespan.cancel import CancelToken, use_cancel_token
from truespan.errors import InvalidSettings, MethodNotAllowed, Overloaded, TruespanError
from truespan.http import bodies
from truespan.http.auth import LOCAL, Admission
from truespan.http.bodies import opened, read_form
from truespan.http.call import JSON, Call, CallContext, Event, Events, JobStream, Reply, Result
from truespan.http.events import send_events, send_followed
from truespan.http.problems import problem_reply
from truespan.types.token import Principal, ReplayKey

if TYPE_CHECKING:
    from truespan.http.pool import Pool
    from truespan.library import Library

_ENCODER = msgspec.json.Encoder()
_NEVER = CancelToken()
"""Never leaves: where nobody looks whether the caller is still there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much and how long."""

    body: int = 1 << 20
    upload: int = 512 << 20
    seconds: float = 120.0
    body_seconds: float = 60.0
    upload_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class AppContext:
    """What every address of a server shares."""

    library: Library
    admission: Admission
    pool: Pool
    streams: Pool
    limits: Limits
    ending: asyncio.Event
    on_bug: Callable[[str, Exception], TruespanError]
    default_world: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A request as it was read."""

    scope: Scope
    call: Call
    authorizations: list[bytes]
    body: Any = None
    query: Any = None
    fingerprint: Callable[[], bytes] = bytes

    def header(self, name: bytes) -> str | None:
        """Return a header that may come once.

        Raises:
            InvalidSettings: it came more than once, or is no text.
        """
        values = bodies.header(self.scope, name)
        if len(values) > 1:
            raise InvalidSettings(f"The header {name.decode()} came more than once.")
        try:
            return values[0].decode() if values else None
        except UnicodeDecodeError:
            raise InvalidSettings(f"The header {name.decode()} is not UTF-8.") from None


class Endpoint:
    """The calls of one address, by their methods; an ASGI application."""

    def __init__(self, house: AppContext, calls: Mapping[str, Call]) -> None:
        self._house = house
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever becomes of it."""
        try:
            call = self._called(scope["method"])
            scope["truespan.call"] = call
            given = await self._given(call, scope, receive)
        except TruespanError as error:
            given = problem_reply(error)
        except asyncio.CancelledError:
            # The server ends and has waited long enough; whoever asked may ask the next one.
            given = problem_reply(Overloaded())
        except Exception as error:
            given = problem_reply(self._house.on_bug("request", error))
        await self._send(given, receive, send)

    def _called(self, method: str) -> Call:
        # What can be got can be asked for its headers alone; the server drops the body.
        call = self._calls.get("GET" if method == "HEAD" else method)
        if call is None:
            heads = {"HEAD"} if "GET" in self._calls else set()
            raise MethodNotAllowed({*self._calls, *heads})
        return call

    async def _given(self, call: Call, scope: Scope, receive: Receive) -> Result:
        query = bodies.read_query(call.asks, scope["query_string"])
        told = bodies.header(scope, b"authorization")
        if call.form:
            return await self._uploaded(Message(scope, call, told, query=query), receive)
        limits, admission = self._house.limits, self._house.admission
        if admission.keeping.needs_token and not call.open and call.takes is not None:
            # Nobody's bytes are taken in before it is known whose they are.
            await self._house.pool.run(partial(admission.known, told))
        sent = await bodies.whole_body(
            scope, receive, limit=limits.body, seconds=limits.body_seconds
        )
        if call.takes is None and sent.strip():
            raise InvalidSettings("This address takes no body.")
        body = None if call.takes is None else bodies.read_json(call.takes, scope, sent)
        message = Message(scope, call, told, body, query, partial(_digest, scope, sent))
        if call.light:
            return self._asked(message, _NEVER)
        if call.streams:
            return await self._awaited(message, receive)
        return await self._house.pool.run(
            partial(self._asked, message, _NEVER), seconds=limits.seconds
        )

    async def _awaited(self, message: Message, receive: Receive) -> Result:
        """Ask for what may wait for a model, in threads of its own: the rest must not wait for it.

        It stops when whoever asked has gone, or was told that it took too long.
        """
        gone = CancelToken()
        leaving = asyncio.create_task(_leaves(receive, gone))
        try:
            given = await self._house.streams.run(
                partial(self._asked, message, gone), seconds=self._house.limits.seconds
            )
        except BaseException:
            gone.leave()
            raise
        finally:
            leaving.cancel()
        # Whoever sends the pieces hears next whether somebody still wants them.
        return replace(given, leave=gone.leave) if isinstance(given, Events) else given

    async def _uploaded(self, message: Message, receive: Receive) -> Result:
        """Take an upload; whoever may not is told so before the bytes come."""
        limits, pool = self._house.limits, self._house.pool

        def admitted() -> Principal:
            known = self._house.admission.admit(message.authorizations)
            if message.call.before is not None:
                message.call.before(self._request(message, known, _NEVER))
            return known

        principal = await pool.run(admitted)
        parts = await read_form(
            message.scope, receive, limit=limits.upload, seconds=limits.upload_seconds
        )

        def taken() -> Result:
            with opened(parts) as form:
                filled = replace(
                    message,
                    body=form,
                    fingerprint=lambda: _digest(message.scope, form.fingerprint()),
                )
                return self._answered(filled, principal, _NEVER)

        return await pool.run(taken, seconds=limits.seconds)

    def _asked(self, message: Message, gone: CancelToken) -> Result:
        """Admit the caller and ask the engine. This and all below runs in a thread."""
        if message.call.open:
            return self._answered(message, LOCAL, gone)
        admission, told = self._house.admission, message.authorizations
        given = self._answered(message, admission.admit(told), gone)
        if not isinstance(given, JobStream):
            return given

        def look() -> tuple[Event, bool]:
            # A token that is revoked meanwhile sees no more, however long a job takes.
            admission.known(told)
            return given.look()

        return JobStream(look, given.first)

    def _answered(self, message: Message, principal: Principal, gone: CancelToken) -> Result:
        call, asked = message.call, self._request(message, principal, gone)
        key = message.header(b"idempotency-key") if call.writes else None
        if key is None:
            with use_cancel_token(gone):
                return _encoded(call.run(asked))
        return _once(asked.library, principal, key, message, lambda: call.run(asked))

    def _request(self, message: Message, principal: Principal, gone: CancelToken) -> CallContext:
        return CallContext(
            library=self._house.library.under(principal.authority),
            principal=principal,
            path=_named(message.scope.get("path_params", {})),
            body=message.body,
            query=message.query,
            domain=message.header(b"x-rag-domain") if message.call.domains else None,
            default_world=self._house.default_world,
            gone=lambda: gone.has_left,
        )

    async def _send(self, given: Result, receive: Receive, send: Send) -> None:
        house = self._house
        if isinstance(given, Events):
            await send_events(given, send, receive, house.streams, house.ending, house.on_bug)
        elif isinstance(given, JobStream):
            await send_followed(given, send, receive, house.pool, house.ending, house.on_bug)
        else:
            await send_reply(given, send)


class AdmittedDoor:
    """Admits callers to an application that answers for itself."""

    def __init__(self, house: AppContext, inner: ASGIApp) -> None:
        self._house = house
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with whoever sent it, or tell why not."""
        limits = self._house.limits
        try:
            bodies.check_length(scope, limits.body)
            principal = await self._admitted(bodies.header(scope, b"authorization"))
            scope["state"] = {**scope.get("state", {}), "principal": principal}
            bounded = bodies.limited(receive, limits.body, limits.body_seconds)
            await self._inner(scope, bounded, send)
        except TruespanError as error:
            # The body is read before anything is sent, so there is still somebody to tell.
            await send_reply(problem_reply(error), send)

    async def _admitted(self, authorizations: list[bytes]) -> Principal:
        """Return who asks; what nobody foresaw is a bug here as at any other address."""
        house = self._house
        try:
            return await house.pool.run(partial(house.admission.admit, authorizations))
        except TruespanError:
            raise
        except Exception as error:
            raise house.on_bug("admission", error) from None


async def send_reply(reply: Reply, send: Send) -> None:
    """Send a reply whole."""
    body = reply.value if isinstance(reply.value, bytes) else _ENCODER.encode(reply.value)
    headers = [
        (b"content-type", reply.media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in reply.headers),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _leaves(receive: Receive, gone: CancelToken) -> None:
    """Notice that whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
    gone.leave()


def _encoded(given: Result) -> Result:
    """Write a reply's value as JSON here, in the thread."""
    if isinstance(given, Reply) and not isinstance(given.value, bytes):
        body = _ENCODER.encode(given.value)
        return Reply(body, given.status, given.headers, given.media_type)
    return given


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A reply as it is kept to be given again."""

    status: int
    headers: tuple[tuple[str, str], ...]
    media_type: str
    body: bytes


def _once(
    library: Library,
    principal: Principal,
    key: str,
    message: Message,
    run: Callable[[], Result],
) -> Reply:
    """Answer a request with an idempotency key: as the first time, if there was one."""

    def work() -> bytes:
        done = _encoded(run())
        if not isinstance(done, Reply) or done.media_type != JSON:
            raise InvalidSettings("This takes no idempotency key.")
        kept = _Kept(done.status, done.headers, done.media_type, done.value)
        return msgspec.msgpack.encode(kept)

    caller = ReplayKey(principal.token or "", key)
    kept = msgspec.msgpack.decode(
        library.run_idempotent(caller, message.fingerprint(), work), type=_Kept
    )
    return Reply(kept.body, kept.status, kept.headers, kept.media_type)


def _named(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return what an address names, as it is spelled there.

    Raises:
        InvalidSettings: it is no text.
    """
    try:
        return {name: unquote(value, errors="strict") for name, value in parameters.items()}
    except UnicodeDecodeError:
        raise InvalidSettings("The address is not UTF-8.") from None


def _digest(scope: Scope, body: bytes) -> bytes:
    """Return a digest of all that a request asks for."""
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], body)
    return sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()
