"""The drift probe: a model that changed behind its name is noticed."""

from array import array
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.support.providers import PassingClock
from tests.support.worlds import WordEmbedder, vector_of
from truespan.errors import ModelDrifted, ProviderBadReply, ProviderUnavailable
from truespan.ingest.embed import PROBES, check_drift
from truespan.types.vectors import Vector


class Changing(WordEmbedder):
    """A provider whose vectors are changed in transit."""

    change: Callable[[Vector], Vector] | None = None

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        assert len(texts) == 1
        found = super().embed_documents(texts)
        return [self.change(vector) for vector in found] if self.change else found


def nudged(by: float) -> Callable[[Vector], Vector]:
    def change(vector: Vector) -> Vector:
        numbers = array("f", vector)
        numbers[0] += by
        return Vector(numbers.tobytes())

    return change


def probe(embedder: WordEmbedder, earlier: Mapping[str, Vector] | None = None) -> dict[str, Vector]:
    return check_drift(embedder, PassingClock(), earlier)


def test_first_check_returns_the_probe_vectors() -> None:
    embedder = Changing()
    kept = probe(embedder)
    assert kept == {name: vector_of(text) for name, text in PROBES.items()}
    assert embedder.documents == list(PROBES.values())
    assert probe(embedder, kept) == kept


def test_stored_probe_is_never_replaced() -> None:
    embedder = Changing()
    kept = first = probe(embedder)
    for step in range(5):
        embedder.change = nudged(0.008 * step)
        kept = probe(embedder, kept)
        assert kept == first
    embedder.change = nudged(0.2)
    with pytest.raises(ModelDrifted):
        probe(embedder, kept)


@pytest.mark.parametrize("by", [0.3, -0.3, 5.0])
def test_another_model_is_refused(by: float) -> None:
    embedder = Changing()
    kept = probe(embedder, None)
    embedder.change = nudged(by)
    with pytest.raises(ModelDrifted) as caught:
        probe(embedder, kept)
    assert "words" in str(caught.value)


def test_probes_differ_by_length_and_not_by_rounding() -> None:
    kept = probe(Changing())
    shorter = {name: Vector(vector[:-4]) for name, vector in kept.items()}
    with pytest.raises(ModelDrifted):
        probe(Changing(), shorter)

    embedder = Changing()
    kept = probe(embedder)
    embedder.change = nudged(0.001)
    assert probe(embedder, kept) == kept

    whole = probe(Changing())
    name = next(iter(PROBES))
    fewer = {key: vector for key, vector in whole.items() if key != name}
    assert probe(Changing(), fewer) == whole


@pytest.mark.parametrize("change", [lambda _: Vector(b""), lambda _: Vector(bytes(256))])
def test_invalid_probe_vector_is_not_stored(change: Callable[[Vector], Vector]) -> None:
    embedder = Changing()
    embedder.change = change
    with pytest.raises(ProviderBadReply):
        probe(embedder)


def test_temporary_failure_is_retried() -> None:
    failures = [ProviderUnavailable("down"), ProviderUnavailable("down")]

    def fail() -> None:
        if failures:
            raise failures.pop()

    assert len(probe(Changing(before=fail))) == len(PROBES)
