"""From texts to vectors that can be believed: batches, concurrency, retries, checks."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from threading import Lock
from typing import TypeVar

import numpy as np

from truespan.errors import (
    BatchTooLarge,
    InvalidConfiguration,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    TextTooLong,
)
from truespan.ingest.sentences import parts
from truespan.protocols import Clock, Embedder, EmbeddingLimits, RateLimitStore, TokenCounter
from truespan.types.chunk import Vector
from truespan.types.ids import TextHash
from truespan.types.text import TokenMap

LEAST_NORM = 1e-6


def is_sound(vector: Vector, dimensions: int) -> bool:
    """Say whether a vector has the right length, is finite and is not zero."""
    if len(vector) != dimensions * 4:
        return False
    numbers = np.frombuffer(vector, dtype="<f4").astype(np.float64)
    square = float(numbers @ numbers)
    # One comparison catches everything: NaN and infinity survive squaring and summing.
    return LEAST_NORM**2 < square < float("inf")


def cosine(one: Vector, other: Vector) -> float:
    """Return how alike two vectors are; 0 if they cannot be compared."""
    if len(one) != len(other):
        return 0.0
    first = np.frombuffer(one, dtype="<f4").astype(np.float64)
    second = np.frombuffer(other, dtype="<f4").astype(np.float64)
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if 0 < norms < float("inf") else 0.0


def mean(vectors: Sequence[Vector], weights: Sequence[int]) -> Vector:
    """Return the weighted mean of sound vectors, with the length one.

    Each vector counts by its direction and its weight, so a provider that does not scale its
    vectors makes no part of a text louder than another.
    """
    rows = np.stack([np.frombuffer(vector, dtype="<f4") for vector in vectors]).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    total = np.asarray(weights, dtype=np.float64) @ rows
    length = float(np.linalg.norm(total))
    # Parts that cancel out have no common direction; the check on vectors refuses what is left.
    scaled = total / length if length > 0 else total
    return Vector(scaled.astype("<f4").tobytes())


CHARACTERS_PER_TOKEN = 4
"""The estimate that batches are filled by; exact counts are the chunker's business."""

Item = tuple[TextHash, str]


def batches(texts: Sequence[Item], limits: EmbeddingLimits) -> Iterator[list[Item]]:
    """Group texts so that no batch exceeds the limits; a text above them goes alone.

    Where texts of a batch come back together, room is left for what proves their order.
    """
    batch: list[Item] = []
    used = 0
    room = room_for_texts(limits)
    for item in texts:
        tokens = estimated_tokens(item[1])
        if batch and (len(batch) >= room or used + tokens > limits.tokens):
            yield batch
            batch, used = [], 0
        batch.append(item)
        used += tokens
    if batch:
        yield batch


def room_for_texts(limits: EmbeddingLimits) -> int:
    """Return how many texts of the world's own one request holds."""
    return limits.items - (most_canaries(limits.items) if limits.joint else 0)


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


Found = TypeVar("Found")

ATTEMPTS = 5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 90.0
"""Whoever asks for a longer pause than this is not waited for: the caller is told instead."""
_MINUTE = 60.0


class RateLimiter:
    """Lets so many requests begin in any minute, and holds the next ones back until they may.

    One of these is shared by all that ask one provider, in whatever thread.
    """

    def __init__(self, per_minute: int, clock: Clock) -> None:
        if per_minute < 1:
            raise InvalidConfiguration("At least one request a minute must be allowed.")
        self._clock = clock
        self._lock = Lock()
        self._begun: deque[float] = deque(maxlen=per_minute)

    def wait(self) -> None:
        """Return when the next request may begin.

        Its moment is fixed before the waiting begins, so that those who wait together do not all
        come back for the same moment.
        """
        with self._lock:
            now = self._clock.monotonic()
            full = len(self._begun) == self._begun.maxlen
            begin = max(now, self._begun[0] + _MINUTE) if full else now
            self._begun.append(begin)
        if begin > now:
            self._clock.sleep(begin - now)


class SharedRateLimiter(RateLimiter):
    """The same for all processes of a library: the moments are kept where all of them see them."""

    def __init__(self, per_minute: int, clock: Clock, provider: str, paces: RateLimitStore) -> None:
        super().__init__(per_minute, clock)
        self._per_minute = per_minute
        self._provider = provider
        self._paces = paces

    def wait(self) -> None:
        """Return when the next request may begin."""
        seconds = self._paces.reserve(self._provider, self._per_minute)
        if seconds > 0:
            self._clock.sleep(seconds)


