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
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import truespan
from tools.aio_stub import STUB, write_stub
from truespan import errors
from truespan.cli import run
from truespan.cli.app import make_commands
from truespan.engine.conversations import Conversation
from truespan.engine.documents import Documents
from truespan.engine.library import Library
from truespan.engine.library_parts import LibraryMaintenance, LibraryModels
from truespan.engine.notes import ReaderNotes
from truespan.engine.reader import Reader
from truespan.engine.tokens import AccessTokens
from truespan.engine.world import World
from truespan.engine.world_jobs import WorldJobs
from truespan.extensions.quality.generations import Generations
from truespan.extensions.quality.world import WorldEvaluation
from truespan.extensions.server.http.openapi import document_operation, make_document
from truespan.extensions.server.http.operation import Operation
from truespan.extensions.server.http.routes import OPERATIONS, ROUTES
from truespan.settings.catalogue import (
    MAX_NUMBER,
    Settings,
    all_types,
    choices,
    constraints,
    descriptions,
)
from truespan.types.request import FILTER_NAMES, PassageArguments
from truespan.types.source import DocumentArguments, IngestArguments, LabelArguments
from truespan.wire.serialize import STATUS, status_of

DOCS = Path(__file__).resolve().parents[1] / "docs"
FAMILIES = {
    "Caller": errors.CallerError,
    "Operator": errors.OperatorError,
    "Services": errors.ServiceError,
    "Damage": errors.DamageError,
}
Key = TypeVar("Key")
CLASSES = (
    Library, World, Documents, Reader, ReaderNotes, Conversation, WorldEvaluation, Generations,
    WorldJobs, AccessTokens, LibraryModels, LibraryMaintenance,
)  # fmt: skip
GROUPS: Mapping[str, tuple[str, Iterable[str]]] = {
    "PassageArguments": (
        "passage_options",
        ("mode", "rerank", *PassageArguments.__annotations__),
    ),
    "FilterArguments": ("filters", FILTER_NAMES),
    "DocumentArguments": ("document_options", DocumentArguments.__annotations__),
    "IngestArguments": ("ingest_options", IngestArguments.__annotations__),
    "LabelArguments": ("labels", LabelArguments.__annotations__),
}
"""Keyword arguments that several methods take: the name of the group, and its members."""


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def bullet(name: str, note: str, about: str) -> str:
    """Return one entry of a list: a name, what to know of it in brackets, and its meaning."""
    return f"- {name}{f' ({note})' if note else ''}{f': {about}' if about else ''}"


def first_paragraph(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())


def split_shared(users: Mapping[str, set[Key]], least: int) -> tuple[set[Key], set[Key]]:
    """Return the members that at least `least` users share, and those that go together.

    Members go together if each user of the largest group of members has them, and if at most half
    of all users do.
    """
    holders: dict[Key, frozenset[str]] = {
        key: frozenset(user for user, keys in users.items() if key in keys)
        for key in set[Key]().union(*users.values())
    }
    shared = {key for key, having in holders.items() if len(having) >= least}
    groups = Counter(holders[key] for key in shared)
    largest = max(groups, key=lambda having: (groups[having], sorted(having)))
    together = {key for key in shared if largest <= holders[key]}
    return shared, {key for key in together if 2 * len(holders[key]) <= len(users)}


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


def option_entry(option: Any) -> str:
    names = ", ".join(map(code, option_names(option)))
    default = shown_default(option)
    return bullet(names, f"default {default}" if default else "", option.help or "")


def render_commands() -> Iterator[str]:
    run(["--version"])  # The commands are known once one has run.
    root = make_commands()
    known = dict(commands_of(root))
    users = {full: {*map(option_key, options_of(command))} for full, command in known.items()}
    shared, query = split_shared(users, 2)
    most = {key for key in shared if 2 * sum(key in keys for keys in users.values()) > len(users)}
    seen = {option_key(each): each for command in known.values() for each in options_of(command)}
    yield "## Options of most commands\n"
    yield from (option_entry(seen[key]) for key in seen if key in most)
    yield "\n### Options of several commands\n"
    yield from (option_entry(seen[key]) for key in seen if key in shared - query - most)
    yield "\n### Query options\n"
    yield from (option_entry(seen[key]) for key in seen if key in query)
    yield ""
    for panel, names in make_commands().panels().items():
        yield f"## {panel}\n"
        for full, command in known.items():
            if full.split()[0] in dict(names):
                yield from render_command(full, command, shared, most, query)


