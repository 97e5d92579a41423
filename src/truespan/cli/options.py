"""Options that several commands share, and the library, world and documents that they name.

A dataclass of options stands for all of them in a command; see `commands`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click

from truespan.cli.commands import Argument, Option
from truespan.errors import InvalidArgument, TruespanError
from truespan.types.arguments import (
    DEFAULT_LANGUAGE,
    DEFAULT_VERSION,
    FILTERS,
    QUERY_ARGUMENTS,
    WORLD_ARGUMENTS,
)
from truespan.types.arguments import Argument as ArgumentRow

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World
    from truespan.types.answer import Answer
    from truespan.types.bundle import ContextBundle, SearchResult
    from truespan.types.request import FilterArguments

CHOSEN_WORLD: ContextVar[str | None] = ContextVar("chosen_world", default=None)
"""The name of the world that the running command uses, once it is known."""


def folder_of(library: Path | None) -> Path:
    """Return the folder of a command's library."""
    from truespan.settings import find_library

    return library or find_library()


def new_folder_of(library: Path | None) -> Path:
    """Return the folder for a library that a command creates from a backup or another library."""
    from truespan.settings import default_library

    return library or default_library()


def open_library(library: Path | None, *, create: bool = False) -> "Library":
    """Open the library of a command."""
    import truespan

    return truespan.open(folder_of(library), create=create)


def find_world(
    library: "Library",
    world: str | None,
    domain: str | None = None,
    generation: int | None = None,
    *,
    create: bool | None = False,
    labels: list[str] | None = None,
) -> "World":
    """Return the world of a command: by its name, by a domain's key, or the only world.

    With `labels` it is the world as a caller with these labels sees it.
    """
    if domain is None:
        found = library.world(world, generation=generation, create=create)
    elif generation is None:
        found = library.domain(domain, world=world)
    else:
        raise InvalidArgument("Name a generation or a domain, not both.")
    CHOSEN_WORLD.set(found.name)
    return found if labels is None else found.for_audience(labels)


def find_worlds(library: "Library", world: str | None) -> "list[World]":
    """Return the named world, or all worlds."""
    names = [entry.id for entry in library.worlds()] if world is None else [world]
    return [library.world(name) for name in names]


def resolve_document(world: "World", reference: str) -> str:
    """Return a reference that names the same document in every interface.

    On this machine a document may also be named by the absolute path of its file, or by a path from
    the current folder that begins with a dot.
    """
    if not reference.startswith(("/", "./", "../")):
        return reference
    path = os.path.abspath(reference)
    found = [document.doc_id for document in world.documents.list() if document.path == path]
    return found[0] if len(found) == 1 else reference


