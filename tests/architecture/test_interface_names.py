"""The interfaces use one name for one type, and one description for one argument."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import click
import pytest

from truespan.cli.app import make_commands
from truespan.engine.world import World
from truespan.extensions.server.arguments import Arguments, SearchArguments, arguments_schema
from truespan.extensions.server.http import schemas
from truespan.extensions.server.http.bodies import Declaration
from truespan.extensions.server.mcp import caller, resources, tools, writing
from truespan.types.arguments import DOCUMENT_ARGUMENTS, QUERY_ARGUMENTS, Argument


def own_classes(module: ModuleType) -> set[str]:
    return {
        name
        for name, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__
    }


def test_http_and_mcp_types_have_different_names() -> None:
    assert own_classes(schemas)
    assert own_classes(tools)
    for module in (caller, resources, tools, writing):
        assert not own_classes(schemas) & own_classes(module)


@pytest.mark.parametrize(("described", "method", "command", "schema"), [
    (QUERY_ARGUMENTS, World.search, "search", SearchArguments),
    (DOCUMENT_ARGUMENTS, World.ingest, "ingest", Declaration),
])  # fmt: skip
def test_arguments_have_one_description_in_all_interfaces(
    described: Mapping[str, Argument],
    method: Callable[..., Any],
    command: str,
    schema: type[Arguments],
) -> None:
    options = {option.name: option for option in make_commands().commands[command].params}
    fields = arguments_schema(schema)["properties"]
    for name in inspect.signature(method).parameters.keys() & described.keys():
        text = described[name].description
        assert f"{name}: {text[:-1]}" in (method.__doc__ or "")
        option = options.get(name)
        if isinstance(option, click.Option):
            assert (option.help or "").startswith(text[:-1]), name
        if name in fields:
            shown = [fields[name], *fields[name].get("anyOf", ())]
            assert any(each.get("description", "").startswith(text) for each in shown), name


def test_every_command_and_option_has_a_help_text() -> None:
    found = dict(walk_commands(make_commands()))
    assert {"models", "models download"} <= found.keys()
    for name, command in found.items():
        assert command.help, name
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, (name, option.name)


def walk_commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the commands and groups of a group, with the names by which they are called."""
    for name, command in group.commands.items():
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from walk_commands(command, f"{above}{name} ")
