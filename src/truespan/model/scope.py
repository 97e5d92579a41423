"""Who asks, and what one request may touch. Both are values that can only get narrower."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final, TypeVar

from truespan.errors import WorldNotFound
from truespan.model.ids import WorldId
from truespan.model.profile import EmbeddingProfile

T = TypeVar("T")


class Unlimited(Enum):
    """Not restricted. A value of its own: an empty set means nothing, and never everything."""

    UNLIMITED = "unlimited"


UNLIMITED: Final = Unlimited.UNLIMITED


class Verb(StrEnum):
    """What an authority may do in its worlds."""

    READ = "read"
    WRITE = "write"
    ADMINISTER = "administer"


def narrowed(allowed: frozenset[T] | Unlimited, wanted: Iterable[T]) -> frozenset[T]:
    """Return what is both allowed and wanted; possibly nothing, never more than before."""
    chosen = frozenset(wanted)
    return chosen if isinstance(allowed, Unlimited) else chosen & allowed


def admits(allowed: frozenset[T] | Unlimited, item: T) -> bool:
    """Say whether `item` is allowed."""
    return isinstance(allowed, Unlimited) or item in allowed


@dataclass(frozen=True, slots=True)
class Authority:
    """Who asks: the worlds and verbs that a caller has been given."""

    worlds: frozenset[WorldId] | Unlimited
    verbs: frozenset[Verb]

    def narrow(self, *, worlds: Iterable[WorldId], verbs: Iterable[Verb]) -> Authority:
        """Return an authority over at most these worlds and verbs."""
        return Authority(narrowed(self.worlds, worlds), narrowed(self.verbs, verbs))

    def may(self, verb: Verb, world: WorldId) -> bool:
        """Say whether `verb` is allowed in `world`."""
        return verb in self.verbs and admits(self.worlds, world)


OWNER: Final = Authority(worlds=UNLIMITED, verbs=frozenset(Verb))


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete build of a world's vectors, under the profile that is locked to it."""

    number: int
    profile: EmbeddingProfile


@dataclass(frozen=True, slots=True)
class World:
    """A unit of isolation. `changes` grows with every commit that touches the world."""

    id: WorldId
    name: str
    generation: Generation | None
    changes: int


@dataclass(frozen=True, slots=True)
class Scope:
    """What one request may touch. Every call to store and index takes it."""

    authority: Authority
    world: WorldId
    generation: Generation
    documents: frozenset[int] | Unlimited = UNLIMITED

    def __post_init__(self) -> None:
        # A scope outside its authority must not exist at all, whoever builds it. The answer is the
        # one for an absent world: a caller cannot tell the two apart.
        if not admits(self.authority.worlds, self.world):
            raise WorldNotFound(self.world)

    @property
    def tenant(self) -> str:
        """Return the key that every point of this world's generation carries in the index."""
        return f"{self.world}.{self.generation.number}"

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the locked embedding profile."""
        return self.generation.profile

    def narrow(self, *, documents: Iterable[int]) -> Scope:
        """Return this scope restricted to at most these documents."""
        return replace(self, documents=narrowed(self.documents, documents))
