"""Orders for upkeep: what is written down as a job of its own, by whom, and how urgent it is."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from truespan.engine.generations import KIND as REINDEX
from truespan.engine.parts import Components
from truespan.errors import TruespanError
from truespan.maintenance.repair import watched_repairs
from truespan.types.job import Job, JobOrder, JobState, Urgency
from truespan.types.scope import OWNER, Scope
from truespan.types.telemetry import Request

REPAIR = "repair"
DOCTOR = "doctor"
UPKEEP = frozenset({REPAIR, DOCTOR})
"""Kinds of jobs that mend what is there, and bring nothing new."""

MOST_AT_A_LOOK = 20
"""Doctor's visits that are ordered at a time: those of many worlds are spread over many looks."""
FORGOTTEN_SECONDS = 3600.0
"""Repairs that nobody did are ordered anew, and no oftener than that."""

_URGENCIES = {REINDEX: Urgency.REINDEX, REPAIR: Urgency.UPKEEP, DOCTOR: Urgency.UPKEEP}

_log = logging.getLogger("truespan.jobs")


def urgency_of(kind: str) -> Urgency:
    """Return how urgent jobs of a kind are: what brings documents goes first, upkeep last."""
    return _URGENCIES.get(kind, Urgency.INGEST)


def order_upkeep(
    parts: Components, scope: Scope, kind: str, request: str = "{}", *, since: float | None = None
) -> Job:
    """Have upkeep done in the background, unless a job for the same waits; return the job.

    Raises:
        Overloaded: too many jobs wait already.
    """
    parts.queue.require_room()
    job = parts.store.queue_job_once(scope, kind, request, parts.keeper, since=since)
    if job.state is JobState.QUEUED:
        parts.queue.submit(JobOrder(scope.world, job.id, urgency_of(kind)))
    return job


def doctor_request(*, apply: bool, embed_sample: int, self_test: bool) -> str:
    """Return what a doctor's visit is to do, as it is written down."""
    asked = {"apply": apply, "embed_sample": embed_sample, "self_test": self_test}
    return json.dumps(asked, sort_keys=True)


def repairing(parts: Components) -> Callable[[Scope], object]:
    """Return what is done, behind its back, about the flaws that a search has written down.

    Where there are workers one of them does it; who searched only gives the order.
    """

    def order(scope: Scope) -> None:
        order_upkeep(parts, Scope(OWNER, scope.world, scope.generation), REPAIR)

    def repair(scope: Scope) -> None:
        with parts.watch.request(Request.REPAIR) as course:
            watched_repairs(parts.store, parts.index, scope, course)

    return repair if parts.queue.holder is None else order


def order_what_is_due(parts: Components, scopes: Iterable[Scope]) -> None:
    """Have repairs done whose order was never given, and the doctor look where it is time.

    Of several processes that do this at once, one gives each order.
    """
    now, ordered = parts.clock.now(), 0
    for scope in scopes:
        try:
            if _awaits_repair(parts, scope):
                order_upkeep(parts, scope, REPAIR, since=now - FORGOTTEN_SECONDS)
            if parts.doctor_hours and ordered < MOST_AT_A_LOOK:
                ordered += _order_doctor(parts, scope, now - parts.doctor_hours * 3600.0)
        except TruespanError as error:
            # One world that is gone by now keeps no other from being looked at.
            _log.warning("Upkeep of a world was not ordered: %s.", error.code)


def _awaits_repair(parts: Components, scope: Scope) -> bool:
    """Say whether a search of any generation has found something that is not mended."""
    return any(
        parts.store.repairs(replace(scope, generation=kept.generation))
        for kept in parts.store.kept_generations(scope)
    )


def _order_doctor(parts: Components, scope: Scope, since: float) -> bool:
    request = doctor_request(apply=False, embed_sample=0, self_test=False)
    job = order_upkeep(parts, scope, DOCTOR, request, since=since)
    return job.state is JobState.QUEUED
