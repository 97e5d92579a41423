"""The command that serves a library over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from truespan.doors.cli.app import AsJson, LibraryPath, app, folder_of, say
from truespan.doors.wire import to_json


@app.command()
def serve(
    library: LibraryPath = None,
    host: Annotated[str, typer.Option(help="Address to serve at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve at; 0 takes a free one.")] = 8700,
    workers: Annotated[int, typer.Option(help="Processes that serve.")] = 1,
    require_token: Annotated[
        bool, typer.Option("--require-token", help="Ask for a token on this machine as well.")
    ] = False,
    world: Annotated[
        str | None, typer.Option("--world", "-w", help="World that is meant where none is named.")
    ] = None,
    mcp_reader: Annotated[
        str | None, typer.Option(help="Let MCP without a token serve this reader.")
    ] = None,
    mcp_owner: Annotated[
        bool, typer.Option("--mcp-owner", help="Let MCP without a token see whole documents.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Serve the library over HTTP: an API, MCP, and a page to see it."""
    from truespan.doors.http.app import Serving
    from truespan.doors.http.process import Service
    from truespan.doors.http.serve import serve as run

    chosen = folder_of(library)
    service = Service(
        folder=chosen,
        host=host,
        port=port,
        workers=workers,
        require_token=require_token,
        serving=Serving(world=world, mcp_reader=mcp_reader, mcp_owner=mcp_owner),
    )

    def on_ready(address: str) -> None:
        told = {"address": address, "library": str(chosen)}
        say(to_json(told) if as_json else f"Truespan serves {chosen} at {address}")

    return run(service, on_ready)
