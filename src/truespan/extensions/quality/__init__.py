"""Golden queries, metrics, comparison and calibration; building and promoting generations.

Owns: golden files, running and judging golden queries, comparing evaluations, proposing thresholds,
the reports; building a generation next to the one in use, its rows, and moving aliases.
Does not own: search and verification (retrieval), reading and writing files (files), and new
documents in all generations (ingest).
Must hold: an evaluation contains no text of a document; a failed query is counted, never left out;
the same results give the same numbers on every machine.
"""

from __future__ import annotations

from truespan.tables import Commands, JobKind, Tables

_HERE = "truespan.extensions.quality"


def register(tables: Tables) -> None:
    """Add the commands, the gate of golden queries, the job, and the members of `World`."""
    tables.commands += (
        Commands("Quality", f"{_HERE}.commands", ("evaluate", "calibrate")),
        Commands(
            "Generations",
            f"{_HERE}.generation_commands",
            ("generations", "reindex", "promote"),
        ),
    )
    tables.gates["golden"] = f"{_HERE}.world:ask_golden"
    tables.jobs["reindex"] = JobKind(
        queue=f"{_HERE}.generations:queue_reindex_job", run=f"{_HERE}.generations:run_reindex_job"
    )
    tables.store_parts["generations"] = f"{_HERE}.generation_rows:GenerationRows"
    tables.members["World.evaluation"] = f"{_HERE}.world:evaluation_of"
    tables.members["World.generations"] = f"{_HERE}.generations:generations_of"
