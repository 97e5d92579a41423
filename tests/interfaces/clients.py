"""The same request through every interface: library, command line, HTTP and MCP."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

import truespan
from tests.interfaces.http_client import Client
from truespan.cli import run
from truespan.errors import TruespanError, error_codes
from truespan.extensions.server.mcp.server import call_tool
from truespan.extensions.server.mcp.tools import OWNER_ROLE, READER_ROLE
from truespan.types.bundle import ContextBundle
from truespan.wire.serialize import failure_of, record_data, status_of

PASSING = {"processing_time_ms", "record", "seen_at", "conversation"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request: data, or an error code and whether to retry."""

    value: Any = None
    code: str | None = None
    retryable: bool | None = None


def settled(value: Any) -> Any:
    """Return a value as data, without members that differ between requests."""
    return _settled(msgspec.json.decode(msgspec.json.encode(value)))


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _settled(v) for k, v in value.items() if k not in PASSING}
    return [_settled(one) for one in value] if isinstance(value, list) else value


def outcome(value: Any) -> Outcome:
    """Return a result; a failed bundle becomes its error."""
    data = settled(value)
    error = data.get("error") if isinstance(data, dict) else None
    if error is not None and "code" in error:
        return Outcome(None, error["code"], error["retryable"])
    return Outcome(data)


@dataclass(frozen=True)
class LibraryInterface:
    """The engine, as a program uses it."""

    library: truespan.Library
    name = "library"

    def ask(self, operation: str, given: dict[str, Any]) -> Outcome | None:
        """Return the outcome; None if this interface has no such operation."""
        try:
            found = _LIBRARY[operation](self.library, dict(given))
        except TruespanError as error:
            return Outcome(None, error.code, error.retryable)
        except TypeError:
            # Python itself refuses unknown arguments.
            return Outcome(None, "invalid_argument", False)
        if isinstance(found, ContextBundle) and (failure := failure_of(found)):
            return Outcome(None, failure.code, failure.retryable)
        return outcome(found)


def _world(library: truespan.Library, given: dict[str, Any]) -> Any:
    world, domain = given.pop("world", "w"), given.pop("domain", None)
    return library.domain(domain, world=world) if domain else library.world(world)


_LIBRARY: dict[str, Callable[[truespan.Library, dict[str, Any]], Any]] = {
    "search": lambda lib, g: _world(lib, g).search(**g),
    "retrieve": lambda lib, g: _world(lib, g).retrieve(**g),
    "answer": lambda lib, g: _world(lib, g).answer(**g),
    "why_not": lambda lib, g: _world(lib, g).why_not(**g),
    "read": lambda lib, g: _world(lib, g).reader(g.pop("reader")).retrieve(**g),
    "read_answer": lambda lib, g: _world(lib, g).reader(g.pop("reader")).answer(**g),
    "books": lambda lib, g: {"books": _world(lib, g).reader(g.pop("reader")).books()},
    "position": lambda lib, g: _world(lib, g).reader(g.pop("reader")).position(**g),
    "chunk": lambda lib, g: _chunk(_world(lib, g).documents.chunk(**g)),
    "generations": lambda lib, g: {
        "generations": [record_data(record) for record in _world(lib, g).generations.list()]
    },
    "document": lambda lib, g: _document(_world(lib, g), g["reference"]),
    "job": lambda lib, g: {"job": _world(lib, g).jobs.get(g["job"]).id},
    "converse": lambda lib, g: _world(lib, g).conversation().ask(**g),
    "conversations": lambda lib, g: {
        "conversations": [record_data(info) for info in _world(lib, g).conversations(**g)]
    },
    "turns": lambda lib, g: _world(lib, g).conversation(g["conversation"]).export(),
}


def _chunk(record: Any) -> Any:
    from truespan.wire.serialize import chunk_data

    return chunk_data(record)


def _document(world: Any, reference: str) -> Any:
    found = world.documents.get(reference)
    return _told_document(
        {
            "document": settled(found),
            "outline": settled(world.documents.outline(reference)),
            "metadata": world.documents.metadata(reference),
        }
    )


def _told_document(response: dict[str, Any]) -> dict[str, Any]:
    names = ("number", "doc_id", "name", "kind", "title", "language", "version", "chunks")
    kept = {name: response["document"][name] for name in names}
    return {"document": kept, "outline": response["outline"], "metadata": response["metadata"]}


