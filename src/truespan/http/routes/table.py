"""Everything that can be asked over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from truespan.http.call import Call
from truespan.http.routes import documents, generations, jobs, reading, system, worlds
from truespan.http.routes import questions as asking

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
