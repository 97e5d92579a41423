"""From texts to checked vectors: batches, concurrency, retries, and checks of the provider.

Three faults would go unnoticed without a check: a vector may be invalid (`is_sound`), the vectors
of a batch may come back in another order (`Canary`), and the provider may serve another model under
the same name (`check_drift`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from enum import StrEnum
from functools import partial, reduce
from hashlib import sha256
from operator import or_
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, field

from truespan import errors
from truespan.core.cancel import CancelToken, current_cancel_token, use_cancel_token
from truespan.ingest.chunking import split_text
from truespan.protocols import Clock, Embedder, TokenCounter, WordStateEmbedder, find_state_embedder
from truespan.types.ids import TextHash
from truespan.types.profile import EmbeddingLimits, EmbeddingProfile
from truespan.types.vectors import Vector, WordStates, are_sound, cosine, is_sound, weighted_mean

CHARACTERS_PER_TOKEN = 4
"""Estimate for filling batches; the chunker counts exactly."""
CANARY = "The canary in every batch proves that vectors come back in order."

Item = tuple[TextHash, str]


def batches(
    texts: Sequence[Item], limits: EmbeddingLimits, prefix: str = ""
) -> Iterator[list[Item]]:
    """Group texts so that no batch exceeds the limits; a text above them is a separate batch."""
    # The `prefix` of each text counts, and so do the canaries if the provider returns the vectors
    # of a batch together.

    def estimate(text: str) -> int:
        return -(-(len(prefix) + len(text)) // CHARACTERS_PER_TOKEN)

    batch: list[Item] = []
    used, room = 0, room_for_texts(limits)
    canaries = (limits.items - room) * estimate(CANARY)
    for item in texts:
        tokens = estimate(item[1])
        if batch and (len(batch) >= room or used + tokens + canaries > limits.tokens):
            yield batch
            batch, used = [], 0
        batch.append(item)
        used += tokens
    if batch:
        yield batch


def room_for_texts(limits: EmbeddingLimits) -> int:
    """Return the maximum number of texts in a request beside the canaries."""
    return limits.items - (most_canaries(limits.items) if limits.joint else 0)


T = TypeVar("T")

ATTEMPTS = 5
FIRST_PAUSE = 0.5
MAX_PAUSE = 90.0
"""If a provider asks for a longer pause than this, the error is raised instead."""


class TimedOut(errors.ProviderUnavailable):
    """The provider did not answer in time; a smaller request may be answered."""


def call_with_retries(
    call: Callable[[], T],
    clock: Clock,
    *,
    spread: int,
    until: float = math.inf,
    repeat_timed_out: bool = True,
) -> T:
    """Call a provider until it answers; retries ProviderUnavailable, never a refusal.

    Without `repeat_timed_out`, a request that was not answered in time is not sent again.

    The pause doubles each time, and `spread` varies it, so that calls that failed together do not
    retry together. A pause that the provider asks for is respected, unless it is longer than
    `MAX_PAUSE` or would end after `until` on the monotonic clock.
    """
    pause = FIRST_PAUSE * (1 + spread % 8 / 8)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except errors.ProviderUnavailable as error:
            if isinstance(error, TimedOut) and not repeat_timed_out:
                raise
            retry_after = error.retry_after or 0.0
            wait = max(pause, retry_after)
            late = clock.monotonic() + wait > until
            if attempt == ATTEMPTS or retry_after > MAX_PAUSE or late:
                raise
            clock.sleep(wait)
            pause *= 2
    raise AssertionError("the loop returns or raises")


def learn_profile(embedder: Embedder, clock: Clock) -> EmbeddingProfile:
    """Return the profile of an embedder; if that costs requests, they are retried as others are."""
    return call_with_retries(lambda: embedder.profile, clock, spread=0)


CANARY_SIMILARITY = 0.98
"""Minimum similarity of a canary to itself alone; batching changes a vector only slightly."""
_ENOUGH_FOR_TWO = 8
"""Minimum number of texts for a second canary, which costs little and detects far more."""

Send = Callable[[list[str]], list[Vector]]


class Canary:
    """Detects vectors that come back in another order, by a text whose vector is known."""

    def __init__(self) -> None:
        self._vector: Vector | None = None

    def learn(self, dimensions: int, send: Send) -> None:
        """Embed the canary alone, once; raises ProviderBadReply unless the vector is valid."""
        if self._vector is not None:
            return
        vectors = send([CANARY])
        if len(vectors) != 1 or not is_sound(vectors[0], dimensions):
            raise errors.ProviderBadReply("The embedding provider did not return one valid vector.")
        self._vector = vectors[0]

    def embed_in_order(self, texts: Sequence[str], room: int, send: Send) -> list[Vector]:
        """Return the vectors of a batch; raises ProviderBadReply if they are out of order."""
        places = canary_places(texts, min(room - len(texts), most_canaries(room)))
        sent = list(texts)
        for place in places:
            sent.insert(place, CANARY)
        vectors = send(sent)
        _check_count(vectors, sent)
        # A place counts the canaries before it, so the last canary is removed first.
        found = [vectors.pop(place) for place in reversed(places)]
        own = self._vector
        in_place = all(own and cosine(vector, own) >= CANARY_SIMILARITY for vector in found)
        # No other text may have exactly the canary's vector either.
        strays = [text for vector, text in zip(vectors, texts, strict=True) if vector in found]
        words = CANARY.casefold().split()
        if not in_place or any(text.casefold().split() != words for text in strays):
            self._require_same_model(send)
            raise errors.ProviderBadReply(
                "The embedding provider mixed up the vectors of a batch.",
                advice="Lower the batch size or change the provider; the batch was discarded.",
            )
        return vectors

    def _require_same_model(self, send: Send) -> None:
        """Raise ProviderBadReply if the vector of the canary alone has changed."""
        vectors = send([CANARY])
        if (
            len(vectors) != 1
            or not self._vector
            or cosine(vectors[0], self._vector) < (CANARY_SIMILARITY)
        ):
            raise errors.ProviderBadReply(
                "The embedding provider changed the model during this run; the batch was "
                "discarded.",
                advice="Go back to the model that the world was built with, and ingest again.",
            )


def _send(embedder: Embedder, texts: list[str], clock: Clock, spread: int = 0) -> list[Vector]:
    """Return one vector for each text; a reply with fewer or more is refused."""
    # After a timeout several texts are not sent again together, but in smaller batches.
    vectors = call_with_retries(
        lambda: embedder.embed_documents(texts),
        clock,
        spread=spread,
        repeat_timed_out=len(texts) == 1,
    )
    _check_count(vectors, texts)
    return vectors


def _check_count(vectors: Sequence[object], texts: Sequence[str]) -> None:
    if len(vectors) != len(texts):
        raise errors.ProviderBadReply(
            f"The embedding provider returned {len(vectors)} vectors for {len(texts)} texts."
        )


def most_canaries(items: int) -> int:
    """Return the maximum number of canaries in a request of at most `items` texts."""
    return 2 if items >= _ENOUGH_FOR_TWO + 2 else int(items > 1)


def canary_places(texts: Sequence[str], room: int) -> list[int]:
    """Return the places of the canaries among the texts, ascending; none in a batch of one text."""
    # No place mirrors itself or the other, and the two are not half the batch apart: otherwise a
    # batch that comes back reversed or rotated would look right.
    count = min(room, 2 if len(texts) >= _ENOUGH_FOR_TWO else 1)
    if len(texts) < 2 or count < 1:
        return []
    total = len(texts) + count
    seed = int.from_bytes(sha256("\0".join(texts).encode(errors="replace")).digest()[:8], "big")
    first = seed % (total // 2)
    if count == 1:
        # Counted from either end, so that the last place is used too.
        return [first if seed >> 63 else total - 1 - first]
    half = total - total // 2
    second = total // 2 + (seed >> 32) % half
    while first + second == total - 1 or 2 * (second - first) == total or 2 * second == total - 1:
        second = total // 2 + (second + 1 - total // 2) % half
    return [first, second]


MIN_PART = 8
"""Minimum number of tokens of a part; shorter parts are not refused for their length."""


class OnTokenLimit(StrEnum):
    """Policy for a text that is longer than the model's input limit."""

    MEAN = "mean"
    TRUNCATE = "truncate"
    SKIP = "skip"


