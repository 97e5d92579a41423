"""Lost word counts are noticed and counted again, instead of giving an empty result."""

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.answer_worlds import study
from tests.support.worlds import WordEmbedder

LAMP = "The lamp burns oil. The keeper lights it."


@proves("search.words-explained")
@pytest.mark.parametrize("again", [False, True], ids=["same process", "new process"])
def test_lost_word_rows_are_counted_again(tmp_path: Path, again: bool) -> None:
    room = study(tmp_path, embedder=WordEmbedder())
    room.add(a__txt=LAMP, b__txt="Rain fell all night.")
    assert room.world.search("rain", mode="keyword", floor=0.0).passages

    room.lib.sql("DELETE FROM words")
    if again:
        room.lib.store.catalogs._clear_words()
    found = room.world.search("lamp", mode="keyword", floor=0.0)

    assert [part.source for part in found.passages] == ["a.txt"]
    assert found.warnings == ()
    assert room.lib.sql("SELECT count(*) FROM words") != [(0,)]


@proves("search.words-explained")
def test_lost_words_of_one_document_are_counted_again(tmp_path: Path) -> None:
    room = study(tmp_path, embedder=WordEmbedder())
    room.add(a__txt=LAMP)
    room.add(b__txt="The lamp stands on the quay.")
    revision = room.lib.sql("SELECT min(revision) FROM words")[0][0]

    room.lib.sql("DELETE FROM words WHERE revision = ?", revision)
    room.lib.store.catalogs._clear_words()

    found = room.world.search("lamp", mode="keyword", floor=0.0)
    assert {part.source for part in found.passages} == {"a.txt", "b.txt"}


@proves("search.words-explained")
def test_lost_words_of_a_book_are_counted_for_its_reader(tmp_path: Path) -> None:
    room = study(tmp_path, embedder=WordEmbedder())
    lines = " ".join(f"Sentence {n} is about the lamp." for n in range(30))
    room.world.ingest(room.lib.write("book.txt", lines), kind="book")
    reader = room.world.reader("ada")
    reader.set_position("book.txt", sentence=29)

    room.lib.sql("DELETE FROM words")

    assert reader.retrieve("lamp", mode="keyword").retrieved_chunks
    assert room.lib.sql("SELECT count(*) FROM words") != [(0,)]


@proves("search.words-explained")
def test_document_without_words_is_not_counted_forever(tmp_path: Path) -> None:
    room = study(tmp_path, embedder=WordEmbedder())
    room.add(a__txt="*** --- ***")

    result = room.world.search("lamp", mode="keyword", floor=0.0)

    assert [notice.code for notice in result.warnings] == ["no_word_matches"]


@proves("search.words-explained")
def test_ingesting_unchanged_files_counts_words_by_new_rules(tmp_path: Path) -> None:
    room = study(tmp_path, embedder=WordEmbedder())
    paths = [room.lib.write(name, LAMP) for name in ("a.txt", "b.txt")]
    room.world.ingest(paths)
    [(recipe,)] = room.lib.sql("SELECT DISTINCT recipe FROM word_counts")

    room.lib.sql("UPDATE word_counts SET recipe = 'earlier'")

    assert room.world.ingest(paths).unchanged == 2
    assert room.lib.sql("SELECT recipe FROM word_counts") == [(recipe,)] * 2
