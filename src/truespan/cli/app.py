"""The group of all commands, its panels, and commands that messages advise.

Advised commands are completed with the library and the world of the user's command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from inspect import getdoc
from typing import Any

import click

from truespan.cli.commands import CommandGroup, make_command, summarize
from truespan.cli.options import CHOSEN_WORLD
from truespan.cli.terminal import echo
from truespan.tables import Commands, tables

PANELS = (
    *("Start", "Ask", "Read without spoilers", "Documents", "Serve", "Models", "Quality"),
    *("Generations", "Prove", "Maintenance"),
)
"""The panels of the help, in their order. Those that only extensions name follow."""
COMMANDS = (
    Commands("Start", "truespan.cli.start", ("init", "ingest", "status", "config")),
    Commands("Ask", "truespan.cli.ask", ("search", "ask", "chat", "conversations", "retrieve")),
    Commands("Read without spoilers", "truespan.cli.read", ("reader", "notes")),
    Commands("Documents", "truespan.cli.documents", ("show", "label", "delete", "jobs")),
    Commands("Serve", "truespan.cli.tokens", ("token",)),
    Commands("Maintenance", "truespan.cli.maintenance", ("doctor", "repair", "backup", "restore")),
)
"""The commands of the engine, in the order of the help."""
ARGUMENTS: ContextVar[Sequence[str]] = ContextVar("arguments", default=())
"""The arguments of the command that is running."""
_QUOTED = re.compile(r"'truespan ([a-z][^']*)'")
_LIBRARY, _WORLD = ("--library", "-L"), ("--world", "-w")


def all_commands() -> tuple[Commands, ...]:
    """Return the commands of the engine and of all extensions."""
    return (*COMMANDS, *tables().commands)


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands by name. A command is imported and made when it is first used."""

    def __init__(self) -> None:
        self._made: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._made:
            found = self.find(name)
            is_group = isinstance(found, click.Command)
            self._made[name] = found if is_group else make_command(name, found)
        return self._made[name]

    def find(self, name: str) -> click.Command | Callable[..., Any]:
        """Return the function of a command, or the group with its name and `_group`.

        Extensions are looked up only for a command that the engine does not have.
        """
        module = _module_of(COMMANDS, name) or _module_of(tables().commands, name)
        if module is None:
            raise KeyError(name)
        member = name.replace("-", "_")
        found = import_module(module)
        return getattr(found, f"{member}_group", None) or getattr(found, member)

    def __iter__(self) -> Iterator[str]:
        return (name for row in all_commands() for name in row.names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]


def _module_of(rows: Iterable[Commands], name: str) -> str | None:
    return next((row.module for row in rows if name in row.names), None)


class CommandLine(CommandGroup):
    """The group of all commands."""

    def panels(self) -> dict[str, list[tuple[str, str]]]:
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for row in all_commands():
            names = panels.setdefault(row.panel, [])
            names += ((name, self._summarize(name)) for name in row.names)
        return {panel: names for panel, names in panels.items() if names}

    def _summarize(self, name: str) -> str:
        """Return the summary of a command without making the command."""
        found = LazyCommands().find(name)
        text = found.help if isinstance(found, click.Command) else getdoc(found)
        return summarize(text or "")


@cache
def make_commands() -> CommandLine:
    """Return the group of all commands."""

    def run(version: bool) -> None:
        if version:
            from truespan import __version__

            echo(__version__)
            raise click.exceptions.Exit

    return CommandLine(
        "truespan",
        commands=LazyCommands(),
        callback=run,
        params=[click.Option(["--version"], is_flag=True, help="Print the version.")],
        invoke_without_command=True,
        help="Turn a library of documents into context that can be trusted.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def complete(text: str) -> str:
    """Return a text with the user's --library and --world in every command that it quotes.

    Each is added if that command takes it, and quoted for the shell. A command that would show
    every world keeps doing so, and help needs neither.
    """
    if "'truespan " not in text:
        return text
    library, world = (_value(ARGUMENTS.get(), names) for names in (_LIBRARY, _WORLD))
    known = world or CHOSEN_WORLD.get()
    if library is None and known is None:
        return text
    import shlex

    root = make_commands()

    def complete_one(found: re.Match[str]) -> str:
        words = found[1].split()
        options = _options(root, words)
        if options is None or "--help" in words:
            return found[0]
        place = next((words.index(name) + 1 for name in _WORLD if name in words), None)
        if place is not None and known is not None:
            words[place : place + 1] = [shlex.quote(known)]
        elif place is None and world is not None and takes_one_world(words, options):
            words += ["-w", shlex.quote(world)]
        if library is not None and "--library" in options and not set(_LIBRARY) & set(words):
            words += ["-L", shlex.quote(library)]
        command = " ".join(["truespan", *words])
        return f"`{command}`" if "'" in command else f"'{command}'"

    return _QUOTED.sub(complete_one, text)


def takes_one_world(words: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Return whether a command is about one world; others show all worlds if none is named."""
    return "--world" in options and bool(
        options["--world"].envvar or words[0] == "init" or "--defaults" in words
    )


def say(text: str) -> None:
    """Print a text for people, with the commands that it quotes completed."""
    echo(complete(text))


def _value(arguments: Sequence[str], names: tuple[str, str]) -> str | None:
    """Return the value that arguments give to an option; None if they do not."""
    long, short = names
    value = None
    for place, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument in names and place + 1 < len(arguments):
            value = arguments[place + 1]
        elif argument.startswith(f"{long}="):
            value = argument.removeprefix(f"{long}=")
        elif argument.startswith(short) and not argument.startswith("--") and argument != short:
            value = argument.removeprefix(short)
    return value


def _options(command: Any, words: Sequence[str]) -> dict[str, Any] | None:
    """Return the options of the command that words name, by their names; None if there is none."""
    for word in words:
        inner = getattr(command, "commands", None)
        if inner is None:
            break
        if word not in inner:
            return None
        command = inner[word]
    return {name: option for option in command.params for name in option.opts}