class Remark(StrEnum):
    """A remark about a text and its vector, for the report."""

    MEAN_OF_PARTS = "mean_of_parts"
    TRUNCATED = "truncated"
    TOO_LONG = "too_long"
    """The text was skipped by the policy."""
    BAD_VECTOR = "bad_vector"


def embed_too_long(
    text: str,
    embed: Callable[[str], Vector],
    *,
    policy: OnTokenLimit,
    counter: TokenCounter,
    limit: int,
    dimensions: int,
) -> tuple[Vector | None, Remark]:
    """Return a vector for a text that the provider refused as too long, or None, and a remark."""
    # `limit` is the limit of the model. Parts become smaller until the provider accepts them.
    if policy is OnTokenLimit.SKIP:
        return None, Remark.TOO_LONG
    counted = counter.count(text)
    if counted <= limit:
        limit = counted // 2
    while limit >= MIN_PART:
        parts = split_text(text, counter, limit)
        if policy is OnTokenLimit.TRUNCATE:
            parts = parts[:1]
        try:
            vectors = [embed(part) for part in parts]
        except errors.TextTooLong:
            limit //= 2
            continue
        if not all(is_sound(vector, dimensions) for vector in vectors):
            break
        if policy is OnTokenLimit.TRUNCATE:
            return vectors[0], Remark.TRUNCATED
        whole = weighted_mean(vectors, [max(counter.count(part), 1) for part in parts])
        if not is_sound(whole, dimensions):
            break
        return whole, Remark.MEAN_OF_PARTS
    # A provider that refuses even the smallest part as too long is wrong. Skipping the text would
    # lose it permanently, so this counts as a bad reply.
    return None, Remark.BAD_VECTOR


