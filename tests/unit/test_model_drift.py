"""A changed model with the same name is noticed before anything is embedded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import (
    WORDS,
    LibraryFixture,
    WordEmbedder,
    make_library,
    vector_of,
)
from truespan.engine.world import World
from truespan.errors import ModelDrifted, ProviderUnavailable
from truespan.ingest.embed import PROBES
from truespan.retrieval.checks import CONFIRM_SECONDS
from truespan.retrieval.query import TTL_SECONDS
from truespan.types.job import JobState
from truespan.types.profile import EmbeddingLimits, EmbeddingProfile
from truespan.types.vectors import Vector

TEXT = "The harbour was quiet. A light moved on the water."


@dataclass
class Served(WordEmbedder):
    """A model that is requested by name, so that another can replace it."""

    changed: bool = False

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        found = super().embed_documents(texts)
        if not self.changed:
            return found
        return [vector_of(f"{text} other model", self.profile.dimensions) for text in texts]

    def embed_query(self, text: str) -> Vector:
        found = super().embed_query(text)
        return vector_of(f"{text} other model", self.profile.dimensions) if self.changed else found

    def may_have(self, profile: EmbeddingProfile) -> bool:
        return profile.provider == self.profile.provider


@dataclass
class Drift:
    """A library whose model can change, and one clock for all its processes."""

    lib: LibraryFixture
    embedder: Served

    def process(self, embedder: Served | None = None) -> World:
        """Open the library as a new process does."""
        lib = self.lib
        again = make_library(
            lib.folder, embedder=embedder or self.embedder, clock=lib.clock, index=lib.index
        )
        return again.library.world("world")

    def cached(self) -> tuple[int, int]:
        """Return the numbers of cached queries and of unconfirmed ones."""
        return self.lib.sql("SELECT count(*), count(unconfirmed) FROM query_cache")[0]


@pytest.fixture
def drift(tmp_path: Path) -> Drift:
    embedder = Served(limits=EmbeddingLimits(items=16, in_flight=1, joint=True))
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    return Drift(lib, embedder)


def fail() -> None:
    raise ProviderUnavailable("It is restarting.")


def test_changed_model_is_refused_and_nothing_is_stored(drift: Drift) -> None:
    lib, world = drift.lib, drift.lib.library.world("world")
    before = lib.sql("SELECT * FROM vectors ORDER BY text_hash")
    drift.embedder.changed = True
    with pytest.raises(ModelDrifted) as refusal:
        world.ingest(lib.write("world/b.txt", "Something new was written here."))
    assert refusal.value.code == "model_drifted"
    assert lib.sql("SELECT * FROM vectors ORDER BY text_hash") == before
    assert world.jobs.list()[0].state is JobState.FAILED
    drift.embedder.changed = False
    assert world.jobs.resume(world.jobs.list()[0].id).ingested == ["b.txt"]


def test_probes_are_stored_once_and_not_requested_without_embedding(drift: Drift) -> None:
    lib, asked = drift.lib, len(drift.embedder.documents)
    assert [name for (name,) in lib.sql("SELECT probe FROM probes ORDER BY probe")] == sorted(
        PROBES
    )
    drift.embedder.changed = True
    assert lib.library.world("world").ingest(lib.folder / "files" / "world").unchanged == 1
    assert len(drift.embedder.documents) == asked


def test_local_model_is_identified_by_digest_without_probes(lib: LibraryFixture) -> None:
    lib.world(a__txt=TEXT)
    assert lib.sql("SELECT count(*) FROM probes") == [(0,)]


# Questions


def test_changed_model_is_noticed_by_the_first_query_of_a_process(drift: Drift) -> None:
    drift.embedder.changed = True
    world = drift.process()
    for ask in (world.search, world.answer):
        with pytest.raises(ModelDrifted):
            ask("What moved on the water?")
    assert drift.cached()[0] == 0
    drift.embedder.changed = False
    assert world.search("What moved on the water?").passages
    assert drift.cached()[0] == 1


def test_changed_model_is_noticed_and_not_cached(drift: Drift) -> None:
    embedder, world = drift.embedder, drift.process()
    world.search("harbour")
    asked = len(embedder.documents)

    world.search("water")
    embedder.changed = True
    world.search("light")
    unnoticed, kept = len(embedder.documents), drift.cached()[0]
    drift.lib.clock.time += CONFIRM_SECONDS
    for query in ("quiet", "light"):
        with pytest.raises(ModelDrifted):
            world.search(query)

    # The confirmation of the first question counted for the two that followed.
    assert (unnoticed, kept, drift.cached()[0]) == (asked, 3, 1)
    embedder.changed = False
    world.search("quiet")
    assert drift.cached()[0] == 2


def test_unconfirmed_queries_are_covered_by_the_next_confirmation(drift: Drift) -> None:
    world = drift.process()
    for query in ("harbour", "water", "light"):
        world.search(query)
    before = drift.cached()
    drift.lib.clock.time += CONFIRM_SECONDS
    world.search("quiet")
    assert (before, drift.cached()) == ((3, 2), (4, 0))


def test_unconfirmed_query_is_used_after_a_confirmation(drift: Drift) -> None:
    embedder, words = drift.embedder, ("harbour", "water", "light")
    first = drift.process()
    found = [first.search(query).passages for query in words]
    queries, probes = len(embedder.queries), len(embedder.documents)
    second = drift.process()
    assert [second.search(query).passages for query in words] == found
    assert (len(embedder.queries), len(embedder.documents)) == (queries, probes + 1)
    assert drift.cached()[1] == 0


def test_unconfirmed_query_of_a_changed_model_is_refused(drift: Drift) -> None:
    embedder, first = drift.embedder, drift.process()
    first.search("harbour")
    embedder.changed = True
    first.search("water")
    second = drift.process()

    with pytest.raises(ModelDrifted):
        second.search("water")

    embedder.changed = False
    asked = len(embedder.queries)
    assert second.search("harbour").passages
    assert second.search("water").passages
    assert embedder.queries[asked:] == ["water"]


def test_unconfirmed_query_needs_the_provider_in_a_new_process(drift: Drift) -> None:
    first = drift.process()
    for query in ("harbour", "water"):
        first.search(query)
    drift.embedder.before = fail
    second = drift.process()
    with pytest.raises(ProviderUnavailable):
        second.search("water")
    assert second.search("harbour").passages


def test_queries_cached_during_a_confirmation_wait_for_the_next_one(drift: Drift) -> None:
    """Another process embeds them with the model of that time."""
    first, second = drift.process(), drift.process()
    first.search("harbour")
    first.search("water")

    def ask_elsewhere() -> None:
        drift.embedder.before = None
        first.search("light")

    drift.embedder.before = ask_elsewhere
    second.search("water")

    assert drift.cached()[1] == 1


def test_unconfirmed_query_is_repeated_without_the_provider_for_a_day(drift: Drift) -> None:
    embedder, world = drift.embedder, drift.process()
    world.search("harbour")
    first, asked = world.search("water"), embedder.calls

    repeated = [world.search("water") for _ in range(20)]
    embedder.before = fail
    drift.lib.clock.time += 10 * CONFIRM_SECONDS
    repeated.append(world.search("water"))

    assert embedder.calls == asked
    assert all(found.passages == first.passages for found in repeated)
    # It stays unconfirmed while the provider fails.
    with pytest.raises(ProviderUnavailable):
        world.search("light")
    repeated.append(world.search("water"))
    embedder.before = None
    assert drift.cached() == (2, 1)
    drift.lib.clock.time += TTL_SECONDS
    queries = len(embedder.queries)
    world.search("water")
    assert len(embedder.queries) == queries + 1


def test_unconfirmed_query_is_confirmed_once_the_provider_is_back(drift: Drift) -> None:
    world = drift.process()
    for query in ("harbour", "water"):
        world.search(query)
    drift.embedder.before = fail
    drift.lib.clock.time += CONFIRM_SECONDS
    with pytest.raises(ProviderUnavailable):
        world.search("light")
    drift.embedder.before = None
    world.search("light")
    assert drift.cached() == (3, 0)


def test_unconfirmed_query_does_not_survive_an_erasure(drift: Drift) -> None:
    lib = drift.lib
    world = lib.library.world("world")
    world.ingest(lib.write("world/b.txt", "Another text about the harbour and the quay."))
    asking = drift.process()
    for query in ("harbour", "water"):
        asking.search(query)
    lib.clock.time += 1
    world.documents.delete("a.txt")
    lib.clock.time += CONFIRM_SECONDS

    asking.search("quay")

    # Of "quay" alone: the vectors of the others may come from the erased text.
    assert lib.sql("SELECT count(*) FROM query_cache WHERE vector <> x''") == [(1,)]


def test_provider_is_checked_again_after_an_outage(drift: Drift) -> None:
    embedder, world = drift.embedder, drift.process()
    world.search("harbour")
    embedder.before = fail
    with pytest.raises(ProviderUnavailable):
        world.search("water")
    embedder.before, embedder.changed = None, True
    with pytest.raises(ModelDrifted):
        world.search("water")


def test_cached_query_needs_no_provider(drift: Drift) -> None:
    found = drift.process().search("harbour").passages
    assert found

    class Away(Served):
        """An unavailable provider, whose profile cannot be read."""

        def __getattribute__(self, name: str) -> Any:
            if name in ("profile", "embed_query", "embed_documents"):
                raise ProviderUnavailable("It is down.")
            return super().__getattribute__(name)

        def may_have(self, profile: EmbeddingProfile) -> bool:
            return profile.provider == WORDS.provider

    world = drift.process(Away(limits=drift.embedder.limits))

    assert world.search("harbour").passages == found
    with pytest.raises(ProviderUnavailable):
        world.search("water")
