"""The public surface stays small: commands, parameters, settings, operations, public names.

A change that exceeds a limit names what it replaces.
"""

import json
from collections.abc import Iterator

import click

from truespan.cli.app import make_commands
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.extensions.server.http.openapi import document_operation, make_document
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.settings.catalogue import all_types
from truespan.tables import tables

MAX_COMMANDS = 45
MAX_PARAMETERS = 350
MAX_SETTINGS = 100
MAX_OPERATIONS = 76
MAX_NAMES = {World: 28, Library: 18, Reader: 18}


def leaves(command: click.Command) -> Iterator[click.Command]:
    """Yield the commands without subcommands."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from leaves(inner)
    else:
        yield command


def public_names(kind: type) -> set[str]:
    """Return the public methods and properties of a class, those of extensions included."""
    own = {name for name in dir(kind) if not name.startswith("_")}
    prefix = f"{kind.__name__}."
    return own | {name.removeprefix(prefix) for name in tables().members if name.startswith(prefix)}


def test_surface_is_within_its_limits() -> None:
    found = [*leaves(make_commands())]
    assert len(found) <= MAX_COMMANDS
    assert sum(len(command.params) for command in found) <= MAX_PARAMETERS


def test_settings_are_within_their_limit() -> None:
    assert len(all_types()) <= MAX_SETTINGS
    every = (*OPERATIONS, document_operation(OPERATIONS, needs_token=True))
    document = json.loads(make_document(every, needs_token=True))
    methods = {"get", "put", "post", "patch", "delete"}
    assert sum(len(methods & path.keys()) for path in document["paths"].values()) <= MAX_OPERATIONS
    found = {kind: sorted(public_names(kind)) for kind in MAX_NAMES}
    assert {kind: names for kind, names in found.items() if len(names) > MAX_NAMES[kind]} == {}
