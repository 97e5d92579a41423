"""Reading: visible text of a book at a position, and how it is found."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.reading_worlds import CHUNKINGS, frozen, stored
from tests.support.sample_books import canary, plain_book
from tests.support.sample_texts import once
from tests.support.worlds import (
    LibraryFixture,
    Watching,
    WordEmbedder,
    make_library,
    other_profile,
    similarity,
    vector_of,
)
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import InvalidArgument, QueryTooLong
from truespan.index.filters import AnyOf, AtMost, Field, conditions
from truespan.types.bundle import BundleStatus
from truespan.types.ids import hash_text
from truespan.types.scope import Scope
from truespan.wire.serialize import to_json

BOTH_DEFAULTS = True
QUERY = "the lamp by the harbour"


def reading(
    lib: LibraryFixture, sid: int, *, sentences: int = 90, **options: Any
) -> tuple[World, Reader]:
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(sentences)), kind="book", **options)
    reader = world.reader("ann")
    reader.set_position("book.md", sentence=sid)
    return world, reader


# The request


@proves("reading.position-read-first")
def test_position_is_read_once_before_the_index_is_asked(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    _, reader = reading(lib, 40)
    lib.journal.clear()

    reader.retrieve(QUERY)

    assert lib.journal.count("store.readers.positions") == 1
    first = lib.journal.index("store.readers.positions")
    assert first < lib.journal.index("index.start_search")
    assert first < lib.journal.index("embedder.embed_query")


@proves("reading.position-read-first")
@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_index_search_runs_while_the_tail_is_read(tmp_path: Path, mode: str) -> None:
    lib = make_library(tmp_path, watched=True)
    _, reader = reading(lib, 40)
    lib.journal.clear()

    reader.retrieve(QUERY, mode=mode)

    assert lib.journal.count("index.start_search") == 1
    begin = lib.journal.index("index.start_search")
    assert (
        lib.journal.index("store.readers.positions")
        < begin
        < lib.journal.index("store.readers.tail")
    )


@proves("reading.position-read-first")
def test_vectors_of_word_matches_are_read_during_the_index_search(tmp_path: Path) -> None:
    lib = make_library(tmp_path, index=Watching(), watched=True)
    _, reader = reading(lib, 40)
    lib.journal.clear()
    search = lib.index.search
    before: list[int] = []

    def search_late(*args: Any, **settings: Any) -> Any:
        before.append(lib.journal.count("store.chunks.vectors"))
        return search(*args, **settings)

    lib.index.search = search_late
    reader.retrieve(QUERY, mode="hybrid")

    assert before == [1]
    assert lib.journal.index("store.readers.positions") < lib.journal.index("store.chunks.vectors")


@proves("reading.position-read-first")
@pytest.mark.parametrize(("query", "mode"), [("lamp", "keyword"), ('"lamp"', "hybrid")])
def test_index_is_not_queried_where_words_name_all_candidates(
    tmp_path: Path, query: str, mode: str
) -> None:
    lib = make_library(tmp_path, watched=True)
    _, reader = reading(lib, 40)
    lib.journal.clear()

    reader.retrieve(query, mode=mode)

    assert not [call for call in lib.journal if call.startswith("index.")]
    assert lib.journal.count("store.readers.positions") == 1


@proves("reading.position-read-first", "reading.deterministic")
def test_position_moved_during_a_request_applies_to_the_next_one(lib: LibraryFixture) -> None:
    world, reader = reading(lib, 60)
    expected = frozen(reader.retrieve(QUERY))
    reader.retrieve("warm the tail")
    lib.embedder.before = once(
        lambda: world.reader("ann").set_position("book.md", sentence=3) and None
    )
    lib.sql("DELETE FROM query_cache")

    assert frozen(reader.retrieve(QUERY)) == expected
    assert reader.position().sid == 3
    assert canary(4) not in frozen(reader.retrieve(QUERY))


@proves("reading.position-in-request", "reading.current-book")
def test_index_request_contains_document_start_and_reach(tmp_path: Path) -> None:
    index = Watching()
    lib = make_library(tmp_path, index=index)
    world, reader = reading(lib, 40)
    world.ingest(lib.write("other.md", plain_book(30)), kind="book")

    reader.retrieve(QUERY)

    assert {conditions(scope)[1:] for scope in index.scopes} == {
        (AnyOf(Field.DOCUMENT, (1,)), AtMost(Field.POS_START, 40), AtMost(Field.POS_REACH, 40))
    }


@proves("reading.current-book")
def test_other_books_of_the_world_have_no_influence(lib: LibraryFixture) -> None:
    world, reader = reading(lib, 40)
    before = frozen(reader.retrieve(QUERY))

    world.ingest(lib.write("other.md", f"{QUERY} zq99999x. " * 40), kind="book")
    reader.set_position("other.md", sentence=20, current=False)

    assert frozen(reader.retrieve(QUERY)) == before
    assert {note.document for note in reader.retrieve(QUERY).metadata.sources} == {1}


@pytest.mark.contract
@proves("reading.top-k-default", "reading.dense-only")
def test_vector_reading_returns_at_most_twenty_chunks_without_a_floor(tmp_path: Path) -> None:
    index = Watching()
    lib = make_library(tmp_path, index=index)
    _, reader = reading(lib, 298, sentences=300)
    asked: list[Any] = []
    original = index.search

    def searching(scope: Scope, vector: Any, **settings: Any) -> Any:
        asked.append(settings["floor"])
        return original(scope, vector, **settings)

    index.search = searching
    bundle = reader.retrieve(QUERY)
    far = reader.retrieve("zebra quantum chromodynamics", top_k=3)

    assert (len(bundle.retrieved_chunks), bundle.metadata.original_top_k) == (20, 20)
    assert (bundle.status, bundle.metadata.floor) == (BundleStatus.SUCCESS, None)
    assert set(asked) == {None}
    assert len(far.retrieved_chunks) == 3
    every = [
        similarity(vector_of(QUERY), vector_of(row[0]))
        for row in lib.sql("SELECT text FROM chunks WHERE position IN "
                            "(SELECT position FROM states WHERE reach <= 298)")
    ]  # fmt: skip
    best = sorted((round(score, 6) for score in every), reverse=True)[:20]
    given = [chunk.relevance_score for chunk in bundle.retrieved_chunks]
    assert all(one >= other - 2e-6 for one, other in zip(given, best, strict=True))


@pytest.mark.contract
@proves("reading.query-required", "reading.dense-only")
def test_empty_or_overlong_query_is_refused_before_any_call(tmp_path: Path) -> None:
    narrow = WordEmbedder(profile=other_profile(input_limit=60))
    _, reader = reading(make_library(tmp_path, embedder=narrow), 40)
    narrow.queries.clear()

    with pytest.raises(InvalidArgument):
        reader.retrieve("")
    with pytest.raises(InvalidArgument):
        reader.retrieve(None)  # type: ignore[arg-type]
    with raises_code("blank_query"):
        reader.retrieve("  \n ")
    with pytest.raises(QueryTooLong):
        reader.retrieve("word " * 61)
    with pytest.raises(TypeError):
        reader.retrieve("lamp", position=80)  # type: ignore[call-arg]
    assert narrow.queries == []


# The answer


@proves(
    "reading.partly-read-chunk",
    "reading.tail",
    "reading.truncated-before-model",
    "bundle.content-unaltered",
)
@pytest.mark.parametrize("sid", [3, 9, 17, 26, 40, 89])
def test_partly_read_chunk_shows_and_scores_read_sentences(lib: LibraryFixture, sid: int) -> None:
    world, reader = reading(lib, sid)
    texts = stored(lib, world, 1).texts

    bundle = reader.retrieve(QUERY)

    for chunk, note in zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True):
        assert note.last_sid <= sid
        assert chunk.content.split() == " ".join(texts[note.first_sid : note.last_sid + 1]).split()
        exact = similarity(vector_of(QUERY), vector_of(chunk.content))
        assert chunk.relevance_score == pytest.approx(exact, abs=2e-6)
        assert note.text_hash == hash_text(chunk.content)
    assert max(note.last_sid for note in bundle.metadata.sources) == sid


@proves("reading.single-sentence", "reading.partly-read-chunk")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_chunk_with_one_read_sentence_shows_that_sentence(lib: LibraryFixture, chunking: str):
    world, reader = reading(lib, 0, chunking=chunking)

    bundle = reader.retrieve(QUERY)

    (chunk,) = bundle.retrieved_chunks
    assert chunk.content == bundle.context == stored(lib, world, 1).texts[0]
    assert (bundle.metadata.funnel.in_scope, bundle.metadata.funnel.fetched) == (1, 1)


@pytest.mark.contract
@proves("reading.sentence-once", "reading.sentence-order")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_context_contains_each_sentence_once_in_book_order(
    lib: LibraryFixture, chunking: str
) -> None:
    _, reader = reading(lib, 70, chunking=chunking)

    for query in (QUERY, "the clock of the town", canary(50)):
        bundle = reader.retrieve(query)
        scores = [chunk.relevance_score for chunk in bundle.retrieved_chunks]
        assert scores == sorted(scores, reverse=True)
        told = [word for word in bundle.context.split() if word.startswith("zq")]
        assert told == sorted(set(told))
        assert len(told) == 71


@proves("reading.deterministic")
def test_equal_state_and_question_give_equal_bytes_in_every_process(
    tmp_path: Path, lib: LibraryFixture
) -> None:
    _, reader = reading(lib, 55)
    first = frozen(reader.retrieve(QUERY))

    assert {frozen(reader.retrieve(QUERY)) for _ in range(3)} == {first}
    lib.sql("DELETE FROM tails")
    lib.sql("DELETE FROM tail_marks")
    lib.sql("DELETE FROM query_cache")
    again = make_library(tmp_path, index=lib.index).library.world("world").reader("ann")
    assert frozen(again.retrieve(QUERY)) == first


@proves("reading.sid-arithmetic")
def test_sentence_number_counts_from_the_first_of_its_chunk(lib: LibraryFixture) -> None:
    world, _ = reading(lib, 0)
    texts = stored(lib, world, 1).texts

    for first, last, text in lib.sql(
        """SELECT s.first_sid, s.last_sid, c.text FROM states s
           JOIN chunks c USING (revision, generation, position)"""
    ):
        for place_in_chunk, sid in enumerate(range(first, last + 1)):
            assert texts[first + place_in_chunk] in text
            assert canary(sid) in text
        assert canary(last + 1) not in text


@proves("reading.tail", "reading.every-surface", "bundle.chunk-fields-filled")
def test_reader_names_and_receipts_contain_nothing_unread(lib: LibraryFixture) -> None:
    world, reader = reading(lib, 40)
    namespace = uuid.UUID("6f1d3c1e-5b0e-5d0a-9d7c-7a1c54b6e0a1")

    bundle = reader.retrieve(QUERY)

    owners = set(lib.points(world))
    text = stored(lib, world, 1).canonical.text
    for chunk, note in zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True):
        start = text.index(chunk.content)
        name = f"{world.id}:1:1:{note.first_sid}:{note.last_sid}:{start}:{note.text_hash}"
        assert chunk.chunk_id == note.chunk_id == str(uuid.uuid5(namespace, name))
        assert chunk.chunk_id not in owners
        assert (note.revision, note.generation) == (None, 1)
    assert '"revision": null' in to_json(bundle)
    told = [entry.name for entry in fields(reader.position())]
    assert told == [
        "document", "doc_id", "title", "source", "sid", "chapter", "chapters_reached",
        "last_sentence", "current", "path",
    ]  # fmt: skip


@proves("reading.every-surface")
def test_title_inside_the_book_is_hidden_and_a_declared_one_shown(
    lib: LibraryFixture, world: World
):
    read = " ".join(f"The lamp burned {count} times." for count in range(20))
    text = f"---\ntitle: The Butler Did It\n---\n{read}\n\n# The Secret Of It\n\nIt was he.\n"
    path = lib.write("book.md", text)
    reader = world.reader("ann")
    world.ingest(path, kind="book")
    reader.set_position("book.md", sentence=17)
    silent = [to_json(reader.position()), frozen(reader.retrieve("the lamp"))]

    world.ingest(path, kind="book", title="A Lamp")

    assert not [answer for answer in silent if "Butler" in answer or "Secret" in answer]
    assert world.documents.get("1").title == "A Lamp"
    bundle = reader.retrieve("the lamp")
    assert len(bundle.retrieved_chunks) == 3
    assert {note.title for note in bundle.metadata.sources} == {"A Lamp"}
    assert {(chunk.chapter, chunk.section) for chunk in bundle.retrieved_chunks} == {
        ("A Lamp", "A Lamp")
    }
