"""Golden queries, metrics, comparison and calibration.

Owns: golden files, running and judging golden queries, comparing evaluations, proposing thresholds,
the reports.
Does not own: search and verification (retrieval), reading and writing files (files).
Must hold: an evaluation contains no text of a document; a failed query is counted, never left out;
the same results give the same numbers on every machine.
"""

from __future__ import annotations

from truespan.tables import Commands, Tables

_HERE = "truespan.extensions.quality"


def register(tables: Tables) -> None:
    """Add the commands, the gate of golden queries, and `World.evaluation`."""
    tables.commands += (Commands("Quality", f"{_HERE}.commands", ("evaluate", "calibrate")),)
    tables.gates["golden"] = f"{_HERE}.world:ask_golden"
    tables.members["World.evaluation"] = f"{_HERE}.world:evaluation_of"
