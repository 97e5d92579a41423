"""`truespan doctor` and `truespan repair`: find what is wrong, plan repairs, apply them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truespan.cli.app import (
    AnyWorld,
    AsJson,
    Here,
    LibraryPath,
    NoFollow,
    app,
    chosen_worlds,
    echo,
    open_at,
)
from truespan.errors import InvalidConfiguration, InvalidSettings
from truespan.serialize import EXIT_UNHEALTHY, to_json

if TYPE_CHECKING:
    from truespan.library import Library
    from truespan.maintenance.doctor.plan import Plan


MOST_SAMPLES = 1_000_000


@app.command()
def doctor(
    world: AnyWorld = None,
    library: LibraryPath = None,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the plan.")] = False,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan-file", help="Write the plan to a file; with --apply, read it."),
    ] = None,
    embed_sample: Annotated[
        int | None,
        typer.Option(
            "--embed-sample",
            min=0,
            max=MOST_SAMPLES,
            help="Number of texts per generation to embed again and compare.",
        ),
    ] = None,
    self_test: Annotated[
        bool, typer.Option("--self-test/--no-self-test", help="Test the isolation between worlds.")
    ] = True,
    background: Annotated[
        bool, typer.Option("--background", help="Run as jobs on the workers, one per world.")
    ] = False,
    no_follow: NoFollow = False,
    as_json: AsJson = False,
) -> int:
    """Compare store and index, and show a plan of repairs. The store is the source of truth."""
    from truespan.cli.follow import progress_bar
    from truespan.cli.output_doctor import plan_members, show_plan, show_treatment, treated

    if apply and plan_file is not None and world is not None:
        raise InvalidSettings("A plan file names its worlds; leave --world out.")
    if background and plan_file is not None:
        raise InvalidSettings(
            "--plan-file cannot be combined with --background; see the log of the job."
        )
    if background:
        with open_at(library) as opened:
            return _in_background(
                opened, world, as_json=as_json, leave=no_follow,
                apply=apply, embed_sample=embed_sample or 0, self_test=self_test,
            )  # fmt: skip
    with open_at(library) as opened, progress_bar(hidden=as_json) as on_progress:
        if apply and plan_file is not None:
            plan = _read(plan_file)
        else:
            plan = opened.doctor(
                None if world is None else [opened.world(world).name],
                embed_sample=embed_sample,
                self_test=self_test,
                machine=True,
                on_progress=on_progress,
            )
        if plan_file is not None and not apply:
            _write(plan_file, plan)
        treatment = opened.apply_plan(plan, on_progress=on_progress) if apply else None
    if treatment is None:
        echo(to_json(plan_members(plan)) if as_json else show_plan(plan))
        return 0 if plan.healthy else EXIT_UNHEALTHY
    echo(to_json(treated(treatment)) if as_json else show_treatment(treatment))
    return 0 if treatment.left.healthy and not plan.problems else EXIT_UNHEALTHY


def _in_background(
    opened: Library,
    world: str | None,
    *,
    as_json: bool,
    leave: bool,
    apply: bool,
    embed_sample: int,
    self_test: bool,
) -> int:
    """Submit a doctor job for each world with documents, and follow the jobs."""
    from truespan.cli.follow import follow_maintenance

    if not opened.has_workers:
        raise InvalidConfiguration(
            "This library has no workers because its store is a file.",
            advice="Leave --background out.",
        )
    jobs = [
        (one, one.submit_doctor(apply=apply, embed_sample=embed_sample, self_test=self_test))
        for one in chosen_worlds(opened, world)
        if one.generations.list()
    ]
    return follow_maintenance(jobs, as_json=as_json, leave=leave)


def _write(path: Path, plan: Plan) -> None:
    from truespan.maintenance.doctor.plan import plan_to_json

    try:
        path.write_text(plan_to_json(plan), encoding="utf-8")
    except OSError as error:
        raise InvalidSettings(f"The plan cannot be written to {path}: {error.strerror}.") from None


def _read(path: Path) -> Plan:
    from truespan.maintenance.doctor.plan import plan_from_json

    try:
        return plan_from_json(path.read_bytes())
    except OSError as error:
        raise InvalidSettings(f"The plan file {path} cannot be read: {error.strerror}.") from None


@app.command()
def repair(
    world: AnyWorld = None,
    library: LibraryPath = None,
    here: Here = False,
    no_follow: NoFollow = False,
    as_json: AsJson = False,
) -> int:
    """Apply what retrieval found: delete stale points, restore text, embed what is pending."""
    from truespan.cli.output import show_repairs

    with open_at(library) as opened:
        chosen = chosen_worlds(opened, world)
        filled = [one for one in chosen if one.generations.list()]
        if filled and opened.has_workers and not here:
            from truespan.cli.follow import follow_maintenance

            jobs = [(one, one.submit_repair()) for one in filled]
            return follow_maintenance(jobs, as_json=as_json, leave=no_follow)
        reports = {one.name: one.repair() for one in chosen}
        # A deleted world cannot be repaired.
        opened.erase()
    echo(to_json(reports) if as_json else show_repairs(reports))
    return 0
