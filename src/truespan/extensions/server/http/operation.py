"""Operations of the API: a method and a path, a handler, and the types of its signature.

A handler is written once. Its name is the operation's id, its docstring the description, its
`body` and `query` parameters the types of a request, and its return type that of the reply: a plain
value, or a value in a `Reply` with headers or a media type.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partialmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.errors import InvalidArgument, TruespanError
from truespan.extensions.proof.wire import add_receipt, split_signed, with_receipt, with_signed
from truespan.extensions.server.http.bodies import Form
from truespan.types.origin import Result as Signable
from truespan.types.token import Principal

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World
    from truespan.extensions.proof.types import SignedReceipt

JSON = "application/json"
EVENTS = "text/event-stream"

Value = TypeVar("Value")
Handler = TypeVar("Handler", bound=Callable[..., Any])


class CallContext(Struct, frozen=True):
    """A request as a handler sees it: parsed, validated, and with its caller's authority."""

    library: Library
    principal: Principal
    path: Mapping[str, str]
    domain: str | None = None
    """The value of the header X-RAG-Domain."""
    default_world: str | None = None
    """The default world of requests, if the operator chose one."""
    is_cancelled: Callable[[], bool] = bool
    """Returns whether the client has disconnected."""
    has_key: bool = False
    """Whether the request has an Idempotency-Key."""
    accepts: str = ""
    """The first media type that the client accepts."""
    origin: str = ""
    """Scheme, host and path by which the client addressed the server, without a final slash."""

    @property
    def accepts_events(self) -> bool:
        """Whether the client prefers a stream of events."""
        return self.accepts == EVENTS

    def world(self, generation: int | None = None) -> World:
        """Return the world in the path, at this generation or at the domain's."""
        if self.domain is None:
            return self.library.world(self.path["world"], generation=generation)
        world = self.library.domain(self.domain, world=self.path["world"])
        if generation is not None:
            raise InvalidArgument("Give a generation or a domain, not both.")
        return world

    def asked_world(self, generation: int | None = None) -> World:
        """Return the same world without looking it up: asking a question does that."""
        if self.domain is None and generation is None:
            return self.library.server.refer_to(self.path["world"])
        return self.world(generation)


class Reply(Struct, Generic[Value], frozen=True):
    """A complete reply: a value to encode as JSON, or bytes of another media type."""

    value: Value
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = JSON


class Event(Struct, frozen=True):
    """A server-sent event; a blank name is not sent."""

    name: str
    value: Any


class Events(Struct, frozen=True):
    """A reply sent event by event. The headers are sent before the first event."""

    events: Iterator[Event]
    headers: tuple[tuple[str, str], ...] = ()
    cancel: Callable[[], object] = bool
    """Stops the work that produces the events."""
    streamed: bool = True
    """Whether events are sent; if not, the value of the last event is the reply."""
    caller: Hashable = None
    in_turns: bool = False
    """Whether each event is a separate call, with turns of other callers in between; if not, one
    call produces all events and may wait for a model."""


class CancellableEvents:
    """Events that are produced under the cancel token of their request, on any thread."""

    def __init__(self, events: Iterator[Event], token: CancelToken) -> None:
        self._events = events
        self._token = token

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        with use_cancel_token(self._token):
            return next(self._events)

    def close(self) -> None:
        """End the production of events."""
        close = getattr(self._events, "close", None)
        if close is not None:
            close()


class JobStream(Struct, frozen=True):
    """A job's state whenever it changes. `poll` returns the state and whether the job is over."""

    poll: Callable[[], tuple[Event, bool]]
    first: tuple[Event, bool]
    caller: Hashable = None


Result: TypeAlias = Reply[Any] | Events | JobStream
_RESULTS = (Reply, Events, JobStream)


class AsReader(Struct, frozen=True):
    """The twin of an operation for a reader: the same handler below the path of the reader.

    `text` is its summary and description, like a docstring. Types, errors and example replace those
    of the operation.
    """

    text: str
    body: Any = None
    query: Any = None
    errors: tuple[type[TruespanError] | str, ...] | None = None
    example: Mapping[str, Any] | None = None


