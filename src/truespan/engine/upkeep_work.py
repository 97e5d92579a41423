"""Doing upkeep that was written down as a job, and writing down with it what came of it."""

from __future__ import annotations

import json

from truespan.engine.checkup import Checkup
from truespan.engine.removal import remover
from truespan.engine.upkeep_orders import DOCTOR
from truespan.engine.world import World
from truespan.ingest.job_log import JobJournal
from truespan.maintenance.doctor.apply import last_line, plan_lines, treatment_lines
from truespan.maintenance.repair import RepairReport
from truespan.observer import RequestTrace
from truespan.types.job import Job, Phase


def do_upkeep(world: World, job: Job, journal: JobJournal, course: RequestTrace) -> None:
    """Do what a job of upkeep says that somebody begins with now."""
    if job.kind == DOCTOR:
        _examine(world, job, journal)
    else:
        _repair(world, journal, course)


def _repair(world: World, journal: JobJournal, course: RequestTrace) -> None:
    journal.enter(Phase.EMBEDDING)
    report = world._repaired_all(journal.progress, course)
    journal.line("info", _sentence(report))
    for where, code in report.erasures_waiting.items():
        journal.line("warning", f"not erased yet: {where} ({code})")


def _sentence(report: RepairReport) -> str:
    return (
        f"{report.deleted_points} points deleted, {report.restored_texts} texts restored, "
        f"{len(report.quarantined)} quarantined, {report.reembedded} points written."
    )


def _examine(world: World, job: Job, journal: JobJournal) -> None:
    journal.enter(Phase.READING)
    asked = json.loads(job.request)
    checkup = Checkup(world._parts, world.authority, journal.progress)
    plan = checkup.examine(
        [world.name], embed_sample=asked["embed_sample"], self_test=asked["self_test"]
    )
    apply, left = asked["apply"], plan
    lines = [*plan_lines(plan, to_be_mended=apply)]
    if apply:
        treatment = checkup.treat(plan)
        remover(world._parts).catch_up()
        lines += treatment_lines(treatment)
        left = treatment.left
    # All of it at the end: a visit that is begun with again tells nothing twice.
    for level, line in (*lines, last_line(left)):
        journal.line(level, line)
