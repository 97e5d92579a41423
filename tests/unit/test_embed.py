"""Batches, retries, concurrency and the checks on what a provider returns."""

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.state_embedder import StateEmbedder, states_of
from tests.support.worlds import ManualClock, WordCounter, WordEmbedder, other_profile, vector_of
from truespan.errors import ProviderBadReply, ProviderRefused, ProviderUnavailable, TextTooLong
from truespan.ingest.embed import (
    ATTEMPTS,
    CANARY,
    Canary,
    EmbeddedBatch,
    OnTokenLimit,
    Remark,
    TimedOut,
    batches,
    embed_texts,
)
from truespan.types.ids import TextHash, hash_text
from truespan.types.profile import EmbeddingLimits
from truespan.types.vectors import Vector, WordStates


def hashed(texts: Sequence[str]) -> dict[TextHash, str]:
    return {hash_text(text): text for text in texts}


def embed(
    embedder: WordEmbedder,
    texts: Sequence[str],
    clock: ManualClock | None = None,
    limits: EmbeddingLimits | None = None,
) -> dict[TextHash, Vector]:
    found: dict[TextHash, Vector] = {}
    own = limits or EmbeddingLimits()
    for batch in embed_texts(
        embedder, hashed(texts), own, clock or ManualClock(), counter=WordCounter()
    ):
        found |= batch.vectors
    return found


