"""What the index process and its clients say to each other: typed messages, as MessagePack.

Each request but the first names its collection, and each that touches points carries conditions or
a tenant, so nothing about a caller is kept between two requests. Vectors travel as bytes.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from truespan.errors import (
    IndexRefused,
    IndexSchemaMismatch,
    IndexUnavailable,
    StorageFull,
    TruespanError,
)
from truespan.index.filters import Condition

VERSION = 3
"""Changes whenever a message does. `Hello` and `Welcome` stay as they are in every version."""

LARGEST_MESSAGE = 256 << 20


class Collection(Struct, frozen=True, array_like=True):
    """The vectors of one embedding profile; `name` is the profile's id."""

    name: str
    size: int
    distance: str

    def __str__(self) -> str:
        return f"{self.size} dimensions, {self.distance} distance"


class WirePoint(Struct, array_like=True, gc=False):
    """A point as it is sent. Chapter and section are casefolded."""

    id: str
    vector: bytes
    text_hash: str
    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    chapter: str
    section: str
    kind: str


# Requests


class Hello(Struct, tag=True, array_like=True):
    """The first message: which language the client speaks and which folder it means."""

    version: int
    folder: str


class Prepare(Struct, tag=True, array_like=True):
    collection: Collection


class Upsert(Struct, tag=True, array_like=True):
    """`room` bytes must be free: the reserve and what is left of the batch."""

    collection: Collection
    tenant: str
    points: list[WirePoint]
    room: int


class Flush(Struct, tag=True, array_like=True):
    collection: Collection


class Delete(Struct, tag=True, array_like=True):
    """Removes whatever meets the conditions; `Drop` and the deletion of single points alike."""

    collection: Collection
    where: tuple[Condition, ...]


class DeleteStale(Struct, tag=True, array_like=True):
    collection: Collection
    where: tuple[Condition, ...]
    stale: list[tuple[str, str]]


class Search(Struct, tag=True, array_like=True):
    """`threshold` is on Qdrant's own scale.

    Points named by `ids` are scored beside the best ones, under the same conditions.
    """

    collection: Collection
    where: tuple[Condition, ...]
    vector: bytes
    limit: int
    threshold: float | None
    ids: tuple[str, ...] = ()


class Scan(Struct, tag=True, array_like=True):
    collection: Collection
    where: tuple[Condition, ...]
    start: str | None
    limit: int


class Count(Struct, tag=True, array_like=True):
    collection: Collection
    where: tuple[Condition, ...]


class ListTenants(Struct, tag=True, array_like=True):
    """Asks for names and counts of all that share a collection; no point is given out."""

    collection: Collection
    limit: int


class ListCollections(Struct, tag=True, array_like=True):
    pass


class Discard(Struct, tag=True, array_like=True):
    """Removes a collection that nobody uses, whatever state its files are in."""

    name: str


class Erase(Struct, tag=True, array_like=True):
    """Asks for one more step of rewriting a collection from its live points.

    The first request has no ticket; each further one has that of the reply before. `reserve` bytes
    must stay free.
    """

    collection: Collection
    ticket: int
    reserve: int


class Reset(Struct, tag=True, array_like=True):
    """Removes the collection of every world, and makes it anew, empty."""

    collection: Collection


class Retire(Struct, tag=True, array_like=True):
    """Asks the process to end cleanly."""


Request: TypeAlias = (
    Hello
    | Prepare
    | Upsert
    | Flush
    | Delete
    | DeleteStale
    | Search
    | Scan
    | Count
    | Reset
    | Retire
    | ListTenants
    | ListCollections
    | Discard
    | Erase
)


# Replies


class Welcome(Struct, tag=True, array_like=True):
    pid: int


class Done(Struct, tag=True, array_like=True):
    pass


class Prepared(Struct, tag=True, array_like=True):
    """The collection is ready; `empty` when it holds no point of any world."""

    empty: bool


class Found(Struct, tag=True, array_like=True):
    """Id, raw score and text hash of each hit, best first; then of each that was named."""

    hits: list[tuple[str, float, str]]
    named: list[tuple[str, float, str]] = msgspec.field(default_factory=list)


class WirePlace(Struct, frozen=True, array_like=True, gc=False):
    """The payload of a point that filters go by."""

    document: int
    pos_start: int
    pos_end: int
    pos_reach: int
    chapter: str
    section: str
    kind: str


class Page(Struct, tag=True, array_like=True):
    """Id, text hash and place if it has them, and vector of each point; `next` starts the
    following page."""

    points: list[tuple[str, str | None, bytes, WirePlace | None]]
    next: str | None


class Tenants(Struct, tag=True, array_like=True):
    """How many points each tenant has, and how many there are in all."""

    counts: dict[str, int]
    points: int


class Listed(Struct, tag=True, array_like=True):
    names: list[str]


class Counted(Struct, tag=True, array_like=True):
    points: int


class Erased(Struct, tag=True, array_like=True):
    """Whether a rewriting that began after the first request is in place."""

    ticket: int
    done: bool


class Retiring(Struct, tag=True, array_like=True):
    """The request came too late and was not looked at; another process will take it."""


class Mismatch(Struct, tag=True, array_like=True):
    expected: str
    found: str


class Full(Struct, tag=True, array_like=True):
    free: int
    reserve: int


class Refused(Struct, tag=True, array_like=True):
    message: str
    advice: str = ""


class Unavailable(Struct, tag=True, array_like=True):
    message: str


Reply: TypeAlias = (
    Welcome
    | Done
    | Prepared
    | Found
    | Page
    | Tenants
    | Listed
    | Counted
    | Erased
    | Retiring
    | Mismatch
    | Full
    | Refused
    | Unavailable
)

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


class ShapeDiffers(IndexSchemaMismatch):
    """A mismatch that remembers its two sides, so that it can be sent."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected, self.found = expected, found


def problem(error: TruespanError) -> Reply:
    """Return the reply that tells a client of this error."""
    match error:
        case StorageFull():
            return Full(error.free, error.reserve)
        case ShapeDiffers():
            return Mismatch(error.expected, error.found)
        case IndexUnavailable():
            return Unavailable(error.message)
        case _:
            return Refused(error.message, error.advice)


def as_error(reply: Reply) -> TruespanError:
    """Return the error that a reply tells of."""
    match reply:
        case Full(free, reserve):
            return StorageFull(free, reserve)
        case Mismatch(expected, found):
            return IndexSchemaMismatch(expected, found)
        case Unavailable(message):
            return IndexUnavailable(message)
        case Refused(message, advice):
            return IndexRefused(message, advice=advice)
        case _:
            return IndexRefused("The index process answered something else than was asked.")
