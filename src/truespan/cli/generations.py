"""Commands for generations and the domains that name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from truespan.cli.app import AsJson, LibraryPath, WorldName, app, echo, open_at
from truespan.serialize import EXIT_PARTIAL, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from truespan.generations import Promotion
    from truespan.ingest.indexing import ReindexReport
    from truespan.types.document import DomainRecord, GenerationRecord

Number = Annotated[int, typer.Argument(help="Number of the generation.", metavar="GENERATION")]
DomainKey = Annotated[
    str | None, typer.Option("--domain", "-d", help="A domain instead of the world's default.")
]


@app.command()
def generations(world: WorldName, library: LibraryPath = None, as_json: AsJson = False) -> None:
    """List the generations of a world: what each was built with, and who is sent to it."""
    with open_at(library) as opened:
        records = opened.world(world).generations.list()
    echo(to_json({"generations": records}) if as_json else show_generations(records))


@app.command()
def reindex(
    world: WorldName,
    library: LibraryPath = None,
    embedding: Annotated[
        str | None,
        typer.Option(help="An embedding profile of truespan.toml; the default if left out."),
    ] = None,
    chunking: Annotated[
        str | None,
        typer.Option(
            help="One chunking profile for all documents; default: that of each document."
        ),
    ] = None,
    generation: Annotated[
        int | None, typer.Option("--generation", "-g", help="Complete this generation instead.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Build a new generation next to the one in use. Resumes if interrupted."""
    from truespan.cli.follow import progress_bar

    with open_at(library) as opened, progress_bar(hidden=as_json) as on_progress:
        report = opened.world(world).generations.reindex(
            embedding=embedding, chunking=chunking, generation=generation, on_progress=on_progress
        )
    return finish_reindex(report, as_json)


def finish_reindex(report: ReindexReport, as_json: bool) -> int:
    """Show what building a generation did, and return the exit code."""
    echo(to_json(report) if as_json else show_reindex(report))
    return EXIT_PARTIAL if report.failures else 0


@app.command()
def promote(
    generation: Number,
    world: WorldName,
    library: LibraryPath = None,
    domain: DomainKey = None,
    golden: Annotated[
        str | None, typer.Option(help="Golden queries on which it must not be worse.")
    ] = None,
    allowed_drop: Annotated[float, typer.Option(help="Largest allowed drop of a metric.")] = 0.01,
    as_json: AsJson = False,
) -> None:
    """Put a generation into use if it is complete, verified and not worse than the current one."""
    with open_at(library) as opened:
        done = opened.world(world).generations.promote(
            generation, domain=domain, golden=golden, allowed_drop=allowed_drop
        )
    echo(to_json(done) if as_json else show_promotion(done))


@app.command()
def rollback(
    world: WorldName, library: LibraryPath = None, domain: DomainKey = None, as_json: AsJson = False
) -> None:
    """Go back to the previous generation."""
    with open_at(library) as opened:
        done = opened.world(world).generations.rollback(domain=domain)
    echo(to_json(done) if as_json else show_promotion(done))


@app.command("remove-generation")
def remove_generation(
    generation: Number, world: WorldName, library: LibraryPath = None, as_json: AsJson = False
) -> None:
    """Remove a generation that is not in use, with its points, chunks and vectors."""
    with open_at(library) as opened:
        opened.world(world).generations.remove(generation)
    echo(to_json({"removed": generation}) if as_json else f"Removed generation {generation}.")


@app.command()
def domains(
    library: LibraryPath = None,
    remove: Annotated[str | None, typer.Option(help="Remove this domain.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the domains of a library, or remove one. `promote --domain` creates and moves them."""
    with open_at(library) as opened:
        if remove is not None:
            opened.domain(remove).generations.forget(remove)
        records = opened.domains()
    echo(to_json({"domains": records}) if as_json else show_domains(records))


def show_generations(records: Sequence[GenerationRecord]) -> str:
    """Return generations as a table for people."""
    from truespan.cli.output import table

    rows = [("", "generation", "model", "chunking", "documents", "chunks", "state")]
    for record in records:
        generation = record.generation
        names = [*(["default"] if record.is_default else []), *record.domains]
        rows.append(
            (
                "*" if names else "",
                str(generation.number),
                f"{generation.profile.provider}/{generation.profile.model}",
                generation.chunking.name if generation.chunking else "per document",
                str(record.documents),
                str(record.chunks),
                _state(record, names),
            )
        )
    return "\n".join(table(rows))


def _state(record: GenerationRecord, names: Sequence[str]) -> str:
    if not record.complete:
        return f"incomplete: {record.missing} documents, {record.pending} vectors missing"
    return f"complete; used by {', '.join(names)}" if names else "complete"


def show_reindex(report: ReindexReport) -> str:
    """Return what building a generation did, for people."""
    from truespan.cli.output import pluralize

    lines = [
        f"Generation {report.generation}: {pluralize(report.documents, 'document')}, "
        f"{pluralize(report.chunks, 'chunk')} written; "
        f"{pluralize(report.embedded, 'text')} embedded, "
        f"{pluralize(report.reused, 'vector')} reused."
    ]
    lines += [f"  not built: {one.name}: {one.message}" for one in report.failures]
    lines += [f"  note: {one}" for one in report.warnings]
    if not report.failures:
        lines.append(f"'truespan promote {report.generation}' puts it into use.")
    return "\n".join(lines)


def show_promotion(done: Promotion) -> str:
    """Return who is sent where now, for people."""
    name = f"Domain {done.domain!r}" if done.domain else "The world"
    before = f" It used {done.previous} before." if done.previous is not None else ""
    judged = " The golden queries passed." if done.verdict else ""
    return f"{name} now uses generation {done.generation}.{before}{judged}"


def show_domains(records: Sequence[DomainRecord]) -> str:
    """Return domains for people."""
    if not records:
        return "No domains yet; 'truespan promote GENERATION --domain KEY' creates one."
    return "\n".join(
        f"{one.key}: generation {one.generation} of {one.world_name!r}" for one in records
    )
