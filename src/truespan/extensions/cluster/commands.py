"""Commands of libraries on servers: workers, and the tables of the store."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from truespan.cli.commands import Option, WholeNumber
from truespan.cli.options import Folder, Json, folder_of
from truespan.cli.terminal import echo
from truespan.wire.serialize import to_json


def worker(
    library: Folder = None,
    concurrency: Annotated[
        int, Option(help="Number of jobs to run at once.", type=WholeNumber(1, 64))
    ] = 1,
    once: Annotated[bool, Option(help="Exit when the queue is empty.")] = False,
    as_json: Json = False,
) -> None:
    """Run the queued jobs of a library in PostgreSQL until stopped."""
    import truespan

    folder = folder_of(library)
    with truespan.open(folder, logs=True) as opened, stop_on_signals() as stop:
        if not as_json and not once and opened.has_workers:
            echo(f"Running jobs of {folder}, {concurrency} at a time. Stop with Ctrl-C.")
        done = opened.work(concurrency=concurrency, once=once, stopping=stop.is_set)
    jobs = "1 job" if done == 1 else f"{done} jobs"
    echo(to_json({"carried_out": done}) if as_json else f"Ran {jobs}.")


def prepare_store(library: Folder = None, as_json: Json = False) -> None:
    """Create or update the tables of a PostgreSQL store as the role in store_owner_url."""
    from truespan.extensions.cluster.configured import prepare_tables

    before, now = prepare_tables(folder_of(library))
    if as_json:
        echo(to_json({"schema_before": before, "schema": now}))
    elif before == now:
        echo(f"The tables are up to date (schema {now}); grants and policies were renewed.")
    else:
        echo(f"The tables were updated from schema {before} to {now}.")


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that is set on SIGTERM or SIGINT; a second signal ends the process."""
    event = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    previous = {
        number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
