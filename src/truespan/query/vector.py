"""The query's vector: from the cache if it is young enough, else from the provider, checked."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from math import fsum, isfinite, sqrt

from truespan.errors import (
    ProfileMismatch,
    ProviderBadReply,
    QueryTooLong,
    StorageFull,
    StoreBusy,
)
from truespan.model.chunk import Vector
from truespan.model.ids import WorldId
from truespan.model.names import CacheOutcome, Tally
from truespan.model.profile import EmbeddingProfile
from truespan.model.scope import Scope
from truespan.ports import UNWATCHED, Clock, Course, Embedder, QueryCache

TTL_SECONDS = 24 * 3600.0


def cache_key(world: WorldId, endpoint: str, profile: EmbeddingProfile, text: str) -> str:
    """Return a digest of everything that decides a query vector.

    Each part is preceded by its length, so that no two lists of parts can spell the same bytes.
    """
    parts = (
        world,
        profile.provider,
        endpoint,
        profile.model,
        profile.revision,
        str(profile.dimensions),
        "query",
        profile.query_mode,
        text,
    )
    digest = sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def query_vector(
    scope: Scope,
    text: str,
    *,
    embedder: Embedder,
    cache: QueryCache,
    clock: Clock,
    course: Course = UNWATCHED,
) -> Vector:
    """Return the vector of a stripped query under the scope's locked profile.

    A cached vector saves the provider call and nothing else: the profile is compared first.

    Raises:
        ProfileMismatch: the configured embedder is not the one the world was built with.
        QueryTooLong: the model would read less than the whole query.
        ProviderUnavailable, ProviderRefused: as the embedder says.
        ProviderBadReply: the vector has the wrong length, is zero or not finite.
    """
    profile = scope.profile
    if embedder.profile.id != profile.id:
        raise ProfileMismatch(str(profile), str(embedder.profile))
    key = cache_key(scope.world, embedder.endpoint, profile, text)
    cached = cache.cached_query(scope, key, now=clock.now(), ttl=TTL_SECONDS)
    if cached is not None and is_sound(cached, profile.dimensions):
        course.count(Tally.QUERY_CACHE, 1, CacheOutcome.HIT)
        return cached
    course.count(Tally.QUERY_CACHE, 1, CacheOutcome.MISS)
    tokens = embedder.count_query(text)
    if tokens > profile.input_limit:
        raise QueryTooLong(tokens, profile.input_limit)
    vector = embedder.embed_query(text)
    if not is_sound(vector, profile.dimensions):
        raise ProviderBadReply(
            f"The query vector is not one of {profile.dimensions} finite numbers."
        )
    # A cache that cannot be written just now costs the next caller a request, and nothing else.
    with suppress(StorageFull, StoreBusy):
        cache.cache_query(scope, key, vector, now=clock.now())
    return vector


def mean_of(vectors: Sequence[Vector]) -> Vector:
    """Return the normalised mean of unit vectors; of one, that one itself."""
    if len(vectors) == 1:
        return vectors[0]
    sums = [fsum(numbers) for numbers in zip(*(array("f", one) for one in vectors), strict=True)]
    norm = sqrt(fsum(number * number for number in sums)) or 1.0
    return Vector(array("f", [number / norm for number in sums]).tobytes())


def is_sound(vector: Vector, dimensions: int) -> bool:
    """Say whether a vector has the right length, is finite and is not zero."""
    if len(vector) != dimensions * 4:
        return False
    numbers = array("f", vector)
    # NaN and infinity survive squaring and summing, so one check of the sum covers every number.
    square = sum(map(float.__mul__, numbers, numbers))
    return isfinite(square) and square > 1e-12
