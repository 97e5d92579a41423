"""Published clients of the protocol: its conformance suite and its inspector, both from npm.

Most scenarios of the suite expect the suite's own tools, prompts and resources. Scenarios without
them run against the server itself. Scenarios that need only tools and texts run against the same
code with the suite's tools. The others need pictures, sounds, or questions back to the user, which
this server does not have.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

from tests.interfaces.mcp_clients import READER_TOOLS
from tests.interfaces.mcp_http import running
from tests.promises import proves
from truespan.errors import InvalidArgument
from truespan.extensions.server.arguments import Arguments, NoArguments
from truespan.extensions.server.mcp.server import make_server
from truespan.extensions.server.mcp.tools import READER_ROLE, BookList, Role, Tool

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / ".venv" / "npm" / "node_modules" / ".bin"
QUESTION = "Who had the key to the tower?"

OF_ANY_SERVER = (
    "server-initialize", "ping", "tools-list", "resources-list", "server-sse-multiple-streams",
    "dns-rebinding-protection",
)  # fmt: skip
WITH_TOOLS_OF_THE_SUITE = ("tools-call-simple-text", "tools-call-error")
NOT_OURS = (
    "tools-call-with-progress",  # A call takes a fraction of a second.
    "logging-set-level",  # Nothing is logged to clients.
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-with-logging",
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "resources-read-text",  # Reads an address that only the suite's own server has; as do the next.
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",  # A position moves without notice: the next call sees it.
    "resources-unsubscribe",
    "completion-complete",  # Nor completions.
    "prompts-list",  # There are no prompts.
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
)
"""Scenarios that do not apply. The suite says so if one of them passes after all."""


def program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=PROGRAMS)


pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        program("conformance") is None or program("mcp-inspector") is None,
        reason="MCP IS NOT TRIED WITH OTHER CLIENTS: `make test-mcp` installs them from npm",
    ),
]


def run(*command: str) -> str:
    path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
    done = subprocess.run(
        [str(program(command[0])), *command[1:]],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout


@contextmanager
def served(library: Path, *options: str) -> Iterator[str]:
    """Start the server as an operator does, and yield its MCP address."""
    command = [sys.executable, "-m", "truespan", "serve", "--library", str(library), "--port", "0"]
    with subprocess.Popen([*command, "--world", "w", *options], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().split()[-1].decode() + "mcp"
        finally:
            process.terminate()
            process.wait(60)


@proves("mcp.retrieval")
@pytest.mark.parametrize("said", ["--mcp-reader=ann", "--mcp-owner"])
def test_conformance_suite_passes_where_it_applies(library: Path, tmp_path: Path, said: str):
    expected = tmp_path / "expected.yml"
    lines = [f"  - {name}\n" for name in (*WITH_TOOLS_OF_THE_SUITE, *NOT_OURS)]
    expected.write_text("".join(["server:\n", *lines]), "utf-8")

    with served(library, said) as url:
        report = run("conformance", "server", "--url", url, "--expected-failures", str(expected))

    for name in OF_ANY_SERVER:
        assert f"✓ {name}:" in report


class _Nobody:
    """A caller that can read nothing."""

    def subject(self) -> None:
        return None


def _nothing(_subject: Any, _given: Arguments) -> BookList:
    return BookList((), ())


def _refuse(_subject: Any, _given: Arguments) -> BookList:
    raise InvalidArgument(code="blank_query")


def _tool(name: str, does: Any) -> Tool:
    return Tool(name, name, name, NoArguments, BookList, does, lambda _, __: ["a text"])


SUITE = Role(
    "suite",
    "What the conformance suite looks for.",
    (_tool("test_simple_text", _nothing), _tool("test_error_handling", _refuse)),
    READER_ROLE.resources,
)


@pytest.fixture(scope="module")
def suite() -> Iterator[str]:
    """Our own server code with tools of the names that the suite expects."""

    async def run(_: Any, work: Any) -> Any:
        return await to_thread.run_sync(work, _Nobody())

    served = StreamableHTTPSessionManager(make_server(SUITE, run))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with served.run():
            yield

    app = Starlette(routes=[Route("/mcp", served.asgi_app)], lifespan=lifespan)
    with running(app) as url:
        yield f"{url}/mcp"


@pytest.mark.parametrize("scenario", WITH_TOOLS_OF_THE_SUITE)
def test_conformance_suite_passes_with_its_own_tools(suite: str, scenario: str) -> None:
    run("conformance", "server", "--url", suite, "--scenario", scenario)


@proves("mcp.retrieval")
def test_inspector_works_over_http(library: Path) -> None:
    with served(library, "--mcp-reader=ann") as url:

        def inspect(*options: str) -> Any:
            return json.loads(run("mcp-inspector", "--cli", url, "--transport", "http", *options))

        tools = inspect("--method", "tools/list")["tools"]
        (book,) = inspect("--method", "resources/list")["resources"]
        cited = f"{book['uri']}/sentences/4-4"
        (read,) = inspect("--method", "resources/read", "--uri", cited)["contents"]
        call = ("--method", "tools/call", "--tool-name", "retrieve_context", "--tool-arg")
        found = inspect(*call, f"query={QUESTION}")
        refused = inspect(*call, f"query={QUESTION}", "position=99")

    assert {tool["name"] for tool in tools} == READER_TOOLS
    assert "red cord" in read["text"]
    assert "red cord" in found["structuredContent"]["context"]
    assert refused["structuredContent"]["error"]["code"] == "invalid_argument"
