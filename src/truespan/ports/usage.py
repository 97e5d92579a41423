"""The usage log."""

from __future__ import annotations

from typing import Protocol

from truespan.model.ids import WorldId
from truespan.model.scope import Authority
from truespan.model.usage import Usage, UsageRecord


class UsageLog(Protocol):
    """What was asked and how it was decided; no text of documents and no answers."""

    def record_usage(
        self, authority: Authority, world: WorldId, usage: Usage, *, days: int, most: int
    ) -> str:
        """Write down one answered request and return its id.

        In the same commit, records older than `days` and those of the world beyond the `most`
        latest ones are forgotten. A world that was never built has a log, too, and so no scope is
        asked for.
        """
        ...

    def usage(self, authority: Authority, world: WorldId, *, limit: int) -> list[UsageRecord]:
        """Return the latest records of a world, the newest first."""
        ...

    def usage_record(self, authority: Authority, world: WorldId, reference: str) -> UsageRecord:
        """Return one record of a world.

        Raises:
            RecordNotFound: it is not there, or not any more.
        """
        ...
