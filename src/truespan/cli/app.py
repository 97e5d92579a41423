"""The command line application, and what its commands share: options, and which world is meant.

Modules with commands evaluate their annotations: Typer would otherwise evaluate each four times.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from typer import BadParameter, Context, Exit, Option, Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from truespan.cli.terminal import echo
from truespan.core.strict_json import parse_number
from truespan.errors import InvalidArgument

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World
    from truespan.types.request import FilterArguments

PANELS: Mapping[str, tuple[str, ...]] = {
    "Start": ("start", "init", "ingest", "status", "config"),
    "Ask": ("ask", "search", "ask", "chat", "conversations", "retrieve"),
    "Read without spoilers": ("read", "reader"),
    "Documents": ("documents", "show", "label", "facets", "delete", "jobs"),
    "Serve": ("serve", "serve", "mcp", "worker", "token"),
    "Quality": ("quality", "defaults", "usage", "explain", "golden", "evaluate", "calibrate"),
    "Generations": (
        "generations",
        *("generations", "reindex", "promote", "rollback", "remove-generation", "domains"),
    ),
    "Maintenance": (
        "maintenance",
        *("doctor", "repair", "backup", "restore", "migrate", "prepare-store", "completion"),
    ),
}
"""The module and the commands of each panel, in the order of the help."""
COMPLETION_HELP = 70
"""Characters of help beside an option that a shell completes."""

CHOSEN_WORLD: ContextVar[str | None] = ContextVar("chosen_world", default=None)
"""The name of the world that the running command uses, once it is known."""


class PlainValue:
    """Reads the values of an option or argument as Typer does, which would import Pydantic for it.

    That import takes longer than all else before a search. Typer reads what is not plain.
    """

    def __init__(self, parameter: Any) -> None:
        self._typer = parameter.type_descriptor
        self._info = self._typer.parameter_info
        kind = self._typer.annotation
        self._is_list = get_origin(kind) is list
        self._kind = get_args(kind)[0] if self._is_list else kind

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if self._is_list else None
        values = value if self._is_list and isinstance(value, list | tuple) else [value]
        known = str if self._kind is Path else self._kind
        if self._info.parser is None and not (
            known in (str, bool) and all(isinstance(item, known) for item in values)
        ):
            from typer._coercion import build_runtime_param

            return build_runtime_param(self._typer).coerce(value, param=param, ctx=ctx)
        read = [self._read(item, param, ctx) for item in values]
        return read if self._is_list else read[0]

    def _read(self, value: Any, param: Any, ctx: Any) -> Any:
        if self._info.parser is not None:
            return self._info.parser(value)
        if self._kind is not Path:
            return value
        from typer._param_types import coerce_cli_path

        return coerce_cli_path(Path(value), self._info, path_type=Path, param=param, ctx=ctx)


def read_plainly(parameters: list[Any]) -> list[Any]:
    """Return options and arguments, each with what reads its values."""
    for parameter in parameters:
        parameter._runtime_param = PlainValue(parameter)
    return parameters


class Command(TyperCommand):
    """A command whose options have a line of help each where a shell completes them.

    Typer wraps longer help, and fish takes each further line for a candidate.
    """

    def get_params(self, ctx: Any) -> Any:
        return read_plainly(super().get_params(ctx))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        found = super().shell_complete(ctx, incomplete)
        for item in found:
            if item.help and len(item.help) > COMPLETION_HELP:
                item.help = item.help[: COMPLETION_HELP - 1].rstrip() + "…"
        return found


class CommandGroup(TyperGroup):
    """A group whose help lists commands by panel, each with its whole summary."""

    def get_params(self, ctx: Any) -> Any:
        return read_plainly(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 -- as Typer calls it
        if isinstance(self.commands, Commands):
            panels = self.commands.summaries()
        else:
            # The first sentence, however long; the formatter wraps it.
            rows = [(name, each.get_short_help_str(1000)) for name, each in self.commands.items()]
            panels = {"Commands": rows}
        width = max(len(name) for name in self.commands)
        for panel, rows in panels.items():
            with formatter.section(panel):
                # One column for all panels.
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])

    def invoke(self, ctx: Any) -> Any:
        if not (ctx._protected_args or self.invoke_without_command):
            *others, last = self.commands
            names = f"{', '.join(others)} or {last}" if others else last
            raise InvalidArgument(
                f"Missing subcommand: {names}.", advice=f"See '{ctx.command_path} --help'."
            )
        return super().invoke(ctx)


class CommandSet(Typer):
    """Commands made of functions, as the classes above."""

    def command(self, name: str | None = None, **options: Any) -> Any:
        options.setdefault("cls", Command)
        return super().command(name, **options)


def command_group(name: str, help: str) -> Typer:
    """Return an empty group of commands."""
    return CommandSet(name=name, help=help, cls=CommandGroup)


class Commands(Mapping[str, Any]):
    """The commands by name. Each is imported and made from its function when it is first used."""

    def __init__(self) -> None:
        self._modules = {name: module for module, *names in PANELS.values() for name in names}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            found, holder = self._find(name), CommandSet(rich_markup_mode=None)
            if isinstance(found, Typer):
                holder.add_typer(found)
            else:
                holder.command()(found)
            self._made[name] = get_group(holder).commands[name]
        return self._made[name]

    def summaries(self) -> dict[str, list[tuple[str, str]]]:
        """Return the name and the first sentence of each command, by panel, without making any."""
        return {
            panel: [(name, self._summary(name)) for name in names]
            for panel, (_, *names) in PANELS.items()
        }

    def _summary(self, name: str) -> str:
        found = self._find(name)
        text = found.info.help if isinstance(found, Typer) else getdoc(found)
        return TyperCommand(name, help=text).get_short_help_str(1000)

    def _find(self, name: str) -> Typer | Callable[..., Any]:
        """Return the function of a command, or the group that has its name and `_app`."""
        module = import_module(f"truespan.cli.{self._modules[name]}")
        member = name.replace("-", "_")
        return getattr(module, f"{member}_app", None) or getattr(module, member)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@cache
def make_commands() -> Any:
    """Return the command line."""
    from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage]

    # Typer would do this only together with options of its own.
    completion_init()
    root = get_group(app)
    root.commands = Commands()  # pyright: ignore[reportAttributeAccessIssue]
    return root


def complete_world(ctx: Context, incomplete: str) -> list[str]:
    """Return the names of worlds that begin with a text, for the completion of a shell."""
    from truespan.errors import TruespanError

    try:
        with open_at(ctx.params.get("library")) as library:
            names = [world.name for world in library.worlds()]
    except TruespanError:
        return []
    return [name for name in names if name.startswith(incomplete)]


app = CommandSet(
    name="truespan",
    cls=CommandGroup,
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
        autocompletion=complete_world,
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
        help="Search by keywords and similarity (hybrid), by similarity alone (vector) or by "
        "keywords alone (keyword); auto chooses. Default: that of the world.",
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


_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,39})")
"""Larger than any limit of an option, which is checked where it applies."""


def whole_number(text: str | int) -> int:
    """Return the whole number of an option. Python alone would also read `1_000` and `+5`."""
    if isinstance(text, int):
        return text
    if not _WHOLE_NUMBER.fullmatch(text):
        raise BadParameter(f"{text[:40]!r} is no whole number in decimal digits, such as 5.")
    return int(text)


GenerationNumber = Annotated[
    int | None,
    Option("--generation", "-g", help="Ask this generation, not the default.", parser=whole_number),
]


def whole_number_between(least: int, most: int) -> Callable[[str | int], int]:
    """Return what reads a whole number within bounds."""

    def read(text: str | int) -> int:
        number = whole_number(text)
        if not least <= number <= most:
            raise BadParameter(f"{number} is not in the range from {least} to {most}.")
        return number

    return read


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


def named_world(
    opened: Library,
    world: str | None,
    domain: str | None,
    generation: int | None = None,
    *,
    create: bool | None = False,
) -> World:
    """Return the world that a command means: by its name, by a domain's key, or the only one."""
    if domain is None:
        found = opened.world(world, generation=generation, create=create)
    elif generation is None:
        found = opened.domain(domain, world=world)
    else:
        from truespan.errors import InvalidArgument

        raise InvalidArgument("Name a generation or a domain, not both.")
    CHOSEN_WORLD.set(found.name)
    return found


