"""The doctor: what is wrong with a library, what would mend it, and mending it.

Owns: comparing store and index both ways, checks for leaks, plans, and carrying them out.
Does not own: embedding (ingest), damage at read time (query), files and settings (adapters).
Must hold: looking changes nothing that anybody sees; a plan is carried out only where things are
still as they were seen; the store is believed, and only where its own hashes agree; what cannot be
mended is told each time, until it is.
"""

from __future__ import annotations

from truespan.maintenance.doctor.examine import examine
from truespan.maintenance.doctor.plan import (
    REMEDIES,
    Action,
    Finding,
    GenerationPlan,
    Item,
    Plan,
    RepairResult,
    WorldPlan,
)

__all__ = [
    "REMEDIES",
    "Action",
    "Finding",
    "GenerationPlan",
    "Item",
    "Plan",
    "RepairResult",
    "WorldPlan",
    "examine",
]
