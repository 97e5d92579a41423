"""Click commands made from functions: each parameter is an option or an argument.

A parameter is declared by its annotation, `Annotated[str, Option("--name", help="...")]`. A
parameter whose annotation is a dataclass stands for all fields of that class, so that commands
share options. Modules with commands evaluate their annotations, which are read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import click

from truespan.core.strict_json import parse_number
from truespan.errors import InvalidArgument

Function = TypeVar("Function", bound=Callable[..., Any])
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,39})")
"""Larger than any limit of an option, which is checked where it applies."""


class Option:
    """The declaration of an option: its names, and attributes of `click.Option`.

    Without names, the option is named after its parameter.
    """

    def __init__(self, *names: str, **attributes: Any) -> None:
        self.names = names
        self.attributes = attributes


class Argument:
    """The declaration of an argument: attributes of `click.Argument`."""

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes


class WholeNumber(click.ParamType[int]):
    """A whole number in decimal digits. Python alone would also read `1_000` and `+5`."""

    name = "integer"

    def __init__(self, minimum: int | None = None, maximum: int | None = None) -> None:
        self._minimum = minimum
        self._maximum = maximum

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, str) and not _WHOLE_NUMBER.fullmatch(value):
            self.fail(f"{value[:40]!r} is not a whole number such as 5.", param, ctx)
        number = int(value)
        least = number if self._minimum is None else self._minimum
        most = number if self._maximum is None else self._maximum
        if not least <= number <= most:
            self.fail(f"{number} is not in the range from {least} to {most}.", param, ctx)
        return number


class DecimalNumber(click.ParamType[float]):
    """A number in decimal digits; `nan` and `inf` are refused."""

    name = "float"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = parse_number(value) if isinstance(value, str) else float(value)
        if number is None:
            self.fail(f"{value[:40]!r} is not a decimal number such as 0.5.", param, ctx)
        return number


_TYPES: Mapping[type, click.ParamType[Any]] = {
    int: WholeNumber(),
    float: DecimalNumber(),
    Path: click.Path(path_type=Path),
}


DEFAULTS = ("list", "show")
"""Names of commands that run in a group without a command."""


class CommandGroup(click.Group):
    """A group whose help lists commands in their order, each with its whole first sentence.

    Without a command, a group with the command 'list' or 'show' runs it.
    """

    def register(self, name: str) -> Callable[[Function], Function]:
        """Return a decorator that adds a function as the command of this name."""

        def add(function: Function) -> Function:
            self.add_command(make_command(name, function))
            return function

        return add

    def panels(self) -> Mapping[str, list[tuple[str, str]]]:
        """Return the name and the summary of each command, by panel of the help."""
        rows = [(name, summarize(command.help or "")) for name, command in self.commands.items()]
        return {"Commands": rows}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- as Click calls it
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        panels = self.panels()
        # One column for all panels.
        width = max(len(name) for rows in panels.values() for name, _ in rows)
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = {"-h", "--help"} & {*args}
        names_none = not args or args[0].startswith("-")
        runs_default = not (asks_help or ctx.resilient_parsing or self.invoke_without_command)
        if names_none and runs_default:
            args = [*[name for name in DEFAULTS if name in self.commands], *args]
        if not (args or self.invoke_without_command or ctx.resilient_parsing):
            *others, last = self.commands
            names = f"{', '.join(others)} or {last}" if others else last
            raise InvalidArgument(
                f"Missing subcommand: {names}.", advice=f"See '{ctx.command_path} --help'."
            )
        return super().parse_args(ctx, args)


def make_command(name: str, function: Callable[..., Any]) -> click.Command:
    """Return a function as a command. Its docstring is the help."""
    parameters = signature(function).parameters.values()

    def run(**values: Any) -> Any:
        # An option that may be repeated is a list, or its default if it is not given.
        given = {key: list(v) or None if isinstance(v, tuple) else v for key, v in values.items()}
        return function(**{each.name: _take(each, given) for each in parameters})

    return click.Command(
        name,
        callback=run,
        params=[made for each in parameters for made in _make_parameters(each)],
        help=getdoc(function),
    )


def summarize(text: str) -> str:
    """Return the first sentence of a help text, however long."""
    return click.Command(None, help=text).get_short_help_str(1000)


def _take(parameter: Parameter, values: Mapping[str, Any]) -> Any:
    """Return the value of a function's parameter: one option, or a class of several."""
    fields = _fields_of(parameter)
    if fields is None:
        return values[parameter.name]
    return parameter.annotation(**{field.name: _take(field, values) for field in fields})


def _fields_of(parameter: Parameter) -> list[Parameter] | None:
    """Return the fields of a parameter that is a class of options; None if it is one option."""
    if not is_dataclass(parameter.annotation):
        return None
    return list(signature(parameter.annotation.__init__).parameters.values())[1:]


def _make_parameters(parameter: Parameter) -> Iterator[click.Parameter]:
    fields = _fields_of(parameter)
    if fields is not None:
        for field in fields:
            yield from _make_parameters(field)
        return
    hint, declared = get_args(parameter.annotation)
    kind = next((each for each in get_args(hint | None) if each is not type(None)), hint)
    is_list = get_origin(kind) is list
    kind = get_args(kind)[0] if is_list else kind
    attributes = {"type": _TYPES.get(kind, kind), **declared.attributes}
    is_required = parameter.default is Parameter.empty
    if not is_required and not is_list:
        attributes["default"] = parameter.default
    if isinstance(declared, Argument):
        attributes |= {"nargs": -1} if is_list else {}
        yield click.Argument([parameter.name], required=is_required, **attributes)
        return
    if kind is bool:
        del attributes["type"]
        attributes["is_flag"] = True
    if is_list:
        attributes["help"] = f"{attributes['help'].removesuffix('.')}; repeatable."
    names = declared.names or (f"--{parameter.name.replace('_', '-')}",)
    yield click.Option(
        [parameter.name, *names],
        required=is_required,
        multiple=is_list,
        show_default=True,
        show_envvar=True,
        **attributes,
    )
