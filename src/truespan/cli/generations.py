"""Commands of the panel "Generations": build, list, switch and remove generations; domains."""

from typing import TYPE_CHECKING, Annotated

from truespan.cli.advice import say
from truespan.cli.commands import Argument, Option
from truespan.cli.opening import open_library, open_world
from truespan.cli.options import Folder, Json, WorldName
from truespan.cli.terminal import echo
from truespan.wire.serialize import EXIT_PARTIAL, record_data, to_json

if TYPE_CHECKING:
    from truespan.ingest.indexing import ReindexReport

Number = Annotated[int, Argument(help="Number of the generation.", metavar="GENERATION")]
DomainKey = Annotated[
    str | None, Option("--domain", "-d", help="A domain instead of the world's default.")
]


def generations(world: WorldName = None, library: Folder = None, as_json: Json = False) -> None:
    """List the generations of a world with their models and aliases."""
    from truespan.cli.output.generations import show_generations

    with open_world(library, world) as chosen:
        records = chosen.generations.list()
    data = {"generations": [record_data(record) for record in records]}
    echo(to_json(data) if as_json else show_generations(records))


def reindex(
    world: WorldName = None,
    library: Folder = None,
    embedding: Annotated[
        str | None, Option(help="An embedding profile of truespan.toml; the default if left out.")
    ] = None,
    chunking: Annotated[
        str | None,
        Option(help="One chunking profile for all documents; default: that of each document."),
    ] = None,
    generation: Annotated[
        int | None,
        Option("--generation", "-g", help="Complete this generation instead."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Build a new generation next to the one in use. Resumes if interrupted."""
    from truespan.cli.follow import progress_bar

    with open_world(library, world) as chosen, progress_bar(hidden=as_json) as on_progress:
        report = chosen.generations.reindex(
            embedding=embedding, chunking=chunking, generation=generation, on_progress=on_progress
        )
    return print_reindex(report, as_json)


def print_reindex(report: "ReindexReport", as_json: bool) -> int:
    """Print the report on a new generation, and return the exit code."""
    from truespan.cli.output.generations import show_reindex

    say(to_json(report) if as_json else show_reindex(report))
    return EXIT_PARTIAL if report.failures else 0


def promote(
    generation: Number,
    world: WorldName = None,
    library: Folder = None,
    domain: DomainKey = None,
    golden: Annotated[
        str | None, Option(help="Golden queries; promoted only if it scores no worse.")
    ] = None,
    allowed_drop: Annotated[float, Option(help="Maximum drop of a metric.")] = 0.01,
    as_json: Json = False,
) -> None:
    """Put a generation into use if it is complete, verified and not worse than the current one."""
    from truespan.cli.output.generations import show_promotion

    with open_world(library, world) as chosen:
        done = chosen.generations.promote(
            generation, domain=domain, golden=golden, allowed_drop=allowed_drop
        )
    echo(to_json(done) if as_json else show_promotion(done))


def rollback(
    world: WorldName = None,
    library: Folder = None,
    domain: DomainKey = None,
    as_json: Json = False,
) -> None:
    """Go back to the previous generation."""
    from truespan.cli.output.generations import show_promotion

    with open_world(library, world) as chosen:
        done = chosen.generations.rollback(domain=domain)
    echo(to_json(done) if as_json else show_promotion(done))


def remove_generation(
    generation: Number,
    world: WorldName = None,
    library: Folder = None,
    as_json: Json = False,
) -> None:
    """Remove a generation that is not in use, with its points, chunks and vectors."""
    with open_world(library, world) as chosen:
        chosen.generations.remove(generation)
    echo(to_json({"removed": generation}) if as_json else f"Removed generation {generation}.")


def domains(
    library: Folder = None,
    remove: Annotated[str | None, Option(help="Remove this domain.")] = None,
    as_json: Json = False,
) -> None:
    """List the domains of a library, or remove one. `promote --domain` creates and moves them."""
    with open_library(library) as opened:
        if remove is not None:
            opened.domain(remove).generations.forget(remove)
        records = opened.domains()
    if as_json:
        echo(to_json({"domains": records}))
        return
    for record in records:
        echo(f"{record.key}: generation {record.generation} of {record.world_name!r}")
    if not records:
        say("No domains yet; 'truespan promote GENERATION --domain KEY' creates one.")
