"""States of words in a library: stored with vectors, reused, repaired, and known to readers."""

from pathlib import Path

import pytest
from msgspec.structs import replace

import truespan
from tests.promises import proves
from tests.support.state_embedder import StateEmbedder, states_of, stored_states
from tests.support.worlds import LibraryFixture, WordCounter, WordEmbedder, make_library
from truespan.engine.ingestion import Ingestion
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.ingest.indexing import fill_word_states
from truespan.maintenance.doctor.plan import Action, Finding
from truespan.retrieval.query import embed_query
from truespan.types.ids import TextHash, hash_text
from truespan.types.scope import Scope

TIDE = "The tide comes in twice a day."
MOON = "The moon pulls on the oceans."
BOOK = "# One\n\nThe lamp was lit. Nobody saw it.\n\n# Two\n\nThe keeper left. He came back.\n"


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path, embedder=StateEmbedder(), store="sqlite", defaults="recommended")


def without_states(lib: LibraryFixture) -> Library:
    """Return the library with the setting turned off."""
    return Library(replace(lib.library._components, word_states=False))


def scope_of(world: World) -> Scope:
    scope = world.access.scope()
    assert scope is not None
    return scope


def read_states(world: World) -> dict[TextHash, bytes]:
    store, scope = world.access.components.store, scope_of(world)
    hashes = [chunk.text_hash for page in store.chunks.expected(scope) for chunk in page]
    return {**stored_states(store, scope, hashes)}


@proves("search.word-states")
def test_ingestion_stores_states_in_the_pass_of_the_vectors(lib: LibraryFixture) -> None:
    world = lib.world("w", tide__txt=TIDE, moon__txt=MOON)

    expected = {hash_text(text): states_of(text) for text in (TIDE, MOON)}
    assert read_states(world) == expected
    assert sorted(lib.embedder.documents) == sorted([TIDE, MOON])
    assert world.status().word_states == 2


@proves("search.word-states")
def test_equal_text_is_not_embedded_again_for_states(lib: LibraryFixture) -> None:
    world = lib.world("w", tide__txt=TIDE)
    lib.write("w/copy.md", f"{TIDE}\n")
    world.ingest([str(lib.folder / "files" / "w")])

    assert len(world.documents.list()) == 2
    assert lib.embedder.documents == [TIDE]
    assert world.status().word_states == 1


@proves("search.word-states")
@pytest.mark.parametrize("way", ["contract", "setting", "embedder"])
def test_nothing_is_stored_without_a_use_for_states(tmp_path: Path, way: str) -> None:
    embedder = WordEmbedder() if way == "embedder" else StateEmbedder()
    defaults = "contract" if way == "contract" else "recommended"
    lib = make_library(tmp_path, embedder=embedder, defaults=defaults)
    library = without_states(lib) if way == "setting" else lib.library
    world = library.create_world("w")
    world.ingest(lib.write("tide.txt", TIDE))

    assert world.search("tide", floor=0.0).passages
    assert lib.sql("SELECT count(*) FROM word_states") == [(0,)]
    assert world.repair().word_states == 0
    states = lib.sql("SELECT states FROM query_cache")
    assert states == ([(b"",)] if way == "embedder" else [(None,)])


@proves("search.word-states")
def test_repair_fills_in_states_of_earlier_documents(lib: LibraryFixture) -> None:
    without_states(lib).create_world("w").ingest(lib.write("tide.txt", TIDE))
    world = lib.library.world("w")
    world.ingest(lib.write("moon.txt", MOON))
    assert [*read_states(world)] == [hash_text(MOON)]

    assert world.repair().word_states == 1
    assert read_states(world) == {hash_text(text): states_of(text) for text in (TIDE, MOON)}
    assert world.repair().word_states == 0


@proves("search.word-states")
@pytest.mark.parametrize("way", ["repair", "doctor"])
def test_damaged_states_are_computed_again_from_the_text(lib: LibraryFixture, way: str) -> None:
    world = lib.world("w", tide__txt=TIDE, moon__txt=MOON)
    before = read_states(world)
    lib.sql(f"UPDATE word_states SET states = x'0102' WHERE text_hash = '{hash_text(TIDE)}'")
    assert [*read_states(world)] == [hash_text(MOON)]
    assert lib.library.doctor("w")["w"].counts() == {Finding.DAMAGED_STATES: 1}

    if way == "repair":
        assert world.repair().word_states == 1
    else:
        assert (
            lib.library.maintenance.apply_plan(lib.library.doctor("w")).done[Action.COMPUTE_STATES]
            == 1
        )
    assert read_states(world) == before
    assert lib.library.doctor("w").healthy


@proves("search.word-states")
def test_damaged_text_gives_no_states(lib: LibraryFixture) -> None:
    world = lib.world("w", tide__txt=TIDE)
    lib.sql("DELETE FROM word_states")
    lib.sql("UPDATE chunks SET text = 'The tide goes out.'")
    scope = scope_of(world)

    assert fill_word_states(Ingestion(world.access.components, scope).deps, scope) == 0
    assert lib.sql("SELECT count(*) FROM word_states") == [(0,)]