class EmbeddedBatch(Struct, frozen=True):
    """Vectors that passed every check."""

    vectors: dict[TextHash, Vector] = field(default_factory=dict)
    notes: dict[TextHash, Remark] = field(default_factory=dict)
    """Remarks about rejected texts, and about some accepted ones."""
    states: dict[TextHash, WordStates] = field(default_factory=dict)
    """States of words, if requested; empty for a text that was embedded in parts."""

    @property
    def rejected(self) -> tuple[TextHash, ...]:
        return tuple(text_hash for text_hash in self.notes if text_hash not in self.vectors)

    def __or__(self, other: EmbeddedBatch) -> EmbeddedBatch:
        return EmbeddedBatch(
            self.vectors | other.vectors, self.notes | other.notes, self.states | other.states
        )


def embed_texts(
    embedder: Embedder,
    texts: Mapping[TextHash, str],
    limits: EmbeddingLimits,
    clock: Clock,
    *,
    counter: TokenCounter,
    on_token_limit: OnTokenLimit = OnTokenLimit.MEAN,
    canary: Canary | None = None,
    word_states: bool = False,
) -> Iterator[EmbeddedBatch]:
    """Embed each text once; yield every batch as soon as it is done, so that it can be stored.

    `limits` are the limits of the operator; lower limits of the provider take precedence. A
    `canary` shared by several calls is embedded alone only once. With `word_states`, batches have
    the states of words, unless the embedder gives none or its batches need a canary.

    Raises:
        ProviderUnavailable, ProviderRefused: after `ATTEMPTS` attempts, or at once.
        ProviderBadReply: the number or the order of the vectors is wrong.
    """
    if not texts:
        return
    limits = embedder.limits.within(limits)
    canary = (canary or Canary()) if limits.joint else None
    profile = learn_profile(embedder, clock)
    work = _BatchEmbedder(
        embedder=embedder,
        with_states=find_state_embedder(embedder) if word_states and not limits.joint else None,
        profile=profile,
        limits=limits,
        clock=clock,
        canary=canary,
        counter=counter,
        on_token_limit=on_token_limit,
        token=current_cancel_token(),
    )
    todo = batches(list(texts.items()), limits, profile.document_prefix)
    if canary is not None and len(texts) > 1 and limits.items > 1:
        canary.learn(profile.dimensions, lambda sent: _send(embedder, sent, clock))
    if limits.in_flight == 1:
        yield from map(work.embed, todo)
        return
    with ThreadPoolExecutor(limits.in_flight, thread_name_prefix="embed") as pool:
        running = {pool.submit(work.embed_on_thread, batch) for batch in todo}
        try:
            # Batches that end while the caller stores others are stored together.
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield reduce(or_, [future.result() for future in done])
        finally:
            for future in running:
                future.cancel()


