"""Access to one world with the permissions of an authority, for `World` and its collaborators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from truespan.engine.components import Components
from truespan.errors import InvalidArgument, NotAllowed, NotFound, TruespanError
from truespan.retrieval.pipeline import Pipeline, require_world, with_stable_snapshot
from truespan.types.scope import Authority, Generation, GenerationSelector, Scope, Verb
from truespan.types.scope import World as WorldRecord

T = TypeVar("T")


class WorldAccess(Struct, frozen=True, dict=True):
    """Access to a world. Each request reads the record of the world and checks the permissions."""

    components: Components
    authority: Authority
    world: str
    target: GenerationSelector = None
    """The generation that requests use: None for the default, a domain's key, or a number."""

    def shown_name(self) -> str:
        """Return the name of the world, or how it was named if it cannot be read."""
        with suppress(TruespanError):
            return self.record().name
        return self.world

    def record(self) -> WorldRecord:
        return require_world(self.components.store, self.authority, self.world, self.target)

    def with_stable_snapshot(self, read: Callable[[], T]) -> T:
        """Return the result of `read` from one state of the world; it may be called again."""
        store = self.components.store
        return with_stable_snapshot(store, self.authority, self.record(), lambda _: read())

    @cached_property
    def pipeline(self) -> Pipeline:
        """Retrieval pipeline for the targeted generation, without a trace."""
        return Pipeline(self.components, self.authority, self.world, self.target)

    def scope(self) -> Scope | None:
        """Return the scope of the whole world; None while it has no generation."""
        record = self.record()
        if record.generation is None:
            return None
        return self.components.store.catalogs.scope_of(self.authority, record, record.generation)

    def readable_scope(self) -> Scope | None:
        """Return the scope of the whole world; raises NotAllowed if the authority is a reader's."""
        scope = self.scope()
        if scope is not None and not self.authority.may(Verb.READ, scope.world):
            raise NotAllowed("read without a reader")
        return scope

    def whole_scope(self, action: str) -> Scope | None:
        """Return the scope of the whole world for an action that needs all its documents.

        Raises:
            NotAllowed: the authority is a reader's, or limited to an audience.
        """
        scope = self.readable_scope()
        if scope is not None and scope.is_limited:
            raise NotAllowed(action)
        return scope

    def require_writable(self) -> None:
        """Raise NotFound unless the authority may write to the world."""
        if not self.authority.may(Verb.WRITE, self.record().id):
            raise NotFound("world", self.world)

    def writable_scope(self) -> Scope:
        """Return the scope for writing with a model; an empty world gets its first generation.

        Raises NotFound without permission, ProfileMismatch if the model is not configured.
        """
        record, store = self.record(), self.components.store
        if not self.authority.may(Verb.WRITE, record.id):
            raise NotFound("world", self.world)
        if record.generation is None:
            profile = self.components.learn_profile()
            record = store.worlds.begin_generation(self.authority, record.id, profile)
        generation = record.generation
        if generation is None:
            raise NotFound("world", self.world)
        self.components.require_model(generation.profile)
        return Scope(self.authority, record.id, generation)

    def planned_scope(self) -> Scope:
        """Return the scope of the world; for an empty world, of its future first generation."""
        record = self.record()
        generation = record.generation or Generation(1, self.components.learn_profile())
        return self.components.store.catalogs.scope_of(self.authority, record, generation)

    def maintenance_scope(self) -> Scope:
        """Return the scope for maintenance, which needs the right to read and write everything."""
        self.require_writable()
        scope = self.readable_scope()
        if scope is None:
            raise InvalidArgument("The world is empty.", advice="Ingest a document first.")
        return scope

    def generations_scope(self) -> Scope | None:
        """Return the scope of the default generation, which only an administrator may change."""
        record = require_world(self.components.store, self.authority, self.world)
        if not self.authority.may(Verb.ADMINISTER, record.id):
            raise NotAllowed("change generations")
        generation = record.generation
        return Scope(self.authority, record.id, generation) if generation else None


class LibraryPart(Struct, frozen=True):
    """A part of the interface of a library."""

    _components: Components
    _authority: Authority


class WorldPart(Struct, frozen=True):
    """A part of the interface of a world. As text it names the world and nothing inside it."""

    _access: WorldAccess

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of world {self._access.shown_name()!r}>"
