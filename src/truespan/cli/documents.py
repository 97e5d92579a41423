"""Commands that create a library, ingest documents, show them, and follow their jobs."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Argument, Option

import truespan.cli.app as cli
from truespan.cli.advice import complete, say
from truespan.cli.terminal import echo
from truespan.errors import InvalidArgument, PromotionRefused, WorldExists
from truespan.wire.serialize import (
    EXIT_PARTIAL,
    EXIT_REFUSED,
    chunk_data,
    document_data,
    record_data,
    to_json,
)

if TYPE_CHECKING:
    from truespan.ingest.report import IngestReport
    from truespan.types.document import Document

jobs_app = cli.command_group(
    "jobs", "Ingestion jobs: their state, and the outcome of each document."
)

JobId = Annotated[str, Argument(help="Id of the job.", metavar="JOB")]
_POLL_SECONDS = 0.5


def init(
    library: cli.Folder = None,
    world: Annotated[str | None, Option("--world", "-w", help="Create this world too.")] = None,
    defaults: Annotated[
        str | None, Option(help="The defaults of the new world: 'recommended' or 'contract'.")
    ] = None,
    as_json: cli.Json = False,
) -> None:
    """Create a library, and a world in it. What exists already is left unchanged."""
    with cli.open_at(library, create=True) as opened:
        # A set-up script may run twice.
        with suppress(WorldExists):
            if world is not None:
                opened.create_world(world, defaults=defaults)
        names = [entry.name for entry in opened.worlds()]
    folder = str(cli.folder_of(library).absolute())
    if as_json:
        echo(to_json({"library": folder, "worlds": names}))
        return
    hint = "none yet; 'truespan init --world NAME' creates one"
    worlds = ", ".join(names) or complete(hint)
    echo(f"Library: {folder}\nWorlds: {worlds}")


def defaults(
    choice: Annotated[
        str | None,
        Argument(
            help="'recommended' or 'contract'; shows those in force if left out.",
            metavar="DEFAULTS",
        ),
    ] = None,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    as_json: cli.Json = False,
) -> None:
    """Show or choose what the requests of a world do unless they say otherwise."""
    from truespan.cli.output.results import show_defaults

    with cli.open_world(library, world) as chosen:
        if choice is not None:
            chosen.set_defaults(choice)
        name, found = chosen.name, chosen.defaults
    echo(to_json({"world": name, "defaults": found}) if as_json else show_defaults(name, found))


def show(
    reference: Annotated[str, Argument(help="A document (number, id, file name) or chunk.")],
    world: cli.WorldName = None,
    library: cli.Folder = None,
    text: Annotated[bool, Option("--text", help="Print the document's text.")] = False,
    chunks: Annotated[
        bool, Option("--chunks", help="List its chunks: places, states and texts.")
    ] = False,
    as_json: cli.Json = False,
) -> None:
    """Show a document or a chunk as the store holds it."""
    from uuid import UUID

    from truespan.cli.output.results import show_chunk, show_chunks, show_document

    if text and chunks:
        raise InvalidArgument("--text cannot be combined with --chunks.")

    with cli.open_world(library, world) as chosen:
        documents = chosen.documents
        try:
            is_chunk = str(UUID(reference)) == reference.lower()
        except ValueError:
            is_chunk = False
        if is_chunk:
            record = documents.chunk(reference)
            echo(to_json(chunk_data(record)) if as_json else show_chunk(record))
            return
        reference = cli.refer_to_document(chosen, reference)
        document = documents.get(reference)
        if text:
            whole = documents.text(reference)
            echo(
                to_json({"document": document_data(document), "text": whole}) if as_json else whole
            )
            return
        if chunks:
            page = documents.chunks(reference, count=None)
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


def status(
    world: cli.AnyWorld = None, library: cli.Folder = None, as_json: cli.Json = False
) -> None:
    """Show the worlds of a library, or the documents of one world, with counts."""
    from truespan.cli.output.results import show_world, show_worlds

    with cli.open_at(library) as opened:
        if world is not None:
            chosen = opened.world(world)
            numbers, documents = chosen.status(), chosen.documents.list()
            record = chosen.access.record()
            result: Any = {
                "world": record.name,
                "defaults": record.defaults,
                "reranker": opened.reranker,
                "status": numbers,
                "documents": [document_data(entry) for entry in documents],
            }
            shown = show_world(record, numbers, documents, opened.reranker)
            echo(to_json(result) if as_json else shown)
            return
        listed = [(entry, opened.world(entry.id).status()) for entry in opened.worlds()]
    worlds = [
        {"world": entry.name, "id": entry.id, "defaults": entry.defaults, "status": counts}
        for entry, counts in listed
    ]
    say(to_json({"worlds": worlds}) if as_json else show_worlds(listed))


def facets(
    keys: Annotated[
        list[str] | None,
        Argument(help="Labels and metadata keys to count; all if left out.", metavar="KEY"),
    ] = None,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    limit: Annotated[
        int, Option(help="How many values of each key are listed.", parser=cli.whole_number)
    ] = 10,
    language: Annotated[str | None, Option(help="Only this language.")] = None,
    version: Annotated[str | None, Option(help="Only this version label.")] = None,
    documents: cli.Documents = None,
    tags: cli.Tags = None,
    kinds: cli.Kinds = None,
    source: cli.SourcePattern = None,
    where: cli.Where = None,
    as_json: cli.Json = False,
) -> None:
    """Count the documents of a world by tag, language, version, kind and metadata."""
    from truespan.cli.output.results import show_facets

    filters = cli.filters_from(None, None, language, version, documents, tags, kinds, source, where)
    with cli.open_world(library, world) as chosen:
        found = chosen.facets(keys or None, limit=limit, **filters)
    echo(to_json(found) if as_json else show_facets(found))


def ingest(
    paths: Annotated[
        list[str] | None,
        Argument(help="Files, folders, patterns and addresses of pages.", metavar="PATH"),
    ] = None,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    manifest: Annotated[
        str | None, Option(help="A JSONL manifest that names the documents instead.")
    ] = None,
    sitemap: Annotated[
        str | None, Option(help="The address of a sitemap that lists pages instead.")
    ] = None,
    kind: Annotated[str | None, Option(help="'document' or 'book'; by format if left out.")] = None,
    chunking: Annotated[
        str | None, Option(help="'window', 'sentences', 'tokens' or your own; by kind if left out.")
    ] = None,
    title: Annotated[str | None, Option(help="Title; that of the file if left out.")] = None,
    language: Annotated[str | None, Option(help="Language code; detected if left out.")] = None,
    version: Annotated[str | None, Option(help="Your label, '1.0' if left out.")] = None,
    tag: Annotated[list[str] | None, Option(help="A tag; may be given several times.")] = None,
    meta: Annotated[
        list[str] | None, Option("--meta", help="Metadata as key=value; repeatable.")
    ] = None,
    source_url: Annotated[
        str | None, Option("--source-url", help="Where a single document comes from.")
    ] = None,
    field: Annotated[
        list[str] | None,
        Option(
            "--field",
            help="Make each record of a table or JSON file a document: text=COLUMN, title=COLUMN, "
            "id=COLUMN, metadata=COLUMN, and so on; repeatable.",
        ),
    ] = None,
    ocr: Annotated[
        bool | None,
        Option("--ocr/--no-ocr", help="Recognise the text of images and scanned pages."),
    ] = None,
    hidden_sheets: Annotated[
        bool | None,
        Option("--hidden-sheets/--no-hidden-sheets", help="Read hidden sheets of workbooks."),
    ] = None,
    mail_quotes: Annotated[
        bool | None,
        Option("--mail-quotes/--no-mail-quotes", help="Read what e-mails quote of others."),
    ] = None,
    copies: Annotated[
        str | None,
        Option(help="Files with the content of another document: keep, refuse or link."),
    ] = None,
    running_heads: Annotated[
        bool | None,
        Option("--running-heads/--no-running-heads", help="Keep running heads of PDF files."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Say what would be done and what it would cost.")
    ] = False,
    prune: Annotated[
        bool, Option("--prune", help="Remove documents that are no longer there.")
    ] = False,
    allow_empty: Annotated[
        bool, Option("--allow-empty", help="Let --prune empty a folder's documents.")
    ] = False,
    domain_key: Annotated[
        str | None,
        Option("--domain-key", "--domain", "-d", help="Use this domain; it selects the world."),
    ] = None,
    update_alias: Annotated[
        bool,
        Option("--update-alias", help="Build a new generation afterwards and put it into use."),
    ] = False,
    golden: Annotated[
        str | None, Option(help="Golden queries that --update-alias must not find less of.")
    ] = None,
    watch: Annotated[
        bool,
        Option("--watch", help="Keep folders in step until Ctrl-C; removes like --prune."),
    ] = False,
    here: cli.Here = False,
    no_follow: cli.NoFollow = False,
    as_json: cli.Json = False,
) -> int:
    """Add files, folders or the entries of a manifest to a world.

    If it is interrupted, run it again: it continues.
    """
    if watch and (manifest or sitemap or dry_run or update_alias or golden or no_follow):
        raise InvalidArgument(
            "--watch cannot be combined with --manifest, --sitemap, --dry-run, --update-alias, "
            "--golden or --no-follow."
        )
    options: dict[str, Any] = {
        "manifest": manifest,
        "sitemap": sitemap,
        "kind": kind,
        "chunking": chunking,
        "title": title,
        "language": language,
        "version": version,
        "tags": tag or None,
        "metadata": _metadata_from(meta),
        "source_url": source_url,
        "fields": _fields_from(field),
        "ocr": ocr,
        "hidden_sheets": hidden_sheets,
        "mail_quotes": mail_quotes,
        "running_heads": running_heads,
        "copies": copies,
        "prune": prune,
        "allow_empty": allow_empty,
    }
    with cli.open_at(library) as opened:
        known = [domain.key for domain in opened.domains()] if update_alias else [domain_key]
        # An unknown domain is created by pointing it to the new generation of the world.
        is_new = domain_key not in known
        chosen = cli.named_world(opened, world, None if is_new else domain_key)
        if dry_run:
            from truespan.cli.output.reports import dry_run_data, show_dry_run

            plan = chosen.plan_ingest(paths or (), **options)
            echo(to_json(dry_run_data(plan)) if as_json else show_dry_run(plan))
            return 0
        if watch:
            from truespan.cli.follow import follow_folders

            del options["manifest"], options["sitemap"]
            return follow_folders(chosen, paths or (), options, as_json=as_json)
        # An alias is not moved by a job, so a command that moves one does all of it.
        if opened.has_workers and not (here or update_alias):
            from truespan.cli.follow import follow_ingest

            job = chosen.submit_ingest(paths or (), **options)
            return follow_ingest(chosen, job, as_json=as_json, leave=no_follow)
        from truespan.cli.follow import progress_bar

        try:
            with progress_bar(hidden=as_json) as on_progress:
                report = chosen.ingest(
                    paths or (),
                    **options,
                    domain_key=domain_key,
                    update_alias=update_alias,
                    golden=golden,
                    on_progress=on_progress,
                    on_prune=None if as_json else _announce_removal,
                )
        except PromotionRefused as refusal:
            if refusal.report is not None:
                _print_report(cast("IngestReport", refusal.report), as_json)
            raise
    return _print_report(report, as_json)


def _fields_from(assigned: list[str] | None) -> dict[str, Any] | None:
    """Return the mapping of records that options declare; None without any."""
    fields: dict[str, Any] = {}
    for text in assigned or ():
        name, found, value = text.partition("=")
        if not found:
            raise InvalidArgument(f"--field {text!r} is not NAME=FIELD, as in text=body.")
        if name in ("text", "metadata"):
            fields.setdefault(name, []).append(value)
        elif name in fields:
            raise InvalidArgument(f"--field {name} is given twice.")
        else:
            fields[name] = value
    return fields or None


def _metadata_from(meta: list[str] | None) -> dict[str, Any] | None:
    """Return the metadata that options declare; None without any."""
    from truespan.core.fields import FieldError
    from truespan.types.metadata import parse_assignments

    try:
        return parse_assignments(meta) if meta else None
    except FieldError as error:
        raise InvalidArgument(f"--meta {error}.") from None


def label(
    document: Annotated[str, Argument(help="A document: number, id or file name.")],
    world: cli.WorldName = None,
    library: cli.Folder = None,
    tag: Annotated[
        list[str] | None, Option(help="The tags, instead of those it has; repeatable.")
    ] = None,
    no_tags: Annotated[bool, Option("--no-tags", help="Remove its tags.")] = False,
    meta: Annotated[
        list[str] | None, Option("--meta", help="Add or replace metadata, key=value; repeatable.")
    ] = None,
    remove_meta: Annotated[
        list[str] | None, Option("--remove-meta", help="Remove this key; repeatable.")
    ] = None,
    source_url: Annotated[
        str | None, Option("--source-url", help="Where it comes from; '' removes it.")
    ] = None,
    language: Annotated[str | None, Option(help="Language code.")] = None,
    version: Annotated[str | None, Option(help="Your label.")] = None,
    as_json: cli.Json = False,
) -> None:
    """Change the labels of a document without its file; nothing is embedded."""
    from truespan.cli.output.results import show_labels

    changes: dict[str, Any] = {"language": language, "version": version, "tags": tag}
    changes = {name: value for name, value in changes.items() if value is not None}
    if no_tags and tag:
        raise InvalidArgument("--no-tags cannot be combined with --tag.")
    if no_tags:
        changes["tags"] = None
    removed = dict.fromkeys(remove_meta or ())
    added = _metadata_from(meta) or {}
    if both := removed.keys() & added.keys():
        raise InvalidArgument(f"--remove-meta and --meta name the same key {min(both)!r}.")
    if removed or added:
        changes["metadata"] = {**removed, **added}
    if source_url is not None:
        changes["source_url"] = source_url or None
    if not changes:
        raise InvalidArgument(
            "There is nothing to change.",
            advice="Add --meta key=value, --tag, --source-url, --language or --version.",
        )
    with cli.open_world(library, world) as chosen:
        named = cli.refer_to_document(chosen, document)
        changed = chosen.documents.update(named, **changes)
    echo(to_json({"document": document_data(changed)}) if as_json else show_labels(changed))


def _announce_removal(documents: "Sequence[Document]") -> None:
    for document in documents:
        echo(
            f"will be removed: {document.shown_path} (document {document.number}), its file is gone"
        )


def _print_report(report: "IngestReport", as_json: bool) -> int:
    from truespan.cli.output.reports import show_ingest

    echo(to_json(report) if as_json else show_ingest(report))
    if not report.failures:
        return 0
    return EXIT_PARTIAL if report.ingested or report.unchanged else EXIT_REFUSED


@jobs_app.command("list")
def list_jobs(
    world: cli.WorldName = None, library: cli.Folder = None, as_json: cli.Json = False
) -> None:
    """List the jobs of a world, the latest first."""
    from truespan.cli.output.reports import show_jobs

    with cli.open_world(library, world) as chosen:
        jobs = chosen.jobs.list()
    echo(to_json({"jobs": [record_data(job) for job in jobs]}) if as_json else show_jobs(jobs))


@jobs_app.command("show")
def show_job(
    job: JobId, world: cli.WorldName = None, library: cli.Folder = None, as_json: cli.Json = False
) -> None:
    """Show one job: its state, its documents and the last lines of its log."""
    from truespan.cli.output.reports import show_one_job

    with cli.open_world(library, world) as chosen:
        jobs = chosen.jobs
        found, documents, lines = jobs.get(job), jobs.documents(job), jobs.lines(job)
    log = [record_data(line) for line in lines]
    result = {"job": record_data(found), "documents": documents, "log": log}
    echo(to_json(result) if as_json else show_one_job(found, documents, lines))


@jobs_app.command("follow")
def follow_job(
    job: JobId, world: cli.WorldName = None, library: cli.Folder = None, as_json: cli.Json = False
) -> int:
    """Show the progress of a job until it ends; as JSON, only what it came to."""
    from truespan.cli.follow import exit_code_of_job, report_failure
    from truespan.cli.output.reports import show_job_line

    shown = ""
    with cli.open_world(library, world) as chosen:
        while True:
            found = chosen.jobs.get(job)
            if not as_json and (line := show_job_line(found)) != shown:
                echo(line)
                shown = line
            if found.state.is_over:
                if as_json:
                    documents = chosen.jobs.documents(job)
                    echo(to_json({"job": record_data(found), "documents": documents}))
                else:
                    report_failure(chosen, found)
                return exit_code_of_job(chosen, found)
            time.sleep(_POLL_SECONDS)


@jobs_app.command("cancel")
def cancel_job(
    job: JobId, world: cli.WorldName = None, library: cli.Folder = None, as_json: cli.Json = False
) -> None:
    """Stop a job before its next step. Its work is kept and it can be resumed."""
    from truespan.cli.output.reports import show_job_line
    from truespan.types.job import JobState

    with cli.open_world(library, world) as chosen:
        jobs = chosen.jobs
        found = jobs.get(job)
        if found.state in (JobState.DONE, JobState.CANCELLED):
            outcome = "The job has already ended."
        else:
            found = jobs.cancel(job)
            outcome = "Cancelled." if found.state.is_over else "Stopping."
    echo(to_json({"job": record_data(found)}) if as_json else f"{outcome} {show_job_line(found)}")


@jobs_app.command("resume")
def resume_job(
    job: JobId,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    here: cli.Here = False,
    no_follow: cli.NoFollow = False,
    as_json: cli.Json = False,
) -> int:
    """Resume a job that was interrupted, cancelled or failed."""
    from truespan.cli.follow import follow_ingest, follow_maintenance, progress_bar
    from truespan.cli.generations import print_reindex
    from truespan.engine.jobs import MAINTENANCE, REINDEX

    with cli.open_at(library) as opened:
        chosen = opened.world(world)
        kind = chosen.jobs.get(job).kind
        if kind in MAINTENANCE:
            if here and opened.has_workers:
                raise InvalidArgument(
                    f"Only workers can resume a {kind} job.", advice="Leave --here out."
                )
            resumed = chosen.submit_resume(job)
            # Without workers the job would stop when this process exits.
            leave = no_follow and opened.has_workers
            return follow_maintenance([(chosen, resumed)], as_json=as_json, leave=leave)
        if opened.has_workers and kind != REINDEX and not here:
            resumed = chosen.submit_resume(job)
            return follow_ingest(chosen, resumed, as_json=as_json, leave=no_follow)
        with progress_bar(hidden=as_json) as on_progress:
            if kind == REINDEX:
                return print_reindex(chosen.generations.resume(job, on_progress), as_json)
            on_prune = None if as_json else _announce_removal
            report = chosen.resume(job, on_progress=on_progress, on_prune=on_prune)
    return _print_report(report, as_json)
