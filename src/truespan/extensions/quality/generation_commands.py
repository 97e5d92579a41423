"""Commands of the panel "Generations": build, list, switch and remove generations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from truespan.cli.commands import Argument, Option
from truespan.cli.documents import print_reindex
from truespan.cli.options import Json, Place
from truespan.cli.terminal import echo, pluralize, table
from truespan.errors import InvalidArgument
from truespan.wire.serialize import record_data, to_json

if TYPE_CHECKING:
    from truespan.extensions.quality.generations import Promotion
    from truespan.types.document import GenerationRecord

DomainKey = Annotated[
    str | None, Option("--domain", "-d", help="A domain instead of the world's default.")
]
DomainToRemove = Annotated[
    str | None, Option(help="Remove this domain; its generation stays.", metavar="KEY")
]


def generations(
    place: Place,
    remove: Annotated[
        int | None,
        Option(help="Remove this one, which is not in use, with its points, chunks and vectors."),
    ] = None,
    remove_domain: DomainToRemove = None,
    as_json: Json = False,
) -> None:
    """List the generations of a world with their models and the domains that use them.

    `promote --domain` creates and moves domains.
    """
    if remove is not None and remove_domain is not None:
        raise InvalidArgument("--remove cannot be combined with --remove-domain.")
    with place.open(remove_domain) as chosen:
        if remove is not None:
            chosen.generations.remove(remove)
        if remove_domain is not None:
            chosen.generations.forget(remove_domain)
        records = chosen.generations.list()
    data = {"generations": [record_data(record) for record in records]}
    echo(to_json(data) if as_json else show_generations(records))


def reindex(
    place: Place,
    model: Annotated[
        str | None,
        Option(
            help="'local', 'local-gpu', 'multilingual' or a model of truespan.toml; "
            "default: the library's."
        ),
    ] = None,
    chunking: Annotated[
        str | None,
        Option(help="One chunking profile for all documents; default: each document's profile."),
    ] = None,
    generation: Annotated[
        int | None, Option("--generation", "-g", help="Complete this generation instead.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Build a new generation next to the one in use. Resumes if interrupted."""
    from truespan.cli.follow import progress_bar

    with place.open() as chosen, progress_bar(hidden=as_json) as on_progress:
        report = chosen.generations.reindex(
            model=model, chunking=chunking, generation=generation, on_progress=on_progress
        )
    return print_reindex(report, as_json)


def promote(
    place: Place,
    generation: Annotated[int | None, Argument(help="Number of the generation.")] = None,
    domain: DomainKey = None,
    back: Annotated[bool, Option(help="Go back to the generation used before.")] = False,
    golden: Annotated[
        str | None, Option(help="Golden queries; promoted only if it scores no worse.")
    ] = None,
    allowed_drop: Annotated[float, Option(help="Maximum drop of a metric.")] = 0.01,
    as_json: Json = False,
) -> None:
    """Put a generation into use if it is complete, verified and not worse than the current one."""
    if back and golden is not None:
        raise InvalidArgument("--back cannot be combined with --golden.")
    if back is (generation is not None):
        raise InvalidArgument("Name a generation, or pass --back.")
    with place.open() as chosen:
        if generation is None:
            done = chosen.generations.rollback(domain=domain)
        else:
            done = chosen.generations.promote(
                generation, domain=domain, golden=golden, allowed_drop=allowed_drop
            )
    echo(to_json(done) if as_json else show_promotion(done))


def show_generations(records: Sequence["GenerationRecord"]) -> str:
    """Show generations as a table, with a mark for those in use."""
    head = ("", "generation", "model", "chunking", "documents", "chunks", "state")
    rows: list[tuple[object, ...]] = [head]
    for record in records:
        generation = record.generation
        names = [*(["default"] if record.is_default else []), *record.domains]
        state = f"complete; used by {', '.join(names)}" if names else "complete"
        if not record.complete:
            counts = {"document": record.missing, "vector": record.pending}
            lacking = [pluralize(count, noun) for noun, count in counts.items() if count]
            state = f"incomplete: {', '.join(lacking)} missing"
        model = f"{generation.profile.provider}/{generation.profile.model}"
        chunking = generation.chunking.name if generation.chunking else "per document"
        mark, counts = "*" if names else "", (record.documents, record.chunks)
        rows.append((mark, generation.number, model, chunking, *counts, state))
    return "\n".join(table(rows))


def show_promotion(promotion: "Promotion") -> str:
    name = f"Domain {promotion.domain!r}" if promotion.domain else "The world"
    previous = promotion.previous
    before = f" It used {previous} before." if previous is not None else ""
    judged = " The golden queries passed." if promotion.verdict else ""
    return f"{name} now uses generation {promotion.generation}.{before}{judged}"
