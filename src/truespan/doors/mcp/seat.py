"""The place from which calls are made: one world under a narrow authority, or one reader of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from truespan.model.names import Stage

if TYPE_CHECKING:
    from truespan.engine.library import World
    from truespan.engine.reader import Reader


@dataclass(frozen=True, slots=True)
class Seat:
    """A world whose authority allows what the seat is for and nothing else."""

    world: World
    reader: str | None = None

    def subject(self, on_stage: Callable[[Stage], None] | None = None) -> Reader | World:
        """Return what the tools are given; `on_stage` hears which stage a call comes to."""
        from truespan.ports.watching import StageListener

        world = self.world if on_stage is None else self.world.watched(StageListener(on_stage))
        return world if self.reader is None else world.reader(self.reader)
