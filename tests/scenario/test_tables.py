"""Tables in a library: parts with their header, and text as before in worlds of the contract."""

from __future__ import annotations

from tests.promises import proves
from tests.support.reading_worlds import frozen
from tests.support.worlds import LibraryFixture, WordCounter
from truespan.engine.world import World

HEADER = "Meal | Limit | Remark"
ROWS = [
    f"Meal {number} of the day | {number} EUR | {'with a receipt' if number % 2 else 'none'}"
    for number in range(60)
]
CANONICAL = "\n".join([HEADER, *ROWS])
MARKDOWN = "\n".join(
    ["# Travel", "", "What may be spent.", "", f"| {HEADER} |", "|---|---|---|", *ROWS]
)


def add(lib: LibraryFixture, name: str, defaults: str) -> World:
    world = lib.library.create_world(name, defaults=defaults)
    world.ingest(lib.write("limits.md", MARKDOWN))
    return world


@proves("chunking.whole-tables")
def test_each_chunk_of_a_table_has_its_header(lib: LibraryFixture):
    world = add(lib, "travel", "recommended")

    text = world.documents.text("limits.md")
    chunks = [chunk.text or "" for chunk in world.documents.chunks("limits.md").chunks]

    assert text.count(HEADER) > 3
    assert len(chunks) > 3
    assert all(HEADER in chunk for chunk in chunks)
    for row in ROWS:
        assert sum(row in chunk for chunk in chunks) == 1
    rows = {"", "Travel", "What may be spent.", HEADER, *ROWS}
    assert all(line in rows for chunk in chunks for line in chunk.split("\n"))


@proves("chunking.whole-tables")
def test_worlds_of_the_contract_keep_the_text_of_a_table_as_it_is(lib: LibraryFixture):
    world = add(lib, "travel", "contract")

    assert world.documents.text("limits.md").endswith(CANONICAL)


@proves("chunking.whole-tables")
def test_unchanged_file_is_read_again_if_defaults_differ(lib: LibraryFixture):
    world = add(lib, "travel", "recommended")
    file = lib.write("limits.md", MARKDOWN)

    assert world.ingest(file).unchanged == 1
    world.set_defaults("contract")
    assert world.ingest(file).ingested == ["limits.md"]
    assert world.documents.text("limits.md").endswith(CANONICAL)
    assert world.ingest(file).unchanged == 1


@proves("chunking.whole-tables")
def test_context_has_markdown_tables_that_count_against_the_budget(lib: LibraryFixture):
    world = add(lib, "travel", "recommended")

    found = world.search("meal 7 of the day", top_k=3)
    bundle = world.retrieve("meal 7 of the day", top_k=10, max_tokens=900)

    markdown = "| Meal | Limit | Remark |\n|---|---|---|\n| "
    assert markdown in found.context
    assert markdown in bundle.context
    assert all(passage.text in world.documents.text("limits.md") for passage in found.passages)
    tokens = WordCounter().count(bundle.context)
    assert tokens <= bundle.total_tokens <= 900
    assert sum(chunk.token_count for chunk in bundle.retrieved_chunks) < bundle.total_tokens


@proves("chunking.whole-tables")
def test_worlds_of_the_contract_have_rows_in_their_context_as_they_are(lib: LibraryFixture):
    world = add(lib, "travel", "contract")

    for context in (world.search("meal").context, world.retrieve("meal").context):
        assert "Meal 1 of the day | 1 EUR" in context
        assert "|---|" not in context


@proves("reading.non-interference")
def test_table_in_a_book_reads_the_same_whatever_follows(lib: LibraryFixture):
    world = lib.library.create_world("lamps", defaults="recommended")
    beginning = "lamp | oil\n\n" + " ".join(f"Lamp {number} is lit." for number in range(7))
    responses = set[str]()
    for end in ("", " Then the butler did it.", "\n\nThen | the | butler."):
        world.ingest(lib.write("book.txt", beginning + end), kind="book")
        reader = world.reader("ann")
        reader.set_position("book.txt", sentence=7)
        bundle = reader.retrieve("the lamp")
        assert "Lamp 6 is lit." in bundle.context
        responses.add(frozen(bundle))

    assert len(responses) == 1
