"""Everything that can be asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from truespan.doors.http.call import Call
from truespan.doors.http.calls import asking, documents, generations, jobs, reading, system, worlds

TOPICS: dict[str, tuple[Call, ...]] = {
    "Worlds": worlds.CALLS,
    "Documents": documents.CALLS,
    "Jobs": jobs.CALLS,
    "Asking": asking.CALLS,
    "Reading": reading.CALLS,
    "Generations": generations.CALLS,
    "Server": system.CALLS,
}
"""The calls by what they are about."""
CALLS: tuple[Call, ...] = tuple(call for calls in TOPICS.values() for call in calls)


def by_path(calls: Iterable[Call] = CALLS) -> dict[str, dict[str, Call]]:
    """Return the calls of each address by their methods."""
    found: dict[str, dict[str, Call]] = {}
    for call in calls:
        found.setdefault(call.path, {})[call.method] = call
    return found
