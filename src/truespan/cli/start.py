"""Commands of the panel "Start": create a library, ingest documents, show status and settings."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from truespan.cli.app import complete, say
from truespan.cli.commands import Argument, Option
from truespan.cli.options import (
    AnyWorld,
    AudienceRequired,
    Folder,
    Json,
    NewAudience,
    NoFollow,
    RunHere,
    Where,
    WorldName,
    describe,
    find_world,
    folder_of,
    metadata_filter,
    metadata_from,
    named_options,
    open_library,
)
from truespan.cli.terminal import echo, new_file
from truespan.errors import InvalidArgument, LibraryNotFound, PromotionRefused, SourceRefused
from truespan.tables import member
from truespan.types.arguments import DOCUMENT_ARGUMENTS, MAX_FRESHNESS_SECONDS
from truespan.wire.serialize import EXIT_PARTIAL, EXIT_REFUSED, document_data, record_data, to_json

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World
    from truespan.ingest.report import IngestReport
    from truespan.types.document import Document


def init(
    library: Folder = None,
    world: Annotated[str | None, Option("--world", "-w", help="Create this world too.")] = None,
    defaults: Annotated[
        str | None, Option(help="The defaults of the new world: 'recommended' or 'contract'.")
    ] = None,
    model: Annotated[
        str | None,
        Option(
            help="Embedding model of the new world, by default called 'main': 'local', "
            "'local-gpu', 'multilingual' or a model of truespan.toml."
        ),
    ] = None,
    sign: Annotated[bool, Option(help="Create the key that signs receipts, too.")] = False,
    audience: NewAudience = None,
    audience_required: AudienceRequired = None,
    as_json: Json = False,
) -> None:
    """Create a library, and a world in it. Existing ones are left unchanged."""
    with open_library(library, create=True) as opened:
        known = {entry.name for entry in opened.worlds()}
        if world is not None or model is not None:
            # A set-up script may run twice.
            created = opened.world(world, create=True, defaults=defaults, model=model)
            if created.name not in known:
                created.set_defaults(audience=audience, audience_required=audience_required)
        if sign:
            opened.keys.create()
        names = [entry.name for entry in opened.worlds()]
    folder = str(folder_of(library).absolute())
    if as_json:
        echo(to_json({"library": folder, "worlds": names}))
        return
    hint = "none yet; 'truespan init --world NAME' creates one"
    worlds = ", ".join(names) or complete(hint)
    echo(f"Library: {folder}\nWorlds: {worlds}")


_PARSING = ("ocr", "hidden_sheets", "running_heads", "copies")
"""Arguments of `--option`."""


@dataclass(frozen=True)
class IngestOptions:
    """Options of the documents to ingest."""

    manifest: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["manifest"])] = None
    sitemap: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["sitemap"])] = None
    kind: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["kind"])] = None
    chunking: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["chunking"])] = None
    title: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["title"])] = None
    language: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["language"])] = None
    version: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["version"])] = None
    tags: Annotated[list[str] | None, describe(DOCUMENT_ARGUMENTS["tags"], "--tag")] = None
    audience: Annotated[list[str] | None, describe(DOCUMENT_ARGUMENTS["audience"])] = None
    metadata: Annotated[
        list[str] | None,
        describe(DOCUMENT_ARGUMENTS["metadata"], "--meta", note="Write key=value."),
    ] = None
    source_url: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["source_url"])] = None
    fields: Annotated[
        list[str] | None,
        describe(
            DOCUMENT_ARGUMENTS["fields"],
            "--field",
            note="Write text=COLUMN, title=COLUMN, id=COLUMN, metadata=COLUMN, and so on.",
        ),
    ] = None
    further: Annotated[
        list[str] | None,
        Option("--option", "-o", metavar="NAME=VALUE", help=f"Set {', '.join(_PARSING)}."),
    ] = None
    prune: Annotated[bool, describe(DOCUMENT_ARGUMENTS["prune"])] = False
    allow_empty: Annotated[bool, describe(DOCUMENT_ARGUMENTS["allow_empty"])] = False

    def arguments(self) -> dict[str, Any]:
        """Return the options as arguments of the library."""
        given = asdict(self) | {
            "metadata": metadata_from(self.metadata),
            "fields": _fields_from(self.fields),
            **named_options(self.further, _PARSING, ("copies",)),
        }
        del given["further"]
        return given


def ingest(
    source: IngestOptions,
    paths: Annotated[
        list[str] | None,
        Argument(help="Files, folders, patterns and addresses of pages.", metavar="PATH"),
    ] = None,
    world: WorldName = None,
    library: Folder = None,
    dry_run: Annotated[bool, Option(help="Show what would be done, and change nothing.")] = False,
    domain_key: Annotated[
        str | None,
        Option("--domain-key", "--domain", "-d", help="Use this domain; it selects the world."),
    ] = None,
    update_alias: Annotated[
        bool, Option(help="Build a new generation afterwards and use it.")
    ] = False,
    golden: Annotated[str | None, describe(DOCUMENT_ARGUMENTS["golden"])] = None,
    watch: Annotated[
        bool, Option(help="Ingest changes of folders until Ctrl-C; removes like --prune.")
    ] = False,
    jobs: Annotated[
        int | None, Option(help="Processes that prepare documents; default: one for each core.")
    ] = None,
    here: RunHere = False,
    no_follow: NoFollow = False,
    as_json: Json = False,
) -> int:
    """Add files, folders or the entries of a manifest to a world.

    If it is interrupted, run it again: it continues.
    """
    if watch and (
        source.manifest or source.sitemap or dry_run or update_alias or golden or no_follow or jobs
    ):
        raise InvalidArgument(
            "--watch cannot be combined with --manifest, --sitemap, --dry-run, --update-alias, "
            "--golden, --jobs or --no-follow."
        )
    options = source.arguments()
    if (
        paths
        and "-" in paths
        and (len(paths) > 1 or source.manifest or source.sitemap or watch or dry_run)
    ):
        raise InvalidArgument("Standard input (-) cannot be combined with other sources.")
    tell = (lambda _: None) if as_json else say
    # A named world cannot be in a library that does not exist.
    may_create = world is None and domain_key is None and not dry_run
    if may_create:
        _require_files(paths or [])
    with _open_or_create(library, tell) if may_create else open_library(library) as opened:
        is_first = may_create and not opened.worlds()
        known = [domain.key for domain in opened.domains()] if update_alias else [domain_key]
        # An unknown domain is created by pointing it to the new generation of the world.
        is_new = domain_key not in known
        create = None if may_create else False
        chosen = find_world(opened, world, None if is_new else domain_key, create=create)
        if is_first:
            tell(f"Created the world {chosen.name!r}.")
        elif may_create:
            tell(f"Into {chosen.name} in {folder_of(library).absolute()}.")
            _tell_of_other_folders(chosen, paths or (), tell)
        if paths == ["-"]:
            return print_report(_ingest_stdin(chosen, options), as_json)
        if dry_run:
            from truespan.cli.output.start import dry_run_data, show_dry_run

            plan = chosen.documents.plan(paths or (), **options)
            echo(to_json(dry_run_data(plan)) if as_json else show_dry_run(plan))
            return 0
        if watch:
            follow_folders = member("cli.follow_folders", "crawl")
            del options["manifest"], options["sitemap"]
            return follow_folders(chosen, paths or (), options, as_json=as_json)
        # An alias is not moved by a job, so a command that moves one does all of it.
        if opened.has_workers and not (here or update_alias):
            if jobs is not None:
                raise InvalidArgument(
                    "--jobs cannot be combined with workers: each has its own setting ingest_jobs.",
                    advice="Add --here to ingest in this process.",
                )
            from truespan.cli.follow import follow_ingest
            from truespan.types.job import IngestJob

            job = chosen.jobs.submit(IngestJob(paths or (), **options))
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
                    jobs=jobs,
                    on_progress=on_progress,
                    on_prune=None if as_json else announce_removal,
                )
        except PromotionRefused as refusal:
            if refusal.report is not None:
                print_report(cast("IngestReport", refusal.report), as_json)
            raise
    return print_report(report, as_json)


def _tell_of_other_folders(
    world: "World", paths: Sequence[str], tell: Callable[[str], None]
) -> None:
    """Say so if a world that was not named has files of a folder that is not ingested now."""
    from truespan.types.text import list_some

    folders = [path if path.is_dir() else path.parent for path in map(Path, paths)]
    given = [Path(os.path.abspath(folder)) for folder in folders]
    known = {Path(document.path).parent for document in world.documents.find().documents}
    others = sorted(
        str(folder)
        for folder in known
        if folder.is_absolute() and not any(folder.is_relative_to(own) for own in given)
    )
    if others:
        tell(f"It has files of {list_some(others, 2)} too; --world NAME chooses another world.")


def _require_files(paths: Sequence[str]) -> None:
    """Raise SourceRefused for a path that does not exist, before anything is created."""
    from truespan.types.source import display_path, is_page

    for path in paths:
        if path != "-" and not is_page(path) and not os.path.lexists(path):
            raise SourceRefused("source_missing", display_path(path), advice="Check the path.")


def _open_or_create(library: Path | None, tell: Callable[[str], None]) -> "Library":
    try:
        return open_library(library)
    except LibraryNotFound:
        opened = open_library(library, create=True)
    tell(f"Created the library {folder_of(library).absolute()}.")
    return opened


def _ingest_stdin(world: "World", options: dict[str, Any]) -> "IngestReport":
    """Ingest the text of standard input; its title is its id."""
    labels = (
        *("kind", "title", "language", "version", "tags", "metadata", "source_url", "chunking"),
        "audience",
    )
    given = {name: options[name] for name in labels}
    return world.add_text(sys.stdin.read(), id=options["title"], **given)


def _fields_from(assigned: list[str] | None) -> dict[str, Any] | None:
    """Return the mapping of records from options; None without any."""
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


def announce_removal(documents: "Sequence[Document]") -> None:
    for document in documents:
        echo(
            f"will be removed: {document.shown_path} (document {document.number}), its file is gone"
        )


def print_report(report: "IngestReport", as_json: bool) -> int:
    from truespan.cli.output.start import show_ingest

    echo(to_json(report) if as_json else show_ingest(report))
    if not report.failures:
        return 0
    return EXIT_PARTIAL if report.ingested or report.unchanged else EXIT_REFUSED


def status(
    world: AnyWorld = None,
    library: Folder = None,
    freshness: Annotated[
        bool, Option(help="Compare each source with the indexed revision.")
    ] = False,
    by: Annotated[
        list[str] | None,
        Option(help="Count the documents by this label or metadata key, or by 'all'."),
    ] = None,
    where: Where = None,
    labels: Annotated[
        list[str] | None,
        Option(
            "--as", help="List or count only what a caller with this label sees, or 'everyone'."
        ),
    ] = None,
    usage: Annotated[
        bool, Option(help="List the latest answered requests with their decisions and times.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the worlds of a library, or the documents of one world, with counts."""
    from truespan.cli.output.start import show_usage, show_world, show_worlds

    if freshness + usage + bool(by or labels) > 1:
        raise InvalidArgument("Choose one of --freshness, --usage, and --by or --as.")
    if where and not by:
        raise InvalidArgument("--where needs --by.")
    with open_library(library) as opened:
        if by or labels:
            _count_or_audit(find_world(opened, world), by, where, labels, as_json=as_json)
            return
        if usage:
            chosen = find_world(opened, world)
            records = chosen.usage()
            data = {"world": chosen.name, "records": [record_data(record) for record in records]}
            echo(to_json(data) if as_json else show_usage(records))
            return
        if world is not None:
            chosen = opened.world(world, create=False)
            numbers, documents = chosen.status(), chosen.documents.list()
            record = chosen.access.record()
            result: Any = {
                "world": record.name,
                "defaults": record.defaults,
                "reranker": opened.models.reranker,
                "status": numbers,
                "documents": [document_data(entry) for entry in documents],
            }
            states = chosen.documents.freshness(seconds=MAX_FRESHNESS_SECONDS) if freshness else []
            if freshness:
                result["freshness"] = states
            shown = show_world(record, numbers, documents, opened.models.reranker, states)
            echo(to_json(result) if as_json else shown)
            return
        listed = [(entry, opened.world(entry.id).status()) for entry in opened.worlds()]
        states = {
            entry.id: Counter(
                found.freshness.state
                for found in opened.world(entry.id).documents.freshness(
                    seconds=MAX_FRESHNESS_SECONDS
                )
            )
            for entry, _ in listed
            if freshness
        }
    worlds = [
        {"world": entry.name, "id": entry.id, "defaults": entry.defaults, "status": counts}
        | ({"freshness": states[entry.id]} if freshness else {})
        for entry, counts in listed
    ]
    say(to_json({"worlds": worlds}) if as_json else show_worlds(listed, states))


