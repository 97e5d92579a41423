"""The command line: its panels, and the group of all commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from functools import cache
from importlib import import_module
from inspect import getdoc
from typing import Any

import click

from truespan.cli.commands import CommandGroup, make_command, summarize
from truespan.cli.terminal import echo

PANELS = {
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


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands by name. A command is imported and made when it is first used."""

    def __init__(self) -> None:
        self._modules = {name: module for module, *names in PANELS.values() for name in names}
        self._made: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._made:
            found = self.find(name)
            is_group = isinstance(found, click.Command)
            self._made[name] = found if is_group else make_command(name, found)
        return self._made[name]

    def find(self, name: str) -> click.Command | Callable[..., Any]:
        """Return the function of a command, or the group with its name and `_group`."""
        module = import_module(f"truespan.cli.{self._modules[name]}")
        member = name.replace("-", "_")
        return getattr(module, f"{member}_group", None) or getattr(module, member)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]


class CommandLine(CommandGroup):
    """The group of all commands."""

    def panels(self) -> dict[str, list[tuple[str, str]]]:
        return {
            panel: [(name, self._summarize(name)) for name in names]
            for panel, (_, *names) in PANELS.items()
        }

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
