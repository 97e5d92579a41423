"""Calls in, results out: the SDK's low-level server with schemas, checks and errors of our own."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolRequestParams, ListToolsResult, PaginatedRequestParams

from truespan import __version__
from truespan.doors.mcp.arguments import read_arguments
from truespan.doors.mcp.engine import Engine
from truespan.doors.mcp.schema import Fault, Refused
from truespan.doors.mcp.tools import Role, Tool
from truespan.doors.wire import problem, status_of
from truespan.errors import CallerError, InternalError, TruespanError
from truespan.model.bundle import ContextBundle
from truespan.settings import debugging

Content = dict[str, Any]


def make_server(role: Role, engine: Engine) -> Server[Any]:
    """Return a server that has a role's tools and nothing else."""
    server: Server[Any] = Server("truespan", version=__version__, instructions=role.instructions)
    # Traces that nobody asked for cost a tenth of a call, and are one more place to look after.
    server.middleware.clear()
    tools = {tool.name: tool for tool in role.tools}
    listed = ListToolsResult.model_validate({"tools": [tool.declared() for tool in role.tools]})

    async def list_tools(_: Any, __: PaginatedRequestParams) -> ListToolsResult:
        return listed

    async def call_tool(_: Any, params: CallToolRequestParams) -> Content:
        tool = tools.get(params.name)
        if tool is None:
            raise _no_such_tool()
        return await engine.run(partial(answer, tool, params.arguments or {}))

    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    return server


def answer(tool: Tool, arguments: dict[str, Any], subject: Any) -> Content:
    """Run a tool and return its result; whatever goes wrong is a result as well."""
    try:
        found = tool.run(subject, read_arguments(tool.takes, arguments))
        return _result(found, tool.blocks)
    except TruespanError as error:
        return _refusal(error)
    except Exception as error:
        return _refusal(_unforeseen(tool, error))


def _result(found: Any, blocks: Callable[[Any], list[str]]) -> Content:
    failure = found.error if isinstance(found, ContextBundle) else None
    texts = blocks(found) if failure is None else [f"{failure.code}: {failure.message}"]
    return _content(texts, found, failed=failure is not None)


def _refusal(error: TruespanError) -> Content:
    return _content([f"{error.code}: {error}"], Refused(Fault(**problem(error))), failed=True)


def _content(texts: list[str], found: Any, *, failed: bool) -> Content:
    return {
        "content": [{"type": "text", "text": text} for text in texts],
        "structuredContent": msgspec.to_builtins(found),
        "isError": failed,
        "resultType": "complete",
    }


def _unforeseen(tool: Tool, error: Exception) -> InternalError:
    """Tell the client nothing but that it is a bug: what an exception says may quote a document."""
    sys.stderr.write(f"truespan mcp: {tool.name}: unexpected {type(error).__name__}\n")
    if debugging():
        traceback.print_exception(error)
    return InternalError("error")


def _no_such_tool() -> MCPError:
    refusal = CallerError("This server has no such tool.")
    return MCPError(code=status_of(refusal).mcp, message=refusal.message)
