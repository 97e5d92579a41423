"""Write the generated parts of the documentation: `make reference`, or `--check` to compare only.

A page keeps its own prose. What stands between the two comments of a part is replaced:

    <!-- generated: commands -->
    <!-- end of commands -->
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import truespan
from truespan import errors
from truespan.cli import run
from truespan.cli.app import PANELS, make_commands
from truespan.engine.conversations import Conversation
from truespan.engine.documents import Documents
from truespan.engine.evaluation import WorldEvaluation
from truespan.engine.generations import Generations
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.tokens import AccessTokens
from truespan.engine.world import World
from truespan.http.openapi import document_operation, make_document
from truespan.http.operation import EVENTS, Operation
from truespan.http.routes import OPERATIONS, ROUTES
from truespan.settings.catalogue import (
    MAX_NUMBER,
    TYPES,
    Settings,
    choices,
    constraints,
    descriptions,
)
from truespan.types.request import FILTER_NAMES, PassageArguments
from truespan.types.source import DocumentArguments, IngestArguments, LabelArguments
from truespan.wire.serialize import status_of

DOCS = Path(__file__).resolve().parents[1] / "docs"
FAMILIES = {
    "Caller": errors.CallerError,
    "Operator": errors.OperatorError,
    "Services": errors.ServiceError,
    "Damage": errors.DamageError,
}
CLASSES = (
    Library, World, Documents, Reader, Conversation, WorldEvaluation, Generations, AccessTokens,
)  # fmt: skip
GROUPS: Mapping[str, tuple[str, Iterable[str]]] = {
    "PassageArguments": ("passage options", PassageArguments.__annotations__),
    "FilterArguments": ("filters", FILTER_NAMES),
    "DocumentArguments": ("document options", DocumentArguments.__annotations__),
    "IngestArguments": ("ingest options", IngestArguments.__annotations__),
    "LabelArguments": ("labels", LabelArguments.__annotations__),
}
"""Keyword arguments that several methods take: the name of the group, and its members."""


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(header)
    yield f"| {' | '.join(names)} |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |".replace(
            "  ", " "
        )
    yield ""


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def first_paragraph(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())


# The command line


def commands_of(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def option_key(option: Any) -> tuple[str, ...]:
    """Return what makes an option of two commands the same one."""
    return (*option_names(option), str(shown_default(option)), option.help or "")


def option_names(option: Any) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def shown_default(option: Any) -> str:
    is_shown = isinstance(option.default, str | int | float) and not isinstance(
        option.default, bool
    )
    return str(option.default) if is_shown else ""


def option_row(option: Any) -> list[str]:
    return [", ".join(map(code, option_names(option))), shown_default(option), option.help or ""]


def render_commands() -> Iterator[str]:
    run(["--version"])  # The commands are known once one has run.
    root = make_commands()
    known = dict(commands_of(root))
    options = [option for command in known.values() for option in options_of(command)]
    used = Counter(option_key(option) for option in options)
    shared = {key for key, count in used.items() if count >= 4}
    yield "## Options of several commands\n"
    seen = {option_key(option): option for option in options}
    rows = [option_row(seen[key]) for key in seen if key in shared]
    yield from table(("option", "default", "meaning"), rows)
    for panel, names in PANELS.items():
        yield f"## {panel}\n"
        for full, command in known.items():
            if full.split()[0] in names:
                yield from render_command(full, command, shared)


def options_of(command: Any) -> list[Any]:
    return [each for each in command.params if each.opts[0].startswith("-") and not each.hidden]


def render_command(full: str, command: Any, shared: set[tuple[str, ...]]) -> Iterator[str]:
    arguments = [each for each in command.params if not each.opts[0].startswith("-")]
    words = [f"truespan {full}", *(argument_word(each) for each in arguments)]
    yield f"### {full}\n"
    yield f"`{' '.join(words)}`\n"
    yield from (f"{' '.join(part.split())}\n" for part in (command.help or "").split("\n\n"))
    own = [each for each in options_of(command) if option_key(each) not in shared]
    rows = [[code(argument_name(each)), "", each.help or ""] for each in arguments if each.help]
    rows += [option_row(each) for each in own]
    if rows:
        yield from table(("argument or option", "default", "meaning"), rows)
    others = [code(each.opts[0]) for each in options_of(command) if option_key(each) in shared]
    if others:
        yield f"Also: {', '.join(others)}.\n"


def argument_name(argument: Any) -> str:
    return (argument.metavar or argument.name).upper()


def argument_word(argument: Any) -> str:
    word = argument_name(argument) + ("..." if argument.nargs != 1 else "")
    return word if argument.required else f"[{word}]"


# Settings


def render_settings() -> Iterator[str]:
    meanings, defaults = descriptions(), Settings()
    rows = []
    for name in TYPES:
        value = defaults.value_of(name)
        text = str(value).lower() if isinstance(value, bool) else value
        shown = "" if text in ("", None) else code(text)
        rows.append([code(name), shown, allowed(name), meanings[name]])
    yield from table(("setting", "default", "values", "meaning"), rows)


def allowed(name: str) -> str:
    """Return the values that a setting may have, where not every one is valid."""
    if found := [choice for choice in choices(name) if choice]:
        return ", ".join(map(code, found))
    limits = constraints(name)
    if limits.ge is None:
        return ""
    if limits.le is None or limits.le == MAX_NUMBER:
        return f"from {limits.ge:g}"
    return f"{limits.ge:g} to {limits.le:g}"


# Errors


def error_rows(kinds: Iterable[type[errors.TruespanError]]) -> Iterator[list[str]]:
    for kind in kinds:
        status = status_of(kind.__new__(kind))
        retry = "yes" if kind.retryable else "no"
        numbers = [str(status.exit_code), str(status.http)]
        yield [code(kind.code), code(kind.__name__), first_paragraph(kind.__doc__), retry, *numbers]


def render_errors() -> Iterator[str]:
    header = ("code", "class", "meaning", "retryable", "exit code", "HTTP status")
    every = list(errors.error_types())[1:]
    heads = [kind for kind in every if kind in FAMILIES.values()]
    rest = [kind for kind in every if not issubclass(kind, tuple(FAMILIES.values()))]
    yield "## Families\n"
    yield from table(header, error_rows([*heads, *rest]))
    for title, family in FAMILIES.items():
        yield f"## {title}\n"
        members = [kind for kind in every if issubclass(kind, family) and kind is not family]
        yield from table(header, error_rows(members))


# HTTP


def marks_of(call: Operation) -> str:
    marks = {
        "domain": call.domains,
        "key": call.writes,
        "events": call.streams or call.media_type == EVENTS,
        "public": call.public,
    }
    return ", ".join(mark for mark, holds in marks.items() if holds)


def render_http() -> Iterator[str]:
    every = (*OPERATIONS, document_operation(OPERATIONS))
    document = json.loads(make_document(every, needs_token=True))
    described = {
        entry["operationId"]: entry
        for methods in document["paths"].values()
        for entry in methods.values()
    }
    for routes in ROUTES:
        calls = [*routes.operations, *(every[-1:] if routes.topic == "Server" else ())]
        yield f"## {routes.topic}\n"
        yield f"{routes.description}\n"
        rows = [http_row(call, described[call.name]) for call in calls]
        yield from table(("call", "request", "marks", "parameters", "body", "meaning"), rows)
    yield from render_bodies(document, described)


def http_row(call: Operation, entry: Mapping[str, Any]) -> list[str]:
    address = re.sub(r":\w+}", "}", call.path)
    parameters = [code(each["name"]) for each in entry["parameters"] if each["in"] == "query"]
    about = f"{entry['summary']}. {entry['description']}".strip()
    body = f"[{body_name(entry)}](#{body_name(entry).lower()})" if body_name(entry) else ""
    return [
        code(call.name), code(f"{call.method} {address}"), marks_of(call),
        ", ".join(parameters), body, about,
    ]  # fmt: skip


def body_name(entry: Mapping[str, Any]) -> str:
    for content in entry.get("requestBody", {}).get("content", {}).values():
        return content["schema"].get("$ref", "/Upload").rpartition("/")[2]
    return ""


def render_bodies(document: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    bodies: dict[str, Mapping[str, Any]] = {}
    for entry in described.values():
        for content in entry.get("requestBody", {}).get("content", {}).values():
            name = body_name(entry)
            bodies[name] = schemas.get(name, content["schema"])
    every = [
        (name, json.dumps(member)) for body in bodies.values() for name, member in members(body)
    ]
    shared = {key for key, count in Counter(every).items() if count >= 3}
    yield "## Bodies\n"
    yield "A member without a default is required, or may be left out if it is marked optional.\n"
    yield "### Members of several bodies\n"
    rows = [body_row(name, json.loads(text), optional=True) for name, text in sorted(shared)]
    yield from table(("member", "type", "default", "meaning"), rows)
    for name, body in sorted(bodies.items()):
        yield f"### {name}\n"
        if "description" in body:
            yield f"{body['description']}\n"
        required = body.get("required", ())
        own = [pair for pair in members(body) if (pair[0], json.dumps(pair[1])) not in shared]
        also = [code(pair[0]) for pair in members(body) if pair not in own]
        if own:
            rows = [body_row(key, member, optional=key not in required) for key, member in own]
            yield from table(("member", "type", "default", "meaning"), rows)
        if also:
            yield f"Also: {', '.join(also)}.\n"


def members(body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(body.get("properties", {}).items())


def body_row(name: str, member: Mapping[str, Any], *, optional: bool) -> list[str]:
    about = member.get("description") or next(
        (each["description"] for each in member.get("anyOf", ()) if "description" in each), ""
    )
    default = code(json.dumps(member["default"])) if "default" in member else ""
    if not default and optional:
        default = "optional"
    return [code(name), type_name(member), default, about]


def type_name(member: Mapping[str, Any]) -> str:
    if "anyOf" in member:
        return " or ".join(dict.fromkeys(type_name(each) for each in member["anyOf"]))
    if "enum" in member:
        return ", ".join(code(each) for each in member["enum"])
    if member.get("type") == "array":
        return f"list of {type_name(member['items'])}"
    if "$ref" in member:
        return member["$ref"].rpartition("/")[2]
    return str(member.get("type", "any"))


# The Python library


def render_library() -> Iterator[str]:
    yield "### Groups of arguments\n"
    rows = [[name, ", ".join(map(code, names))] for name, names in GROUPS.values()]
    yield from table(("group", "keyword arguments"), rows)
    yield "### Functions of the package\n"
    names = ("migrate", "open", "prepare_store", "restore", "verify_backup")
    yield from methods_table((name, getattr(truespan, name)) for name in names)
    for kind in CLASSES:
        yield f"### {kind.__name__}\n"
        yield f"{first_paragraph(kind.__doc__)}\n"
        public = [name for name in sorted(dir(kind)) if not name.startswith("_")]
        yield from methods_table((name, inspect.getattr_static(kind, name)) for name in public)


def methods_table(found: Iterable[tuple[str, Any]]) -> Iterator[str]:
    rows = []
    for name, member in found:
        function = getattr(member, "fget", None) or getattr(member, "func", None) or member
        about = first_paragraph(inspect.getdoc(function))
        rows.append([code(name), ", ".join(arguments_of(member)), about])
    yield from table(("name", "arguments", "meaning"), rows)


def arguments_of(member: Any) -> list[str]:
    """Return the names of the arguments; a property has none."""
    if not callable(member):
        return []
    groups = [
        GROUPS[kind]
        for annotation in map(str, getattr(member, "__annotations__", {}).values())
        if "Unpack" in annotation
        for kind in GROUPS
        if kind in annotation.replace("QueryArguments", "PassageArguments FilterArguments")
    ]
    grouped = {"self", *(name for _, names in groups for name in names)}
    found = [name for name in inspect.signature(member).parameters if name not in grouped]
    return [*map(code, found), *(name for name, _ in groups)]


# Pages

PARTS: Mapping[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "commands": ("command-line.md", render_commands),
    "settings": ("settings.md", render_settings),
    "errors": ("errors.md", render_errors),
    "calls": ("http-reference.md", render_http),
    "library": ("library.md", render_library),
}


def fill(part: str) -> tuple[Path, str]:
    """Return a page, and its text with the generated part as it should be."""
    name, render = PARTS[part]
    page = DOCS / name
    begin, end = f"<!-- generated: {part} -->", f"<!-- end of {part} -->"
    before, _, rest = page.read_text("utf-8").partition(begin)
    after = rest.partition(end)[2]
    body = "\n".join(render()).strip()
    return page, f"{before}{begin}\n\n{body}\n\n{end}{after}"


def main(check: bool) -> int:
    stale = []
    for part in PARTS:
        page, text = fill(part)
        if page.read_text("utf-8") != text:
            stale.append(page.name)
            if not check:
                page.write_text(text, "utf-8")
    print(f"{'stale' if check else 'written'}: {', '.join(stale) or 'nothing'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