def options_of(command: Any) -> list[Any]:
    return [each for each in command.params if each.opts[0].startswith("-") and not each.hidden]


def render_command(
    full: str,
    command: Any,
    shared: set[tuple[str, ...]],
    most: set[tuple[str, ...]],
    query: set[tuple[str, ...]],
) -> Iterator[str]:
    arguments = [each for each in command.params if not each.opts[0].startswith("-")]
    yield f"### {full}\n"
    yield from (f"{' '.join(part.split())}\n" for part in (command.help or "").split("\n\n"))
    own = [each for each in options_of(command) if option_key(each) not in shared]
    entries = [bullet(code(argument_word(each)), "", each.help or "") for each in arguments]
    entries += map(option_entry, own)
    common = {option_key(each): code(each.opts[0]) for each in options_of(command)}
    others = [name for key, name in common.items() if key in shared - query - most]
    if query <= {*common}:
        others.append("[query options](#query-options)")
    if others:
        entries.append(f"- also {', '.join(others)}")
    if entries:
        yield "\n".join(entries)
        yield ""


def argument_name(argument: Any) -> str:
    shown = (argument.metavar or argument.name).upper()
    return shown if "..." in shown else shown.strip("[]")


def argument_word(argument: Any) -> str:
    name = argument_name(argument)
    if "..." in name:
        return name
    word = name + ("..." if argument.nargs != 1 else "")
    return word if argument.required else f"[{word}]"


# Settings


OF_CONTRACT = (
    "answer_threshold_", "answer_short_", "answer_min_similarity", "answer_min_chunks",
    "answer_min_total", "answer_score_", "answer_retrieval_", "answer_raw_",
)  # fmt: skip
"""Beginnings of the settings that count only where thresholds decide about answers."""


def render_settings(of_contract: bool = False) -> Iterator[str]:
    meanings, defaults = descriptions(), Settings()
    for name in (each for each in all_types() if each.startswith(OF_CONTRACT) is of_contract):
        value = defaults.value_of(name)
        text = str(value).lower() if isinstance(value, bool) else value
        shown = name if text in ("", None) else f"{name}={text}"
        yield bullet(code(shown), allowed(name), meanings[name])


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


def list_errors(listed: dict[str, type[errors.TruespanError]], usual: int) -> Iterator[str]:
    for name, kind in listed.items():
        expected = "".join(word.capitalize() for word in name.split("_"))
        shown = code(name) + ("" if kind.__name__ == expected else f", `{kind.__name__}`")
        error = kind.of(name)
        status = status_of(error)
        about = kind.codes[name].about if name in kind.codes else first_paragraph(kind.__doc__)
        about += " Retryable." if error.retryable else ""
        about += "" if status.exit_code == usual else f" Exit code {status.exit_code}."
        yield bullet(shown, str(status.http), about)
    yield ""


def render_errors() -> Iterator[str]:
    rest = errors.error_codes()
    members = {title: errors.error_codes(family) for title, family in FAMILIES.items()}
    heads = {family.code: family for family in FAMILIES.values()}
    rest = {
        name: kind for name, kind in rest.items() if not issubclass(kind, tuple(FAMILIES.values()))
    }
    yield "## Families\n"
    yield from list_errors(heads | rest, usual=0)
    for title, family in FAMILIES.items():
        usual = STATUS[family].exit_code
        yield f"## {title}\n"
        yield f"The exit code is {usual} unless stated otherwise.\n"
        yield from list_errors({c: k for c, k in members[title].items() if c != family.code}, usual)


# HTTP


def marks_of(call: Operation) -> list[str]:
    marks = {
        "domain": call.domains,
        "key": call.writes,
        "events": call.streams,
        "public": call.public,
    }
    return [mark for mark, holds in marks.items() if holds]


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
        yield f"### {routes.topic}\n"
        yield f"{routes.description}\n"
        names = {call.name for call in calls}
        for call in calls:
            # The call of a reader does the same as the one above it.
            is_twin = call.name.endswith("AsReader") and call.name.removesuffix("AsReader") in names
            yield http_entry(call, described[call.name], is_twin)
        yield ""
    yield from render_bodies(document, described)


