"""A small library with a server, and two clients: the SDK's, and one of bare lines."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent, Tool

import truespan
from tests.support.forked_process import ForkedProcess

BOOK = """# The Lamp

## One: The Keeper

The keeper of the lamp was called Osric. He wound the clock each evening at nine. The key to the
tower hung from a red cord. Nobody else had ever been seen to touch it.

## Two: The Storm

A storm came up from the south that night. Osric lit the lamp and counted the ships.

## Three: Zanzibar

The culprit was the postmistress Quillfeather. She had copied the key in candle wax.
"""
READ = "Two"
UNREAD = ("Zanzibar", "Quillfeather", "postmistress", "candle wax")
"""Words that occur only past the position of the reader."""

READER_TOOLS = {"list_books", "get_reading_position", "retrieve_context", "list_notes"}

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bare", "version": "1"},
}


def prepare(folder: Path) -> Path:
    """Create a library with a book half read, an unread book, and another world."""
    (folder / "lamp.md").write_text(BOOK, encoding="utf-8")
    (folder / "other.md").write_text("# Elsewhere\n\nThe gardener hid a spade.\n", "utf-8")
    with truespan.open(folder / "library", create=True) as library:
        world = library.create_world("w")
        world.ingest([str(folder / "lamp.md"), str(folder / "other.md")], kind="book")
        world.reader("ann").set_position("lamp.md", through_chapter=READ)
        library.create_world("beside").ingest(str(folder / "other.md"))
    return folder / "library"


def command(library: Path, *options: str, world: str = "w") -> list[str]:
    return ["mcp", "--library", str(library), "--world", world, *options]


class Session:
    """The SDK's client, for tests that are not asynchronous."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self._client = portal, client

    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self._portal.call(self._client.list_tools).tools}

    def call(self, name: str, **arguments: Any) -> CallToolResult:
        """Call a tool; the client validates a successful result against its schema."""
        return self._portal.call(self._client.call_tool, name, arguments)

    def instructions(self) -> str | None:
        return self._client.instructions

    def resources(self) -> dict[str, Any]:
        return {one.uri: one for one in self._portal.call(self._client.list_resources).resources}

    def templates(self) -> list[Any]:
        return self._portal.call(self._client.list_resource_templates).resource_templates

    def read(self, uri: str) -> Any:
        (content,) = self._portal.call(self._client.read_resource, uri).contents
        return content


@contextmanager
def session(arguments: list[str], errors: Path, mode: str = "legacy") -> Iterator[Session]:
    """Yield a session with a server process, whose standard error must stay empty."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "truespan", *arguments], cwd=errors.parent
    )
    with errors.open("w", encoding="utf-8") as log, start_blocking_portal() as portal:
        client = Client(stdio_client(parameters, errlog=log), mode=mode)
        with portal.wrap_async_context_manager(client) as connected:
            yield Session(portal, connected)
    assert errors.read_text("utf-8") == ""


def texts_of(result: CallToolResult) -> list[str]:
    assert all(isinstance(block, TextContent) for block in result.content)
    return [block.text for block in result.content if isinstance(block, TextContent)]


def passages_of(text: str) -> list[tuple[str, str]]:
    """Return headers and texts of a block of passages, parsed line by line."""
    passages: list[tuple[str, str]] = []
    lines = iter(text.split("\n"))
    for header in lines:
        if not header:
            continue
        fence = next(lines)
        assert set(fence) == {"~"}, fence
        quoted: list[str] = []
        for line in lines:
            if line == fence:
                break
            quoted.append(line)
        passages.append((header, "\n".join(quoted)))
    return passages


def found_in(result: CallToolResult) -> Any:
    """Return the structured content of a call that succeeded."""
    assert result.is_error is False, result.content
    return result.structured_content


def code_of(result: CallToolResult) -> str:
    assert result.is_error is True
    return result.structured_content["error"]["code"]  # type: ignore[index]


class Bare:
    """A client that writes and reads lines, and requires each to be a message."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self.process = process
        self._requests, self._answers = process.stdin, process.stdout

    def greet(self) -> None:
        self.send({"id": 0, "method": "initialize", "params": HELLO})
        assert self.receive()["result"]["serverInfo"]["name"] == "truespan"
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", **message}))

    def send_line(self, line: str) -> None:
        self._requests.write(line + "\n")
        self._requests.flush()

    def send_call(self, number: int, name: str, **arguments: Any) -> None:
        """Call a tool without waiting for the answer."""
        params = {"name": name, "arguments": arguments}
        self.send({"id": number, "method": "tools/call", "params": params})

    def receive(self) -> Any:
        message = json.loads(self._answers.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def leave(self) -> tuple[int, str]:
        """Close the server's input; return its exit code and what it wrote to standard error."""
        out, err = self.process.communicate(timeout=30)
        assert out == "", "something came out after the last answer"
        return self.process.returncode, err


@contextmanager
def bare(*command: str, fresh: bool = False) -> Iterator[Bare]:
    """Yield a bare client of a server process; a `fresh` process is not forked."""
    program = subprocess.Popen if fresh else ForkedProcess
    # Unbuffered output would hide lines that are printed late.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with program(
        [sys.executable, *command],
        env=buffered,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield Bare(process)
        finally:
            process.kill()
