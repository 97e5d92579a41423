"""Calls in, results out: the SDK's low-level server with schemas, checks and errors of our own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import anyio
import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolRequestParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    ListPromptsResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from truespan import __version__
from truespan.arguments import parse_arguments
from truespan.errors import CallerError, InternalError, TruespanError
from truespan.mcp import resources
from truespan.mcp.context import CallerContext
from truespan.mcp.prompts import Prompt
from truespan.mcp.schema import Fault, Refused
from truespan.mcp.tools import Role, Tool
from truespan.serialize import problem, status_of
from truespan.settings import debugging
from truespan.types.bundle import ContextBundle
from truespan.types.telemetry import Stage

OnStage: TypeAlias = Callable[[Stage], None]
"""Takes a stage that a call has come to; called on the thread of the call."""

WORDS = {
    Stage.VECTOR: "embedding",
    Stage.TAIL: "embedding",
    Stage.WORDS: "searching",
    Stage.HITS: "searching",
    Stage.VERIFIED: "verifying",
    Stage.RANKED: "packing",
    Stage.PACKED: "packing",
}
"""What clients are told of each stage. A stage that is not here is not spoken of."""

BEGUN, DONE = "started", "done"


async def reported(session: Any, run: Callable[[OnStage], Awaitable[Any]]) -> Any:
    """Run a call and return what it gives, while its stages are told to the client.

    Every report is out before the result is: a client may forget the call once it has that.
    """
    loop = asyncio.get_running_loop()
    words: asyncio.Queue[str | None] = asyncio.Queue()
    found: list[Any] = []

    def on_stage(stage: Stage) -> None:
        if word := WORDS.get(stage):
            # When the loop is closed, the client has gone.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(words.put_nowait, word)

    async with anyio.create_task_group() as reporting:
        words.put_nowait(BEGUN)
        reporting.start_soon(_report, session, words)
        found.append(await run(on_stage))
        words.put_nowait(DONE)
        words.put_nowait(None)
    return found[0]


async def _report(session: Any, words: asyncio.Queue[str | None]) -> None:
    """Send each word once, with a number that grows."""
    sent: list[str] = []
    while (word := await words.get()) is not None:
        if word not in sent:
            await session.report_progress(float(len(sent)), None, word)
            sent.append(word)


Content: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[CallerContext], Any]
"""What is to be made of the reader or world that a request is for. It does not raise."""

Runner: TypeAlias = Callable[[Any, Work], Awaitable[Any]]
"""Has work done off the event loop, for the HTTP request it came with (None on a pipe)."""


def make_server(role: Role, run: Runner) -> Server[Any]:
    """Return a server that has a role's tools, resources and prompts, and nothing else."""
    server: Server[Any] = Server("truespan", version=__version__, instructions=role.instructions)
    # Traces that nobody asked for cost a tenth of a call, and are one more place to look after.
    server.middleware.clear()
    _serve_tools(server, role, run)
    _serve_resources(server, role, run)
    _serve_prompts(server, role)
    return server


def _serve_tools(server: Server[Any], role: Role, run: Runner) -> None:
    tools = {tool.name: tool for tool in role.tools}
    listed = ListToolsResult.model_validate({"tools": [tool.declared() for tool in role.tools]})

    async def list_tools(_: Any, __: PaginatedRequestParams) -> ListToolsResult:
        return listed

    async def call_tool(context: Any, params: CallToolRequestParams) -> Content:
        tool = tools.get(params.name)
        if tool is None:
            raise protocol_error(CallerError("This server has no such tool."))

        async def called(on_stage: OnStage | None) -> Content:
            work = partial(answer, tool, params.arguments or {})
            return await run(context.request, lambda seat: work(seat.subject(on_stage)))

        if (context.meta or {}).get("progress_token") is None:
            return await called(None)
        return await reported(context.session, called)

    # Without it, the newer protocol lists all tools before each call, to look one of them up.
    server.get_tool_input_schema = {tool.name: tool.input_schema for tool in listed.tools}.get
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)


def _serve_resources(server: Server[Any], role: Role, run: Runner) -> None:
    offered, known = role.offered, resources.templates()

    async def asked(context: Any, work: Callable[[Any], Content]) -> Content:
        found = await run(context.request, partial(_attempted, context.method, work))
        if isinstance(found, MCPError):
            raise found
        return found

    async def list_resources(context: Any, params: PaginatedRequestParams) -> Content:
        return await asked(context, partial(resources.page_of_resources, offered, params.cursor))

    async def list_templates(_: Any, __: PaginatedRequestParams) -> Content:
        return known

    async def read_resource(context: Any, params: ReadResourceRequestParams) -> Content:
        return await asked(context, partial(resources.read_resource, offered, params.uri))

    async def complete(context: Any, params: CompleteRequestParams) -> Content:
        part = params.argument
        return await asked(context, partial(resources.completed, offered, part.name, part.value))

    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read_resource)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete)


def _serve_prompts(server: Server[Any], role: Role) -> None:
    prompts = {prompt.name: prompt for prompt in role.prompts}
    listed = ListPromptsResult.model_validate({"prompts": [one.declared() for one in role.prompts]})

    async def list_prompts(_: Any, __: PaginatedRequestParams) -> ListPromptsResult:
        return listed

    async def get_prompt(_: Any, params: GetPromptRequestParams) -> Content:
        prompt = prompts.get(params.name)
        if prompt is None:
            raise protocol_error(CallerError("This server has no such prompt."))
        try:
            return _message(prompt, params.arguments or {})
        except TruespanError as error:
            raise protocol_error(error) from None

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)


def answer(tool: Tool, arguments: dict[str, Any], subject: Any) -> Content:
    """Run a tool and return its result; whatever goes wrong is a result as well."""
    try:
        found = tool.run(subject, parse_arguments(tool.takes, arguments))
        return _result(found, tool.blocks)
    except TruespanError as error:
        return _refusal(error)
    except Exception as error:
        return _refusal(unforeseen(tool.name, error))


def protocol_error(error: TruespanError) -> MCPError:
    """Return an error of ours as one of the protocol's, for what has no result to stand in."""
    return MCPError(code=status_of(error).mcp, message=str(error), data=problem(error))


def _attempted(
    method: str, work: Callable[[Any], Content], seat: CallerContext
) -> Content | MCPError:
    try:
        return work(seat.subject())
    except TruespanError as error:
        return protocol_error(error)
    except Exception as error:
        return protocol_error(unforeseen(method, error))


def _message(prompt: Prompt, arguments: dict[str, Any]) -> Content:
    words = prompt.words(parse_arguments(prompt.takes, arguments))
    return {
        "description": prompt.description,
        "messages": [{"role": "user", "content": {"type": "text", "text": words}}],
        "resultType": "complete",
    }


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


def unforeseen(what: str, error: Exception) -> InternalError:
    """Tell the client nothing but that it is a bug: what an exception says may quote a document."""
    sys.stderr.write(f"truespan mcp: {what}: unexpected {type(error).__name__}\n")
    if debugging():
        traceback.print_exception(error)
    return InternalError("error")