def http_entry(call: Operation, entry: Mapping[str, Any], is_twin: bool) -> str:
    address = re.sub(r":\w+}", "}", call.path)
    parameters = [code(each["name"]) for each in entry["parameters"] if each["in"] == "query"]
    body = [f"[{body_name(entry)}](#bodies)"] if body_name(entry) else []
    takes = ", ".join([*body, *group_names(parameters), *marks_of(call)])
    about = "" if is_twin else entry["summary"]
    return bullet(f"{code(call.name)}, `{call.method} {address}`", takes, about)


def group_names(shown: list[str]) -> list[str]:
    """Replace the members of a whole group of arguments by the name of the group."""
    for kind in ("DocumentArguments", "FilterArguments", "PassageArguments", "LabelArguments"):
        name, members = GROUPS[kind]
        group = {code(member) for member in members}
        if group <= {*shown}:
            shown = [*(each for each in shown if each not in group), name.replace("_", " ")]
    return shown


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
    yield "### Bodies\n"
    yield (
        "Members have the meaning of the [arguments of the same name in Python]"
        "(library.md#groups-of-arguments), and so have the groups of arguments. Required members "
        "are bold.\n"
    )
    for name, body in sorted(bodies.items()):
        required = body.get("required", ())
        optional = [code(each) for each in body.get("properties", {}) if each not in required]
        shown = [*(f"**{code(each)}**" for each in required), *group_names(optional)]
        yield bullet(code(name), "", ", ".join(shown))
    yield ""


# The Python library


def render_library() -> Iterator[str]:
    yield "### Groups of arguments\n"
    for kind, (name, names) in GROUPS.items():
        if kind == "IngestArguments":
            further = (each for each in names if each not in DocumentArguments.__annotations__)
            names = ("**document_options", *further)
        yield bullet(code(f"**{name}"), "", ", ".join(map(code, names)))
    yield ""
    yield "### Functions of the package\n"
    names = ("open", "open_temporary", "restore", "verify_backup")
    yield from list_members((name, getattr(truespan, name)) for name in names)
    for kind in CLASSES:
        yield f"### {kind.__name__}\n"
        yield f"{first_paragraph(kind.__doc__)}\n"
        public = [name for name in sorted(dir(kind)) if not name.startswith("_")]
        yield from list_members((name, inspect.getattr_static(kind, name)) for name in public)


def list_members(found: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, member in found:
        function = getattr(member, "fget", None) or getattr(member, "func", None) or member
        about = first_paragraph(inspect.getdoc(function))
        shown = f"{name}({', '.join(arguments_of(member))})" if callable(member) else name
        yield bullet(code(shown), "", about)
    yield ""


def arguments_of(member: Any) -> list[str]:
    """Return the names of the arguments; a property has none."""
    if not callable(member):
        return []
    groups = [
        GROUPS[kind]
        for kwds in map(str, getattr(member, "__annotations__", {}).values())
        if "Unpack" in kwds
        for kind in GROUPS
        if kind in kwds.replace("Query", "PassageArguments Filter").replace("Reader", "Passage")
    ]
    grouped = {"self", *(name for _, names in groups for name in names)}
    found = [name for name in inspect.signature(member).parameters if name not in grouped]
    return [*found, *(f"**{name}" for name, _ in groups)]


# Pages

PARTS: Mapping[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "commands": ("command-line.md", render_commands),
    "settings": ("settings.md", render_settings),
    "contract settings": ("contract.md", partial(render_settings, of_contract=True)),
    "errors": ("errors.md", render_errors),
    "calls": ("http.md", render_http),
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
    stub = write_stub()
    if not STUB.exists() or STUB.read_text("utf-8") != stub:
        stale.append(STUB.name)
        if not check:
            STUB.write_text(stub, "utf-8")
    print(f"{'stale' if check else 'written'}: {', '.join(stale) or 'nothing'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
