"""From texts to vectors that can be believed: batches, concurrency, retries, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from truespan.errors import BatchTooLarge, ProviderRefused, TextTooLong
from truespan.ingest.embed.batches import Item, batches
from truespan.ingest.embed.canary import Canary, check_count
from truespan.ingest.embed.pace import retried
from truespan.ingest.embed.too_long import EstimatedTokens, OnTokenLimit, Remark, TooLong
from truespan.ingest.embed.vectors import is_sound
from truespan.model.chunk import Vector
from truespan.model.ids import TextHash
from truespan.ports import Clock, Embedder, EmbeddingLimits, TokenCounter


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