@proves("search.word-states")
def test_generation_of_the_same_model_has_the_states(lib: LibraryFixture) -> None:
    world = lib.world("w", tide__txt=TIDE)
    report = world.generations.reindex()
    newer = replace(
        scope_of(world), generation=replace(scope_of(world).generation, number=report.generation)
    )

    assert lib.embedder.documents == [TIDE]
    known = hash_text(TIDE)
    assert stored_states(lib.store, newer, [known]) == {known: states_of(TIDE)}


@proves("search.word-states")
def test_backup_has_the_states_unless_it_has_no_vectors(tmp_path: Path) -> None:
    def opened(folder: Path) -> Library:
        return truespan.open(folder, create=True, embedder=StateEmbedder(), counter=WordCounter())

    (tmp_path / "tide.txt").write_text(TIDE)
    with opened(tmp_path / "library") as library:
        library.create_world("w", defaults="recommended").ingest(tmp_path / "tide.txt")
        expected = read_states(library.world("w"))
        library.backup(tmp_path / "whole")
        library.backup(tmp_path / "bare", vectors=False)
    assert [*expected.values()] == [states_of(TIDE)]

    for name in ("whole", "bare"):
        truespan.restore(tmp_path / name, tmp_path / f"from-{name}")
        with opened(tmp_path / f"from-{name}") as library:
            world = library.world("w")
            assert world.status().word_states == (1 if name == "whole" else 0)
            world.repair()
            assert read_states(world) == expected


@proves("search.word-states")
def test_tail_has_the_states_of_its_own_text(lib: LibraryFixture) -> None:
    """Two books differ after the position alone; their tails are equal, with equal states."""
    found = []
    for name, book in (("a", BOOK), ("b", BOOK.replace("He came back", "A boat sank"))):
        world = lib.world(name)
        world.ingest(lib.write(f"{name}/book.md", book), kind="book")
        reader = world.reader("ann")
        reader.set_position("book.md", sentence=2)
        reader.retrieve("keeper")
        scope = scope_of(world)
        rows = lib.sql("SELECT text_hash, text FROM tails")
        texts = {TextHash(text_hash): text for text_hash, text in rows}
        states = stored_states(lib.store, scope, [*texts])
        assert states
        assert all(rows == states_of(texts[known]) for known, rows in states.items())
        found.append(states)
    assert found[0] == found[1]


@proves("search.word-states")
def test_tail_without_states_is_completed_once(lib: LibraryFixture) -> None:
    world = lib.world("w")
    world.ingest(lib.write("book.md", BOOK), kind="book")
    reader = world.reader("ann")
    reader.set_position("book.md", sentence=2)
    reader.retrieve("keeper")
    lib.sql("DELETE FROM word_states")

    calls = lib.embedder.calls
    assert reader.retrieve("keeper") is not None
    assert lib.embedder.calls == calls + 1
    reader.retrieve("keeper")
    assert lib.embedder.calls == calls + 1


@proves("search.word-states")
def test_query_states_are_cached_without_the_words(lib: LibraryFixture) -> None:
    world = lib.world("w", tide__txt=TIDE)
    deps, scope = world.access.pipeline.deps, scope_of(world)
    record = world.access.record()
    first = embed_query(deps, scope, "Which tide?", record)

    assert first == embed_query(deps, scope, "Which tide?", record)
    assert first.states is not None
    assert first.states.words == ("which", "tide")
    assert lib.embedder.queries == ["Which tide?"]
    [(rows,)] = lib.sql("SELECT states FROM query_cache")
    assert rows == first.states.rows
    assert b"tide" not in rows
    lib.sql("UPDATE query_cache SET states = x'00'")
    assert embed_query(deps, scope, "Which tide?", record) == first
    assert lib.embedder.queries == ["Which tide?"] * 2


@proves("search.word-states")
def test_cached_query_without_states_is_embedded_again(lib: LibraryFixture) -> None:
    world = lib.world("w", tide__txt=TIDE)
    deps, scope = world.access.pipeline.deps, scope_of(world)
    plain = embed_query(deps, scope, "tide")
    assert plain.states is None
    with_states = embed_query(deps, scope, "tide", world.access.record())

    assert with_states.vector == plain.vector
    assert with_states.states is not None
    assert embed_query(deps, scope, "tide") == plain
    assert lib.embedder.queries == ["tide", "tide"]


@proves("search.word-states")
def test_long_query_has_the_states_of_all_its_parts(lib: LibraryFixture) -> None:
    world = lib.world("w", tide__txt=TIDE)
    words = [f"word{number}" for number in range(60)]
    deps = world.access.pipeline.deps
    text = " ".join(words * 10)
    found = embed_query(deps, scope_of(world), text, world.access.record())

    assert found.states == StateEmbedder().embed_query_with_states(" ".join(words))[1]
