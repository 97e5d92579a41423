"""The engine: a library and its worlds. What can be asked of one world is in `world`."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from truespan.errors import InvalidSettings, WorldNotFound
from truespan.model.scope import OWNER, Authority
from truespan.model.scope import World as WorldRecord
from truespan.parts import Parts
from truespan.upkeep.background import BackgroundRepairs
from truespan.upkeep.doctor import Plan
from truespan.world import OnProgress, World

__all__ = ["Library", "OnProgress", "World"]


class Library:
    """All that one installation holds. Close it, or use it in a `with` statement."""

    def __init__(self, parts: Parts, authority: Authority = OWNER) -> None:
        self._parts = parts
        self._authority = authority
        self._repairs = BackgroundRepairs(parts.store, parts.index)

    def create_world(self, name: str) -> World:
        """Make an empty world.

        Raises:
            WorldExists: the name is taken.
            InvalidSettings: the name is blank or too long.
        """
        if not isinstance(name, str) or not name.strip() or len(name) > 200:
            raise InvalidSettings("A world needs a name of 1 to 200 characters.")
        record = self._parts.store.create_world(self._authority, name.strip())
        return World(self._parts, self._authority, self._repairs, record.id)

    def world(self, reference: str, *, create: bool = False) -> World:
        """Return the world with this id or name; with `create`, make it if it is not there.

        Raises:
            WorldNotFound: it is absent, or not for this authority.
        """
        try:
            return World(self._parts, self._authority, self._repairs, self._record(reference).id)
        except WorldNotFound:
            if not create:
                raise
            return self.create_world(reference)

    def worlds(self) -> list[WorldRecord]:
        """Return what is known of every world, by name."""
        return self._parts.store.worlds(self._authority)

    def doctor(
        self,
        worlds: str | Iterable[str] | None = None,
        *,
        apply: bool = False,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Plan]:
        """Compare store and index of each world; with `apply`, make the index what the store says.

        Vectors are kept in the store, so this needs no provider. An index that cannot be read at
        all is shared by every world of its profile: then all of those are rebuilt.
        """
        chosen = [worlds] if isinstance(worlds, str) else worlds
        names = [world.name for world in self.worlds()] if chosen is None else list(chosen)
        plans = {name: self.world(name)._examine() for name in names}
        if apply:
            if any(plan.unreadable for plan in plans.values()):
                plans = {world.name: self.world(world.name)._examine() for world in self.worlds()}
            self._rebuild_unreadable(plans)
            for name, plan in plans.items():
                self.world(name)._apply(plan, on_progress)
        return plans

    def _rebuild_unreadable(self, plans: dict[str, Plan]) -> None:
        """Start the index of a profile anew.

        First every chunk it held is marked pending, in every world that shares it: no reader may
        take the empty index for an empty world.
        """
        reset: set[str] = set()
        for name, plan in plans.items():
            scope = self.world(name)._scope()
            if plan.unreadable and scope is not None and scope.profile.id not in reset:
                self._parts.store.forget_index(scope)
                self._parts.index.reset(scope)
                reset.add(scope.profile.id)

    def close(self) -> None:
        """Let go of everything; what was committed stays."""
        self._repairs.close()
        self._parts.parser.close()
        self._parts.index.close()
        self._parts.store.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _record(self, reference: str) -> WorldRecord:
        record = self._parts.store.find_world(self._authority, reference)
        if record is None:
            raise WorldNotFound(reference)
        return record
