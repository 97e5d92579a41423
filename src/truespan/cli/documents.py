"""Commands of the panel "Documents": show, label and delete documents, and their jobs."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import click

from truespan.cli.app import say
from truespan.cli.commands import Argument, CommandGroup, Option
from truespan.cli.options import (
    AsLabels,
    Confirmed,
    Folder,
    Json,
    NoErase,
    NoFollow,
    Place,
    RunHere,
    WorldName,
    find_world,
    metadata_from,
    open_library,
    resolve_document,
)
from truespan.cli.terminal import confirm, echo
from truespan.errors import InvalidArgument
from truespan.wire.serialize import EXIT_PARTIAL, chunk_data, document_data, record_data, to_json

if TYPE_CHECKING:
    from truespan.engine.world import World
    from truespan.extensions.quality.build import ReindexReport

jobs_group = CommandGroup(
    "jobs", help="Ingestion jobs: their state, and the outcome of each document."
)

JobId = Annotated[str, Argument(help="Id of the job.", metavar="JOB")]
_POLL_SECONDS = 0.5


def show(
    reference: Annotated[str, Argument(help="A document (number, id, file name) or chunk.")],
    place: Place,
    text: Annotated[bool, Option(help="Print the document's text.")] = False,
    chunks: Annotated[bool, Option(help="List its chunks: places, states and texts.")] = False,
    labels: AsLabels = None,
    as_json: Json = False,
) -> None:
    """Show a document or a chunk as the store holds it."""
    from uuid import UUID

    from truespan.cli.output.documents import show_chunk, show_chunks, show_document

    if text and chunks:
        raise InvalidArgument("--text cannot be combined with --chunks.")

    with place.open(labels=labels) as chosen:
        documents = chosen.documents
        try:
            is_chunk = str(UUID(reference)) == reference.lower()
        except ValueError:
            is_chunk = False
        if is_chunk:
            record = documents.chunk(reference)
            echo(to_json(chunk_data(record)) if as_json else show_chunk(record))
            return
        reference = resolve_document(chosen, reference)
        document = documents.get(reference)
        if text:
            whole = documents.text(reference)
            echo(
                to_json({"document": document_data(document), "text": whole}) if as_json else whole
            )
            return
        if chunks:
            page = documents.chunks(reference, limit=None)
            echo(to_json(record_data(page)) if as_json else show_chunks(page))
            return
        outline, metadata = documents.outline(reference), documents.metadata(reference)
        audit = documents.audit(reference)
    result = {
        "document": document_data(document),
        "outline": outline,
        "metadata": metadata,
        "audit": audit,
    }
    echo(to_json(result) if as_json else show_document(document, outline, metadata, audit))


def label(
    document: Annotated[str, Argument(help="A document: number, id or file name.")],
    place: Place,
    tag: Annotated[
        list[str] | None, Option(help="New tags, which replace the present ones; '' removes them.")
    ] = None,
    meta: Annotated[
        list[str] | None, Option(help="Add or replace metadata, key=value; 'key=' removes it.")
    ] = None,
    source_url: Annotated[str | None, Option(help="Where it comes from; '' removes it.")] = None,
    language: Annotated[str | None, Option(help="New language code.")] = None,
    version: Annotated[str | None, Option(help="New version label.")] = None,
    audience: Annotated[
        list[str] | None,
        Option(help="New labels of the callers who see it; '' shows it to the owner alone."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Change the labels of a document without its file; nothing is embedded."""
    from truespan.cli.output.documents import show_labels

    changes: dict[str, Any] = {"language": language, "version": version}
    changes |= {"tags": tag, "audience": audience}
    changes = {name: value for name, value in changes.items() if value is not None}
    changes |= {name: [] for name, value in changes.items() if value == [""]}
    removed = {text[:-1]: None for text in meta or () if text.endswith("=")}
    added = metadata_from([text for text in meta or () if not text.endswith("=")]) or {}
    if both := removed.keys() & added.keys():
        raise InvalidArgument(f"--meta sets and removes the key {min(both)!r}.")
    if removed or added:
        changes["metadata"] = {**removed, **added}
    if source_url is not None:
        changes["source_url"] = source_url or None
    if not changes:
        raise InvalidArgument(
            "There is nothing to change.",
            advice=(
                "Add --meta key=value, --tag, --audience, --source-url, --language or --version."
            ),
        )
    with place.open() as chosen:
        named = resolve_document(chosen, document)
        changed = chosen.documents.update(named, **changes)
    echo(to_json({"document": document_data(changed)}) if as_json else show_labels(changed))


