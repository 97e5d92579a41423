"""Libraries on servers: PostgreSQL, a Qdrant server, and the queue of worker processes.

Owns: the technology of these servers, the queue of jobs in PostgreSQL, and copies of rows between
stores, which backups of PostgreSQL are.
Does not own: the SQL of the tables, which is written once for both stores; running a job.
Must hold: the contract suites of stores and indexes pass unchanged.
"""

from __future__ import annotations

from truespan.tables import Commands, Tables

_HERE = "truespan.extensions.cluster"


def register(tables: Tables) -> None:
    """Add the commands, and the parts of libraries on servers."""
    tables.commands += (
        Commands("Serve", f"{_HERE}.commands", ("worker",)),
        Commands("Maintenance", f"{_HERE}.commands", ("prepare-store",)),
    )
    tables.store_parts["paces"] = f"{_HERE}.paces:PaceRows"
    tables.components |= {
        "database": f"{_HERE}.configured:open_database",
        "index": f"{_HERE}.configured:make_index",
        "index_check": f"{_HERE}.configured:check_server",
        "queue": f"{_HERE}.configured:make_queue",
        "queue_check": f"{_HERE}.queue_check:check_queue",
        "restore": f"{_HERE}.backup:restore_to_server",
        "snapshots": f"{_HERE}.backup:make_snapshots",
    }
