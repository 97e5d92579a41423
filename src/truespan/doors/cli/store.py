"""The command for a store on a server: make its tables, or bring them up to date."""

from __future__ import annotations

from truespan.doors.cli.app import AsJson, LibraryPath, app, folder_of, say
from truespan.doors.wire import to_json


@app.command("prepare-store")
def prepare_store(library: LibraryPath = None, as_json: AsJson = False) -> None:
    """Make or update the tables of a PostgreSQL store, as the role of store_owner_url."""
    import truespan

    before, now = truespan.prepare_store(folder_of(library))
    if as_json:
        say(to_json({"schema_before": before, "schema": now}))
    elif before == now:
        say(f"The tables are up to date, at schema {now}; rights and policies were renewed.")
    else:
        say(f"The tables were brought from schema {before} to {now}.")
