"""The vector of a query, from the cache or the provider; calibration, and the use of a floor."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from truespan.errors import (
    ModelDrifted,
    ProfileMismatch,
    ProviderBadReply,
    ProviderUnavailable,
    QueryTooLong,
)
from truespan.protocols import Embedder
from truespan.retrieval.snapshot import RetrievalDeps
from truespan.types.bundle import Notice
from truespan.types.chunk import QueryEntry
from truespan.types.ids import WorldId
from truespan.types.profile import Calibration, EmbeddingProfile, shipped
from truespan.types.scope import Scope, Verb, World
from truespan.types.telemetry import CacheOutcome, CounterName
from truespan.types.vectors import Vector, is_sound, mean_of

if TYPE_CHECKING:
    from truespan.store import Store

SCORE_DECIMALS = 6


def round_score(score: float) -> float:
    """Return a score as shown in results: within [0, 1], with six decimals.

    Rounding errors can put a cosine slightly outside the range. Compare scores before rounding.
    """
    rounded = round(score, SCORE_DECIMALS)
    return 0.0 if rounded < 0.0 else 1.0 if rounded > 1.0 else rounded


TTL_SECONDS = 24 * 3600.0


def cache_key(world: WorldId, endpoint: str, profile: EmbeddingProfile, text: str) -> str:
    """Return a digest of everything that determines a query vector.

    Each part is preceded by its length, so that no two lists of parts produce the same bytes.
    """
    parts = (
        world,
        profile.provider,
        endpoint,
        profile.model,
        profile.revision,
        str(profile.dimensions),
        "confirmed query",
        profile.query_mode,
        text,
    )
    pieces = [part.encode() for part in parts]
    return sha256(b"".join([len(data).to_bytes(8, "big") + data for data in pieces])).hexdigest()


def query_vector(deps: RetrievalDeps, scope: Scope, text: str, *, split: bool = False) -> Vector:
    """Return the vector of a stripped query under the scope's locked profile.

    A cached vector needs no provider: it was embedded by this profile's model, which was confirmed
    afterwards, or shortly before by this process. With `split`, a query beyond the input limit of
    the model has the mean of the vectors of its parts.

    Raises:
        ProfileMismatch: another model is configured.
        ModelDrifted: the provider has another model under the same name.
        QueryTooLong: the query is beyond the input limit.
    """
    profile, recent, now = scope.profile, deps.recent_queries, deps.clock.now()
    for endpoint in deps.endpoints_of(profile):
        key = cache_key(scope.world, endpoint, profile, text)
        cached = deps.store.cached_query(scope, key, now=now, ttl=TTL_SECONDS)
        if cached is None and (cached := recent.find(scope, key, now=now, ttl=TTL_SECONDS)):
            # The store may have been busy before.
            recent.write(deps.store, scope, now)
        if cached is not None and is_sound(cached, profile.dimensions):
            deps.trace.count(CounterName.QUERY_CACHE, 1, CacheOutcome.HIT)
            return cached
    try:
        return _embed_and_cache(deps, scope, text, now)
    except QueryTooLong:
        parts = deps.split(text, profile.input_limit) if split else [text]
        if len(parts) == 1:
            raise
    return mean_of([query_vector(deps, scope, part) for part in parts])


def _embed_and_cache(deps: RetrievalDeps, scope: Scope, text: str, now: float) -> Vector:
    """Return the vector of a query from the provider, whose model is confirmed."""
    profile = scope.profile
    embedder = deps.embedder_for(profile)
    if embedder.profile.id != profile.id:
        raise ProfileMismatch(str(profile), str(embedder.profile))
    deps.trace.count(CounterName.QUERY_CACHE, 1, CacheOutcome.MISS)
    recent, waiting = deps.recent_queries, deps.recent_queries.waiting(scope)
    try:
        vector = _embed(embedder, profile, text)
        confirmed = deps.model_check.confirm(deps.store, deps.clock, scope, embedder)
    except ProviderUnavailable:
        deps.model_check.forget(scope)
        raise
    except ModelDrifted:
        recent.discard_waiting(scope)
        raise
    entry = QueryEntry(cache_key(scope.world, embedder.endpoint, profile, text), vector, now)
    recent.add(scope, [*waiting, entry] if confirmed else [entry], confirmed=confirmed)
    recent.write(deps.store, scope, now)
    return vector


def _embed(embedder: Embedder, profile: EmbeddingProfile, text: str) -> Vector:
    tokens = embedder.count_query(text)
    if tokens > profile.input_limit:
        raise QueryTooLong(tokens, profile.input_limit)
    vector = embedder.embed_query(text)
    if not is_sound(vector, profile.dimensions):
        raise ProviderBadReply(
            f"The query vector is not one of {profile.dimensions} finite numbers."
        )
    return vector


LOW_FLOOR = Notice(
    "floor_does_not_discriminate",
    "Most unrelated text reaches this floor under the embedding profile in use; "
    "'truespan calibrate' proposes one that keeps it out.",
)


def calibration_of(store: Store, scope: Scope, world: World | None = None) -> Calibration | None:
    """Return the calibration measured in this world, or the one shipped with the profile.

    It is read once for each state of a world, if that is given. Readers get the shipped one: a
    calibration measured on whole documents reveals unread text.
    """
    unbounded = scope.position is None and scope.authority.may(Verb.READ, scope.world)
    measured = store.kept_calibration(scope, world) if unbounded else None
    return measured or shipped(scope.profile)


def model_calibration(store: Store, scope: Scope, world: World | None) -> Calibration | None:
    """Return the calibration shipped with the profile, or the one measured in this world.

    A calibration measured in a world changes with the world, and the order of results should not.
    """
    return shipped(scope.profile) or calibration_of(store, scope, world)


def floor_discriminates(
    store: Store, scope: Scope, world: World, floor: float | None
) -> bool | None:
    """Return whether a floor keeps unrelated text out; None without a floor or a calibration."""
    measured = None if floor is None else calibration_of(store, scope, world)
    return None if measured is None or floor is None else measured.discriminates(floor)
