"""Commands that serve a library over HTTP and run its background jobs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from truespan.cli.app import AsJson, LibraryPath, app, echo, folder_of
from truespan.serialize import to_json


@app.command()
def serve(
    library: LibraryPath = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 8700,
    workers: Annotated[int, typer.Option(help="Number of server processes.")] = 1,
    require_token: Annotated[
        bool, typer.Option("--require-token", help="Require a token on loopback too.")
    ] = False,
    world: Annotated[
        str | None, typer.Option("--world", "-w", help="World of requests that name none.")
    ] = None,
    mcp_reader: Annotated[
        str | None, typer.Option(help="Serve this reader to MCP clients without a token.")
    ] = None,
    mcp_owner: Annotated[
        bool,
        typer.Option("--mcp-owner", help="Let MCP clients without a token see whole documents."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Serve the library over HTTP: API, MCP and web page."""
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
        echo(to_json(told) if as_json else f"Truespan serves {chosen} at {address}")

    return run(service, on_ready)


@app.command()
def worker(
    library: LibraryPath = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Number of jobs to run at once.")
    ] = 1,
    once: Annotated[bool, typer.Option("--once", help="Exit when the queue is empty.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the queued jobs of a library in PostgreSQL until stopped."""
    import truespan

    chosen = folder_of(library)
    with truespan.open(chosen, logs=True) as opened, stop_on_signals() as stop:
        if not as_json and not once and opened.has_workers:
            echo(f"Running jobs of {chosen}, {concurrency} at a time. Stop with Ctrl-C.")
        done = opened.work(concurrency=concurrency, once=once, stopping=stop.is_set)
    jobs = "1 job" if done == 1 else f"{done} jobs"
    echo(to_json({"carried_out": done}) if as_json else f"Ran {jobs}.")


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that is set on SIGTERM or SIGINT; a second SIGINT ends the process."""
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
