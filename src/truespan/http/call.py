"""One call: an address and a method, what is taken there, and what is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from truespan.errors import TruespanError
from truespan.types.token import Principal

if TYPE_CHECKING:
    from truespan.library import Library
    from truespan.world import World

JSON = "application/json"
EVENTS = "text/event-stream"
FORM = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class CallContext:
    """A request as a call sees it: read, checked, and under its caller's authority."""

    library: Library
    principal: Principal
    path: Mapping[str, str]
    body: Any = None
    query: Any = None
    domain: str | None = None
    """What the header X-RAG-Domain names."""
    default_world: str | None = None
    """What is meant where no world is named, if the operator said so."""
    gone: Callable[[], bool] = bool
    """Says whether whoever asked does not wait any more."""

    def world(self) -> World:
        """Return the world that the address names, aimed at the domain's generation if one is."""
        reference = self.path["world"]
        if self.domain is not None:
            return self.library.domain(self.domain, world=reference)
        return self.library.world(reference)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call gives: a value to be written as JSON, or bytes of some kind."""

    value: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = JSON


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Events:
    """What a call gives piece by piece; headers go out with the first event."""

    events: Iterator[Event]
    headers: tuple[tuple[str, str], ...] = ()
    leave: Callable[[], object] = bool
    """Tells whatever is waited for in their making that nobody wants them any more."""


@dataclass(frozen=True, slots=True)
class JobStream:
    """What a call gives as it changes: `look` tells how it stands, and whether that is its end."""

    look: Callable[[], tuple[Event, bool]]
    first: tuple[Event, bool]


Result: TypeAlias = Reply | Events | JobStream


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that can be asked. `run` is called in a thread, and may wait."""

    method: str
    path: str
    name: str
    """The operation's id, by which clients are generated."""
    summary: str
    run: Callable[[CallContext], Result]
    gives: Any
    """The type of the reply, as the OpenAPI document tells it."""
    takes: type | None = None
    """The type of the body; None for none."""
    asks: type | None = None
    """The type of the query string; None for none."""
    status: int = 200
    errors: tuple[type[TruespanError], ...] = ()
    """What can go wrong here beside what can go wrong everywhere."""
    writes: bool = False
    """Whether it changes something, so that an idempotency key is of use."""
    domains: bool = False
    """Whether X-RAG-Domain counts."""
    before: Callable[[CallContext], None] | None = None
    """What is asked before a large body is read, so that it is not sent for nothing."""
    form: bool = False
    """Whether the body is an upload in place of JSON."""
    media_type: str = JSON
    streams: bool = False
    """Whether the reply may come as events instead."""
    open: bool = False
    """Whether anybody may ask, with a token or without."""
    light: bool = False
    """Whether it touches nothing of the library, and so needs no thread."""
    example: Mapping[str, Any] | None = field(default=None, hash=False)
    """A body that makes sense, for the OpenAPI document."""
    description: str = ""
