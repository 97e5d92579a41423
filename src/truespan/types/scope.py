"""The authority of a caller and the scope of a request. Neither can be widened."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, StrEnum
from functools import cached_property, lru_cache
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import NotFound
from truespan.types.audience import EVERYONE, Audience, check_labels
from truespan.types.ids import WorldId, hash_text
from truespan.types.profile import ChunkingProfile, EmbeddingProfile
from truespan.types.request import Defaults
from truespan.types.text import NamedPlace, fold_name

T = TypeVar("T")


class Unlimited(Enum):
    """No restriction. An empty set allows nothing; it never means everything."""

    UNLIMITED = "unlimited"


UNLIMITED: Final = Unlimited.UNLIMITED


class Verb(StrEnum):
    """A permission of an authority in its worlds."""

    READ = "read"
    """Search and retrieve whole documents."""
    FOLLOW = "follow"
    """Search and retrieve as a reader, up to the position of the reader."""
    WRITE = "write"
    ADMINISTER = "administer"
    OBSERVE = "observe"
    """Read the metrics, which cover all worlds together."""


WORLD_VERBS: Final = frozenset(Verb) - {Verb.OBSERVE}
"""The verbs that apply to a world."""
AUDIENCE_VERBS: Final = frozenset({Verb.READ, Verb.FOLLOW})
"""The verbs of a caller with a limited audience.