@proves("embedding.batch-items", "embedding.batch-tokens", "embedding.oversized-item")
@given(
    st.lists(st.integers(0, 5000), max_size=300), st.integers(1, 50), st.integers(1, 2000),
    st.booleans(), st.sampled_from(["", "passage: ", "title: none | text: "]),
)  # fmt: skip
def test_batches_respect_limits_and_keep_order_and_every_text(
    lengths: list[int], items: int, tokens: int, joint: bool, prefix: str
) -> None:
    texts = [(TextHash(str(place)), "x" * length) for place, length in enumerate(lengths)]
    limits = EmbeddingLimits(items=items, tokens=tokens, joint=joint)
    made = list(batches(texts, limits, prefix))
    assert [item for batch in made for item in batch] == texts
    for batch in made:
        assert len(batch) <= items
        estimate = sum(-(-len(prefix + text) // 4) for _, text in batch)
        assert estimate <= tokens or len(batch) == 1


@proves("embedding.batch-tokens")
@pytest.mark.parametrize("prefix", ["", "title: none | text: "])
def test_token_limit_counts_prefixes_and_canaries(prefix: str) -> None:
    sent: list[list[str]] = []

    class Recording(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            sent.append([prefix + text for text in texts])
            return super().embed_documents(texts)

    limits = EmbeddingLimits(items=40, tokens=400, in_flight=1, joint=True)
    mode = f"instruction: {prefix}" if prefix else "passage"
    embedder = Recording(other_profile(document_mode=mode), limits=limits)
    texts = [f"text {number} " * (number % 40 + 1) for number in range(120)]

    assert len(embed(embedder, texts, limits=limits)) == len(texts)
    assert any(CANARY in text for request in sent for text in request if len(request) > 1)
    assert [request for request in sent if sum(-(-len(text) // 4) for text in request) > 400] == []


@proves("embedding.batch-items", "embedding.batch-tokens")
def test_default_limits_are_those_of_the_contract() -> None:
    limits = EmbeddingLimits()
    assert (limits.items, limits.tokens, limits.in_flight) == (2048, 100_000, 2)


@proves("embedding.concurrency")
@pytest.mark.parametrize("in_flight", [1, 2, 5])
def test_concurrent_requests_are_limited(in_flight: int) -> None:
    lock = threading.Lock()
    running = [0, 0]
    gate = threading.Barrier(in_flight)

    class Slow(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            with lock:
                running[0] += 1
                running[1] = max(running)
            gate.wait(timeout=30)
            vectors = [vector_of(text) for text in texts]
            with lock:
                running[0] -= 1
            return vectors

    limits = EmbeddingLimits(items=1, in_flight=in_flight, joint=False)
    texts = [f"text {number}" for number in range(in_flight * 4)]

    found = embed(Slow(limits=limits), texts, limits=limits)

    assert running[1] == in_flight
    assert found == {hash_text(text): vector_of(text) for text in texts}


@proves("embedding.concurrency", "embedding.batch-tokens")
def test_lower_limit_of_operator_and_provider_applies() -> None:
    provider = EmbeddingLimits(items=10, tokens=50_000, in_flight=9)
    operator = EmbeddingLimits(items=2048, tokens=7, in_flight=2)
    both = provider.within(operator)
    assert (both.items, both.tokens, both.in_flight) == (10, 7, 2)


@proves("embedding.vector-per-input")
@pytest.mark.parametrize("in_flight", [1, 3])
def test_each_text_gets_its_own_vector(in_flight: int) -> None:
    limits = EmbeddingLimits(items=4, in_flight=in_flight)
    texts = [f"word{number} and more" for number in range(50)]
    found = embed(WordEmbedder(limits=limits), texts)
    assert found == {hash_text(text): vector_of(text) for text in texts}


@proves("embedding.retries-transient-only")
def test_temporary_failure_is_retried_with_growing_pauses() -> None:
    clock = ManualClock()
    failures = [ProviderUnavailable("down"), ProviderUnavailable("down", retry_after=7.0)]

    def fail() -> None:
        if failures:
            raise failures.pop(0)

    assert len(embed(WordEmbedder(before=fail), ["one"], clock)) == 1
    assert len(clock.slept) == 2
    assert clock.slept[1] == 7.0
    assert 0 < clock.slept[0] <= 1.0


@proves("embedding.retries-transient-only")
def test_refusal_is_not_retried_and_retries_are_limited() -> None:
    attempts: list[int] = []

    def refuse() -> None:
        attempts.append(1)
        raise ProviderRefused("no")

    with pytest.raises(ProviderRefused):
        embed(WordEmbedder(before=refuse), ["one"])
    assert len(attempts) == 1

    def down() -> None:
        attempts.append(1)
        raise ProviderUnavailable("down")

    attempts.clear()
    with pytest.raises(ProviderUnavailable):
        embed(WordEmbedder(before=down), ["one"])
    assert len(attempts) == ATTEMPTS


# A batch that is too large, and a text that is too long


class Small(WordEmbedder):
    """A provider that accepts few texts at once and few words in each."""

    def __init__(self, *, most: int = 100, words: int = 1000, joint: bool = True) -> None:
        super().__init__(limits=EmbeddingLimits(items=16, in_flight=1, joint=joint))
        self.most, self.words = most, words
        self.sizes: list[int] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.sizes.append(len(texts))
        if len(texts) > self.most:
            raise ProviderRefused.of("provider_batch_too_large", "too many")
        if any(len(text.split()) > self.words for text in texts):
            raise TextTooLong("too long")
        return super().embed_documents(texts)


def outcome(
    embedder: WordEmbedder, texts: Sequence[str], policy: OnTokenLimit = OnTokenLimit.MEAN
) -> EmbeddedBatch:
    whole = EmbeddedBatch()
    given = hashed(texts)
    limits = EmbeddingLimits()
    found = embed_texts(
        embedder, given, limits, ManualClock(), counter=WordCounter(), on_token_limit=policy
    )
    for batch in found:
        whole = whole | batch
    return whole


@proves("embedding.oversized-item", "embedding.vector-per-input")
@pytest.mark.parametrize("most", [1, 2, 3, 7, 15])
def test_too_large_batch_is_halved(most: int) -> None:
    embedder = Small(most=most)
    texts = [f"word{number} and more" for number in range(40)]
    found = outcome(embedder, texts)
    assert found.vectors == {hash_text(text): vector_of(text) for text in texts}
    assert (found.rejected, found.notes) == ((), {})


@proves("embedding.oversized-item", "embedding.retries-transient-only")
def test_timed_out_batch_is_halved_and_not_repeated() -> None:
    sizes: list[int] = []

    class Slow(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            sizes.append(len(texts))
            if len(texts) > 3:
                raise TimedOut("It did not answer in time.")
            return super().embed_documents(texts)

    limits = EmbeddingLimits(items=8, in_flight=1, joint=False)
    embedder, texts = Slow(limits=limits), [f"text {number}" for number in range(24)]

    assert len(embed(embedder, texts, limits=limits)) == len(texts)
    # Eight, then four were too many; later batches begin with two.
    assert sizes == [8, 4, *[2] * 12]


def test_single_text_is_sent_again_after_a_timeout() -> None:
    embedder = WordEmbedder()
    tries: list[int] = []

    def slow_once() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise TimedOut("It did not answer in time.")

    embedder.before = slow_once

    assert len(embed(embedder, ["one text"])) == 1


def test_changed_model_is_not_reported_as_wrong_order() -> None:
    class Swapped(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            found = super().embed_documents(texts)
            if len(self.documents) == len(texts):
                return found
            return [vector_of(f"{text} other model") for text in texts]

    limits = EmbeddingLimits(items=8, in_flight=1, joint=True)

    with pytest.raises(ProviderBadReply, match="changed the model during this run"):
        embed(Swapped(limits=limits), [f"text {number}" for number in range(6)], limits=limits)


def test_oversized_single_text_is_an_error_not_a_loop() -> None:
    embedder = Small(most=0)
    with raises_code("provider_batch_too_large"):
        outcome(embedder, [f"word{number}" for number in range(8)], OnTokenLimit.SKIP)
    assert embedder.sizes == [1]
    embedder.sizes.clear()
    with raises_code("provider_batch_too_large"):
        outcome(embedder, ["one"])
    assert embedder.sizes == [1]


@proves("embedding.no-silent-truncation", "embedding.oversized-item")
@pytest.mark.parametrize("place", range(6))
def test_too_long_text_is_found_and_changes_no_other(place: int) -> None:
    texts = [f"word{number} and more" for number in range(5)]
    long = " ".join(f"This is sentence{number} of it." for number in range(20))
    texts.insert(place, long)
    found = outcome(Small(words=30), texts, OnTokenLimit.SKIP)
    assert (found.rejected, found.notes) == ((hash_text(long),), {hash_text(long): Remark.TOO_LONG})
    others = [text for text in texts if text != long]
    assert found.vectors == {hash_text(text): vector_of(text) for text in others}


@proves("embedding.no-silent-truncation")
@pytest.mark.parametrize(
    ("policy", "remark"),
    [(OnTokenLimit.MEAN, Remark.MEAN_OF_PARTS), (OnTokenLimit.TRUNCATE, Remark.TRUNCATED)],
)
def test_too_long_text_has_a_remark(policy: OnTokenLimit, remark: Remark) -> None:
    long = " ".join(f"This is sentence{number} of it." for number in range(20))
    found = outcome(Small(words=30), ["short", long], policy)
    assert found.rejected == ()
    assert found.notes == {hash_text(long): remark}
    assert len(found.vectors) == 2


def test_calls_continue_while_vectors_are_stored() -> None:
    called = threading.Semaphore(0)

    class Counting(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            called.release()
            return super().embed_documents(texts)

    texts = [f"word{number} and more" for number in range(12)]
    limits = EmbeddingLimits(items=2, in_flight=2, joint=False)
    embedder = Counting()
    embedder.limits = limits
    found = embed_texts(embedder, hashed(texts), limits, ManualClock(), counter=WordCounter())

    whole = next(found)
    for _ in range(6):
        assert called.acquire(timeout=10), "a call waits for the caller"
    for batch in found:
        whole = whole | batch

    assert whole.vectors == {hash_text(text): vector_of(text) for text in texts}


def test_long_text_is_embedded_in_parts_by_default() -> None:
    long = " ".join(f"This is sentence{number} of it." for number in range(20))
    embedder = Small(words=30)
    [batch] = embed_texts(
        embedder, hashed([long]), EmbeddingLimits(), ManualClock(), counter=WordCounter()
    )
    assert batch.notes == {hash_text(long): Remark.MEAN_OF_PARTS}
    assert len(embedder.documents) > 1


# States of words


def states_in(embedder: WordEmbedder, texts: Sequence[str]) -> dict[TextHash, bytes]:
    batches_found = embed_texts(
        embedder, hashed(texts), EmbeddingLimits(), ManualClock(), counter=WordCounter(),
        word_states=True,
    )  # fmt: skip
    return {known: own for batch in batches_found for known, own in batch.states.items()}


def test_states_of_words_come_with_every_batch() -> None:
    texts = [f"The lamp of keeper{number}." for number in range(40)]
    embedder = StateEmbedder()
    assert states_in(embedder, texts) == {hash_text(text): states_of(text) for text in texts}
    assert embedder.documents == texts


def test_text_embedded_in_parts_has_no_states_of_words() -> None:
    class SmallStates(StateEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            if any(len(text.split()) > 30 for text in texts):
                raise TextTooLong
            return super().embed_documents(texts)

    long = " ".join(f"This is sentence{number} of it." for number in range(20))
    found = states_in(SmallStates(), ["The lamp.", long])

    assert found == {hash_text("The lamp."): states_of("The lamp."), hash_text(long): b""}


def test_batch_that_needs_a_canary_has_no_states_of_words() -> None:
    joint = StateEmbedder(limits=EmbeddingLimits(joint=True))
    assert states_in(joint, ["The lamp.", "The keeper."]) == {}


def test_missing_states_of_words_are_a_bad_reply() -> None:
    class Silent(StateEmbedder):
        def embed_documents_with_states(
            self, texts: Sequence[str]
        ) -> list[tuple[Vector, WordStates]]:
            return super().embed_documents_with_states(texts)[1:]

    with pytest.raises(ProviderBadReply):
        states_in(Silent(), ["The lamp.", "The keeper."])


# Order


class Joint(WordEmbedder):
    """A provider that processes a whole batch at once, with a chosen fault."""

    def __init__(self, fault: str) -> None:
        super().__init__(limits=EmbeddingLimits(items=16, in_flight=1, joint=True))
        self.fault = fault

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        vectors = super().embed_documents(texts)
        if len(texts) == 1:
            return vectors
        match self.fault:
            case "fewer":
                return vectors[:-1]
            case "more":
                return [*vectors, vectors[0]]
            case "reversed":
                return vectors[::-1]
            case "rotated":
                return [*vectors[1:], vectors[0]]
            case "all the same":
                return [vectors[0]] * len(vectors)
        return vectors


@proves("embedding.count-and-canary", "embedding.vector-per-input")
@pytest.mark.parametrize("fault", ["fewer", "more", "reversed", "rotated", "all the same"])
def test_wrong_batch_is_refused_as_a_whole(fault: str) -> None:
    with pytest.raises(ProviderBadReply):
        embed(Joint(fault), [f"word{number}" for number in range(10)])


@proves("embedding.count-and-canary")
def test_canary_is_added_to_batches_of_several_and_removed() -> None:
    embedder = Joint("none")
    found = embed(embedder, [f"word{number}" for number in range(40)])
    # Alone once, and twice in each of three batches.
    assert embedder.documents.count(CANARY) == 1 + 6
    assert hash_text(CANARY) not in found
    assert len(found) == 40
    embedder = Joint("none")
    embed(embedder, ["one"])
    assert embedder.documents == ["one"]


def test_shared_canary_is_embedded_once() -> None:
    embedder, kept = Joint("none"), Canary()
    for number in range(3):
        texts = hashed([f"word{number}", f"other{number}"])
        list(
            embed_texts(
                embedder, texts, EmbeddingLimits(), ManualClock(), counter=WordCounter(),
                canary=kept,
            )
        )  # fmt: skip
    assert embedder.documents.count(CANARY) == 1 + 3


@proves("embedding.vectors-checked")
def test_invalid_vector_is_reported_and_others_are_kept() -> None:
    class Zero(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            found = super().embed_documents(texts)
            return [
                Vector(bytes(256)) if "bad" in text else v
                for text, v in zip(texts, found, strict=True)
            ]

    found = outcome(Zero(), ["good", "bad", "fine"])

    assert found.notes == {hash_text("bad"): Remark.BAD_VECTOR}
    assert found.rejected == (hash_text("bad"),)
    assert len(found.vectors) == 2