class _BatchEmbedder(Struct, frozen=True):
    embedder: Embedder
    with_states: WordStateEmbedder | None
    """The same embedder, if states of words are requested."""
    profile: EmbeddingProfile
    limits: EmbeddingLimits
    clock: Clock
    canary: Canary | None
    counter: TokenCounter
    on_token_limit: OnTokenLimit
    token: CancelToken
    """The token of the request; the threads that embed have none of their own."""
    in_time: list[int] = field(default_factory=list)
    """Sizes of the halves of batches that timed out."""

    def embed_on_thread(self, batch: list[Item]) -> EmbeddedBatch:
        with use_cancel_token(self.token):
            return self.embed(batch)

    def embed(self, batch: list[Item]) -> EmbeddedBatch:
        """Embed a batch; halve it if it is too large, times out, or has a text that is too long."""
        # After a timeout, later batches are not larger than the halves of that batch.
        self.token.check()
        if self.in_time and len(batch) > min(self.in_time):
            return self._halve(batch)
        texts, profile = [text for _, text in batch], self.profile
        try:
            vectors, states = self._embed(texts, spread=int(batch[0][0][:4], 16))
        except (errors.ProviderRefused, TimedOut) as refusal:
            if isinstance(refusal, errors.ProviderRefused):
                refusal.raise_unless("provider_batch_too_large", "provider_text_too_long")
            if len(batch) > 1:
                if isinstance(refusal, TimedOut):
                    self.in_time.append((len(batch) + 1) // 2)
                return self._halve(batch)
            if not isinstance(refusal, errors.TextTooLong):
                # A request with one text is too large for a reason other than tokens.
                raise
            vector, remark = embed_too_long(
                texts[0],
                lambda text: _send(self.embedder, [text], self.clock)[0],
                policy=self.on_token_limit,
                counter=self.counter,
                limit=profile.input_limit,
                dimensions=profile.dimensions,
            )
            text_hash = batch[0][0]
            found = EmbeddedBatch(notes={text_hash: remark})
            if vector is not None:
                found.vectors[text_hash] = vector
                if self.with_states is not None:
                    found.states[text_hash] = WordStates(b"")
            return found
        hashes = [text_hash for text_hash, _ in batch]
        found = EmbeddedBatch(states=dict(zip(hashes, states, strict=False)))
        sound = are_sound(vectors, profile.dimensions)
        for text_hash, vector, is_usable in zip(hashes, vectors, sound, strict=True):
            if is_usable:
                found.vectors[text_hash] = vector
            else:
                found.notes[text_hash] = Remark.BAD_VECTOR
        return found

    def _embed(
        self, texts: list[str], *, spread: int
    ) -> tuple[Sequence[Vector], Sequence[WordStates]]:
        """Return the vectors of texts, and their states if requested, otherwise none."""
        if self.with_states is not None:
            embed = self.with_states.embed_documents_with_states
            found = call_with_retries(lambda: embed(texts), self.clock, spread=spread)
            _check_count(found, texts)
            return [vector for vector, _ in found], [states for _, states in found]
        send = partial(_send, self.embedder, clock=self.clock, spread=spread)
        if self.canary is not None and len(texts) > 1:
            return self.canary.embed_in_order(texts, self.limits.items, send), ()
        return send(texts), ()

    def _halve(self, batch: list[Item]) -> EmbeddedBatch:
        middle = (len(batch) + 1) // 2
        return self.embed(batch[:middle]) | self.embed(batch[middle:])


PROBES: Mapping[str, str] = MappingProxyType(
    {
        "prose-1": "The ferry left the harbour at dusk, and nobody on the pier waved.",
        "law-1": "The tenant shall give notice in writing no later than thirty days before the"
        " end of the term.",
        "code-1": "def area(width: float, height: float) -> float: return width * height",
    }
)
"""Texts that identify a model. Never change one: vectors are stored under their names. A new text
needs a new name."""
MIN_SIMILARITY = 0.999
"""Minimum similarity of a probe to its stored vector; rounding and hardware change it less.

Measured on an H200 with `python -m bench.gpu`: 0.9999993 in other batches, 0.9999992 between
float16 on the GPU and float32 on the CPU, 0.99986 between bfloat16 and float32.
"""


def check_drift(
    embedder: Embedder, clock: Clock, earlier: Mapping[str, Vector] | None = None
) -> dict[str, Vector]:
    """Return the vectors of the probes to store; raises ModelDrifted if one has changed."""
    # Stored vectors are never replaced: otherwise a model that changes a little each time could
    # drift without limit. Each probe is sent alone, because other texts of a request can change a
    # vector slightly.
    stored = dict(earlier or {})
    for name in PROBES:
        stored[name] = check_probe(embedder, clock, stored, name)
    return stored


def check_probe(
    embedder: Embedder, clock: Clock, stored: Mapping[str, Vector], name: str
) -> Vector:
    """Return the vector of a probe to store; a stored vector is returned unchanged."""
    profile = learn_profile(embedder, clock)
    [vector] = _send(embedder, [PROBES[name]], clock)
    if not is_sound(vector, profile.dimensions):
        raise errors.ProviderBadReply("The embedding provider did not return one valid vector.")
    known = stored.get(name, vector)
    if cosine(known, vector) < MIN_SIMILARITY:
        raise errors.ModelDrifted(str(profile))
    return known