@dataclass(frozen=True)
class CliInterface:
    """The command line with `--json`."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    name = "cli"

    def ask(self, operation: str, given: dict[str, Any]) -> Outcome | None:
        """Run the command, and compare its exit code with the table."""
        arguments = _command(operation, dict(given))
        if arguments is None:
            return None
        self.capsys.readouterr()
        code = run([*arguments, "--library", str(self.folder), "--json"])
        response = outcome(json.loads(self.capsys.readouterr().out))
        assert code == (0 if response.code is None else _exit_code(response.code))
        if operation == "document" and response.code is None:
            return Outcome(_told_document(response.value))
        if operation == "job" and response.code is None:
            return Outcome({"job": response.value["job"]["id"]})
        if operation == "books" and response.code is None:
            return Outcome({"books": response.value["books"]})
        return response


_OPTIONS = {
    "top_k": "--top-k", "floor": "--floor", "selected_text": "--selected", "book": "--book",
    "chapter": "--chapter", "documents": "--document",
    "language": "--language", "version": "--version", "tags": "--tag",
    "mode": "--mode", "near_misses": "--near-misses", "reader": "--reader", "domain": "--domain",
    "no_such": "--no-such", "kinds": "--kind", "limit": "--limit",
}  # fmt: skip
_FURTHER = (
    *("rerank", "neighbours", "granularity", "max_tokens", "include_boilerplate"),
    *("source", "section"),
)
_FLAGS = ("near_misses",)
_COMMANDS = {
    "search": ["search"], "retrieve": ["retrieve"], "answer": ["ask", "--no-stream"],
    "read": ["retrieve"], "read_answer": ["ask", "--no-stream"], "books": ["reader", "show"],
    "chunk": ["show"], "document": ["show"], "generations": ["generations"],
    "job": ["jobs", "show"], "conversations": ["conversations", "show"],
    "turns": ["conversations", "show"],
}  # fmt: skip


def _command(operation: str, given: dict[str, Any]) -> list[str] | None:
    """Return a command's arguments; None if the command has no such options."""
    if operation not in _COMMANDS:
        return None
    spelled = [*_COMMANDS[operation], "--world", str(given.pop("world", "w"))]
    for name in ("query", "reference", "chunk_id", "job", "conversation"):
        if given.get(name) is not None:
            value = given.pop(name)
            if not isinstance(value, str) or (operation == "chunk" and len(value) != 36):
                # Only text can be an argument, and a reference that is not a UUID names a document.
                return None
            spelled.append(value)
    given.pop("query", None)
    for name, value in given.items():
        if name in _FURTHER:
            text = value if isinstance(value, str) else json.dumps(value)
            spelled += ["-o", f"{name}={text}"] if value is not None else []
            continue
        if name == "metadata":
            spelled += [part for text in _where(value) for part in ("--where", text)]
            continue
        option = _OPTIONS[name]
        for one in value if isinstance(value, list) else [value]:
            if one is None:
                spelled += [option, "any"]
            elif one is True:
                spelled += [option] if name in _FLAGS else [option, "True"]
            else:
                spelled += [option, str(one)]
    return spelled


def _where(wanted: dict[str, Any]) -> list[str]:
    """Return conditions on metadata as the command line spells them."""
    signs = {"any_of": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
    spelled: list[str] = []
    for key, conditions in wanted.items():
        if not isinstance(conditions, dict):
            conditions = {"any_of": [conditions]}
        for name, value in conditions.items():
            if name == "exists":
                spelled.append(key if value else f"!{key}")
                continue
            values = value if isinstance(value, list) else [value]
            spelled += [f"{key}{signs[name]}{json.dumps(one)}" for one in values]
    return spelled


def _exit_code(code: str) -> int:
    return status_of(error_codes()[code].of(code)).exit_code


@dataclass(frozen=True)
class HttpInterface:
    client: Client
    name = "http"

    def ask(self, operation: str, given: dict[str, Any]) -> Outcome | None:
        """Send the request, and compare its status with the table."""
        body = dict(given)
        world, domain = quote(str(body.pop("world", "w")), safe=""), body.pop("domain", None)
        headers = [("x-rag-domain", domain)] if domain else []
        method, path, body = _address(operation, f"/v1/worlds/{world}", body)
        content = body if method == "POST" else None
        if method == "GET" and body:
            path += "?" + urlencode(body)
        response = self.client.json(method, path, content, headers=headers)
        if response.code is not None:
            problem = response.content
            assert response.status == problem["status"]
            return Outcome(None, problem["code"], problem["retryable"])
        assert response.status == 200
        if operation == "document":
            return Outcome(_told_document(settled(response.content)))
        if operation == "job":
            return Outcome({"job": response.content["job"]["id"]})
        return outcome(response.content)


def _address(operation: str, world: str, body: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    def place(name: str) -> str:
        return quote(str(body.pop(name)), safe="")

    match operation:
        case "search" | "retrieve" | "answer":
            return "POST", f"{world}/{operation}", body
        case "why_not":
            return "POST", f"{world}/why-not", body
        case "read":
            return "POST", f"{world}/readers/{place('reader')}/retrieve", body
        case "read_answer":
            return "POST", f"{world}/readers/{place('reader')}/answer", body
        case "books" | "position":
            return "GET", f"{world}/readers/{place('reader')}/{operation}", body
        case "chunk":
            return "GET", f"{world}/chunks/{place('chunk_id')}", body
        case "document":
            return "GET", f"{world}/documents/{place('reference')}", body
        case "job":
            return "GET", f"{world}/jobs/{place('job')}", body
        case "converse":
            return "POST", f"{world}/conversations", body
        case "turns":
            return "GET", f"{world}/conversations/{place('conversation')}", body
        case _:
            return "GET", f"{world}/{operation}", body


@dataclass(frozen=True)
class McpInterface:
    library: truespan.Library
    name = "mcp"

    def ask(self, operation: str, given: dict[str, Any]) -> Outcome | None:
        """Call the tool of the operation; a server is for one world and has no domains."""
        tool = {tool.name: tool for role in (READER_ROLE, OWNER_ROLE) for tool in role.tools}.get(
            {"search": "search", "retrieve": "retrieve", "read": "retrieve_context",
             "books": "list_books", "position": "get_reading_position"}.get(operation, "")
        )  # fmt: skip
        if tool is None or {"world", "domain", "near_misses"} & set(given):
            return None
        arguments, world = dict(given), self.library.world("w")
        try:
            reader = arguments.pop("reader", None)
            subject = world if reader is None else world.reader(reader)
        except TruespanError as error:
            return Outcome(None, error.code, error.retryable)
        response = call_tool(tool, arguments, subject)
        found = outcome(response["structuredContent"])
        assert response["isError"] is (found.code is not None)
        if operation == "books" and found.code is None:
            return Outcome({"books": found.value["books"]})
        if operation == "position" and found.code is None:
            place = found.value["position"]
            return Outcome(place) if place else Outcome(None, "no_reading_position", False)
        return found
