"""Commands that messages advise, completed with the library and the world of the user's command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from truespan.cli.app import make_commands
from truespan.cli.options import CHOSEN_WORLD
from truespan.cli.terminal import echo

ARGUMENTS: ContextVar[Sequence[str]] = ContextVar("arguments", default=())
"""The arguments of the command that is running."""
_QUOTED = re.compile(r"'truespan ([a-z][^']*)'")
_LIBRARY, _WORLD = ("--library", "-L"), ("--world", "-w")


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
    return "--world" in options and bool(options["--world"].envvar or words[0] == "init")


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
