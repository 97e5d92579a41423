"""What a chunk carries beside its text: source, labels, language, page, and its dedupe hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation, dedupe_hash
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, Strategy

ONCE = ChunkingProfile("once", Strategy.SENTENCES, size=1, overlap=0, dedupe=True)
EVERY = ChunkingProfile("every", Strategy.SENTENCES, size=1, overlap=0)
GERMAN = (
    "Der Hafen lag still in der Dämmerung. Niemand hatte das Boot gesehen, das am Abend "
    "eingelaufen war. Die Laterne brannte noch immer am Ende der Mole."
)
TEXT = "The harbour was quiet. A boat came in. The HARBOUR was  quiet! Nobody waved."


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    chunkings = {**STANDARD_CHUNKING, "once": ONCE, "every": EVERY}
    return make_library(tmp_path, preparation=Preparation(chunkings=chunkings))


def chunks(world: World) -> list:
    found = world.search("harbour boat", top_k=50, floor=0.0).passages
    records = [world.documents.chunk(one.chunk_id) for one in found]
    return sorted(records, key=lambda record: record.chunk.index)  # type: ignore[union-attr]


@proves("chunking.metadata")
def test_a_chunk_knows_its_source_its_labels_and_its_language(
    lib: LibraryFixture, world: World
) -> None:
    world.ingest(lib.write("a.txt", TEXT), tags=["sea", "quiet"], language="en", version="2.0")

    [record] = chunks(world)

    label = record.document
    assert label.name == "a.txt"
    assert label.doc_id == world.documents.get(1).doc_id
    assert label.tags == ("quiet", "sea")
    assert (label.language, label.version) == ("en", "2.0")
    assert record.chunk.chunk_id
    assert record.chunk.dedupe_hash is None


@proves("chunking.metadata")
def test_with_dedupe_the_first_of_equal_chunks_is_kept_with_its_hash(
    lib: LibraryFixture, world: World
) -> None:
    world.ingest(lib.write("a.txt", TEXT), chunking="once")

    records = chunks(world)

    texts = [record.chunk.data.decode() for record in records]
    assert texts == ["The harbour was quiet.", "A boat came in.", "Nobody waved."]
    assert [record.chunk.index for record in records] == [0, 1, 2]
    assert [record.chunk.dedupe_hash for record in records] == [dedupe_hash(text) for text in texts]


@proves("chunking.metadata")
def test_without_dedupe_every_chunk_is_kept(lib: LibraryFixture, world: World) -> None:
    world.ingest(lib.write("a.txt", TEXT), chunking="every")

    assert len(chunks(world)) == 4


@proves("reading.non-interference")
def test_repetitions_ahead_change_nothing_for_a_reader(lib: LibraryFixture) -> None:
    told = []
    for ending in ("", " A boat came in. The end.", " Something else."):
        world = lib.library.world("world", create=True)
        world.ingest(lib.write("a.txt", TEXT + ending), chunking="once", kind="book")
        reader = world.reader("ann")
        reader.set_position("1", sentence=3)
        bundle = reader.retrieve("harbour boat")
        told.append((bundle.context, bundle.retrieved_chunks, bundle.metadata.funnel))

    assert told[0] == told[1] == told[2]


@proves("request.language-constraint")
def test_a_language_that_nobody_declares_is_detected_and_filtered_on(
    lib: LibraryFixture, world: World
) -> None:
    world.ingest([lib.write("a.txt", TEXT * 3), lib.write("b.txt", GERMAN)])

    documents = {document.name: document for document in world.documents.list()}
    assert {name: one.language for name, one in documents.items()} == {"a.txt": "en", "b.txt": "de"}
    assert not any(one.language_declared for one in documents.values())
    for language, name in (("en", "a.txt"), ("de", "b.txt")):
        bundle = world.retrieve("Hafen harbour quiet", language=language)
        assert {note.source for note in bundle.metadata.sources} <= {name}


@proves("chunking.metadata")
def test_every_chunk_of_a_pdf_knows_its_page(lib: LibraryFixture) -> None:
    pages = [f"Page number {n} tells of harbour {n}. It has more words." for n in range(1, 4)]
    path = lib.folder / "files" / "a.pdf"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(make_pdf([Page(column([text])) for text in pages]))
    world = lib.library.create_world("world")
    world.ingest(path, chunking="every")
    text = world.documents.text("1")

    for record in chunks(world):
        chunk = record.chunk
        assert text[chunk.start : chunk.end] == chunk.data.decode()
        before = text[: chunk.start + len("Page number")].count("Page number")
        assert chunk.page == before


@proves("chunking.metadata")
def test_what_is_shown_of_a_chunk_says_where_it_lies(lib: LibraryFixture) -> None:
    pages = [f"Page number {n} tells of harbour {n}. It has more words." for n in range(1, 4)]
    path = lib.folder / "files" / "a.pdf"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(make_pdf([Page(column([text])) for text in pages]))
    world = lib.library.create_world("world")
    world.ingest(path, kind="book", chunking="window")

    [passage] = world.search("harbour").passages
    [listed] = world.documents.chunks(1).chunks
    [part] = world.search("harbour 2", granularity="sentence", top_k=1).passages
    [wider] = world.search("harbour 2", granularity="sentence", top_k=1, neighbours=1).passages
    answer = world.answer("Which harbour does page number 2 tell of?")
    reader = world.reader("ann")
    reader.set_position("1", sentence=3)
    [note] = reader.retrieve("harbour").metadata.sources

    assert passage.location == listed.location == "pages 1-3"
    assert (part.location, part.page) == ("page 2", 2)
    assert wider.location == "pages 1-2"
    assert answer.citations[0].location == "pages 1-3"
    assert ", pages 1-3; best match: page 2 (" in answer.answer
    assert (note.location, note.page) == ("pages 1-2", 1)
    shown = [sentence.location for sentence in reader.sentences().sentences]
    assert shown == ["page 1", "page 1", "page 2", "page 2"]
