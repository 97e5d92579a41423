"""Commands of the panel "Serve": HTTP, MCP and its clients, and workers."""

import gc
import json
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from truespan.cli.commands import Option
from truespan.cli.options import Folder, Json, Place, WorldName, folder_of
from truespan.cli.terminal import echo, write_error
from truespan.errors import InvalidArgument
from truespan.wire.serialize import members, to_json

if TYPE_CHECKING:
    from truespan.extensions.server.http.server import Startup
    from truespan.extensions.server.mcp.caller import WritePermissions

_NAMED_WORLDS = 5
_NO_WORKER = "jobs wait: no worker is running; start 'truespan worker'"
_UVX_FOLDER = "archive-v0"
"""The folder of environments that `uvx` makes and may remove again."""


def serve(
    library: Folder = None,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on; 0 picks a free one.")] = 8700,
    workers: Annotated[int, Option(help="Number of server processes.")] = 1,
    require_token: Annotated[bool, Option(help="Require a token on loopback too.")] = False,
    world: Annotated[str | None, Option("--world", "-w", help="Default world of requests.")] = None,
    mcp_reader: Annotated[
        str | None, Option(help="Serve this reader to MCP clients without a token.")
    ] = None,
    mcp_owner: Annotated[
        bool, Option(help="Let MCP clients without a token see whole documents.")
    ] = False,
    mcp_may: Annotated[
        list[str] | None,
        Option(
            help="Let MCP clients 'move' a reader's position, write a reader's 'note', or as the "
            "owner 'ingest' notes."
        ),
    ] = None,
    log_requests: Annotated[
        bool, Option(help="Log each request with its path and token name.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Serve the library over HTTP: API, MCP and web page."""
    from truespan.extensions.server.http.app import ServerOptions
    from truespan.extensions.server.http.server import Service
    from truespan.extensions.server.http.server import serve as run

    folder = folder_of(library)
    options = ServerOptions(
        world=world,
        mcp_reader=mcp_reader,
        mcp_owner=mcp_owner,
        mcp_permissions=_permissions(mcp_may or (), "--mcp-may"),
        log_requests=log_requests,
    )

    def on_ready(startup: "Startup") -> None:
        if as_json:
            echo(to_json({**members(startup, *startup.__struct_fields__), "library": str(folder)}))
            return
        write_error(describe_startup(startup))
        sys.stderr.flush()
        echo(f"Truespan serves {folder} at {startup.address}")

    return run(
        Service(
            folder=folder,
            host=host,
            port=port,
            workers=workers,
            require_token=require_token,
            options=options,
        ),
        on_ready,
    )


def describe_startup(startup: "Startup") -> str:
    """Return the facts about a server that has started, one on each line.

    If the log is JSON, they are one line of the log.
    """
    if startup.log_format == "json":
        from truespan.core.clock import format_time

        head = {"time": format_time(time.time()), "level": "info", "event": "server_started"}
        facts = members(startup, *startup.__struct_fields__)
        return json.dumps(head | facts) + "\n"
    worlds = startup.worlds or []
    count, named = len(worlds), ", ".join(worlds[:_NAMED_WORLDS])
    more = f" and {count - _NAMED_WORLDS} more" if count > _NAMED_WORLDS else ""
    listed = f"{count} {'world' if count == 1 else 'worlds'}: {named}{more}"
    if startup.worlds is None:
        listed = "cannot be read; run 'truespan doctor'"
    elif not worlds:
        listed = "no worlds yet; create one with 'truespan init --world NAME'"
    active = "1 is active" if startup.tokens == 1 else f"{startup.tokens} are active"
    if startup.tokens is None:
        active = "the tokens cannot be read; run 'truespan doctor'"
    authentication = f"a token is required; {active}"
    if not startup.requires_token:
        authentication = f"no token is needed on this machine; {active}"
    elif startup.tokens == 0:
        authentication = "a token is required; create one with 'truespan token create'"
    jobs = "jobs run in the server"
    if startup.queue:
        jobs = _NO_WORKER if startup.workers_running is False else "jobs run on workers"
    processes = "1 process" if startup.processes == 1 else f"{startup.processes} processes"
    rows = {
        "worlds": listed,
        "authentication": authentication,
        "metrics": f"{startup.address}metrics, for the owner or a token with 'observe'"
        if startup.metrics
        else "none are collected; install Truespan with the extra 'metrics'",
        "workers": f"{processes}; {jobs}",
        "API": f"{startup.address}openapi.json",
        "OpenAI clients": f"{startup.address}v1, with a token as key ('truespan token create')",
    }
    lines = [f"  {name:<15} {value}\n" for name, value in rows.items()]
    return "".join([f"Truespan {startup.version}\n", *lines])


def mcp(
    world: WorldName = None,
    library: Folder = None,
    reader: Annotated[
        str | None, Option("--reader", "-r", help="Serve this reader, up to the position.")
    ] = None,
    owner: Annotated[bool, Option(help="Serve the owner, who sees whole documents.")] = False,
    audience: Annotated[
        list[str] | None,
        Option(help="Serve only documents for everyone and for this label, such as group:legal."),
    ] = None,
    may: Annotated[
        list[str] | None,
        Option(
            help="Let the model 'move' the reader's position, write a 'note' of the reader, or "
            "with --owner 'ingest' notes."
        ),
    ] = None,
    print_config: Annotated[
        str | None,
        Option(
            help="Print the configuration for a client, and exit: desktop, vscode, zed or codex.",
            metavar="[CLIENT]",
            is_flag=False,
            flag_value="desktop",
        ),
    ] = None,
) -> int:
    """Serve a model over standard input and output (Model Context Protocol)."""
    # A server that sees whole documents must be asked for explicitly.
    if owner == (reader is not None):
        raise InvalidArgument(
            "Choose who the server is for: a reader, or the owner, who sees whole documents.",
            advice="Add either '--reader NAME' or '--owner'.",
        )
    permissions = _permissions(may or (), "--may")
    for name in may or ():
        if owner != (name == "ingest"):
            whom, option = ("a reader", "--reader NAME") if owner else ("the owner", "--owner")
            raise InvalidArgument(f"--may {name} is for {whom}.", advice=f"Use it with '{option}'.")
    if audience and (permissions.may_move or permissions.may_ingest):
        raise InvalidArgument(
            "A server for some documents only is read-only.",
            advice="Remove '--audience', or '--may move' and '--may ingest'.",
        )
    folder = folder_of(library)
    if print_config is not None:
        with Place(world, library).open() as chosen:
            whom = ["--owner"] if reader is None else ["--reader", chosen.reader(reader).name]
        arguments = ["mcp", "--library", str(folder.resolve()), "--world", chosen.name, *whom]
        arguments += [part for label in audience or () for part in ("--audience", label)]
        arguments += [part for name in may or () for part in ("--may", name)]
        echo(client_config(print_config, chosen.name, arguments))
        return 0
    # Collecting garbage among the imported modules takes a tenth of the start-up time. The server
    # turns the collection on again once it is ready.
    gc.disable()
    from truespan.extensions.server.mcp.stdio import serve_stdio

    return serve_stdio(folder, world, reader, permissions, audience)


def _permissions(names: Sequence[str], option: str) -> "WritePermissions":
    from truespan.extensions.server.mcp.caller import WritePermissions

    if unknown := {*names} - {"move", "ingest", "note"}:
        raise InvalidArgument(
            f"{option} {min(unknown)!r} is unknown.", advice="Name move, ingest or note."
        )
    return WritePermissions("move" in names, "ingest" in names, "note" in names)


def client_config(client: str, world: str, arguments: list[str]) -> str:
    """Return the configuration of a client that starts `truespan` with these arguments."""
    if client not in CLIENTS:
        raise InvalidArgument(
            f"There is no format for {client!r}.", advice=f"Known are: {', '.join(CLIENTS)}."
        )
    program, *before = _program()
    slug = re.sub("[^a-z0-9]+", "-", world.lower()).strip("-")
    name = f"truespan-{slug}" if slug else "truespan"
    return CLIENTS[client](name, {"command": program, "args": [*before, *arguments]})


def _program() -> list[str]:
    """Return the command of this program with its full path: clients have another search path."""
    uvx = shutil.which("uvx")
    if uvx is not None and _UVX_FOLDER in Path(sys.prefix).parts:
        return [uvx, "truespan"]
    beside = Path(sys.executable).with_name("truespan")
    return [str(beside)] if beside.is_file() else [sys.executable, "-m", "truespan"]


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _toml(name: str, entry: dict[str, Any]) -> str:
    # Strings and lists of strings are written as in JSON.
    values = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[mcp_servers.{name}]", *values])


CLIENTS = {
    "desktop": lambda name, entry: _json({"mcpServers": {name: entry}}),
    "vscode": lambda name, entry: _json({"servers": {name: {"type": "stdio", **entry}}}),
    "zed": lambda name, entry: _json({"context_servers": {name: {"source": "custom", **entry}}}),
    "codex": _toml,
}
"""The format of each client. Most clients use the format of the desktop."""