def complete_world(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of worlds that begin with a text, for the completion of a shell."""
    try:
        with open_library(ctx.params.get("library")) as library:
            names = [world.name for world in library.worlds()]
    except TruespanError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def describe(row: ArgumentRow, *names: str, note: str = "") -> Option:
    """Return the option for an argument of the library, with a note on the command line."""
    return Option(*names, help=f"{row.description} {note}".rstrip())


Folder = Annotated[
    Path | None, Option("--library", "-L", help="Folder of the library (or TRUESPAN_LIBRARY).")
]
WorldName = Annotated[
    str | None,
    Option(
        "--world",
        "-w",
        envvar="TRUESPAN_WORLD",
        shell_complete=complete_world,
        help="Name or id of the world; default: the only one.",
    ),
]
AnyWorld = Annotated[
    str | None, Option("--world", "-w", help="Name or id of the world; default: all.")
]
Domain = Annotated[
    str | None, Option("--domain", "-d", help="Use this domain; it selects the world.")
]
GenerationNumber = Annotated[
    int | None, Option("--generation", "-g", help="Use this generation, not the default.")
]
AsLabels = Annotated[
    list[str] | None,
    Option("--as", help="Show what a caller with this label sees ('everyone': with none)."),
]
NewAudience = Annotated[list[str] | None, describe(WORLD_ARGUMENTS["audience"], "--audience")]
AudienceRequired = Annotated[
    bool | None,
    describe(WORLD_ARGUMENTS["audience_required"], "--audience-required/--audience-optional"),
]
ReaderName = Annotated[str, Option("--reader", "-r", help="Name of the reader.")]
Query = Annotated[str, Argument(help=QUERY_ARGUMENTS["query"].description)]
SignTo = Annotated[
    Path | None, Option("--sign", help="Write a signed receipt to this new file.", metavar="FILE")
]
TopK = Annotated[int, describe(QUERY_ARGUMENTS["top_k"], "--top-k", "-k")]
Rerank = Annotated[bool | None, describe(QUERY_ARGUMENTS["rerank"], "--rerank/--no-rerank")]
BookName = Annotated[str | None, describe(QUERY_ARGUMENTS["book"], "--book")]
ContextOnly = Annotated[bool, Option("--context", help="Print only the context for a model.")]
RunHere = Annotated[bool, Option("--here", help="Run in this process even if there are workers.")]
NoFollow = Annotated[bool, Option("--no-follow", help="Exit once the job is queued.")]
Confirmed = Annotated[
    bool, Option("--yes", "-y", help="Do not ask; needed with --all without a terminal.")
]
NoErase = Annotated[
    bool, Option("--no-erase", help="Leave erasing from files to 'truespan repair'.")
]
Where = Annotated[
    list[str] | None,
    Option(help="Only documents with metadata such as 'team=a', 'year>=2020', 'owner', '!owner'."),
]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Markdown = Annotated[bool, Option("--markdown", help="Print it as Markdown.")]


@dataclass(frozen=True)
class Place:
    """The library and the world that a command is about."""

    world: WorldName = None
    library: Folder = None

    @contextmanager
    def open(
        self,
        domain: str | None = None,
        generation: int | None = None,
        labels: list[str] | None = None,
    ) -> "Iterator[World]":
        """Open the library, and yield the world."""
        with open_library(self.library) as opened:
            yield find_world(opened, self.world, domain, generation, labels=labels)


@dataclass(frozen=True)
class Target(Place):
    """The library, world and generation that a command asks."""

    domain: Domain = None
    generation: GenerationNumber = None
    labels: AsLabels = None

    def open_world(self) -> "AbstractContextManager[World]":
        """Open the library, and return the world."""
        return self.open(self.domain, self.generation, self.labels)


def require_one_format(*, markdown: bool, as_json: bool) -> None:
    """Raise InvalidArgument if two formats are chosen."""
    if markdown and as_json:
        raise InvalidArgument("--markdown cannot be combined with --json.")


_ANY = "'any' for all. Default: all, or {!r} by the contract."
_WITH_OPTION = ("language", "version", "documents", "tags", "kinds", "chapter", "metadata")
_FURTHER_FILTERS = tuple(name for name in FILTERS if name not in _WITH_OPTION)
_TEXTS = ("granularity", *_FURTHER_FILTERS)
_PASSAGES = ("rerank", "neighbours", "granularity", "max_tokens", "include_boilerplate")
_FURTHER = (*_PASSAGES, *_FURTHER_FILTERS)
Further = Annotated[
    list[str] | None,
    Option("--option", "-o", metavar="NAME=VALUE", help=f"Set {', '.join(_FURTHER)}."),
]


@dataclass(frozen=True)
class QueryOptions:
    """Filters of a search, and options of its passages."""

    language: Annotated[
        str | None, describe(QUERY_ARGUMENTS["language"], note=_ANY.format(DEFAULT_LANGUAGE))
    ] = None
    version: Annotated[
        str | None, describe(QUERY_ARGUMENTS["version"], note=_ANY.format(DEFAULT_VERSION))
    ] = None
    documents: Annotated[list[str] | None, describe(QUERY_ARGUMENTS["documents"], "--document")] = (
        None
    )
    tags: Annotated[list[str] | None, describe(QUERY_ARGUMENTS["tags"], "--tag")] = None
    kinds: Annotated[list[str] | None, describe(QUERY_ARGUMENTS["kinds"], "--kind")] = None
    where: Where = None
    chapter: Annotated[str | None, describe(QUERY_ARGUMENTS["chapter"])] = None
    mode: Annotated[str | None, describe(QUERY_ARGUMENTS["mode"])] = None
    further: Further = None

    def filters(self) -> "FilterArguments":
        """Return the filters as arguments of the library."""
        further = named_options(self.further, _FURTHER, _TEXTS)
        filters: dict[str, Any] = {
            "documents": self.documents,
            "tags": self.tags or (),
            "kinds": self.kinds or (),
            "metadata": metadata_filter(self.where),
            "chapter": self.chapter,
        }
        for name in further.keys() & set(_FURTHER_FILTERS):
            value = further[name]
            filters[name] = value.split(",") if FILTERS[name].form.is_list else value
        if self.language is not None:
            filters["language"] = None if self.language == "any" else self.language
        if self.version is not None:
            filters["version"] = None if self.version == "any" else self.version
        return cast("FilterArguments", filters)

    def passages(self) -> dict[str, Any]:
        """Return the options of passages as arguments of the library."""
        further = named_options(self.further, _FURTHER, _TEXTS)
        chosen = {name: value for name, value in further.items() if name in _PASSAGES}
        return {"mode": self.mode, **chosen}


def named_options(
    given: list[str] | None, names: Sequence[str], texts: Sequence[str]
) -> dict[str, Any]:
    """Return the values of `--option NAME=VALUE` by name; those of `texts` stay texts."""
    from truespan.types.metadata import parse_value

    found: dict[str, Any] = {}
    for text in given or ():
        name, _, value = text.partition("=")
        if name not in names or not value or name in found:
            raise InvalidArgument(
                f"--option {text!r} is not NAME=VALUE with another name.",
                advice=f"Names are {', '.join(names)}.",
            )
        found[name] = value if name in texts else parse_value(value)
    return found


def write_receipt(
    path: Path | None, world: "World", result: "SearchResult | ContextBundle | Answer | None"
) -> None:
    """Write the signed receipt of a result to a new file, if that was requested."""
    if path is None or result is None:
        return
    from truespan.cli.terminal import new_file
    from truespan.wire.serialize import to_json

    with new_file(path) as file:
        file.write(to_json(world.sign(result)).encode() + b"\n")


def metadata_from(meta: list[str] | None) -> dict[str, Any] | None:
    """Return the metadata that options declare; None without any."""
    from truespan.core.fields import FieldError
    from truespan.types.metadata import parse_assignments

    try:
        return parse_assignments(meta) if meta else None
    except FieldError as error:
        raise InvalidArgument(f"--meta {error}.") from None


def metadata_filter(where: list[str] | None) -> dict[str, Any]:
    """Return the conditions on metadata that options state."""
    from truespan.core.fields import FieldError
    from truespan.types.metadata import parse_comparisons

    try:
        return parse_comparisons(where or [])
    except FieldError as error:
        raise InvalidArgument(f"--where {error}.") from None