def retried(
    call: Callable[[], Found], clock: Clock, *, spread: int, until: float = math.inf
) -> Found:
    """Call until it answers; what may pass by itself is tried again, a refusal is not.

    The pause doubles each time, and `spread` keeps calls that failed together from returning
    together. A provider that asks for a pause gets it, unless it is longer than `LONGEST_PAUSE` or
    would end after `until`, on the clock that only grows.
    """
    pause = FIRST_PAUSE * (1 + spread % 8 / 8)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except ProviderUnavailable as error:
            asked = error.retry_after or 0.0
            wait = max(pause, asked)
            late = clock.monotonic() + wait > until
            if attempt == ATTEMPTS or asked > LONGEST_PAUSE or late:
                raise
            clock.sleep(wait)
            pause *= 2
    raise AssertionError("the loop returns or raises")


CANARY = "The canary in every batch proves that vectors come back in order."
CANARY_SIMILARITY = 0.98
"""A provider's own batching may change a vector a little, never this much."""
_ENOUGH_FOR_TWO = 8
"""From this many texts on two canaries cost little, and see far more than one."""

Send = Callable[[list[str]], list[Vector]]


class Canary:
    """Knows the vector of the canary, which was embedded alone and so cannot be another's."""

    def __init__(self) -> None:
        self._vector: Vector | None = None

    def learn(self, embedder: Embedder, send: Send) -> None:
        """Embed the canary alone, unless that was done before.

        Raises:
            ProviderBadReply: there is no sound vector to compare with.
        """
        if self._vector is not None:
            return
        vectors = send([CANARY])
        if len(vectors) != 1 or not is_sound(vectors[0], embedder.profile.dimensions):
            raise ProviderBadReply("The embedding provider did not return one sound vector.")
        self._vector = vectors[0]

    def prove(self, texts: Sequence[str], room: int, send: Send) -> list[Vector]:
        """Return the vectors of a batch that came back in order.

        Raises:
            ProviderBadReply: their number or their order is wrong.
        """
        places = places_for(texts, min(room - len(texts), most_canaries(room)))
        sent = _with_canaries(texts, places)
        vectors = send(sent)
        check_count(vectors, sent)
        # A place counts the canaries before it, so the last one is taken out first.
        found = [vectors.pop(place) for place in reversed(places)]
        if not all(self._is_canary(vector) for vector in found) or _stray(vectors, texts, found):
            raise ProviderBadReply(
                "The embedding provider mixed up the vectors of a batch.",
                advice="Lower the batch size or change the provider; nothing of it was kept.",
            )
        return vectors

    def _is_canary(self, vector: Vector) -> bool:
        return self._vector is not None and cosine(vector, self._vector) >= CANARY_SIMILARITY


def check_count(vectors: Sequence[Vector], sent: Sequence[str]) -> None:
    """Refuse a reply that does not hold one vector for each text.

    Raises:
        ProviderBadReply: there are fewer or more.
    """
    if len(vectors) != len(sent):
        raise ProviderBadReply(
            f"The embedding provider returned {len(vectors)} vectors for {len(sent)} texts."
        )


def most_canaries(items: int) -> int:
    """Return how many canaries a request of so many texts may hold."""
    if items >= _ENOUGH_FOR_TWO + 2:
        return 2
    return 1 if items > 1 else 0


