"""A world in somebody's hands: which one, by whose authority, and what that reaches."""

from __future__ import annotations

from typing import Protocol

from truespan.engine.parts import Components
from truespan.errors import NotAllowed, ProfileMismatch, WorldNotFound
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.retrieval.pipeline import Pipeline
from truespan.retrieval.snapshot import require_world
from truespan.types.scope import Authority, Generation, GenerationSelector, Scope, Verb
from truespan.types.scope import World as WorldRecord


class Repairs(Protocol):
    """Whoever sees to what was found broken."""

    def submit(self, scope: Scope) -> None: ...


class HeldWorld:
    """One world of a library, and what its holder may touch of it."""

    def __init__(
        self,
        parts: Components,
        authority: Authority,
        repairs: Repairs,
        world_id: str,
        aim: GenerationSelector = None,
    ) -> None:
        self._parts = parts
        self._authority = authority
        self._repairs = repairs
        self.id = world_id
        self.aim: GenerationSelector = aim
        """Which generation is asked: the default one, a domain's, or one by its number."""

    @property
    def name(self) -> str:
        """Return the world's name."""
        return self._record().name

    @property
    def authority(self) -> Authority:
        """Return who is asking."""
        return self._authority

    def require_writable(self) -> None:
        """Refuse whoever may not write here, before anything is brought.

        Raises:
            WorldNotFound: as for a world that is not there.
        """
        if not self._authority.may(Verb.WRITE, self._record().id):
            raise WorldNotFound(self.id)

    def _pipeline(self, trace: RequestTrace = NULL_OBSERVER) -> Pipeline:
        deps = self._parts.retrieval_deps(self._repairs.submit, trace)
        return Pipeline(deps, self._authority, self.id, self.aim)

    def _record(self) -> WorldRecord:
        return require_world(self._parts.store, self._authority, self.id, self.aim)

    def _scope(self) -> Scope | None:
        """Return the scope of the whole world; None while it has no generation."""
        record = self._record()
        if record.generation is None:
            return None
        return Scope(self._authority, record.id, record.generation)

    def _readable(self) -> Scope | None:
        """Return the scope of the whole world for a caller who may read all of it."""
        scope = self._scope()
        if scope is not None and not self._authority.may(Verb.READ, scope.world):
            raise NotAllowed("read without a reader")
        return scope

    def _writing_scope(self) -> Scope:
        """Return the scope for writing, with the world's profile locked and equal to ours."""
        record = self._record()
        if not self._authority.may(Verb.WRITE, record.id):
            raise WorldNotFound(self.id)
        if record.generation is None:
            profile = self._parts.embedder.profile
            record = self._parts.store.begin_generation(self._authority, record.id, profile)
        generation = record.generation
        if generation is None:
            raise WorldNotFound(self.id)
        configured = self._parts.embedder_for(generation.profile).profile
        if generation.profile.id != configured.id:
            raise ProfileMismatch(str(generation.profile), str(configured))
        return Scope(self._authority, record.id, generation)

    def _planning_scope(self) -> Scope:
        """Return the scope of the world as it is, or as it would begin."""
        record = self._record()
        generation = record.generation or Generation(1, self._parts.embedder.profile)
        return Scope(self._authority, record.id, generation)
