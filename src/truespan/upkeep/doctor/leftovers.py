"""What no world claims: points of worlds that are gone, and collections of models nobody uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from truespan.errors import IndexRefused, IndexSchemaMismatch
from truespan.model.chunk import Holdings
from truespan.model.scope import Scope
from truespan.ports import VectorIndex
from truespan.upkeep.doctor.findings import Action, Finding
from truespan.upkeep.doctor.plan import Item

MOST_TENANTS = 20_000
"""As many are listed of a collection; what lies beyond is found once these are gone."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What an index holds, whoever it belongs to."""

    collections: Sequence[str]
    held: Mapping[str, Holdings]


def survey(index: VectorIndex, scopes: Sequence[Scope]) -> Survey:
    """Look through the collections of the profiles that some scopes have."""
    held: dict[str, Holdings] = {}
    for scope in scopes:
        if scope.profile.id not in held:
            try:
                held[scope.profile.id] = index.tenants(scope, limit=MOST_TENANTS)
            except (IndexRefused, IndexSchemaMismatch):
                # Told already, by whoever has to rebuild it.
                continue
    return Survey(index.collections(), held)


def unclaimed(seen: Survey, scopes: Sequence[Scope]) -> list[Item]:
    """Return what no generation claims of all that was seen.

    The scopes have to be read after the survey was made: a world that just begins must not be taken
    for one that is gone.
    """
    return list(_unclaimed(seen, scopes))


def _unclaimed(seen: Survey, scopes: Sequence[Scope]) -> Iterator[Item]:
    profiles = {scope.profile.id for scope in scopes}
    tenants = {scope.tenant for scope in scopes}
    for name in seen.collections:
        if name not in profiles:
            yield Item(Finding.UNUSED_COLLECTION, Action.DISCARD, name)
    for profile, held in seen.held.items():
        for tenant, points in held.tenants.items():
            if tenant not in tenants:
                subject = f"{profile} {tenant}"
                yield Item(Finding.UNKNOWN_WORLD, Action.DROP_WORLD, subject, count=points)
        without = held.points - sum(held.tenants.values())
        if without > 0 and len(held.tenants) < MOST_TENANTS:
            yield Item(Finding.UNCLAIMED_POINTS, Action.REBUILD, profile, count=without)
