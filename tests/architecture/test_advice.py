"""Commands in the advice of errors exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

from truespan.cli import run
from truespan.cli.app import make_commands

SOURCES = Path(__file__).parents[2] / "src" / "truespan"
COMMAND = re.compile(r"'truespan ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?([^']*)'")


@cache
def advised() -> set[tuple[str, str, str, str]]:
    """Return every command that a message quotes: where, command, word, rest."""
    quoted: set[tuple[str, str, str, str]] = set()
    for path in SOURCES.rglob("*.py"):
        text = path.read_text("utf-8")
        if "'truespan" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for found in COMMAND.finditer(node.value):
                    quoted.add((path.stem, found[1], found[2] or "", found[3]))
    return quoted


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    # Its commands are known once it has run.
    assert run(["--version"]) == 0
    known = getattr(make_commands(), "commands", {})
    assert [quoted for quoted in sorted(advised()) if not exists(known, *quoted)] == []


def exists(known: dict[str, Any], _: str, name: str, word: str, rest: str) -> bool:
    """Return whether a command, its subcommand and these options exist."""
    if name not in known:
        return False
    command = known[name]
    within = getattr(command, "commands", None)
    if within is not None:
        if word not in within and rest.strip() != "--help":
            return False
        command = within.get(word, command)
    options = {spelled for option in command.params for spelled in option.opts} | {"--help"}
    return set(re.findall(r"--[a-z-]+", rest)) <= options


def test_messages_name_at_least_one_command() -> None:
    assert len(advised()) > 20