def places_for(texts: Sequence[str], room: int) -> list[int]:
    """Return where the canaries stand among the texts, ascending; nowhere in a batch of one.

    No place is the mirror image of itself or of the other, and the two are not half a turn apart:
    there a batch that comes back turned round would look right.
    """
    count = min(room, 2 if len(texts) >= _ENOUGH_FOR_TWO else 1)
    if len(texts) < 2 or count < 1:
        return []
    total = len(texts) + count
    seed = int.from_bytes(sha256("\0".join(texts).encode(errors="replace")).digest()[:8], "big")
    first = seed % (total // 2)
    if count == 1:
        # Either end will do as well as the other, so that the last place is tried too.
        return [first if seed >> 63 else total - 1 - first]
    half = total - total // 2
    second = total // 2 + (seed >> 32) % half
    while first + second == total - 1 or 2 * (second - first) == total or _middle(second, total):
        second = total // 2 + (second + 1 - total // 2) % half
    return [first, second]


def _middle(place: int, total: int) -> bool:
    return 2 * place == total - 1


def _with_canaries(texts: Sequence[str], places: Sequence[int]) -> list[str]:
    sent = list(texts)
    for place in places:
        sent.insert(place, CANARY)
    return sent


def _stray(vectors: Sequence[Vector], texts: Sequence[str], found: Sequence[Vector]) -> bool:
    """Say whether the canary's very vector stands for another text as well."""
    known = CANARY.casefold().split()
    return any(
        vector in found and text.casefold().split() != known
        for vector, text in zip(vectors, texts, strict=True)
    )


LEAST_PART = 8
"""Who refuses a part of so few tokens refuses something else than its length."""


class OnTokenLimit(StrEnum):
    """What becomes of a text that is too long for the model."""

    MEAN = "mean"
    TRUNCATE = "truncate"
    SKIP = "skip"


class Remark(StrEnum):
    """What is to be said of a text that did not simply get its vector."""

    MEAN_OF_PARTS = "mean_of_parts"
    """The model could not read it whole: its vector is the mean of those of its parts."""
    TRUNCATED = "truncated"
    """The vector is that of its beginning; nothing of the rest is in it."""
    TOO_LONG = "too_long"
    """It got no vector, because the model reads less and the operator wants such texts left out."""
    BAD_VECTOR = "bad_vector"
    """It got no vector, because what came back cannot be one, or because nothing did."""


@dataclass(frozen=True, slots=True)
class EstimatedTokens:
    """Counts as batches are counted, for whoever has no tokenizer at hand."""

    name: str = "estimate-1"

    def measure(self, text: str) -> TokenMap:
        """Return the token map of a text."""
        starts = range(0, len(text), CHARACTERS_PER_TOKEN)
        return TokenMap(text, starts, range(len(starts) + 1), self.count)

    def count(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return estimated_tokens(text)


@dataclass(frozen=True, slots=True)
class TooLong:
    """Embeds what is too long, as the operator chose. `limit` is what the model is said to read."""

    policy: OnTokenLimit
    counter: TokenCounter
    limit: int
    dimensions: int

    def embed(self, text: str, alone: Callable[[str], Vector]) -> tuple[Vector | None, Remark]:
        """Return a vector for a text that was refused whole, if it gets one, and what to say of it.

        `alone` embeds one text. The parts become smaller until it takes them.
        """
        if self.policy is OnTokenLimit.SKIP:
            return None, Remark.TOO_LONG
        for limit in self._limits(text):
            pieces = parts(text, self.counter, limit)
            if self.policy is OnTokenLimit.TRUNCATE:
                pieces = pieces[:1]
            try:
                return self._made(pieces, [alone(piece) for piece in pieces])
            except TextTooLong:
                continue
        # A provider that finds even the smallest part too long is not believed about length: to
        # leave the text out for good on its word would lose it.
        return None, Remark.BAD_VECTOR

    def _limits(self, text: str) -> Iterator[int]:
        counted = self.counter.count(text)
        limit = self.limit if counted > self.limit else counted // 2
        while limit >= LEAST_PART:
            yield limit
            limit //= 2

    def _made(self, pieces: list[str], vectors: list[Vector]) -> tuple[Vector | None, Remark]:
        if not all(is_sound(vector, self.dimensions) for vector in vectors):
            return None, Remark.BAD_VECTOR
        if self.policy is OnTokenLimit.TRUNCATE:
            return vectors[0], Remark.TRUNCATED
        weights = [max(self.counter.count(piece), 1) for piece in pieces]
        whole = mean(vectors, weights)
        if not is_sound(whole, self.dimensions):
            return None, Remark.BAD_VECTOR
        return whole, Remark.MEAN_OF_PARTS


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """Vectors that passed every check, and the texts that got none.

    `notes` say why a text was rejected, and what is to be known of some that were not.
    """

    vectors: dict[TextHash, Vector] = field(default_factory=dict)
    rejected: tuple[TextHash, ...] = ()
    notes: dict[TextHash, Remark] = field(default_factory=dict)

    def joined(self, other: EmbeddedBatch) -> EmbeddedBatch:
        """Return what two parts of a batch gave."""
        return EmbeddedBatch(
            self.vectors | other.vectors, self.rejected + other.rejected, self.notes | other.notes
        )


def embed_texts(
    embedder: Embedder,
    texts: Mapping[TextHash, str],
    limits: EmbeddingLimits,
    clock: Clock,
    *,
    counter: TokenCounter | None = None,
    on_token_limit: OnTokenLimit = OnTokenLimit.MEAN,
    canary: Canary | None = None,
) -> Iterator[EmbeddedBatch]:
    """Embed each text once; give every batch as soon as it is done, so that it can be kept.

    `limits` are the operator's; the provider's own win where they are lower. Who embeds again and
    again keeps one `canary`, which then costs its own request once.

    Raises:
        ProviderUnavailable: it did not answer, `ATTEMPTS` times.
        ProviderRefused: it answered no.
        ProviderBadReply: the number or the order of its vectors is wrong.
    """
    if not texts:
        return
    limits = embedder.limits.within(limits)
    proof = (canary or Canary()) if limits.joint else None
    work = _Embedding(embedder, limits, clock, proof, counter or EstimatedTokens(), on_token_limit)
    todo = batches(list(texts.items()), limits)
    if proof is not None and len(texts) > 1 and limits.items > 1:
        proof.learn(embedder, work.send)
    if limits.in_flight == 1:
        yield from map(work.embed, todo)
    else:
        yield from _concurrently(work.embed, todo, limits.in_flight)


def _concurrently(
    work: Callable[[list[Item]], EmbeddedBatch], todo: Iterator[list[Item]], in_flight: int
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


@dataclass(frozen=True, slots=True)
class _Embedding:
    """How one batch becomes vectors."""

    embedder: Embedder
    limits: EmbeddingLimits
    clock: Clock
    canary: Canary | None
    counter: TokenCounter
    on_token_limit: OnTokenLimit

    def send(self, texts: list[str], spread: int = 0) -> list[Vector]:
        return retried(lambda: self.embedder.embed_documents(texts), self.clock, spread=spread)

    def embed(self, batch: list[Item]) -> EmbeddedBatch:
        """Embed a batch; one that is too large for the provider goes in halves.

        A text that is too long is not always named, so it is looked for in the same way.
        """
        try:
            vectors = self._in_order(batch)
        except (BatchTooLarge, TextTooLong) as refusal:
            if len(batch) == 1:
                return self._alone(batch[0], refusal)
            middle = len(batch) // 2
            return self.embed(batch[:middle]).joined(self.embed(batch[middle:]))
        return _checked(batch, vectors, self.embedder.profile.dimensions)

    def _in_order(self, batch: list[Item]) -> list[Vector]:
        texts = [text for _, text in batch]
        spread = int(batch[0][0][:4], 16)
        if self.canary is not None and len(batch) > 1:
            return self.canary.prove(texts, self.limits.items, lambda sent: self.send(sent, spread))
        vectors = self.send(texts, spread)
        check_count(vectors, texts)
        return vectors

    def _alone(self, item: Item, refusal: ProviderRefused) -> EmbeddedBatch:
        """Do with a text that was refused by itself what the operator chose."""
        if not isinstance(refusal, TextTooLong):
            # The request was too large with nothing else in it: that is not about tokens.
            raise refusal
        text_hash, text = item
        profile = self.embedder.profile
        too_long = TooLong(
            self.on_token_limit, self.counter, profile.input_limit, profile.dimensions
        )
        vector, remark = too_long.embed(text, lambda part: self._part(part))
        if vector is None:
            return EmbeddedBatch({}, (text_hash,), {text_hash: remark})
        return EmbeddedBatch({text_hash: vector}, (), {text_hash: remark})

    def _part(self, text: str) -> Vector:
        vectors = self.send([text])
        check_count(vectors, [text])
        return vectors[0]


def _checked(batch: Sequence[Item], vectors: Sequence[Vector], dimensions: int) -> EmbeddedBatch:
    """Keep the vectors that have the right length, are finite and are not zero."""
    good: dict[TextHash, Vector] = {}
    rejected: list[TextHash] = []
    for (text_hash, _), vector in zip(batch, vectors, strict=True):
        if is_sound(vector, dimensions):
            good[text_hash] = vector
        else:
            rejected.append(text_hash)
    return EmbeddedBatch(good, tuple(rejected), dict.fromkeys(rejected, Remark.BAD_VECTOR))
