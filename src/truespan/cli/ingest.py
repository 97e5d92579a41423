"""Commands that carry documents in: ingest, and the jobs it runs as."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truespan.cli.app import (
    AsJson,
    Here,
    LibraryPath,
    MaybeWorld,
    NoFollow,
    WorldName,
    app,
    echo,
    named_world,
    open_at,
    require_target,
)
from truespan.errors import InvalidSettings
from truespan.serialize import EXIT_PARTIAL, EXIT_REFUSED, to_json

if TYPE_CHECKING:
    from truespan.ingest.job_log import IngestReport
    from truespan.library import Library
    from truespan.types.document import Document
    from truespan.world import World

jobs_app = typer.Typer(help="Ingestion jobs: how they stand, and what became of each document.")
app.add_typer(jobs_app, name="jobs")

JobId = Annotated[str, typer.Argument(help="Id of the job.", metavar="JOB")]
_POLL_SECONDS = 0.5


@app.command()
def ingest(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files, folders and patterns.", metavar="PATH...")
    ] = None,
    world: MaybeWorld = None,
    library: LibraryPath = None,
    manifest: Annotated[
        str | None, typer.Option(help="A JSONL manifest that names the documents instead.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="'document' or 'book'; by format if left out.")
    ] = None,
    chunking: Annotated[
        str | None,
        typer.Option(help="'window', 'sentences', 'tokens' or your own; by kind if left out."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title; that of the file if left out.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Language code; detected if left out.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Your label, '1.0' if left out.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="A tag; may be given several times.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and what it would cost.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents that are no longer there.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Let --prune empty a folder's documents.")
    ] = False,
    domain_key: Annotated[
        str | None, typer.Option("--domain-key", help="A domain; it chooses its world.")
    ] = None,
    update_alias: Annotated[
        bool,
        typer.Option(
            "--update-alias", help="Build a new generation afterwards and put it into use."
        ),
    ] = False,
    golden: Annotated[
        str | None, typer.Option(help="Golden queries that --update-alias must not find less of.")
    ] = None,
    here: Here = False,
    no_follow: NoFollow = False,
    as_json: AsJson = False,
) -> int:
    """Carry files, folders or what a manifest names into a world. Interrupted, it goes on."""
    asked: dict[str, Any] = {
        "manifest": manifest,
        "kind": kind,
        "chunking": chunking,
        "title": title,
        "language": language,
        "version": version,
        "tags": tag or None,
        "prune": prune,
        "allow_empty": allow_empty,
    }
    require_target(world, domain_key)
    with open_at(library) as opened:
        chosen = _target(opened, world, domain_key, update_alias=update_alias)
        if dry_run:
            from truespan.cli.output_ingest import dry_run_data, show_dry_run

            plan = chosen.plan_ingest(paths or (), **asked)
            echo(to_json(dry_run_data(plan)) if as_json else show_dry_run(plan))
            return 0
        # Moving an alias is no part of a job, so who asks for it stays with it.
        if opened.has_workers and not (here or update_alias):
            from truespan.cli.follow import follow_ingest

            job = chosen.submit_ingest(paths or (), **asked)
            return follow_ingest(chosen, job, as_json=as_json, leave=no_follow)
        from truespan.cli.follow import progress_bar

        with progress_bar(hidden=as_json) as on_progress:
            on_prune = None if as_json else _say_doomed
            report = chosen.ingest(
                paths or (),
                **asked,
                domain_key=domain_key,
                update_alias=update_alias,
                golden=golden,
                on_progress=on_progress,
                on_prune=on_prune,
            )
    return _finish(report, as_json)


def _target(opened: Library, world: str | None, domain: str | None, *, update_alias: bool) -> World:
    """Return the world that documents go into: the one named, or that of the domain."""
    if domain is None:
        return named_world(opened, world)
    known = any(one.key == domain for one in opened.domains())
    if update_alias and world is not None and not known:
        # It will be made by being moved to the new generation.
        return opened.world(world)
    return opened.domain(domain, world=world)


@jobs_app.callback(invoke_without_command=True)
def _bare(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise InvalidSettings(
            "Missing subcommand: list, show, follow, cancel or resume.",
            advice="See 'truespan jobs --help'.",
        )


@jobs_app.command("list")
def list_jobs(world: WorldName, library: LibraryPath = None, as_json: AsJson = False) -> None:
    """List the jobs of a world, the latest first."""
    from truespan.cli.output_ingest import show_jobs

    with open_at(library) as opened:
        jobs = opened.world(world).jobs.list()
    echo(to_json({"jobs": jobs}) if as_json else show_jobs(jobs))


@jobs_app.command("show")
def show_job(
    job: JobId, world: WorldName, library: LibraryPath = None, as_json: AsJson = False
) -> None:
    """Show one job: its state, its documents and the last lines of its log."""
    from truespan.cli.output_ingest import show_one_job

    with open_at(library) as opened:
        jobs = opened.world(world).jobs
        found, documents, lines = jobs.get(job), jobs.documents(job), jobs.lines(job)
    result = {"job": found, "documents": documents, "log": lines}
    echo(to_json(result) if as_json else show_one_job(found, documents, lines))


@jobs_app.command("follow")
def follow_job(job: JobId, world: WorldName, library: LibraryPath = None) -> int:
    """Show the progress of a job until it ends."""
    from truespan.cli.follow import exit_code_of_job, report_failure
    from truespan.cli.output_ingest import show_job_line

    with open_at(library) as opened:
        chosen, shown = opened.world(world), ""
        while True:
            found = chosen.jobs.get(job)
            line = show_job_line(found)
            if line != shown:
                echo(line)
                shown = line
            if found.state.is_over:
                report_failure(chosen, found)
                return exit_code_of_job(chosen, found)
            time.sleep(_POLL_SECONDS)


@jobs_app.command("cancel")
def cancel_job(
    job: JobId, world: WorldName, library: LibraryPath = None, as_json: AsJson = False
) -> None:
    """Stop a job before its next step. Its work is kept and it can be resumed."""
    from truespan.cli.output_ingest import show_job_line
    from truespan.types.job import JobState

    with open_at(library) as opened:
        jobs = opened.world(world).jobs
        over = jobs.get(job).state in (JobState.DONE, JobState.CANCELLED)
        found = jobs.get(job) if over else jobs.cancel(job)
    given_up = "Cancelled." if found.state.is_over else "Stopping."
    done = "The job has already ended." if over else given_up
    echo(to_json({"job": found}) if as_json else f"{done} {show_job_line(found)}")


@jobs_app.command("resume")
def resume_job(
    job: JobId,
    world: WorldName,
    library: LibraryPath = None,
    here: Here = False,
    no_follow: NoFollow = False,
    as_json: AsJson = False,
) -> int:
    """Resume a job that was interrupted, cancelled or failed."""
    from truespan.cli.follow import follow_ingest, follow_maintenance, progress_bar
    from truespan.cli.generations import finish_reindex
    from truespan.jobs.world_jobs import MAINTENANCE, REINDEX

    with open_at(library) as opened:
        chosen: World = opened.world(world)
        kind = chosen.jobs.get(job).kind
        if kind in MAINTENANCE:
            if here and opened.has_workers:
                raise InvalidSettings(
                    f"Only workers can resume a {kind} job.", advice="Leave --here out."
                )
            again = chosen.submit_resume(job)
            # Without workers the job would stop when this process exits.
            leave = no_follow and opened.has_workers
            return follow_maintenance([(chosen, again)], as_json=as_json, leave=leave)
        if opened.has_workers and kind != REINDEX and not here:
            return follow_ingest(
                chosen, chosen.submit_resume(job), as_json=as_json, leave=no_follow
            )
        with progress_bar(hidden=as_json) as on_progress:
            if kind == REINDEX:
                return finish_reindex(chosen.generations.resume(job, on_progress), as_json)
            on_prune = None if as_json else _say_doomed
            report = chosen.resume(job, on_progress=on_progress, on_prune=on_prune)
    return _finish(report, as_json)


def _say_doomed(documents: Sequence[Document]) -> None:
    for document in documents:
        echo(f"will be removed: {document.name} (document {document.number}), its file is gone")


def _finish(report: IngestReport, as_json: bool) -> int:
    from truespan.cli.output_ingest import show_ingest

    echo(to_json(report) if as_json else show_ingest(report))
    if not report.failures:
        return 0
    done = report.ingested or report.unchanged
    return EXIT_PARTIAL if done else EXIT_REFUSED
