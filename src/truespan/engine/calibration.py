"""Calibration of a model from the chunks of a world, if it was not measured with queries.

It needs no provider: the vectors of chunks are in the store. Readers never use the result, since it
depends on text that they have not read.
"""

from __future__ import annotations

from truespan.engine.components import CalibrationSchedule
from truespan.errors import StoreDamaged
from truespan.store import Store
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, chunk_id
from truespan.types.profile import CalibrationOrigin, shipped
from truespan.types.scope import Scope
from truespan.types.vectors import cosine

SAMPLES = 200
"""Number of pairs of each kind."""
GROWTH = 2
"""Growth factor of a world after which it is measured again."""


def keep_calibrated(
    store: Store, scope: Scope, schedule: CalibrationSchedule, added: int | None = None
) -> bool:
    """Calibrate the scope's profile from its chunks if that is due; return whether it was done.

    It is due in a recommended world if the model comes without a calibration and none was stored,
    or if the world has grown a lot since. If nothing was found, it is due again once the world has
    grown as much. `added` is how many chunks were added at most, if that is known.
    """
    if shipped(scope.profile) is not None:
        return False
    world = store.find_world(scope.authority, scope.world, scope.generation.number)
    if world is None or not world.defaults.values.calibrated:
        return False
    try:
        kept = store.kept_calibration(scope)
    except StoreDamaged:
        # Nothing is written over it: the error of a request says what to do.
        return False
    if kept is not None and kept.origin is not CalibrationOrigin.DOCUMENTS:
        return False
    calibrated = kept is not None
    if not schedule.is_due(scope, added, calibrated=calibrated):
        return False
    revisions = store.embedded_revisions(scope)
    chunks = sum(count for _, count in revisions)
    if kept is not None and chunks < GROWTH * kept.chunks:
        schedule.postpone(scope, GROWTH * kept.chunks - chunks, calibrated=True)
        return False
    # Imported here: an ingestion that changes nothing comes no further than the lines above.
    from truespan.evaluation.calibrate import calibrate_from_pairs

    pairs = _measure_pairs(store, scope, revisions, chunks)
    found = calibrate_from_pairs(*pairs, chunks, scope.profile.distance)
    if found is None:
        schedule.postpone(scope, (GROWTH - 1) * chunks, calibrated=calibrated)
        return False
    store.keep_calibration(scope, found)
    return True


def _measure_pairs(
    store: Store, scope: Scope, revisions: list[tuple[RevisionRef, int]], chunks: int
) -> tuple[list[float], list[float]]:
    """Return the cosines of neighbouring chunks, and of chunks that are far apart.

    Places are spread evenly over the world and always the same. Two of them that are half the world
    apart are strangers, unless the world is small.
    """
    places: list[tuple[RevisionRef, int]] = []
    wanted = min(SAMPLES, chunks)
    passed = 0
    for ref, count in revisions:
        while len(places) < wanted and len(places) * chunks // wanted < passed + count:
            places.append((ref, len(places) * chunks // wanted - passed))
        passed += count

    def id_of(ref: RevisionRef, index: int) -> ChunkId:
        world, generation = scope.world, scope.generation.number
        return chunk_id(world, generation, ref.document, ref.revision, index)

    pairs = [(id_of(ref, index), id_of(ref, index + 1)) for ref, index in places]
    records = store.read_chunks(scope, [*dict.fromkeys(key for pair in pairs for key in pair)])
    hashes = {key: record.recorded_hash for key, record in records.items() if record.is_intact()}
    vectors = store.vectors(scope, [*set(hashes.values())])
    known = {key: vectors[own] for key, own in hashes.items() if own in vectors}
    neighbours = [
        cosine(known[first], known[second])
        for first, second in pairs
        if first in known and second in known
    ]
    firsts = [first for first, _ in pairs if first in known]
    half = len(firsts) // 2
    strangers = [
        cosine(known[first], known[second])
        for first, second in zip(firsts, firsts[half:] + firsts[:half], strict=True)
        if first != second
    ]
    return neighbours, strangers
