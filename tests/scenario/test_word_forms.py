"""Other forms of the words of a query: irregular ones."""

from __future__ import annotations

from pathlib import Path

from tests.promises import proves
from tests.support.worlds import make_library

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
def test_reader_finds_irregular_forms_of_the_read_part_alone(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    lines = [f"Sentence {number} is about the otter." for number in range(40)]
    lines[3], lines[30] = "Ada found the key.", "Bo finds the lamp."
    world.ingest(lib.write("book.txt", "\n\n".join(lines)), kind="book", language="en")
    reader = world.reader("ada")
    reader.set_position("1", sentence=10)

    bundle = reader.retrieve("find", mode="keyword")

    assert ["found" in chunk.content for chunk in bundle.retrieved_chunks] == [True]
    assert "Bo finds" not in str(bundle)
