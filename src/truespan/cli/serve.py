"""The command that does the jobs of a library on a server."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from truespan.cli.app import AsJson, LibraryPath, app, folder_of, say
from truespan.serialize import to_json


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
    from truespan.http.app import ServerOptions
    from truespan.http.server import Service
    from truespan.http.server import serve as run

    chosen = folder_of(library)
    service = Service(
        folder=chosen,
        host=host,
        port=port,
        workers=workers,
        require_token=require_token,
        options=ServerOptions(world=world, mcp_reader=mcp_reader, mcp_owner=mcp_owner),
    )

    def on_ready(address: str) -> None:
        told = {"address": address, "library": str(chosen)}
        say(to_json(told) if as_json else f"Truespan serves {chosen} at {address}")

    return run(service, on_ready)


@app.command()
def worker(
    library: LibraryPath = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Jobs that are done at a time.")
    ] = 1,
    once: Annotated[
        bool, typer.Option("--once", help="Leave when no job is left to begin with.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Do the jobs that are submitted to a library in PostgreSQL, until told to stop."""
    import truespan

    chosen = folder_of(library)
    with truespan.open(chosen, logs=True) as opened, told_to_stop() as stop:
        if not as_json and not once and opened.has_workers:
            say(f"Doing jobs of {chosen}, {concurrency} at a time. Stop with Ctrl-C.")
        done = opened.work(concurrency=concurrency, once=once, stopping=stop.is_set)
    carried_out = "1 order was" if done == 1 else f"{done} orders were"
    say(to_json({"carried_out": done}) if as_json else f"{carried_out} carried out.")


@contextmanager
def told_to_stop() -> Iterator[threading.Event]:
    """Give an event that is set when the process is asked to end; a second time ends it."""
    event = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if event.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        event.set()

    signals = (signal.SIGTERM, signal.SIGINT)
    earlier = [signal.signal(number, on_signal) for number in signals]
    try:
        yield event
    finally:
        for number, before in zip(signals, earlier, strict=True):
            signal.signal(number, before)
