"""Counted words: when they are counted, what makes them be counted anew, and when they go."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.sample_texts import story
from tests.support.worlds import Place, place
from truespan.engine.world import World
from truespan.retrieval.candidates import word_scores
from truespan.retrieval.word_counts import count_revision, count_words
from truespan.types.document import RevisionRef


def counted(here: Place) -> int:
    return here.sql("SELECT count(*) FROM word_counts")[0][0]


def terms(here: Place) -> set[str]:
    return {row[0] for row in here.sql("SELECT DISTINCT term FROM words")}


def score(here: Place, world: World, query: str, document: int = 1) -> float:
    record, scope = world.access.record(), here.scope(world)
    revision = world.documents.get(document).active or 0
    return word_scores(here.store, scope, record, query).of(document, revision, 0)


@proves("store.words-counted")
def test_words_are_committed_with_their_chunks(tmp_path: Path) -> None:
    here = place(tmp_path, watched=True)
    world = here.world(a__txt=story(3), b__txt=story(4))
    assert (counted(here), "harbour" in terms(here)) == (2, True)
    world.ingest(here.write("c.txt", "The otter swam."))

    # Neither the run nor the first search counts anything apart.
    world.search("harbour", mode="hybrid")
    assert counted(here) == 3
    assert not {"store.keep_words", "store.countable"} & set(here.journal)


@proves("store.words-counted")
def test_what_is_counted_with_chunks_is_what_is_counted_later(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.library.create_world("world")
    texts = {"en": story(3), "de": "Die Häuser am großen Hafen, 5 ½ Meilen.", "ja": "東京都の港。"}
    for language, text in texts.items():
        world.ingest(here.write(f"{language}.txt", text), language=language)
    at_once = here.sql("SELECT * FROM words"), here.sql("SELECT * FROM word_counts")

    here.sql("DELETE FROM words")
    here.sql("DELETE FROM word_counts")
    here.store._clear_words()
    count_words(here.store, here.scope(world), world.access.record())

    assert (here.sql("SELECT * FROM words"), here.sql("SELECT * FROM word_counts")) == at_once


def test_new_generation_counts_words_with_its_chunks(tmp_path: Path) -> None:
    here = place(tmp_path, watched=True)
    world = here.world(a__txt=story(9))

    report = world.generations.reindex(chunking="sentences")

    generations = {row[0] for row in here.sql("SELECT generation FROM word_counts")}
    assert generations == {1, report.generation}
    assert "store.keep_words" not in here.journal


def test_first_search_counts_words_if_ingestion_does_not(tmp_path: Path) -> None:
    here = place(tmp_path)
    components = replace(here.library._components, count_words=False)
    world = here.world(a__txt=story(3))
    world = World(replace(world.access, components=components))
    world.ingest(here.write("b.txt", story(4)))
    here.sql("DELETE FROM words")
    here.sql("DELETE FROM word_counts")
    world.ingest(here.write("c.txt", story(5)))
    assert (counted(here), terms(here)) == (0, set())

    world.search("harbour", mode="hybrid")
    assert counted(here) == 3

    world.ingest(here.write("d.txt", "The otter swam."))
    assert counted(here) == 4
    assert "otter" in terms(here)


def test_asking_again_counts_nothing_again(tmp_path: Path) -> None:
    here = place(tmp_path, watched=True)
    world = here.world(a__txt=story(3))
    world.search("harbour", mode="hybrid")
    here.journal.clear()

    world.search("night", mode="hybrid")

    assert "store.keep_words" not in here.journal
    assert "store.countable" not in here.journal


def test_words_are_removed_with_their_document(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.world(a__txt="The otter swam.", b__txt="The heron stood.")
    world.search("otter", mode="hybrid")

    world.ingest(here.write("world/a.txt", "The badger dug."))
    assert terms(here) == {"the", "badger", "dug", "heron", "stood"}
    world.documents.delete("b.txt")
    assert terms(here) == {"the", "badger", "dug"}
    assert counted(here) == 1


def test_documents_sharing_replaced_rows_are_counted_again(
    tmp_path: Path,
) -> None:
    here = place(tmp_path)
    world = here.world(**{f"b{number}__txt": f"The heron {number}." for number in range(3)})

    world.ingest(here.write("world/b0.txt", "The badger dug."))

    assert counted(here) == 3


def test_a_new_language_label_has_words_counted_anew(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.library.create_world("world")
    path = here.write("a.txt", "Die Häuser am Hafen.")
    world.ingest(path, language="en")
    assert score(here, world, "Haus") == 0.0

    world.ingest(path, language="de")

    assert score(here, world, "Haus") > 0


def test_words_of_another_recipe_are_counted_again(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.library.create_world("world")
    world.ingest(here.write("a.txt", "The otter swam."), language="en")
    world.search("otter", mode="hybrid")
    here.sql("UPDATE word_counts SET recipe = '0:other'")
    here.sql("UPDATE words SET term = 'began' WHERE term = 'otter'")

    again = place(tmp_path, index=here.index)
    world = again.library.world("world")

    assert (score(again, world, "began"), score(again, world, "otter") > 0) == (0.0, True)
    assert terms(again) == {"the", "otter", "swam"}
    assert again.sql("SELECT count(*) FROM word_counts WHERE recipe LIKE '0:%'") == [(0,)]


def test_damaged_text_is_not_counted_until_it_is_whole_again(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.world(a__txt="The otter swam.", b__txt="The heron stood.")
    here.sql("UPDATE chunks SET text = 'The weasel ran.' WHERE text LIKE '%otter%'")
    scope = here.scope(world)
    here.store.forget_words(scope, [RevisionRef(1, 1)])
    assert score(here, world, "otter weasel") == 0.0
    assert "weasel" not in terms(here)

    chunk = here.store.chunk_ids(scope, RevisionRef(1, 1))[0]
    assert here.store.rebuild_chunk(scope, chunk)

    assert score(here, world, "otter") > 0


def test_chunks_that_are_not_embedded_take_no_part(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.world(a__txt="The otter swam.", b__txt="The otter slept.", c__txt="The heron.")
    before = score(here, world, "otter")
    scope = here.scope(world)
    chunk = world.search("slept", floor=0.0).passages[0].chunk_id

    here.store.mark_pending(scope, [chunk])

    assert score(here, world, "otter", 2) == 0.0
    assert score(here, world, "otter") > before


def test_the_words_of_a_staged_revision_take_no_part(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = here.world(a__txt="The otter swam.")
    world.search("otter", mode="hybrid")

    def gone() -> None:
        raise RuntimeError

    here.embedder.before = gone
    with pytest.raises(RuntimeError):
        world.ingest(here.write("world/a.txt", "The weasel ran."))

    # Whoever opens the library now has nothing in memory of how it was.
    again = place(tmp_path, index=here.index)
    world = again.library.world("world")
    assert score(again, world, "otter") > 0
    assert score(again, world, "weasel") == 0.0


def shared_world(here: Place) -> World:
    texts = {"a__txt": story(6), "b__txt": story(9), "c__txt": f"The otter swam. {story(2)}"}
    world = here.world(**texts)
    assert here.sql("SELECT count(*), count(DISTINCT segment) FROM word_counts") == [(3, 1)]
    return world


def scores(here: Place, world: World) -> list[object]:
    """Return everything that a search by words takes from the store."""
    found: list[object] = []
    for query in ("harbour", "otter", "the night"):
        scored = word_scores(here.store, here.scope(world), world.access.record(), query).scores
        found.append(dict(zip(scored.places.tolist(), scored.values.tolist(), strict=True)))
    record, scope = world.access.record(), here.scope(world)
    for number in (1, 2, 3):
        ref = RevisionRef(number, world.documents.get(number).active or 0)
        words = here.store.revision_words(scope, record, ref)
        found.append(here.store.revision_postings(scope, ref, words.key, ["the", "otter"]))
    return found


def test_shared_word_rows_do_not_change_scores(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = shared_world(here)
    shared, rows = scores(here, world), here.sql("SELECT count(*) FROM words")[0][0]

    here.sql("DELETE FROM words")
    here.sql("DELETE FROM word_counts")
    here.store._clear_words()

    assert scores(here, world) == shared
    assert here.sql("SELECT count(*), count(DISTINCT segment) FROM word_counts") == [(3, 3)]
    assert here.sql("SELECT count(*) FROM words")[0][0] > rows


def test_what_is_left_of_shared_words_is_counted_again(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = shared_world(here)

    world.documents.delete("a.txt")

    assert (counted(here), terms(here)) == (0, set())
    world.search("harbour", mode="hybrid")
    assert counted(here) == 2
    assert "otter" in terms(here)


def test_other_processes_notice_that_shared_words_are_gone(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = shared_world(here)
    sound, scope, changes = scores(here, world), here.scope(world), world.access.record().changes

    one = count_revision(here.store, scope, RevisionRef(2, 1), world.documents.get(2).language)
    here.store.keep_words(scope, [one])

    assert counted(here) == 1
    # What they have cached is that of an earlier state of the world.
    assert world.access.record().changes > changes
    assert scores(here, world) == sound


def test_damaged_shared_words_are_named_and_counted_again(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = shared_world(here)
    sound, scope = scores(here, world), here.scope(world)
    assert here.store.word_flaws(scope) == []
    changes = {
        "postings": "UPDATE words SET postings = substr(postings, 2) WHERE term = 'the'",
        "revisions": "UPDATE words SET revisions = substr(revisions, 2) WHERE term = 'the'",
        "term": "UPDATE words SET term = 'thee' WHERE term = 'the'",
        "row": "DELETE FROM words WHERE term = 'the'",
        "segment": "UPDATE word_counts SET segment = (SELECT max(revision) FROM word_counts)",
    }
    for name, change in changes.items():
        here.sql(change)
        flaws = [ref.document for ref, _ in here.store.word_flaws(scope)]
        assert flaws == [1, 2, 3], name
        here.store._clear_words()
        here.store.forget_words(scope, [RevisionRef(2, 1)])
        assert scores(here, world) == sound, name
        assert here.store.word_flaws(scope) == [], name
        # Staged together again, they share rows again.
        world = shared_world(here := place(tmp_path / name))
        scope = here.scope(world)


def test_stale_members_of_a_shared_row_are_ignored(tmp_path: Path) -> None:
    here = place(tmp_path)
    world = shared_world(here)
    sound = scores(here, world)

    here.sql("DELETE FROM word_counts WHERE revision = (SELECT max(revision) FROM word_counts)")
    here.store._clear_words()

    assert scores(here, world) == sound
    assert here.sql("SELECT count(*), count(DISTINCT segment) FROM word_counts") == [(3, 2)]
