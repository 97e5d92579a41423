"""Other forms of query words: irregular ones, compounds, and spelling variants."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.retrieval.candidates import word_rarity, word_scores
from truespan.types.bundle import Notice

TALES = {
    "a__txt": "She found the key under the stone.",
    "b__txt": "They find the lamp, and he found another.",
    "c__txt": "Nobody had seen the otter since the spring.",
    "d__txt": "The company was founded in the harbour.",
}


@proves("search.words")
def test_keyword_search_finds_irregular_forms(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)

    def sources(query: str) -> set[str]:
        found = world.search(query, mode="keyword", floor=0.0)
        return {passage.source for passage in found.passages}

    assert sources("finding") == sources("found") == {"a.txt", "b.txt", "d.txt"}
    assert sources("founded") == {"a.txt", "b.txt", "d.txt"}
    assert sources('"find"') == {"b.txt"}
    assert sources("sees") == {"c.txt"}


@proves("search.words")
def test_irregular_forms_of_a_word_are_scored_as_one_word(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**TALES)

    def scores(query: str) -> dict[str, float]:
        found = world.search(query, mode="keyword", floor=0.0)
        return {part.source: part.fused.bm25 for part in found.passages if part.fused}

    assert scores("finds") == scores("found")
    # Two occurrences count more than one, and less than twice as much.
    once, twice = scores("find")["a.txt"], scores("find")["b.txt"]
    assert once < twice < 2 * once


@proves("reading.fused")
def test_reader_finds_irregular_forms_of_the_read_part_alone(lib: LibraryFixture, world: World):
    lines = [f"Sentence {number} is about the otter." for number in range(40)]
    lines[3], lines[30] = "Ada found the key.", "Bo finds the lamp."
    world.ingest(lib.write("book.txt", "\n\n".join(lines)), kind="book", language="en")
    reader = world.reader("ada")
    reader.set_position("1", sentence=10)

    bundle = reader.retrieve("find", mode="keyword")

    assert ["found" in chunk.content for chunk in bundle.retrieved_chunks] == [True]
    assert "Bo finds" not in str(bundle)


HOUSE = (
    "Der Haustürschlüssel liegt unter der Matte.",
    "Der Schlüssel hängt am Haken, und die Haustür ist zu.",
    "Der Hund schläft im Garten.",
)


@proves("search.compounds")
def test_german_compounds_and_their_parts_find_each_other(lib: LibraryFixture) -> None:
    world = lib.library.create_world("world", defaults="recommended")
    world.add_texts(HOUSE, ids=["compound", "parts", "other"], language="de")

    def sources(query: str) -> list[str]:
        found = world.search(query, mode="keyword", floor=0.0)
        return [passage.source.removesuffix(".txt") for passage in found.passages]

    for query in ("Wo ist der Schlüssel?", "Wo ist der Schluessel?"):
        assert {*sources(query)} == {"compound", "parts"}
    # The compound itself counts more than its parts.
    assert sources("Haustürschlüssel") == ["compound", "parts"]
    assert sources('"Schlüssel"') == ["parts"]
    world.add_text("A key, ein Haustürschlüssel und eine Haustür.", id="english", language="en")
    assert {*sources("Schlüssel")} == {"compound", "parts"}
    world.set_defaults("contract")
    assert sources("Schlüssel") == ["parts"]


@proves("search.compounds", "reading.fused")
def test_reader_finds_compounds_by_parts_that_were_read(lib: LibraryFixture) -> None:
    lines = [f"Satz {number} handelt von einem Otter." for number in range(40)]
    lines[3] = "Ada nahm den Haustürschlüssel."
    told = []
    for number, ahead in enumerate(("Die Haustür fiel zu.", "Der Otter schlief.")):
        world = lib.library.create_world(f"world {number}", defaults="recommended")
        lines[30] = ahead
        path = lib.write(f"{number}/book.txt", "\n\n".join(lines))
        world.ingest(path, kind="book", language="de")
        reader = world.reader("ada")
        for sid in (10, 39):
            reader.set_position("1", sentence=sid)
            bundle = reader.retrieve("Schlüssel", mode="keyword")
            told.append([chunk.content for chunk in bundle.retrieved_chunks])

    # No front door was read of before sentence 30: the word is no compound for this reader.
    assert told[0] == told[2] == told[3] == []
    assert any("Haustürschlüssel" in content for content in told[1])


ENGLISH = "The keeper of the lamps went down to the harbour, and the boat was not there. "
CHAPTER = "Der Wärter suchte in den Häusern nach seinem Boot, aber es war nicht mehr da. "


@proves("search.chunk-language")
def test_chapter_in_another_language_is_stemmed_in_its_own(lib: LibraryFixture, world: World):
    text = f"# One\n\n{ENGLISH * 30}\n\n# Zwei\n\n{CHAPTER * 12}\n\n# Three\n\n{ENGLISH * 12}"
    world.ingest(lib.write("book.md", text), kind="book", chunking="sentences")
    assert world.documents.get(1).language == "en"
    reader = world.reader("ada")
    reader.set_position("1", sentence=56)

    def chapters(query: str) -> set[str | None]:
        found = world.search(query, mode="keyword", floor=0.0).passages
        bundle = reader.retrieve(query, mode="keyword")
        read = {chunk.content for chunk in bundle.retrieved_chunks}
        assert {passage.text for passage in found} == read
        return {passage.chapter for passage in found}

    # "Haus" is the stem of "Häusern" in German alone; "keepers" has one in English alone.
    assert chapters("Haus") == chapters('"Häuser"') == {"Zwei"}
    assert chapters("keeping lamp") == {"One", "Three"}


SHIPS = {
    "a__txt": "The passengers waited for the ferry.",
    "b__txt": "A lantern hung over the quay.",
    "c__txt": "Nobody had seen the otter since the spring.",
}


def similar(notices: Sequence[Notice]) -> list[str]:
    return [notice.message for notice in notices if notice.code == "similar_words"]


@pytest.mark.recommended
@proves("search.similar-words")
@pytest.mark.parametrize("mode", ["auto", "hybrid", "keyword"])
def test_misspelt_word_finds_similar_terms(tmp_path: Path, mode: str) -> None:
    world = make_library(tmp_path).world(**SHIPS)

    found = world.search("lantren", mode=mode, floor=0.0)

    best = found.passages[0]
    assert best.source == "b.txt"
    assert best.fused is not None
    assert best.fused.bm25 > 0
    assert similar(found.warnings) == [
        "No passage that was searched contains 'lantren'. Also searched for 'lantern'."
    ]
    assert similar(world.search("lantern", mode=mode, floor=0.0).warnings) == []
    assert similar(world.search('"lantren"', mode=mode, floor=0.0).warnings) == []


@pytest.mark.recommended
@proves("search.similar-words")
def test_every_result_lists_the_added_search_terms(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**SHIPS)

    bundle = world.retrieve("where is the lantren", mode="hybrid")
    answer = world.answer("where is the lantren")

    assert len(similar(bundle.metadata.warnings)) == len(similar(answer.warnings)) == 1


@proves("search.similar-words")
def test_vector_search_has_no_similar_words(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**SHIPS)
    assert similar(world.search("lantren", mode="vector", floor=0.0).warnings) == []


@pytest.mark.contract
@proves("search.similar-words")
def test_contract_world_searches_for_the_exact_words(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**SHIPS)

    found = world.search("lantren", mode="keyword", floor=0.0)

    assert found.passages == ()
    assert [notice.code for notice in found.warnings] == ["no_word_matches"]


@pytest.mark.recommended
@proves("search.similar-words", "decision.evidence")
def test_similar_word_covers_a_misspelt_one_in_part(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The insular harbour slept.", b__txt="Rain fell on the quay.")
    scope, record = lib.scope(world), world.access.record()

    scored = word_scores(lib.store, scope, record, "insulra")
    rarity = word_rarity(lib.store, scope, record, "insulra")

    assert scored.scores.best > 0
    [covered] = rarity.cover(["The insular harbour slept."])
    assert covered.share == covered.window < 0.2
    assert rarity.words[0][1] == rarity.unseen


@pytest.mark.recommended
@proves("search.similar-words", "decision.evidence")
def test_word_without_diacritics_matches_the_accented_word(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="Later the city was rebuilt by Temür.", b__txt="Rain fell on it.")
    scope, record = lib.scope(world), world.access.record()

    found = world.search("Who was Temur?", mode="keyword", floor=0.0, highlight=True)
    [covered] = word_rarity(lib.store, scope, record, "Temur").cover([found.passages[0].text])

    assert [part.source for part in found.passages] == ["a.txt"]
    assert found.passages[0].match is not None
    assert [found.passages[0].text[slice(*span)] for span in found.passages[0].match.words] == [
        "Temür"
    ]
    assert covered.share == covered.window == 1.0


@pytest.mark.recommended
@proves("search.similar-words")
def test_terms_outside_the_scope_are_never_searched_for(lib: LibraryFixture) -> None:
    world = lib.world(**SHIPS)

    def found() -> tuple[list[str], list[float]]:
        result = world.search("lanterms", mode="keyword", floor=0.0, documents=["b.txt"])
        scores = [part.fused.bm25 for part in result.passages if part.fused]
        return similar(result.warnings), scores

    before = found()
    assert before[0]
    world.ingest([lib.write(f"{n}.txt", "Lanterm lanterms lantermed.") for n in range(3)])

    assert found() == before
    inside = world.search("lantermz", mode="keyword", floor=0.0)
    assert "lanterm" in similar(inside.warnings)[0]


@pytest.mark.recommended
@proves("search.similar-words")
def test_removed_document_leaves_no_similar_word(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(**SHIPS)
    assert similar(world.search("lantren", mode="keyword", floor=0.0).warnings)

    world.documents.delete("b.txt")

    assert similar(world.search("lantren", mode="keyword", floor=0.0).warnings) == []


BOOK = [f"Sentence {number} is about the otter." for number in range(60)]
BOOK[3], BOOK[50] = "Ada lit the lantern.", "Bo hid the lantrem."


def reader_at(folder: Path, sentence: int) -> tuple[LibraryFixture, Reader]:
    lib = make_library(folder)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.txt", "\n\n".join(BOOK)), kind="book", language="en")
    reader = world.reader("ada")
    reader.set_position("1", sentence=sentence)
    return lib, reader


@pytest.mark.recommended
@proves("search.similar-words", "reading.fused")
def test_reader_is_offered_words_of_the_read_part_alone(tmp_path: Path) -> None:
    _, reader = reader_at(tmp_path, 2)
    assert similar(reader.retrieve("lantren", mode="keyword").metadata.warnings) == []

    for sentence in (3, 20, 49):
        reader.set_position("1", sentence=sentence)
        bundle = reader.retrieve("lantren", mode="keyword")
        assert "lantern" in similar(bundle.metadata.warnings)[0]
        assert "lantrem" not in str(bundle)
    reader.set_position("1", sentence=55)
    assert "lantrem" in similar(reader.retrieve("lantren").metadata.warnings)[0]
    assert similar(reader.answer("who lit the lantren?").warnings)


@proves("search.similar-words", "store.words-counted")
def test_damaged_similar_words_are_counted_again(lib: LibraryFixture) -> None:
    world = lib.world(**SHIPS)
    before = world.search("lantren", mode="keyword", floor=0.0)
    lib.store.catalogs._clear_words()
    lib.sql("UPDATE words SET postings = x'00' WHERE term = 'lantern'")

    assert world.search("lantren", mode="keyword", floor=0.0).passages == before.passages


@pytest.mark.recommended
@proves("search.similar-words", "store.words-counted")
def test_damaged_similar_words_of_a_book_are_counted_again(tmp_path: Path) -> None:
    lib, reader = reader_at(tmp_path, 20)
    before = similar(reader.retrieve("lantren", mode="keyword").metadata.warnings)
    lib.sql("UPDATE words SET postings = x'00' WHERE term IN ('lantern', 'lantrem')")

    assert similar(reader.retrieve("lantren", mode="keyword").metadata.warnings) == before != []