@dataclass(slots=True, eq=False)
class Operation:
    """One operation, with the types of its handler's signature. The handler may block."""

    method: str
    path: str
    handler: Callable[..., Any]
    errors: tuple[type[TruespanError] | str, ...] = ()
    """Errors for the OpenAPI document, besides those that follow from path and type."""
    status: int = 200
    media_type: str = JSON
    other_media_types: tuple[str, ...] = ()
    """Further media types that a request can ask for."""
    writes: bool = False
    """Whether it changes something, so that Idempotency-Key applies."""
    domains: bool = False
    """Whether X-RAG-Domain applies."""
    public: bool = False
    """Whether it needs no token even if the server requires tokens."""
    inline: bool = False
    """Whether it runs on the event loop because it does not use the library."""
    ignores_query: bool = False
    """Whether any query string is accepted: other sites add some to links."""
    names_error: bool = False
    """Whether a problem has the member `error` too, as clients of OpenAI expect."""
    check: Callable[[CallContext], None] | None = None
    """A check that runs before a large body is read."""
    signs: bool = False
    """Whether a request can ask for a signed receipt of the result."""
    in_turns: bool = False
    """Whether its events are produced one call at a time, as `Events` says."""
    example: Mapping[str, Any] | None = None
    """An example of the body."""
    events: Mapping[str, type] | None = None
    """The events of a stream by name, besides `problem`; None for the events of an answer.

    A blank name is for events without one, among them `[DONE]`."""
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Any])
    """Operations that take their parameters from the reply, for the OpenAPI document."""
    as_reader: AsReader | None = None
    """The differences from its twin, if this operation is for readers."""
    name: str = field(init=False)
    """The operation's id, from which clients are generated."""
    body_type: Any = field(init=False)
    """The type of a JSON body; None for no body or a form."""
    query_type: Any = field(init=False)
    reply_type: Any = field(init=False)
    takes_form: bool = field(init=False)
    streams: bool = field(init=False)
    """Whether the reply may be sent as events."""

    def __post_init__(self) -> None:
        name = self.handler.__name__ + ("_as_reader" if self.as_reader else "")
        self.name = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
        hints = typing.get_type_hints(self.handler, include_extras=True)
        if self.as_reader is not None:
            replaced = {"body": self.as_reader.body, "query": self.as_reader.query}
            hints |= {name: kind for name, kind in replaced.items() if kind is not None}
        returns = hints["return"]
        is_union = typing.get_origin(returns) is typing.Union
        kinds = typing.get_args(returns) if is_union else (returns,)
        wrapper = typing.get_origin(kinds[0])
        self.reply_type = typing.get_args(kinds[0])[0] if wrapper is Reply else kinds[0]
        self.streams = Events in kinds or JobStream in kinds
        self.takes_form = hints.get("body") is Form
        self.body_type = None if self.takes_form else hints.get("body")
        self.query_type = hints.get("query")
        if self.signs:
            self.body_type = with_signed(self.body_type)
            self.reply_type = with_receipt(self.reply_type)

    @property
    def text(self) -> str:
        """The summary and the description."""
        return self.as_reader.text if self.as_reader else self.handler.__doc__ or ""

    @property
    def summary(self) -> str:
        return self.text.partition("\n")[0].rstrip(".")

    @property
    def description(self) -> str:
        return " ".join(self.text.partition("\n")[2].split())

    def run(self, context: CallContext, body: Any, query: Any) -> Result:
        """Call the handler with the arguments it takes; a plain value becomes a reply."""
        server, signed = context.library.server, False
        if self.signs:
            body, signed = split_signed(body)
        if signed:
            # Before a model is asked.
            server.require_key()
        arguments = {} if self.body_type is None and not self.takes_form else {"body": body}
        if self.query_type is not None:
            arguments["query"] = query
        result = self.handler(context, **arguments)
        result = result if isinstance(result, _RESULTS) else Reply(result, self.status)
        return _sign(result, server.sign) if signed else result


def _sign(result: Result, sign: Callable[[Signable], SignedReceipt]) -> Result:
    """Add a signed receipt to a reply, or to the last event of an answer."""

    def signed(value: Any) -> Any:
        return add_receipt(value, sign(value)) if isinstance(value, Signable) else value

    if isinstance(result, JobStream):
        return result
    if isinstance(result, Reply):
        return replace(result, value=signed(result.value))
    events = (replace(event, value=signed(event.value)) for event in result.events)
    return replace(result, events=events)


class Routes:
    """The operations of one topic, which handlers register, and the errors of all of them."""

    def __init__(self, topic: str, description: str, *errors: type[TruespanError] | str) -> None:
        self.topic = topic
        self.description = description
        self.operations: list[Operation] = []
        self._errors = errors

    def _register(
        self,
        method: str,
        path: str,
        *,
        as_reader: AsReader | None = None,
        readers: Routes | None = None,
        **options: Any,
    ) -> Callable[[Handler], Handler]:
        """Register a handler, and with `as_reader` its twin; options are fields of `Operation`.

        The twin is listed under the topic of `readers`, by default under this one.
        """

        def register(handler: Handler) -> Handler:
            every = {**options, "errors": (*self._errors, *options.get("errors", ()))}
            self.operations.append(Operation(method, path, handler, **every))
            if as_reader is not None:
                (readers or self)._add_twin(method, path, handler, as_reader, options)
            return handler

        return register

    def _add_twin(
        self,
        method: str,
        path: str,
        handler: Callable[..., Any],
        twin: AsReader,
        options: dict[str, Any],
    ) -> None:
        below = path.replace("{world}/", "{world}/readers/{reader}/")
        changed = {"domains": False, "as_reader": twin}
        if twin.errors is not None:
            changed["errors"] = twin.errors
        if twin.example is not None:
            changed["example"] = twin.example
        operation = Operation(method, below, handler, **(options | changed))
        operation.errors = (*self._errors, *operation.errors)
        self.operations.append(operation)

    get = partialmethod(_register, "GET")
    post = partialmethod(_register, "POST")
    put = partialmethod(_register, "PUT", writes=True)
    patch = partialmethod(_register, "PATCH", writes=True)
    delete = partialmethod(_register, "DELETE", writes=True)
