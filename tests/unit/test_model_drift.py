"""A provider that changes a model behind its name is noticed before anything is embedded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import (
    WORDS,
    LibraryFixture,
    ManualClock,
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
    """A model that is reached by name, so that another may come to stand behind it."""

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


def served() -> Served:
    return Served(limits=EmbeddingLimits(items=16, in_flight=1, joint=True))


def test_a_changed_model_is_refused_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    embedder = served()
    lib = make_library(tmp_path, embedder=embedder)
    world = lib.world(a__txt=TEXT)
    before = lib.sql("SELECT * FROM vectors ORDER BY text_hash")
    embedder.changed = True

    with pytest.raises(ModelDrifted) as refusal:
        world.ingest(lib.write("world/b.txt", "Something new was written here."))

    assert refusal.value.code == "model_drifted"
    assert lib.sql("SELECT * FROM vectors ORDER BY text_hash") == before
    assert world.jobs.list()[0].state is JobState.FAILED
    embedder.changed = False
    assert world.jobs.resume(world.jobs.list()[0].id).ingested == ["b.txt"]


def test_the_probes_of_the_first_run_are_the_measure_of_all_later_ones(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=served())
    lib.world(a__txt=TEXT)
    kept = lib.sql("SELECT probe FROM probes ORDER BY probe")
    assert [name for (name,) in kept] == sorted(PROBES)


def test_what_needs_no_embedding_asks_no_probe(tmp_path: Path) -> None:
    embedder = served()
    lib = make_library(tmp_path, embedder=embedder)
    world = lib.world(a__txt=TEXT)
    asked = len(embedder.documents)
    embedder.changed = True

    assert world.ingest(lib.folder / "files" / "world").unchanged == 1
    assert len(embedder.documents) == asked


def test_a_model_on_this_machine_is_known_by_its_digest_and_not_probed(lib: LibraryFixture) -> None:
    lib.world(a__txt=TEXT)
    assert lib.sql("SELECT count(*) FROM probes") == [(0,)]


# Questions


def in_new_process(lib: LibraryFixture, embedder: Served, clock: ManualClock) -> World:
    again = make_library(lib.folder, embedder=embedder, clock=clock, index=lib.index)
    return again.library.world("world")


def fail() -> None:
    raise ProviderUnavailable("It is restarting.")


def cached(lib: LibraryFixture) -> int:
    return lib.sql("SELECT count(*) FROM query_cache")[0][0]


def unconfirmed(lib: LibraryFixture) -> int:
    return lib.sql("SELECT count(unconfirmed) FROM query_cache")[0][0]


def test_a_changed_model_is_noticed_by_the_first_question_of_a_process(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    embedder.changed = True
    world = in_new_process(lib, embedder, clock)

    for ask in (world.search, world.answer):
        with pytest.raises(ModelDrifted):
            ask("What moved on the water?")

    assert cached(lib) == 0
    embedder.changed = False
    assert world.search("What moved on the water?").passages
    assert cached(lib) == 1


def test_changed_model_is_noticed_and_not_cached(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    world = in_new_process(lib, embedder, clock)
    world.search("harbour")
    asked = len(embedder.documents)

    world.search("water")
    embedder.changed = True
    world.search("light")
    unnoticed, kept = len(embedder.documents), cached(lib)
    clock.time += CONFIRM_SECONDS
    with pytest.raises(ModelDrifted):
        world.search("quiet")

    # The confirmation of the first question counted for the two that followed.
    assert (unnoticed, kept) == (asked, 3)
    assert cached(lib) == 1
    embedder.changed = False
    world.search("quiet")
    assert cached(lib) == 2


def test_unconfirmed_queries_are_covered_by_the_next_confirmation(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    world = in_new_process(lib, embedder, clock)
    for query in ("harbour", "water", "light"):
        world.search(query)
    before = cached(lib), unconfirmed(lib)
    clock.time += CONFIRM_SECONDS

    world.search("quiet")

    assert before == (3, 2)
    assert (cached(lib), unconfirmed(lib)) == (4, 0)


def test_unconfirmed_query_is_used_after_a_confirmation(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    first = in_new_process(lib, embedder, clock)
    found = [first.search(query).passages for query in ("harbour", "water", "light")]
    queries, probes = len(embedder.queries), len(embedder.documents)

    second = in_new_process(lib, embedder, clock)
    assert [second.search(query).passages for query in ("harbour", "water", "light")] == found
    assert len(embedder.queries) == queries
    assert len(embedder.documents) == probes + 1
    assert unconfirmed(lib) == 0


def test_unconfirmed_query_of_a_changed_model_is_refused(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    first = in_new_process(lib, embedder, clock)
    first.search("harbour")
    embedder.changed = True
    first.search("water")
    second = in_new_process(lib, embedder, clock)

    with pytest.raises(ModelDrifted):
        second.search("water")

    embedder.changed = False
    asked = len(embedder.queries)
    assert second.search("harbour").passages
    assert second.search("water").passages
    assert embedder.queries[asked:] == ["water"]


def test_unconfirmed_query_needs_the_provider_in_a_new_process(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    first = in_new_process(lib, embedder, clock)
    for query in ("harbour", "water"):
        first.search(query)
    embedder.before = fail
    second = in_new_process(lib, embedder, clock)

    with pytest.raises(ProviderUnavailable):
        second.search("water")

    assert second.search("harbour").passages


def test_queries_cached_during_a_confirmation_wait_for_the_next_one(tmp_path: Path) -> None:
    """Another process embeds them with the model that is there by then."""
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    first, second = (in_new_process(lib, embedder, clock) for _ in range(2))
    first.search("harbour")
    first.search("water")

    def ask_elsewhere() -> None:
        embedder.before = None
        first.search("light")

    embedder.before = ask_elsewhere
    second.search("water")

    assert unconfirmed(lib) == 1


def test_unconfirmed_query_is_repeated_without_the_provider(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    world = in_new_process(lib, embedder, clock)
    world.search("harbour")
    first, asked = world.search("water"), embedder.calls

    repeated = [world.search("water") for _ in range(20)]
    embedder.before = fail
    clock.time += 10 * CONFIRM_SECONDS
    repeated.append(world.search("water"))

    assert embedder.calls == asked
    assert all(found.passages == first.passages for found in repeated)
    # It stays unconfirmed while the provider fails.
    with pytest.raises(ProviderUnavailable):
        world.search("light")
    repeated.append(world.search("water"))
    embedder.before = None
    assert (cached(lib), unconfirmed(lib)) == (2, 1)
    world.search("light")
    assert (cached(lib), unconfirmed(lib)) == (3, 0)


def test_unconfirmed_query_is_used_for_a_day_at_most(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    world = in_new_process(lib, embedder, clock)
    for query in ("harbour", "water"):
        world.search(query)
    asked = len(embedder.queries)
    clock.time += TTL_SECONDS

    world.search("water")

    assert len(embedder.queries) == asked + 1


def test_unconfirmed_queries_of_a_changed_model_are_removed(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    world = in_new_process(lib, embedder, clock)
    world.search("harbour")
    embedder.changed = True
    world.search("water")
    clock.time += CONFIRM_SECONDS
    with pytest.raises(ModelDrifted):
        world.search("light")

    with pytest.raises(ModelDrifted):
        world.search("water")


def test_unconfirmed_query_does_not_survive_an_erasure(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    world = lib.world(a__txt=TEXT, b__txt="Another text about the harbour and the quay.")
    asking = in_new_process(lib, embedder, clock)
    for query in ("harbour", "water"):
        asking.search(query)
    lib.clock.time = clock.time = clock.time + 1
    world.documents.delete("a.txt")
    lib.clock.time = clock.time = clock.time + CONFIRM_SECONDS

    asking.search("quay")

    # Of "quay" alone: the vectors of the others may come from the erased text.
    assert lib.sql("SELECT count(*) FROM query_cache WHERE vector <> x''") == [(1,)]


def test_a_provider_that_failed_may_have_another_model_when_it_is_back(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    world = in_new_process(lib, embedder, clock)
    world.search("harbour")

    embedder.before = fail
    with pytest.raises(ProviderUnavailable):
        world.search("water")
    embedder.before, embedder.changed = None, True

    with pytest.raises(ModelDrifted):
        world.search("water")


def test_a_cached_question_needs_no_provider(tmp_path: Path) -> None:
    embedder, clock = served(), ManualClock()
    lib = make_library(tmp_path, embedder=embedder)
    lib.world(a__txt=TEXT)
    found = in_new_process(lib, embedder, clock).search("harbour").passages
    assert found

    class Away(Served):
        """A provider that is down: not even its profile can be learnt."""

        def __getattribute__(self, name: str) -> Any:
            if name in ("profile", "embed_query", "embed_documents"):
                raise ProviderUnavailable("It is down.")
            return super().__getattribute__(name)

        def may_have(self, profile: EmbeddingProfile) -> bool:
            return profile.provider == WORDS.provider

    down = Away(limits=embedder.limits)
    world = in_new_process(lib, down, clock)

    assert world.search("harbour").passages == found
    with pytest.raises(ProviderUnavailable):
        world.search("water")
