"""Word counts: when they are made, renewed and removed."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.retrieval.candidates import word_scores
from truespan.retrieval.word_counts import count_revision, count_words
from truespan.types.document import RevisionRef


def counted(lib: LibraryFixture) -> int:
    return lib.sql("SELECT count(*) FROM word_counts")[0][0]


def terms(lib: LibraryFixture) -> set[str]:
    return {row[0] for row in lib.sql("SELECT DISTINCT term FROM words")}


def score(lib: LibraryFixture, world: World, query: str, document: int = 1) -> float:
    record, scope = world.access.record(), lib.scope(world)
    revision = world.documents.get(document).active or 0
    found = word_scores(lib.store, scope, record, query)
    place = found.finder.layout.place(document, revision, 0)
    return 0.0 if place is None else found.scores.of(place)


@proves("store.words-counted")
def test_words_are_committed_with_their_chunks(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=story(3), b__txt=story(4))
    assert (counted(lib), "harbour" in terms(lib)) == (2, True)
    world.ingest(lib.write("c.txt", "The otter swam."))
    # Neither the run nor the first search counts anything apart.
    world.search("harbour", mode="hybrid")
    assert counted(lib) == 3
    assert not {"store.catalogs.keep_words", "store.catalogs.countable"} & set(lib.journal)


@proves("store.words-counted")
def test_words_counted_with_chunks_equal_a_later_count(lib: LibraryFixture, world: World):
    texts = {"en": story(3), "de": "Die Häuser am großen Hafen, 5 ½ Meilen.", "ja": "東京都の港。"}
    for language, text in texts.items():
        world.ingest(lib.write(f"{language}.txt", text), language=language)

    def rows() -> list[list[str]]:
        # PostgreSQL returns rows in any order.
        return [sorted(map(repr, lib.sql(f"SELECT * FROM {t}"))) for t in ("words", "word_counts")]

    at_once = rows()
    lib.sql("DELETE FROM words")
    lib.sql("DELETE FROM word_counts")
    lib.store.catalogs._clear_words()
    count_words(lib.store, lib.scope(world), world.access.record())

    assert rows() == at_once


def test_new_generation_counts_words_with_its_chunks(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=story(9))
    report = world.generations.reindex(chunking="sentences")
    generations = {row[0] for row in lib.sql("SELECT generation FROM word_counts")}
    assert generations == {1, report.generation}
    assert "store.catalogs.keep_words" not in lib.journal


def test_first_search_counts_words_if_ingestion_does_not(lib: LibraryFixture) -> None:
    components = replace(lib.library._components, count_words=False)
    world = lib.world(a__txt=story(3))
    world = World(replace(world.access, components=components))
    world.ingest(lib.write("b.txt", story(4)))
    lib.sql("DELETE FROM words")
    lib.sql("DELETE FROM word_counts")
    world.ingest(lib.write("c.txt", story(5)))
    assert (counted(lib), terms(lib)) == (0, set())

    world.search("harbour", mode="hybrid")
    assert counted(lib) == 3

    world.ingest(lib.write("d.txt", "The otter swam."))
    assert counted(lib) == 4
    assert "otter" in terms(lib)


def test_repeated_query_counts_nothing_again(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=story(3))
    world.search("harbour", mode="hybrid")
    lib.journal.clear()
    world.search("night", mode="hybrid")
    assert "store.catalogs.keep_words" not in lib.journal
    assert "store.catalogs.countable" not in lib.journal


def test_words_are_removed_with_their_document(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The otter swam.", b__txt="The heron stood.")
    world.search("otter", mode="hybrid")
    world.ingest(lib.write("world/a.txt", "The badger dug."))
    assert terms(lib) == {"the", "badger", "dug", "heron", "stood"}
    world.documents.delete("b.txt")
    assert terms(lib) == {"the", "badger", "dug"}
    assert counted(lib) == 1


def test_documents_sharing_replaced_rows_are_counted_again(lib: LibraryFixture) -> None:
    world = lib.world(**{f"b{number}__txt": f"The heron {number}." for number in range(3)})
    world.ingest(lib.write("world/b0.txt", "The badger dug."))
    assert counted(lib) == 3


def test_new_language_label_causes_a_new_count(lib: LibraryFixture, world: World) -> None:
    path = lib.write("a.txt", "Die Häuser am Hafen.")
    world.ingest(path, language="en")
    assert score(lib, world, "Haus") == 0.0
    world.ingest(path, language="de")
    assert score(lib, world, "Haus") > 0


def test_words_of_another_recipe_are_counted_again(tmp_path: Path, lib: LibraryFixture) -> None:
    world = lib.library.create_world("world")
    world.ingest(lib.write("a.txt", "The otter swam."), language="en")
    world.search("otter", mode="hybrid")
    lib.sql("UPDATE word_counts SET recipe = '0:other'")
    lib.sql("UPDATE words SET term = 'began' WHERE term = 'otter'")
    again = make_library(tmp_path, index=lib.index)
    world = again.library.world("world")
    assert (score(again, world, "began"), score(again, world, "otter") > 0) == (0.0, True)
    assert terms(again) == {"the", "otter", "swam"}
    assert again.sql("SELECT count(*) FROM word_counts WHERE recipe LIKE '0:%'") == [(0,)]


def test_damaged_text_is_not_counted_until_repaired(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The otter swam.", b__txt="The heron stood.")
    lib.sql("UPDATE chunks SET text = 'The weasel ran.' WHERE text LIKE '%otter%'")
    scope = lib.scope(world)
    lib.store.catalogs.forget_words(scope, [RevisionRef(1, 1)])
    assert score(lib, world, "otter weasel") == 0.0
    assert "weasel" not in terms(lib)
    assert lib.store.chunks.rebuild(
        scope, lib.store.documents.chunk_ids(scope, RevisionRef(1, 1))[0]
    )
    assert score(lib, world, "otter") > 0


def test_unembedded_chunks_are_ignored(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The otter swam.", b__txt="The otter slept.", c__txt="The heron.")
    before = score(lib, world, "otter")
    scope = lib.scope(world)
    chunk = world.search("slept", floor=0.0).passages[0].chunk_id
    lib.store.chunks.mark_pending(scope, [chunk])
    assert score(lib, world, "otter", 2) == 0.0
    assert score(lib, world, "otter") > before


def test_words_of_a_staged_revision_are_ignored(tmp_path: Path, lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The otter swam.")
    world.search("otter", mode="hybrid")

    def gone() -> None:
        raise RuntimeError

    lib.embedder.before = gone
    with pytest.raises(RuntimeError):
        world.ingest(lib.write("world/a.txt", "The weasel ran."))

    # Whoever opens the library now has nothing in memory of how it was.
    again = make_library(tmp_path, index=lib.index)
    world = again.library.world("world")
    assert score(again, world, "otter") > 0
    assert score(again, world, "weasel") == 0.0


def shared_world(lib: LibraryFixture) -> World:
    texts = {"a__txt": story(6), "b__txt": story(9), "c__txt": f"The otter swam. {story(2)}"}
    world = lib.world(**texts)
    assert lib.sql("SELECT count(*), count(DISTINCT segment) FROM word_counts") == [(3, 1)]
    return world


def scores(lib: LibraryFixture, world: World) -> list[object]:
    """Return everything that a keyword search reads from the store."""
    found: list[object] = []
    for query in ("harbour", "otter", "the night"):
        scored = word_scores(lib.store, lib.scope(world), world.access.record(), query).scores
        found.append(dict(zip(scored.places.tolist(), scored.values.tolist(), strict=True)))
    record, scope = world.access.record(), lib.scope(world)
    for number in (1, 2, 3):
        ref = RevisionRef(number, world.documents.get(number).active or 0)
        words = lib.store.catalogs.revision_words(scope, record, ref)
        found.append(lib.store.catalogs.revision_postings(scope, ref, words.key, ["the", "otter"]))
    return found


def test_shared_word_rows_do_not_change_scores(lib: LibraryFixture) -> None:
    world = shared_world(lib)
    shared, rows = scores(lib, world), lib.sql("SELECT count(*) FROM words")[0][0]
    lib.sql("DELETE FROM words")
    lib.sql("DELETE FROM word_counts")
    lib.store.catalogs._clear_words()
    assert scores(lib, world) == shared
    assert lib.sql("SELECT count(*), count(DISTINCT segment) FROM word_counts") == [(3, 3)]
    assert lib.sql("SELECT count(*) FROM words")[0][0] > rows


def test_remaining_shared_words_are_counted_again(lib: LibraryFixture) -> None:
    world = shared_world(lib)
    world.documents.delete("a.txt")
    assert (counted(lib), terms(lib)) == (0, set())
    world.search("harbour", mode="hybrid")
    assert counted(lib) == 2
    assert "otter" in terms(lib)


def test_other_processes_notice_removed_shared_words(lib: LibraryFixture) -> None:
    world = shared_world(lib)
    sound, scope, changes = scores(lib, world), lib.scope(world), world.access.record().changes
    one = count_revision(lib.store, scope, RevisionRef(2, 1), world.documents.get(2).language)
    lib.store.catalogs.keep_words(scope, [one])
    assert counted(lib) == 1
    # What they have cached is that of an earlier state of the world.
    assert world.access.record().changes > changes
    assert scores(lib, world) == sound


def test_damaged_shared_words_are_named_and_counted_again(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = shared_world(lib)
    sound, scope = scores(lib, world), lib.scope(world)
    assert lib.store.catalogs.word_flaws(scope) == []
    changes = {
        "postings": "UPDATE words SET postings = substr(postings, 2) WHERE term = 'the'",
        "revisions": "UPDATE words SET revisions = substr(revisions, 2) WHERE term = 'the'",
        "term": "UPDATE words SET term = 'thee' WHERE term = 'the'",
        "row": "DELETE FROM words WHERE term = 'the'",
        "segment": "UPDATE word_counts SET segment = (SELECT max(revision) FROM word_counts)",
    }
    for name, change in changes.items():
        lib.sql(change)
        flaws = [ref.document for ref, _ in lib.store.catalogs.word_flaws(scope)]
        assert flaws == [1, 2, 3], name
        lib.store.catalogs._clear_words()
        lib.store.catalogs.forget_words(scope, [RevisionRef(2, 1)])
        assert scores(lib, world) == sound, name
        assert lib.store.catalogs.word_flaws(scope) == [], name
        # Staged together again, they share rows again.
        world = shared_world(lib := make_library(tmp_path / name))
        scope = lib.scope(world)


def test_stale_members_of_a_shared_row_are_ignored(lib: LibraryFixture) -> None:
    world = shared_world(lib)
    sound = scores(lib, world)
    lib.sql("DELETE FROM word_counts WHERE revision = (SELECT max(revision) FROM word_counts)")
    lib.store.catalogs._clear_words()
    assert scores(lib, world) == sound
    assert lib.sql("SELECT count(*), count(DISTINCT segment) FROM word_counts") == [(3, 2)]
