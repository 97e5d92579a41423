"""The protocol server of a role: the SDK's low-level server with our schemas, checks and errors."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import msgspec

from truespan import __version__
from truespan.core.strict_json import DuplicateKey
from truespan.errors import CallerError, InternalError, TruespanError, resource_error
from truespan.extensions.proof.wire import add_receipt, split_signed
from truespan.extensions.server.arguments import parse_arguments
from truespan.extensions.server.mcp import resources
from truespan.extensions.server.mcp.caller import (
    CallerContext,
    ErrorDetail,
    ErrorResult,
    Role,
    Tool,
)
from truespan.extensions.server.mcp.sdk import MCPError, Server, types
from truespan.extensions.server.mcp.writing import OPTIONS
from truespan.settings import debugging
from truespan.types.bundle import ContextBundle
from truespan.types.request import Defaults
from truespan.wire.serialize import problem, status_of

Content: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[CallerContext], Any]
"""Work on the reader or world of a request; it raises nothing."""
Runner: TypeAlias = Callable[[Any, Work], Awaitable[Any]]
"""A function that runs work on a thread, for an HTTP request or None over standard input."""

SHUTDOWN_SECONDS = 1.5
"""Seconds to wait for running calls at the end; clients kill the process after two."""


def make_server(role: Role, run: Runner) -> Server[Any]:
    """Return a server with a role's tools and resources, and nothing else."""
    server: Server[Any] = Server("truespan", version=__version__, instructions=role.instructions)
    # The SDK's own tracing costs a tenth of a call, and could record text.
    server.middleware.clear()
    _serve_tools(server, role, run)
    _serve_resources(server, role, run)
    return server


def _serve_tools(server: Server[Any], role: Role, run: Runner) -> None:
    tools = {tool.name: tool for tool in role.tools}
    listed, listed_in_contract = (
        types.ListToolsResult.model_validate(
            {"tools": [tool.to_json(contract=contract) for tool in role.tools]}
        )
        for contract in (False, True)
    )

    async def list_tools(context: Any, _: types.PaginatedRequestParams) -> types.ListToolsResult:
        # Only then the schemas depend on the world, which may still be opening.
        if listed == listed_in_contract:
            return listed
        is_contract = await run(context.request, _is_contract)
        return listed_in_contract if is_contract else listed

    async def call(context: Any, params: types.CallToolRequestParams) -> Content:
        tool = tools.get(params.name)
        if tool is None:
            option = OPTIONS.get(params.name)
            advice = f"It needs a server that was started with {option}." if option else ""
            raise protocol_error(CallerError("This server has no such tool.", advice=advice))

        def work(caller: CallerContext) -> Content:
            subject = caller if tool.writes else caller.subject()
            return call_tool(tool, params.arguments or {}, subject)

        return await run(context.request, work)

    # Without this, the newer protocol lists all tools before each call to look up one of them.
    server.get_tool_input_schema = {tool.name: tool.input_schema for tool in listed.tools}.get
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call)


def _is_contract(caller: CallerContext) -> bool:
    """Return whether the world has the contract's defaults; calls report a deleted one."""
    with contextlib.suppress(TruespanError):
        return caller.world.defaults is Defaults.CONTRACT
    return False


def _serve_resources(server: Server[Any], role: Role, run: Runner) -> None:
    provider = role.resources

    async def run_work(context: Any, work: Callable[[Any], Content]) -> Content:
        def attempt(caller: CallerContext) -> Content | MCPError:
            try:
                return work(caller.subject())
            except TruespanError as error:
                return protocol_error(error)
            except Exception as error:
                return protocol_error(report_bug(context.method, error))

        result = await run(context.request, attempt)
        if isinstance(result, MCPError):
            raise result
        return result

    async def list_resources(context: Any, params: types.PaginatedRequestParams) -> Content:
        return await run_work(context, partial(resources.list_resources, provider, params.cursor))

    async def list_templates(_: Any, __: types.PaginatedRequestParams) -> Content:
        return resources.TEMPLATES

    async def read_resource(context: Any, params: types.ReadResourceRequestParams) -> Content:
        return await run_work(context, partial(resources.read_resource, provider, params.uri))

    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler(
        "resources/templates/list", types.PaginatedRequestParams, list_templates
    )
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)


def call_tool(tool: Tool, arguments: dict[str, Any], subject: Any) -> Content:
    """Run a tool and return its result; every failure is a result as well."""
    try:
        given, signed = parse_arguments(tool.accepted, arguments), False
        if tool.signs:
            given, signed = split_signed(given)
        result = tool.run(subject, given)
        failure = result.error if isinstance(result, ContextBundle) else None
        texts = [f"{failure.code}: {failure.message}"] if failure else tool.render(subject, result)
        if signed and not failure:
            result = add_receipt(result, subject.sign(result))
        return _tool_result(texts, result, is_error=failure is not None)
    except TruespanError as error:
        failed = error
    except Exception as error:
        failed = report_bug(tool.name, error)
    detail = ErrorResult(ErrorDetail(**problem(failed)))
    return _tool_result([f"{failed.code}: {failed}"], detail, is_error=True)


def _tool_result(texts: list[str], result: Any, *, is_error: bool) -> Content:
    return {
        "content": [{"type": "text", "text": text} for text in texts],
        "structuredContent": msgspec.to_builtins(result),
        "isError": is_error,
        "resultType": "complete",
    }


def protocol_error(error: TruespanError) -> MCPError:
    """Return an error of the protocol, for requests without error results."""
    return MCPError(code=status_of(error).mcp, message=str(error), data=problem(error))


def parse_error(reason: ValueError) -> bytes:
    """Return the reply to a message that cannot be read; its id is unknown."""
    # Other reasons may quote the message.
    why = f": {reason}" if isinstance(reason, DuplicateKey) else ""
    error = {"code": types.PARSE_ERROR, "message": f"Parse error{why}"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})


def report_bug(place: str, error: Exception) -> TruespanError:
    """Log an unexpected exception, without its message: it may quote a document."""
    if known := resource_error(error):
        return known
    # A log on a full disk must not cost the reply.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"truespan mcp: {place}: unexpected {type(error).__name__}\n")
        if debugging():
            traceback.print_exception(error)
    return InternalError("error")


class TemplateFormatter(logging.Formatter):
    """Formats a record without its arguments and exceptions, which may quote a document."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.name}: {record.msg}"


def stderr_handler() -> logging.Handler:
    """Return a handler that writes message templates to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TemplateFormatter())
    return handler


@contextlib.contextmanager
def restrict_logger(name: str) -> Iterator[None]:
    """Log only templates of warnings from a logger and those below it, and do not propagate."""
    logger, handler = logging.getLogger(name), stderr_handler()
    previous = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = previous