def delete(
    world: WorldName = None,
    reference: Annotated[str | None, Argument(help="A document: number, id or file name.")] = None,
    library: Folder = None,
    whole: Annotated[bool, Option("--all", help="Delete the world itself.")] = False,
    yes: Confirmed = False,
    no_erase: NoErase = False,
    as_json: Json = False,
) -> None:
    """Delete a document or a world permanently: text, points, vectors, images and all files."""
    from truespan.cli.output.documents import show_receipt
    from truespan.cli.terminal import pluralize

    if whole == (reference is not None):
        raise InvalidArgument("Name a document, or pass --all for the whole world.")
    if whole and world is None:
        raise InvalidArgument("Name the world to delete.", advice="Add --world NAME.")
    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    deletes = yes or asks or not whole
    with open_library(library) as opened:
        chosen = find_world(opened, world)
        if reference is not None:
            reference = resolve_document(chosen, reference)
        status = chosen.status()
        counts = {"documents": status.documents, "chunks": status.chunks}
        has = (
            f"World {chosen.name!r} has {pluralize(status.documents, 'document')} with "
            f"{pluralize(status.chunks, 'chunk')}."
        )
        if asks:
            question = f"{has} Delete all of it?"
            if reference is not None:
                document = chosen.documents.get(reference)
                question = f"Delete document {document.number}, {document.name}?"
            if not confirm(question):
                echo("Nothing was deleted.")
                raise click.exceptions.Exit
        elif not deletes:
            preview = {"deleted": None, "would_delete": {"world": chosen.name, **counts}}
            text = f"{has} Nothing was deleted; add --yes to delete all of it."
            echo(to_json(preview) if as_json else text)
            return
        if reference is not None:
            deleted = chosen.documents.delete(reference, erase=not no_erase)
        else:
            deleted = opened.delete_world(chosen.id, erase=not no_erase)
    result = {"deleted": deleted.number, "doc_id": deleted.doc_id, "name": deleted.name}
    receipt = {"receipt": deleted.to_json()}
    say(to_json(result | receipt) if as_json else show_receipt(deleted))


@jobs_group.register("show")
def show_jobs(
    place: Place,
    job: Annotated[str | None, Argument(help="Show this one.", metavar="[JOB]")] = None,
    follow: Annotated[
        bool, Option(help="Show its progress until it ends, and exit with its code.")
    ] = False,
    as_json: Json = False,
) -> int:
    """List the jobs of a world, the latest first, or show one with its documents and its log."""
    from truespan.cli.output import documents as output

    if follow and job is None:
        raise InvalidArgument("--follow needs the id of a job.")
    with place.open() as chosen:
        jobs = chosen.jobs
        if job is None:
            found = jobs.list()
            data = {"jobs": [record_data(each) for each in found]}
            echo(to_json(data) if as_json else output.show_jobs(found))
            return 0
        if follow:
            return _follow(chosen, job, as_json=as_json)
        one, documents, lines = jobs.get(job), jobs.documents(job), jobs.lines(job)
    result = {
        "job": record_data(one),
        "documents": documents,
        "log": [record_data(line) for line in lines],
    }
    echo(to_json(result) if as_json else output.show_one_job(one, documents, lines))
    return 0


def _follow(world: "World", job: str, *, as_json: bool) -> int:
    from truespan.cli.follow import exit_code_of_job, report_failure
    from truespan.cli.output.documents import show_job_line

    shown = ""
    while not (found := world.jobs.get(job)).state.is_over:
        if not as_json and (line := show_job_line(found)) != shown:
            echo(line)
            shown = line
        time.sleep(_POLL_SECONDS)
    if as_json:
        echo(to_json({"job": record_data(found), "documents": world.jobs.documents(job)}))
    else:
        if (line := show_job_line(found)) != shown:
            echo(line)
        report_failure(world, found)
    return exit_code_of_job(world, found)


@jobs_group.register("cancel")
def cancel_job(job: JobId, place: Place, as_json: Json = False) -> None:
    """Stop a job before its next step. Its work is kept and it can be resumed."""
    from truespan.cli.output.documents import show_job_line
    from truespan.types.job import JobState

    with place.open() as chosen:
        jobs = chosen.jobs
        found = jobs.get(job)
        if found.state in (JobState.DONE, JobState.CANCELLED):
            outcome = "The job has already ended."
        else:
            found = jobs.cancel(job)
            outcome = "Cancelled." if found.state.is_over else "Stopping."
    echo(to_json({"job": record_data(found)}) if as_json else f"{outcome} {show_job_line(found)}")


@jobs_group.register("resume")
def resume_job(
    job: JobId,
    world: WorldName = None,
    library: Folder = None,
    here: RunHere = False,
    no_follow: NoFollow = False,
    as_json: Json = False,
) -> int:
    """Resume a job that was interrupted, cancelled or failed."""
    from truespan.cli.follow import follow_ingest, follow_maintenance, progress_bar
    from truespan.cli.start import announce_removal, print_report
    from truespan.engine.jobs import MAINTENANCE, REINDEX

    with open_library(library) as opened:
        chosen = find_world(opened, world)
        found = chosen.jobs.get(job)
        kind = found.kind
        if kind in MAINTENANCE:
            if here and opened.has_workers:
                raise InvalidArgument(
                    f"Only workers can resume a {kind} job.", advice="Leave --here out."
                )
            resumed = chosen.jobs.submit(found)
            # Without workers the job would stop when this process exits.
            leave = no_follow and opened.has_workers
            return follow_maintenance([(chosen, resumed)], as_json=as_json, leave=leave)
        if opened.has_workers and kind != REINDEX and not here:
            resumed = chosen.jobs.submit(found)
            return follow_ingest(chosen, resumed, as_json=as_json, leave=no_follow)
        with progress_bar(hidden=as_json) as on_progress:
            if kind == REINDEX:
                return print_reindex(chosen.generations.resume(job, on_progress), as_json)
            on_prune = None if as_json else announce_removal
            report = chosen.jobs.resume(job, on_progress=on_progress, on_prune=on_prune)
    return print_report(report, as_json)


def print_reindex(report: "ReindexReport", as_json: bool) -> int:
    """Print the report on a new generation, and return the exit code."""
    from truespan.cli.output.documents import show_reindex

    say(to_json(report) if as_json else show_reindex(report))
    return EXIT_PARTIAL if report.failures else 0