Writing replaces documents by name, and metrics count all documents, so both need all documents.
"""


class DocumentSubset(frozenset[int]):
    """A set with many documents of a world that also knows the `others`.

    It equals the plain set. An index can exclude `others` if they are fewer, and knows how many of
    its hits to expect in the set. Hits in documents of neither set are dropped when they are
    verified.
    """

    __slots__ = ("others",)
    others: frozenset[int]

    @classmethod
    def of(cls, numbers: frozenset[int], everything: frozenset[int]) -> frozenset[int]:
        """Return `numbers` with their complement; unchanged if they are few."""
        if len(numbers) < MIN_SHARE * len(everything):
            return numbers
        subset = cls(numbers)
        subset.others = everything - numbers
        return subset

    @property
    def share(self) -> float:
        """Share of the documents of the world that are in the set."""
        return len(self) / max(len(self) + len(self.others), 1)


MIN_SHARE: Final = 0.25
"""Minimum share of the documents of a world in a `DocumentSubset`."""


def narrowed(allowed: frozenset[T] | Unlimited, wanted: Iterable[T]) -> frozenset[T]:
    """Return the items that are both allowed and wanted; possibly none."""
    chosen = wanted if isinstance(wanted, frozenset) else frozenset(wanted)
    # A subset stays the same object, which knows its hash and may be a `DocumentSubset`.
    return chosen if isinstance(allowed, Unlimited) or chosen <= allowed else chosen & allowed


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
    """Id of the token; None for the owner of the library."""
    audience: frozenset[str] | Unlimited = UNLIMITED
    """Labels of the caller; without any, only documents for everyone are visible."""

    def __post_init__(self) -> None:
        # A caller bound to readers must not bypass their positions.
        if not isinstance(self.readers, Unlimited) and self.verbs - {Verb.FOLLOW}:
            raise ValueError("an authority bound to readers can only follow them")
        if not isinstance(self.audience, Unlimited) and self.verbs - AUDIENCE_VERBS:
            raise ValueError("an authority with a limited audience can only read and follow")

    def narrow(self, *, worlds: Iterable[WorldId], verbs: Iterable[Verb]) -> Authority:
        """Return this authority, limited to some worlds and verbs."""
        return replace(
            self, worlds=narrowed(self.worlds, worlds), verbs=narrowed(self.verbs, verbs)
        )

    def within(self, other: Authority) -> Authority:
        """Return the intersection of two authorities."""
        readers = _both(self.readers, other.readers)
        audience = _both(self.audience, other.audience)
        verbs = self.verbs & other.verbs
        if not isinstance(readers, Unlimited):
            verbs &= {Verb.FOLLOW}
        if not isinstance(audience, Unlimited):
            verbs &= AUDIENCE_VERBS
        token = self.token or other.token
        return Authority(_both(self.worlds, other.worlds), verbs, readers, token, audience)

    def for_audience(self, labels: Iterable[str]) -> Authority:
        """Return this authority, limited to reading the documents for some of its labels."""
        audience = narrowed(self.audience, check_labels(labels))
        return replace(self, verbs=self.verbs & AUDIENCE_VERBS, audience=audience)

    def as_reader(self, world: WorldId, reader: str) -> Authority:
        """Return this authority, limited to following one reader in one world."""
        return Authority(
            worlds=narrowed(self.worlds, [world]),
            verbs=narrowed(self.verbs, [Verb.FOLLOW]),
            readers=narrowed(self.readers, [reader]),
            token=self.token,
            audience=self.audience,
        )

    @property
    def owner(self) -> str | None:
        """Owner of the conversations that this caller begins; None for the owner of the library.

        Callers of one token with different labels, such as the users of an application, do not
        share conversations.
        """
        if isinstance(self.audience, Unlimited):
            return self.token
        labels = hash_text("\n".join(sorted(self.audience)))
        return f"{self.token or ''}/{labels}"

    def may(self, verb: Verb, world: WorldId) -> bool:
        return verb in self.verbs and admits(self.worlds, world)

    def may_follow(self, reader: str, world: WorldId) -> bool:
        return self.may(Verb.FOLLOW, world) and admits(self.readers, reader)

    def may_observe(self) -> bool:
        """Return whether the authority may read the metrics.

        Metrics cover all worlds, so an authority over some worlds may not read them.
        """
        observes_only = self.verbs == {Verb.OBSERVE}
        return Verb.OBSERVE in self.verbs and (observes_only or self.worlds is UNLIMITED)

    def sees(self, world: WorldId) -> bool:
        """Return whether the world is visible to this authority."""
        return bool(self.verbs & WORLD_VERBS) and admits(self.worlds, world)


OWNER: Final = Authority(worlds=UNLIMITED, verbs=frozenset(Verb))


class Generation(Struct, frozen=True):
    """A complete set of vectors of a world, made with one embedding profile."""

    number: int
    profile: EmbeddingProfile
    chunking: ChunkingProfile | None = None
    """Chunking profile of all documents; None if each document has its own."""


GenerationSelector: TypeAlias = str | int | None
"""Selector of a generation: the key of a domain, a number, or None for the default."""
MAX_GENERATION = 999_999_999


class World(Struct, frozen=True):
    """A unit of isolation. `changes` increases with every commit that changes the world."""

    id: WorldId
    name: str
    generation: Generation | None
    changes: int
    selector: GenerationSelector = None
    """Selector of the generation, for selecting it again."""
    defaults: Defaults = Defaults.CONTRACT
    """Defaults of requests to the world."""
    audience: Audience | None = (EVERYONE,)
    """Audience of new documents that declare none; None if each must declare one."""


# Shared by threads: its properties are computed from members that never change.
class Scope(Struct, frozen=True, dict=True):
    """The part of a library that one request may access; passed to every store and index call."""

    authority: Authority
    world: WorldId
    generation: Generation
    documents: frozenset[int] | Unlimited = UNLIMITED
    chapter: str | None = None
    section: str | None = None
    position: int | None = None
    """Last sentence that the reader has read of the only document in scope; None without a
    reader."""
    revision: int | None = None
    """Revision to which the position refers."""

    def __post_init__(self) -> None:
        # A scope outside its authority must not exist. The error is the same as for an absent
        # world, so a caller cannot distinguish the two.
        if not admits(self.authority.worlds, self.world):
            raise NotFound("world", self.world)
        if self.is_limited and isinstance(self.documents, Unlimited):
            raise ValueError("the scope of a limited audience must list its documents")

    @cached_property
    def is_limited(self) -> bool:
        """Whether the caller sees only the documents for an audience."""
        return not isinstance(self.authority.audience, Unlimited)

    def for_everyone(self) -> Scope:
        """Return this scope with all documents, for reading values that all callers share."""
        if not self.is_limited:
            return self
        authority = replace(self.authority, audience=UNLIMITED)
        return replace(self, authority=authority, documents=UNLIMITED)

    @cached_property
    def tenant(self) -> str:
        """Tenant key of the points of this world and generation in the index."""
        return f"{self.world}.{self.generation.number}"

    @cached_property
    def profile(self) -> EmbeddingProfile:
        return self.generation.profile

    def narrow(
        self,
        *,
        documents: Iterable[int] | None = None,
        chapter: str | None = None,
        section: str | None = None,
    ) -> Scope:
        """Return this scope, limited to documents, and to a chapter and section by `fold_name`."""
        return replace(
            self,
            documents=self.documents if documents is None else narrowed(self.documents, documents),
            chapter=self.chapter if chapter is None else fold_name(chapter),
            section=self.section if section is None else fold_name(section),
        )

    @cached_property
    def names_place(self) -> bool:
        """Whether the scope is limited to a chapter or a section."""
        return self.chapter is not None or self.section is not None

    def covers(self, place: NamedPlace) -> bool:
        """Return whether a place is inside the chapter and section of the scope."""
        return self.chapter in (None, fold_name(place.chapter)) and self.section in (
            None,
            fold_name(place.section),
        )

    def for_reader(self, document: int, revision: int, position: int) -> Scope:
        """Return this scope, limited to the text that a reader at `position` has read."""
        bound = position if self.position is None else min(position, self.position)
        return replace(self.narrow(documents=[document]), position=bound, revision=revision)


# Shared by threads: an `lru_cache`, which locks, of scopes that nothing changes.
@lru_cache(maxsize=256)
def unlimited_scope(authority: Authority, world: WorldId, generation: Generation) -> Scope:
    """Return the scope of all documents of a world; requests share it and its properties."""
    return Scope(authority, world, generation)
