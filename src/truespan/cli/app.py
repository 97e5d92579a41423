"""The command line application, and what its commands share: options, and which world is meant.

Modules with commands evaluate their annotations: Typer would otherwise evaluate each four times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import BadParameter, Exit, Option, Typer, echo

from truespan.strict_json import parse_number, parse_whole_number

if TYPE_CHECKING:
    from truespan.library import Library
    from truespan.types.request import FilterArguments, PassageArguments
    from truespan.world import World

app = Typer(
    name="truespan",
    help="Turn a library of documents into context that can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[
    Path | None, Option("--library", "-L", help="Folder of the library (or TRUESPAN_LIBRARY).")
]
WorldName = Annotated[
    str | None,
    Option(
        "--world",
        "-w",
        envvar="TRUESPAN_WORLD",
        help="Name or id of the world; default: the only one.",
    ),
]
AnyWorld = Annotated[
    str | None, Option("--world", "-w", help="Name or id of the world; default: all.")
]
Domain = Annotated[
    str | None, Option("--domain", "-d", help="Use this domain; it selects the world.")
]
SearchMode = Annotated[
    str | None,
    Option(
        "--mode",
        help="Search by words and similarity (auto), by similarity alone (meaning) or by words "
        "alone (words); default: that of the world.",
    ),
]
Rerank = Annotated[
    bool | None,
    Option(
        "--rerank/--no-rerank",
        help="Let the configured reranker order the first candidates; default: as the world does.",
    ),
]
Chapter = Annotated[str | None, Option("--chapter", help="Only this chapter.")]
Section = Annotated[str | None, Option("--section", help="Only this section.")]
Documents = Annotated[
    list[str] | None, Option("--document", help="Only this document; repeatable.")
]
Tags = Annotated[
    list[str] | None,
    Option("--tag", help="Only documents with this tag; repeat for all of several."),
]
Kinds = Annotated[
    list[str] | None, Option("--kind", help="Only documents of this kind; repeatable.")
]
SourcePattern = Annotated[
    str | None,
    Option("--source", help="Only documents whose path or URL matches, such as 'handbook/*'."),
]
Where = Annotated[
    list[str] | None,
    Option(
        "--where",
        help="Only documents with this metadata: 'team=a', 'year>=2020', 'owner' or '!owner'; "
        "repeatable.",
    ),
]
ContextOnly = Annotated[bool, Option("--context", help="Print only the context for a model.")]
Here = Annotated[bool, Option("--here", help="Run in this process even if there are workers.")]
NoFollow = Annotated[bool, Option("--no-follow", help="Exit once the job is queued.")]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]


def whole_number(text: str | int) -> int:
    """Return the whole number of an option. Python alone would also read `1_000` and `+5`."""
    number = text if isinstance(text, int) else parse_whole_number(text)
    if number is None:
        raise BadParameter(f"{str(text)[:40]!r} is no whole number in decimal digits, such as 5.")
    return number


def whole_number_between(least: int, most: int) -> Callable[[str | int], int]:
    """Return what reads a whole number within bounds."""

    def read(text: str | int) -> int:
        number = whole_number(text)
        if not least <= number <= most:
            raise BadParameter(f"{number} is not in the range from {least} to {most}.")
        return number

    return read


Neighbours = Annotated[
    int,
    Option(
        help="How many sentences before and after each passage to add, if they fit; 0 to 10.",
        parser=whole_number,
    ),
]
Granularity = Annotated[
    str, Option(help="Show whole passages (passage), or only their best sentences (sentence).")
]
MaxTokens = Annotated[
    int | None, Option(help="The token budget; default: 4000.", parser=whole_number)
]
Boilerplate = Annotated[
    bool | None,
    Option(
        "--include-boilerplate/--boilerplate-last",
        help="Rank licences, lists of chapters and page numbers like other text, or after it; "
        "default: that of the world.",
    ),
]


def decimal_number(text: str | float) -> float:
    """Return the number of an option; `nan` and `inf` are none."""
    number = parse_number(text) if isinstance(text, str) else text
    if number is None:
        raise BadParameter(f"{str(text)[:40]!r} is no number in decimal digits, such as 0.5.")
    return number


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from truespan import __version__

        echo(__version__)
        raise Exit


def folder_of(library: Path | None) -> Path:
    """Return the folder of the library that a command means."""
    from truespan.settings import find_library

    return library or find_library()


def new_folder_of(library: Path | None) -> Path:
    """Return the folder for a library that a command creates from a backup or another library."""
    from truespan.settings import default_library

    return library or default_library()


def open_at(library: Path | None, *, create: bool = False) -> Library:
    import truespan

    return truespan.open(folder_of(library), create=create)


def named_world(opened: Library, world: str | None, domain: str | None) -> World:
    """Return the world that a command means: by its name, by a domain's key, or the only one."""
    return opened.world(world) if domain is None else opened.domain(domain, world=world)


@contextmanager
def open_world(
    library: Path | None, world: str | None, domain: str | None = None
) -> Iterator[World]:
    """Open a library and give the world that a command means."""
    with open_at(library) as opened:
        yield named_world(opened, world, domain)


def chosen_worlds(library: Library, world: str | None) -> list[World]:
    """Return the world that is named, or all."""
    names = [entry.id for entry in library.worlds()] if world is None else [world]
    return [library.world(name) for name in names]


def options_from(
    neighbours: int, granularity: str, max_tokens: int | None, include_boilerplate: bool | None
) -> PassageArguments:
    """Return the options of passages as the library takes them."""
    return {
        "neighbours": neighbours,
        "granularity": granularity,
        "max_tokens": max_tokens,
        "include_boilerplate": include_boilerplate,
    }


def filters_from(
    chapter: str | None,
    section: str | None,
    language: str | None,
    version: str | None,
    documents: list[str] | None,
    tags: list[str] | None,
    kinds: list[str] | None,
    source: str | None,
    where: list[str] | None,
) -> FilterArguments:
    """Return the filters that options give, as the library takes them; 'any' restricts nothing."""
    from truespan.errors import InvalidSettings
    from truespan.types.fields import FieldError
    from truespan.types.metadata import parse_comparisons

    filters: FilterArguments = {
        "chapter_filter": chapter,
        "section_filter": section,
        "documents": documents or None,
        "tags": tags or (),
        "kinds": kinds or (),
        "source_pattern": source,
    }
    try:
        filters["metadata_filter"] = parse_comparisons(where or [])
    except FieldError as error:
        raise InvalidSettings(f"--where {error}.") from None
    if language is not None:
        filters["language_constraint"] = None if language == "any" else language
    if version is not None:
        filters["version_constraint"] = None if version == "any" else version
    return filters
