"""The authority of a caller and the scope of a request. Both can only be narrowed."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import WorldNotFound
from truespan.types.ids import WorldId
from truespan.types.profile import ChunkingProfile, EmbeddingProfile
from truespan.types.request import Defaults
from truespan.types.text import NamedPlace, fold_name

T = TypeVar("T")


class Unlimited(Enum):
    """No restriction. An empty set means nothing; it never means everything."""

    UNLIMITED = "unlimited"


UNLIMITED: Final = Unlimited.UNLIMITED


class Verb(StrEnum):
    """What an authority may do in its worlds."""

    READ = "read"
    """Search and retrieve without a bound."""
    FOLLOW = "follow"
    """Retrieve as a reader, up to that reader's position."""
    WRITE = "write"
    ADMINISTER = "administer"
    OBSERVE = "observe"
    """Read the metrics, which count the requests of all worlds together."""


WORLD_VERBS: Final = frozenset(Verb) - {Verb.OBSERVE}
"""The verbs that allow something in a world."""


class MostDocuments(frozenset[int]):
    """Most documents of a world, together with the others, which are fewer.

    It equals the plain set. An index that leaves out `others` compares less; what it returns of
    documents that are in neither is dropped when it is verified.
    """

    __slots__ = ("others",)
    others: frozenset[int]

    @classmethod
    def of(cls, numbers: frozenset[int], everything: frozenset[int]) -> frozenset[int]:
        """Return numbers as most of everything; unchanged if they are at most half of it."""
        if 2 * len(numbers) <= len(everything):
            return numbers
        most = cls(numbers)
        most.others = everything - numbers
        return most


def narrowed(allowed: frozenset[T] | Unlimited, wanted: Iterable[T]) -> frozenset[T]:
    """Return what is both allowed and wanted; possibly nothing, never more than before."""
    chosen = wanted if isinstance(wanted, frozenset) else frozenset(wanted)
    return chosen if isinstance(allowed, Unlimited) else chosen & allowed


def admits(allowed: frozenset[T] | Unlimited, item: T) -> bool:
    return isinstance(allowed, Unlimited) or item in allowed


def _both(
    one: frozenset[T] | Unlimited, other: frozenset[T] | Unlimited
) -> frozenset[T] | Unlimited:
    return one if isinstance(other, Unlimited) else narrowed(one, other)


class Authority(Struct, frozen=True):
    """The worlds, verbs and readers that a caller may use."""

    worlds: frozenset[WorldId] | Unlimited
    verbs: frozenset[Verb]
    readers: frozenset[str] | Unlimited = UNLIMITED
    token: str | None = None
    """The id of the token that it comes from; None for the owner. Conversations belong to it."""

    def __post_init__(self) -> None:
        # A caller bound to readers must not get around their positions.
        if not isinstance(self.readers, Unlimited) and self.verbs - {Verb.FOLLOW}:
            raise ValueError("an authority bound to readers can only follow them")

    def narrow(self, *, worlds: Iterable[WorldId], verbs: Iterable[Verb]) -> Authority:
        """Return an authority over at most these worlds and verbs."""
        return replace(
            self, worlds=narrowed(self.worlds, worlds), verbs=narrowed(self.verbs, verbs)
        )

    def within(self, other: Authority) -> Authority:
        readers = _both(self.readers, other.readers)
        verbs = self.verbs & other.verbs
        if not isinstance(readers, Unlimited):
            verbs &= {Verb.FOLLOW}
        token = self.token or other.token
        return Authority(_both(self.worlds, other.worlds), verbs, readers, token)

    def as_reader(self, world: WorldId, reader: str) -> Authority:
        """Return an authority that can only ask as this reader of this world."""
        return Authority(
            worlds=narrowed(self.worlds, [world]),
            verbs=narrowed(self.verbs, [Verb.FOLLOW]),
            readers=narrowed(self.readers, [reader]),
            token=self.token,
        )

    def may(self, verb: Verb, world: WorldId) -> bool:
        return verb in self.verbs and admits(self.worlds, world)

    def may_follow(self, reader: str, world: WorldId) -> bool:
        return self.may(Verb.FOLLOW, world) and admits(self.readers, reader)

    def may_observe(self) -> bool:
        """Return whether it may read the metrics.

        They tell of all worlds, so an authority over some worlds may not.
        """
        observes_only = self.verbs == {Verb.OBSERVE}
        return Verb.OBSERVE in self.verbs and (observes_only or self.worlds is UNLIMITED)

    def sees(self, world: WorldId) -> bool:
        """Return whether the world is visible to this authority."""
        return bool(self.verbs & WORLD_VERBS) and admits(self.worlds, world)


OWNER: Final = Authority(worlds=UNLIMITED, verbs=frozenset(Verb))


class Generation(Struct, frozen=True):
    """One complete build of a world's vectors, under the profile that is locked to it."""

    number: int
    profile: EmbeddingProfile
    chunking: ChunkingProfile | None = None
    """The chunking of all its documents; None if each document uses its own profile."""


GenerationSelector: TypeAlias = str | int | None
"""Which generation of a world is meant: a domain by its key, one by its number, or the default."""
MAX_GENERATION = 999_999_999


class World(Struct, frozen=True):
    """A unit of isolation. `changes` grows with every commit that touches the world."""

    id: WorldId
    name: str
    generation: Generation | None
    changes: int
    selector: GenerationSelector = None
    """How the generation was selected, so that it can be selected again."""
    defaults: Defaults = Defaults.CONTRACT
    """What its requests do unless they say otherwise."""


class Scope(Struct, frozen=True):
    """What one request may touch. Every call to store and index takes it."""

    authority: Authority
    world: WorldId
    generation: Generation
    documents: frozenset[int] | Unlimited = UNLIMITED
    chapter: str | None = None
    section: str | None = None
    position: int | None = None
    """The last sentence a reader has read of the one document in scope; None for no reader."""
    revision: int | None = None
    """The revision that the position was read in: it says nothing of any other."""

    def __post_init__(self) -> None:
        # A scope outside its authority must not exist. The error is the one for an absent world, so
        # that a caller cannot tell the two apart.
        if not admits(self.authority.worlds, self.world):
            raise WorldNotFound(self.world)

    @property
    def tenant(self) -> str:
        """Return the key that every point of this world's generation carries in the index."""
        return f"{self.world}.{self.generation.number}"

    @property
    def profile(self) -> EmbeddingProfile:
        return self.generation.profile

    def narrow(
        self,
        *,
        documents: Iterable[int] | None = None,
        chapter: str | None = None,
        section: str | None = None,
    ) -> Scope:
        """Return this scope restricted to at most these documents and this place.

        Chapter and section are compared as `fold_name` has them.
        """
        return replace(
            self,
            documents=self.documents if documents is None else narrowed(self.documents, documents),
            chapter=self.chapter if chapter is None else fold_name(chapter),
            section=self.section if section is None else fold_name(section),
        )

    @property
    def names_place(self) -> bool:
        """Return whether a chapter or a section restricts the scope."""
        return self.chapter is not None or self.section is not None

    def covers(self, place: NamedPlace) -> bool:
        """Return whether text at a place is inside the chapter and the section, if there are
        any."""
        return self.chapter in (None, fold_name(place.chapter)) and self.section in (
            None,
            fold_name(place.section),
        )

    def for_reader(self, document: int, revision: int, position: int) -> Scope:
        """Return this scope restricted to what a reader at `position` has read of a revision."""
        bound = position if self.position is None else min(position, self.position)
        return replace(self.narrow(documents=[document]), position=bound, revision=revision)
