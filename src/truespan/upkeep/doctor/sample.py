"""Whether kept vectors are what the model makes of their texts: a few are embedded again."""

from __future__ import annotations

from truespan.errors import TruespanError
from truespan.model.health import Check, Verdict
from truespan.model.scope import Scope
from truespan.ports import Embedder, TrustedStore
from truespan.upkeep.doctor.findings import Action, Finding
from truespan.upkeep.doctor.judge import alike, digest
from truespan.upkeep.doctor.plan import Item

LEAST_SIMILARITY = 0.99
"""Rounding, batches and machines move a vector less than this, another model far more."""
A_FEW = 3


def sample(
    store: TrustedStore, scope: Scope, embedder: Embedder, count: int, *, world: str
) -> tuple[list[Item], Check]:
    """Return the vectors of a sample that are not their texts', and a line on the whole."""
    name = f"model of {world}, generation {scope.generation.number}"
    found: list[Item] = []
    tried = 0
    try:
        for chunk, text in store.sample(scope, count):
            tried += 1
            kept = chunk.vector or b""
            if alike(embedder.embed_documents([text])[0], kept) < LEAST_SIMILARITY:
                seen = digest(kept).hex()
                found.append(Item(Finding.MIXED_MODEL, Action.EMBED, chunk.text_hash, seen))
    except TruespanError as error:
        return found, Check(name, Verdict.WARNING, f"could not be tried ({error.code})")
    if found:
        says = f"{len(found)} of {tried} texts have another vector"
        remedy = "Look at more of them with a larger --embed-sample."
        return found, Check(name, Verdict.WARNING, says, remedy)
    return found, Check(name, Verdict.OK, f"{tried} of {tried} texts have the vector it gives")
