"""Calibration of a model from a world's own chunks, without any query.

Neighbouring chunks are related pairs, and chunks far apart are unrelated pairs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from math import ceil, floor

from msgspec.structs import replace

from truespan import errors
from truespan.engine.components import CalibrationSchedule
from truespan.store import Store
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, chunk_id
from truespan.types.profile import Calibration, CalibrationOrigin, Distance, normalised
from truespan.types.scope import Scope
from truespan.types.vectors import cosine

SAMPLES = 200
"""Number of pairs of each kind."""
GROWTH = 2
"""Growth factor of a world after which it is measured again."""

MIN_PAIRS = 20
MIN_AUC = 0.6
TIGHTENING = 0.1
"""Increase of thresholds for short queries, as a share of high minus low: 0.03 of 0.3."""
GATE = 5 / 6
"""Position of the similarity gate between low and high: 0.5 between 0.25 and 0.55."""
_DECIMALS = 10_000
_FLOOR, _LOW, _HIGH, _UNRELATED = (0.19, 0.55), (0.21, 0.55), (0.34, 0.47), (0.12, 0.58)
"""Intercept and slope of each number over the median cosine of unrelated chunks.

Fitted on twelve variants of a model over three books with 188 questions, whose medians lie between
0.0 and 0.65: the low threshold keeps 97 of 100 answerable questions, the high one half of them, and
no residual exceeds 0.03. See docs/evaluation.md.
"""


def keep_calibrated(
    store: Store, scope: Scope, schedule: CalibrationSchedule, added: int | None = None
) -> bool:
    """Calibrate the scope's profile from its chunks if that is due; return whether it was done.

    It is due in a recommended world if there is neither a shipped nor a stored calibration, or if
    the world has grown a lot since. If nothing was found, it is due again once the world has grown
    as much. `added` is the maximum number of added chunks, if known.
    """
    if scope.profile.calibration is not None:
        return False
    world = store.worlds.find(scope.authority, scope.world, scope.generation.number)
    if world is None or world.defaults.values.plain:
        return False
    try:
        kept = store.records.kept_calibration(scope)
    except errors.StoreDamaged:
        # Nothing is written over it: the error of a request says what to do.
        return False
    if kept is not None and kept.origin is not CalibrationOrigin.DOCUMENTS:
        return False
    calibrated = kept is not None
    if not schedule.is_due(scope, added, calibrated=calibrated):
        return False
    revisions = store.chunks.embedded_revisions(scope)
    chunks = sum(count for _, count in revisions)
    if kept is not None and chunks < GROWTH * kept.chunks:
        schedule.postpone(scope, GROWTH * kept.chunks - chunks, calibrated=True)
        return False
    pairs = _measure_pairs(store, scope, revisions, chunks)
    found = calibrate_from_pairs(*pairs, chunks, scope.profile.distance)
    if found is None:
        schedule.postpone(scope, (GROWTH - 1) * chunks, calibrated=calibrated)
        return False
    store.records.keep_calibration(scope, found)
    return True


def _measure_pairs(
    store: Store, scope: Scope, revisions: list[tuple[RevisionRef, int]], chunks: int
) -> tuple[list[float], list[float]]:
    """Return the cosines of neighbouring chunks, and of chunks that are far apart.

    Places are spread evenly over the world and always the same. Two chunks that are half the world
    apart are unrelated, unless the world is small.
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
    records = store.chunks.read(scope, [*dict.fromkeys(key for pair in pairs for key in pair)])
    hashes = {key: record.recorded_hash for key, record in records.items() if record.is_intact()}
    vectors = store.chunks.vectors(scope, [*set(hashes.values())])
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


def calibrate_from_pairs(
    neighbours: Sequence[float],
    strangers: Sequence[float],
    chunks: int,
    distance: Distance = Distance.COSINE,
) -> Calibration | None:
    """Return a calibration from the cosines of chunks.

    `neighbours` are pairs of consecutive chunks, `strangers` pairs of distant chunks. None if there
    are too few pairs, or if the model does not separate them.
    """
    if min(len(neighbours), len(strangers)) < MIN_PAIRS or auc_of(neighbours, strangers) < MIN_AUC:
        return None
    middle = sorted(strangers)[len(strangers) // 2]
    numbers = (
        normalised(start + slope * middle, distance)
        for start, slope in (_FLOOR, _LOW, _HIGH, _UNRELATED)
    )
    measured_on = f"{len(neighbours) + len(strangers)} pairs of chunks of the world"
    found = round_calibration(*numbers, measured_on=measured_on)
    return replace(found, origin=CalibrationOrigin.DOCUMENTS, chunks=chunks)


def auc_of(relevant: Sequence[float], irrelevant: Sequence[float]) -> float:
    """Return the share of pairs in which the relevant score is higher, ties as half."""
    ascending = sorted(irrelevant)
    # Doubled, so that half a tie is a whole number.
    wins = sum(bisect_left(ascending, one) + bisect_right(ascending, one) for one in relevant)
    return wins / (2 * len(relevant) * len(irrelevant))


def round_calibration(
    least: float, low: float, high: float, unrelated_high: float, measured_on: str
) -> Calibration:
    """Return a calibration from its four measured numbers, rounded consistently."""

    def rounded(towards: Callable[[float], int], value: float) -> float:
        return min(max(towards(round(value * _DECIMALS, 6)) / _DECIMALS, 0.0), 1.0)

    low = rounded(floor, low)
    high = max(rounded(ceil, high), low)
    # Tightening and gate keep the proportions that the defaults of a decision have.
    step = TIGHTENING * (high - low)
    return Calibration(
        calibrated_floor=rounded(floor, least),
        threshold_low=low,
        threshold_high=high,
        short_query_threshold_low=rounded(ceil, low + step),
        short_query_threshold_high=rounded(ceil, high + step),
        # Rounded down: a gate at the high threshold would allow no hybrid answer.
        min_similarity_for_hybrid=max(rounded(floor, low + GATE * (high - low)), low),
        unrelated_high=rounded(ceil, unrelated_high),
        measured_on=measured_on,
    )
