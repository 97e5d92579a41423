"""Everything that can be asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from truespan.doors.http.call import Call
from truespan.doors.http.calls import asking, documents, generations, jobs, reading, system, worlds

CALLS: tuple[Call, ...] = (
    *worlds.CALLS,
    *documents.CALLS,
    *jobs.CALLS,
    *asking.CALLS,
    *reading.CALLS,
    *generations.CALLS,
    *system.CALLS,
)


def by_path(calls: Iterable[Call] = CALLS) -> dict[str, dict[str, Call]]:
    """Return the calls of each address by their methods."""
    found: dict[str, dict[str, Call]] = {}
    for call in calls:
        found.setdefault(call.path, {})[call.method] = call
    return found
