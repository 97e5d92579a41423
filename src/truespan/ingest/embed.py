"""From texts to vectors that can be believed: batches, concurrency, retries, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np

from truespan.errors import ProviderBadReply, ProviderUnavailable
from truespan.model.chunk import Vector
from truespan.model.ids import TextHash
from truespan.ports import Clock, Embedder, EmbeddingLimits

CHARACTERS_PER_TOKEN = 4
"""The estimate that batches are filled by; exact counts are the chunker's business."""
ATTEMPTS = 5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
CANARY = "The canary at the end of every batch proves that vectors come back in order."
LEAST_NORM = 1e-6
CANARY_SIMILARITY = 0.98
"""A provider's own batching may change a vector a little, never this much."""


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """Vectors that passed every check, and the texts whose vectors did not."""

    vectors: dict[TextHash, Vector] = field(default_factory=dict)
    rejected: tuple[TextHash, ...] = ()


def batches(
    texts: Sequence[tuple[TextHash, str]], limits: EmbeddingLimits
) -> Iterator[list[tuple[TextHash, str]]]:
    """Group texts so that no batch exceeds the limits; a text above them goes alone."""
    batch: list[tuple[TextHash, str]] = []
    used = 0
    room = limits.items - (1 if limits.joint and limits.items > 1 else 0)
    for item in texts:
        tokens = -(-len(item[1]) // CHARACTERS_PER_TOKEN)
        if batch and (len(batch) >= room or used + tokens > limits.tokens):
            yield batch
            batch, used = [], 0
        batch.append(item)
        used += tokens
    if batch:
        yield batch


def embed_texts(
    embedder: Embedder, texts: Mapping[TextHash, str], limits: EmbeddingLimits, clock: Clock
) -> Iterator[EmbeddedBatch]:
    """Embed each text once; give every batch as soon as it is done, so that it can be kept.

    `limits` are the operator's; the provider's own win where they are lower.

    Raises:
        ProviderUnavailable: it did not answer, `ATTEMPTS` times.
        ProviderRefused: it answered no.
        ProviderBadReply: the number or the order of its vectors is wrong.
    """
    limits = embedder.limits.within(limits)
    canary = _canary_vector(embedder, clock) if limits.joint and texts else None
    todo = batches(list(texts.items()), limits)
    if limits.in_flight == 1:
        for batch in todo:
            yield _embed_batch(embedder, batch, canary, clock)
        return
    yield from _concurrently(
        lambda batch: _embed_batch(embedder, batch, canary, clock), todo, limits.in_flight
    )


def _concurrently(
    work: Callable[[list[tuple[TextHash, str]]], EmbeddedBatch],
    todo: Iterator[list[tuple[TextHash, str]]],
    in_flight: int,
) -> Iterator[EmbeddedBatch]:
    """Run `work` over `todo` with at most `in_flight` calls at once; the first error ends it."""
    running: set[Future[EmbeddedBatch]] = set()
    with ThreadPoolExecutor(in_flight, thread_name_prefix="embed") as pool:
        try:
            for batch in todo:
                running.add(pool.submit(work, batch))
                if len(running) == in_flight:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in running)
        finally:
            for future in running:
                future.cancel()


def retried(call: Callable[[], list[Vector]], clock: Clock, *, spread: int) -> list[Vector]:
    """Call until it answers; what may pass by itself is tried again, a refusal is not.

    The pause doubles each time, and `spread` keeps calls that failed together from returning
    together.
    """
    pause = FIRST_PAUSE * (1 + spread % 8 / 8)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except ProviderUnavailable as error:
            if attempt == ATTEMPTS:
                raise
            clock.sleep(min(max(pause, error.retry_after or 0.0), LONGEST_PAUSE))
            pause *= 2
    raise AssertionError("the loop returns or raises")


def _embed_batch(
    embedder: Embedder,
    batch: list[tuple[TextHash, str]],
    canary: Vector | None,
    clock: Clock,
) -> EmbeddedBatch:
    texts = [text for _, text in batch]
    sent = texts if canary is None or len(texts) == 1 else [*texts, CANARY]
    spread = int(batch[0][0][:4], 16)
    vectors = retried(lambda: embedder.embed_documents(sent), clock, spread=spread)
    if len(vectors) != len(sent):
        raise ProviderBadReply(
            f"The embedding provider returned {len(vectors)} vectors for {len(sent)} texts."
        )
    if len(sent) > len(texts):
        _check_canary(vectors.pop(), canary)
    return _checked(batch, vectors, embedder.profile.dimensions)


def _checked(
    batch: list[tuple[TextHash, str]], vectors: list[Vector], dimensions: int
) -> EmbeddedBatch:
    """Keep the vectors that have the right length, are finite and are not zero."""
    good: dict[TextHash, Vector] = {}
    rejected: list[TextHash] = []
    for (text_hash, _), vector in zip(batch, vectors, strict=True):
        if is_sound(vector, dimensions):
            good[text_hash] = vector
        else:
            rejected.append(text_hash)
    return EmbeddedBatch(good, tuple(rejected))


def is_sound(vector: Vector, dimensions: int) -> bool:
    """Say whether a vector has the right length, is finite and is not zero."""
    if len(vector) != dimensions * 4:
        return False
    numbers = np.frombuffer(vector, dtype="<f4").astype(np.float64)
    square = float(numbers @ numbers)
    # One comparison catches everything: NaN and infinity survive squaring and summing.
    return LEAST_NORM**2 < square < float("inf")


def _canary_vector(embedder: Embedder, clock: Clock) -> Vector:
    vectors = retried(lambda: embedder.embed_documents([CANARY]), clock, spread=0)
    if len(vectors) != 1 or not is_sound(vectors[0], embedder.profile.dimensions):
        raise ProviderBadReply("The embedding provider did not return one sound vector.")
    return vectors[0]


def _check_canary(found: Vector, expected: Vector | None) -> None:
    if expected is None or len(found) != len(expected) or not _alike(found, expected):
        raise ProviderBadReply(
            "The embedding provider mixed up the vectors of a batch.",
            advice="Lower the batch size or change the provider; nothing of the batch was kept.",
        )


def _alike(one: Vector, other: Vector) -> bool:
    first, second = np.frombuffer(one, dtype="<f4"), np.frombuffer(other, dtype="<f4")
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return norms > 0 and float(first @ second) / norms >= CANARY_SIMILARITY