def _count_or_audit(
    world: "World",
    by: list[str] | None,
    where: list[str] | None,
    labels: list[str] | None,
    *,
    as_json: bool,
) -> None:
    """Print the counts by some keys, or the documents that a caller sees and by which labels."""
    from truespan.cli.output.documents import show_access, show_facets
    from truespan.types.document import DEFAULT_FACET_VALUES, MAX_FACET_VALUES

    if by:
        seen = world if labels is None else world.for_audience(labels)
        keys, limit = (by, MAX_FACET_VALUES) if by != ["all"] else (None, DEFAULT_FACET_VALUES)
        found = seen.documents.facets(keys, limit=limit, metadata=metadata_filter(where))
        echo(to_json(found) if as_json else show_facets(found))
        return
    entries = world.documents.audit_access(labels or ())
    total = len(world.documents.list())
    echo(
        to_json({"documents": entries, "total": total}) if as_json else show_access(entries, total)
    )


def config(
    name: Annotated[
        str | None, Argument(help="Show only this setting, with its meaning.", metavar="SETTING")
    ] = None,
    library: Folder = None,
    changed: Annotated[
        bool, Option(help="Show only settings that differ from their default.")
    ] = False,
    write: Annotated[
        bool, Option(help="Write a commented truespan.toml into the library's folder.")
    ] = False,
    world: Annotated[
        str | None,
        Option("--world", "-w", help="Show the defaults of this world; with the next, set them."),
    ] = None,
    defaults: Annotated[
        str | None, Option(help="Defaults of requests to a world: 'recommended' or 'contract'.")
    ] = None,
    audience: NewAudience = None,
    audience_required: AudienceRequired = None,
    as_json: Json = False,
) -> None:
    """Show every setting, its value and where it comes from, or the defaults of a world.

    Passwords and keys are not shown.
    """
    from truespan.cli.output.start import show_setting, show_settings
    from truespan.settings import FILE_NAME, explain_settings, settings_file
    from truespan.settings.tables import convert_setting

    chosen = {"audience": audience, "audience_required": audience_required}
    if (world, defaults, audience, audience_required) != (None, None, None, None):
        if name is not None or changed or write:
            raise InvalidArgument("The defaults of a world are not settings of the library.")
        with open_library(library) as opened:
            _configure_world(find_world(opened, world), defaults, chosen, as_json=as_json)
        return
    folder = folder_of(library)
    file = folder / FILE_NAME
    if write:
        if not folder.is_dir():
            raise LibraryNotFound(str(folder))
        with new_file(file) as output:
            output.write(settings_file().encode())
        echo(to_json({"written": str(file)}) if as_json else f"Wrote {file}.")
        return
    settings, explained = explain_settings(folder)
    if name is not None:
        wanted = name.removeprefix("TRUESPAN_").lower()
        explained = [entry for entry in explained if entry.name == wanted]
        if not explained:
            # It says which setting was probably meant.
            convert_setting(wanted, None, "this command")
    elif changed:
        explained = [entry for entry in explained if entry.source != "default"]
    keys = [{"provider": key.provider, "name": key.name} for key in settings.keys]
    if as_json:
        result = {"library": str(folder), "file": str(file) if file.exists() else None}
        echo(to_json(result | {"settings": explained, "keys": keys}))
    elif name is not None:
        echo(show_setting(explained[0]))
    else:
        from_file = str(file) if file.exists() else f"{file} (not there)"
        echo(show_settings(from_file, explained, keys))


def _configure_world(
    world: "World", defaults: str | None, audience: dict[str, Any], *, as_json: bool
) -> None:
    from truespan.cli.output.start import show_defaults

    if defaults is not None or any(value is not None for value in audience.values()):
        world.set_defaults(defaults, **audience)
    shown = world.name, world.defaults, world.documents.default_audience
    result = dict(zip(("world", "defaults", "audience"), shown, strict=True))
    echo(to_json(result) if as_json else show_defaults(*shown))
