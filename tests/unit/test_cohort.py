"""The cohort: texts that are part of Truespan, and their vectors under each model."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import LibraryFixture, WordEmbedder, other_profile
from truespan.errors import ModelUnavailable, StorageFull
from truespan.providers import cohort
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.retrieval.background import Cohort, CohortVectors
from truespan.types.vectors import Vector, cosine, norm_of, similarity_of

TEXTS = ("a lamp burned", "a ship sailed", "rain fell")


def test_read_texts_returns_distinct_texts_of_some_length() -> None:
    texts = cohort.read_texts()
    assert len(texts) == len(set(texts)) == 320
    assert all(50 <= len(text) <= 600 for text in texts)
    assert sha256(cohort.TEXTS_FILE.read_bytes()).hexdigest() == cohort.DIGEST


def test_read_vectors_returns_those_of_the_bundled_model() -> None:
    embedder = LocalEmbedder(LocalModel())
    texts, vectors = cohort.read_texts(), cohort.read_vectors(embedder.profile)
    assert vectors is not None
    assert len(vectors) == len(texts)
    assert all(abs(norm_of(vector) - 1) < 1e-6 for vector in vectors)
    for place in (0, 100, 319):
        [own] = embedder.embed_documents([texts[place]])
        assert cosine(own, vectors[place]) > 0.999
    assert cohort.read_vectors(other_profile(dimensions=384)) is None


def test_read_vectors_refuses_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    profile = LocalEmbedder(LocalModel()).profile
    damaged = tmp_path / "cohort.npy"
    monkeypatch.setattr(cohort, "VECTORS_FILE", damaged)
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        cohort.read_vectors(profile)
    damaged.write_bytes(b"other")
    with pytest.raises(ModelUnavailable, match="differs"):
        cohort.read_vectors(profile)


class Embedding:
    """Counts the texts that are embedded."""

    def __init__(self) -> None:
        self.embedder, self.texts = WordEmbedder(), list[str]()

    def __call__(self, scope: Any, texts: Any) -> dict[Any, Vector]:
        self.texts += texts.values()
        vectors = self.embedder.embed_documents([*texts.values()])
        return dict(zip(texts, vectors, strict=True))


def test_cohort_vectors_are_embedded_once_and_stored(lib: LibraryFixture) -> None:
    scope, embed = lib.scope(lib.world(a__txt="A ship.")), Embedding()
    vector = lib.embedder.embed_query("the ship")
    known = Cohort("d1", lambda: TEXTS)

    first = CohortVectors(known).similarities(vector, scope, lib.store, embed)
    assert embed.texts == [*TEXTS]
    assert first == [
        similarity_of(vector, own, scope.profile.distance)
        for own in lib.embedder.embed_documents(TEXTS)
    ]
    # Another process reads them; other texts, damage or a lost row cause another embedding.
    assert CohortVectors(known).similarities(vector, scope, lib.store, embed) == first
    assert len(embed.texts) == 3
    CohortVectors(Cohort("d2", lambda: TEXTS)).similarities(vector, scope, lib.store, embed)
    assert len(embed.texts) == 6
    third = "length(vectors) / 3"
    rotated = f"substr(vectors, {third} + 1) || substr(vectors, 1, {third})"
    for change in (
        "vectors = zeroblob(length(vectors))", f"vectors = CAST({rotated} AS BLOB)",
        "vectors = x'00'", "digest = 'd9'",
    ):  # fmt: skip
        lib.sql(f"UPDATE cohorts SET {change}")
        seen = len(embed.texts)
        assert CohortVectors(known).similarities(vector, scope, lib.store, embed) == first
        assert len(embed.texts) == seen + 3


def test_cohort_vectors_on_a_full_disk_stay_in_memory(
    lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope, embed = lib.scope(lib.world(a__txt="A ship.")), Embedding()

    def refuse(*_: Any) -> None:
        raise StorageFull

    monkeypatch.setattr(lib.store.records, "keep_cohort", refuse)
    vectors = CohortVectors(Cohort("d1", lambda: TEXTS))
    query = lib.embedder.embed_query("the ship")
    for _ in range(2):
        assert len(vectors.similarities(query, scope, lib.store, embed)) == 3
    assert embed.texts == [*TEXTS]


def test_empty_cohort_embeds_and_stores_nothing(lib: LibraryFixture) -> None:
    scope, embed = lib.scope(lib.world(a__txt="A ship.")), Embedding()
    query = lib.embedder.embed_query("the ship")
    assert CohortVectors().similarities(query, scope, lib.store, embed) == []
    assert embed.texts == []
    assert lib.sql("SELECT * FROM cohorts") == []