@contextmanager
def open_world(
    library: Path | None,
    world: str | None,
    domain: str | None = None,
    generation: int | None = None,
) -> Iterator[World]:
    """Open a library and give the world that a command means."""
    with open_at(library) as opened:
        yield named_world(opened, world, domain, generation)


def refer_to_document(world: World, reference: str) -> str:
    """Return a reference that names the same document in every interface.

    On this machine a document may also be named by the absolute path of its file, or by a path from
    the current folder that begins with a dot.
    """
    if not reference.startswith(("/", "./", "../")):
        return reference
    path = os.path.abspath(reference)
    found = [document.doc_id for document in world.documents.list() if document.path == path]
    return found[0] if len(found) == 1 else reference


def chosen_worlds(library: Library, world: str | None) -> list[World]:
    """Return the world that is named, or all."""
    names = [entry.id for entry in library.worlds()] if world is None else [world]
    return [library.world(name) for name in names]


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
    from truespan.core.fields import FieldError
    from truespan.errors import InvalidArgument
    from truespan.types.metadata import parse_comparisons

    filters: FilterArguments = {
        "chapter": chapter,
        "section": section,
        "documents": documents or None,
        "tags": tags or (),
        "kinds": kinds or (),
        "source": source,
    }
    try:
        filters["metadata"] = parse_comparisons(where or [])
    except FieldError as error:
        raise InvalidArgument(f"--where {error}.") from None
    if language is not None:
        filters["language"] = None if language == "any" else language
    if version is not None:
        filters["version"] = None if version == "any" else version
    return filters
