"""Results name their document, and distinguish documents with one name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.answer_worlds import QUESTION, Scripted, scored, study
from tests.support.failures import raises_code
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import DocumentAmbiguous
from truespan.types.bundle import RetrievedChunk
from truespan.wire.serialize import to_json

NORTH = "The harbour of the north has a red lamp. The key lies under the mat."
SOUTH = "The harbour of the south has a green lamp. The key hangs on the wall."
QUERY = "Which lamp does the harbour have?"


def two_readmes(lib: LibraryFixture) -> World:
    """Return a world with two files of one name in different folders."""
    lib.write("handbook/north/README.md", NORTH)
    lib.write("handbook/south/README.md", SOUTH)
    world = lib.library.create_world("world")
    world.ingest(str(lib.folder / "files" / "handbook"))
    return world


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path, defaults="recommended")


@proves("search.sources")
def test_results_name_the_path_below_the_ingested_folder_only(lib: LibraryFixture):
    world = two_readmes(lib)

    found = world.search(QUERY, floor=0.0)
    bundle = world.retrieve(QUERY)

    paths = {"handbook/north/README.md", "handbook/south/README.md"}
    assert {passage.path for passage in found.passages} == paths
    assert {passage.source_url for passage in found.passages} == paths
    assert {passage.source for passage in found.passages} == {"README.md"}
    assert {chunk.source_url for chunk in bundle.retrieved_chunks} == paths
    assert {note.path for note in bundle.metadata.sources} == paths
    assert {note.address for note in bundle.metadata.sources} == {
        f"truespan://{world.id}/{number}" for number in (1, 2)
    }
    assert {document.shown_path for document in world.documents.list()} == paths
    assert str(lib.folder) not in to_json(found) + to_json(bundle)


@proves("search.sources")
def test_declared_url_is_the_source_url_beside_the_path(lib: LibraryFixture) -> None:
    lib.write("handbook/a.md", NORTH)
    lines = [
        {
            "path": "a.md",
            "source_url": "https://wiki.example/north",
            "tags": ["sea"],
            "lang": "en",
            "version": "2.0",
            "metadata": {"team": "a", "year": 2024},
        }
    ]
    manifest = lib.write("handbook/all.jsonl", "\n".join(map(json.dumps, lines)))
    world = lib.library.create_world("world")
    world.ingest(manifest=manifest)

    [passage] = world.search(QUERY, floor=0.0).passages
    bundle = world.retrieve(QUERY)

    [note], [chunk] = bundle.metadata.sources, bundle.retrieved_chunks
    assert chunk.source_url == "https://wiki.example/north"
    for shown in (passage, note):
        assert shown.source_url == "https://wiki.example/north"
        assert shown.path == "handbook/a.md"
        assert (shown.tags, shown.language, shown.version) == (("sea",), "en", "2.0")
        assert shown.metadata == {"team": "a", "year": 2024}
        assert shown.chunk_type == "text"
    assert world.documents.get("https://wiki.example/north").number == 1


@proves("contract.source-url")
def test_chunk_of_a_contract_world_always_has_a_url(tmp_path: Path) -> None:
    world = two_readmes(make_library(tmp_path, defaults="contract"))

    bundle = world.retrieve(QUERY)

    assert RetrievedChunk.__struct_fields__ == (
        "content", "source_url", "chapter", "section", "chunk_id", "relevance_score", "token_count",
    )  # fmt: skip
    assert {chunk.source_url for chunk in bundle.retrieved_chunks} == {
        f"truespan://{world.id}/{number}" for number in (1, 2)
    }
    assert {note.source_url for note in bundle.metadata.sources} == {
        "handbook/north/README.md",
        "handbook/south/README.md",
    }


@proves("documents.ambiguous")
def test_ambiguous_document_name_is_refused_with_both_listed(lib: LibraryFixture):
    world = two_readmes(lib)
    reader = world.reader("ann")
    for path in ("north/README.md", "south/README.md"):
        reader.set_position(path, sentence=0)

    requests: dict[str, Callable[[], Any]] = {
        "get": lambda: world.documents.get("README.md"),
        "delete": lambda: world.documents.delete("README.md"),
        "text": lambda: world.documents.text("README.md"),
        "retrieve": lambda: world.retrieve(QUERY, documents=["README.md"]),
        "answer": lambda: world.answer(QUERY, documents=["README.md"]),
        "set": lambda: reader.set_position("README.md", sentence=1),
        "where": lambda: reader.position("README.md"),
        "sentences": lambda: reader.sentences("README.md"),
        "reading": lambda: reader.retrieve(QUERY, book="README.md"),
    }
    failed = []
    for name, request in requests.items():
        with pytest.raises(DocumentAmbiguous) as caught:
            request()
        message = str(caught.value)
        listed = "handbook/north/README.md (number 1), handbook/south/README.md (number 2)"
        if listed not in message or "path" not in message:
            failed.append((name, message))
    assert not failed
    assert len(world.documents.list()) == 2


@proves("documents.ambiguous")
def test_each_listed_name_identifies_one_document(lib: LibraryFixture) -> None:
    world = two_readmes(lib)

    with pytest.raises(DocumentAmbiguous) as caught:
        world.documents.get("README.md")

    for number, path in caught.value.matches:
        assert world.documents.get(path).number == number
        assert world.documents.get(number).number == number
        assert world.documents.get(path.removeprefix("handbook/")).number == number
        bundle = world.retrieve(QUERY, documents=[path])
        assert {note.document for note in bundle.metadata.sources} == {number}
    with raises_code("document_not_found"):
        world.documents.get("ADME.md")


@proves("search.sources")
def test_folders_with_one_name_show_longer_paths(lib: LibraryFixture) -> None:
    first = Path(lib.write("a/docs/README.md", NORTH)).parent
    second = Path(lib.write("b/docs/README.md", SOUTH)).parent
    world = lib.library.create_world("world")

    world.ingest(str(first))
    world.ingest(str(second))
    together = lib.library.create_world("together")
    together.ingest([str(first), str(second)])

    shown = ["docs/README.md", "b/docs/README.md"]
    for each in (world, together):
        assert [document.shown_path for document in each.documents.list()] == shown


@proves("search.sources")
def test_moved_file_shows_a_longer_path_if_the_short_one_is_taken(lib: LibraryFixture):
    first = Path(lib.write("a/docs/README.md", NORTH)).parent
    second = Path(lib.write("b/docs/old.md", SOUTH))
    world = lib.library.create_world("world")
    world.ingest(str(first))
    world.ingest(str(second.parent))

    second.rename(second.with_name("README.md"))
    plan = world.documents.plan(str(second.parent), prune=True)
    report = world.ingest(str(second.parent), prune=True)

    assert plan.moved == tuple(report.moved)
    assert [moved.after for moved in report.moved] == ["b/docs/README.md"]
    shown = ["docs/README.md", "b/docs/README.md"]
    assert [document.shown_path for document in world.documents.list()] == shown


@proves("search.sources")
def test_path_stays_unchanged_unless_a_longer_one_is_known(lib: LibraryFixture) -> None:
    file = Path(lib.write("top/docs/a.md", NORTH))
    world = lib.library.create_world("world")
    shown = []
    for given in (file.parent, file, file.parent.parent, file):
        world.ingest(str(given))
        [document] = world.documents.list()
        shown.append((document.shown_path, document.active))

    assert shown == [("docs/a.md", 1)] * 2 + [("top/docs/a.md", 1)] * 2


@proves("reading.every-surface")
def test_reader_gets_no_metadata_and_no_detected_language(tmp_path: Path) -> None:
    lib = make_library(tmp_path, defaults="recommended")
    lib.write("books/b.md", f"{NORTH}\n\n{story(200)}")
    line = {"path": "b.md", "metadata": {"ending": "The keeper did it."}, "kind": "book"}
    manifest = lib.write("books/all.jsonl", json.dumps(line))
    world = lib.library.create_world("world")
    world.ingest(manifest=manifest)
    reader = world.reader("ann")
    last = world.documents.get("b.md").sentences - 1

    # At the first position only a part of a chunk was read, at the last one whole chunks.
    for position in (0, last):
        reader.set_position("b.md", sentence=position)
        bundle = reader.retrieve(QUERY)
        assert bundle.metadata.sources
        for note in bundle.metadata.sources:
            assert (note.path, note.metadata, note.language) == ("books/b.md", None, None)
        assert "keeper did it" not in to_json(bundle)
    assert world.search(QUERY, floor=0.0).passages[0].language == "en"
    world.ingest(str(lib.folder / "files/books/b.md"), language="en")
    assert reader.retrieve(QUERY).metadata.sources[0].language == "en"


@proves("search.sources")
def test_citations_answers_and_prompts_name_path_or_url(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted("It was Ann [1] and Ben [2]."))
    files = room.lib.folder / "files" / "handbook"
    room.lib.write("handbook/a/README.md", scored(0.8, "Ann held the key."))
    room.lib.write("handbook/b/README.md", scored(0.7, "Ben held the key."))
    lines = [
        {"path": "a/README.md", "tags": ["sea"], "metadata": {"team": "a"}},
        {"path": "b/README.md", "source_url": "https://wiki.example/b"},
    ]
    manifest = room.lib.write("handbook/all.jsonl", "\n".join(map(json.dumps, lines)))
    room.world.ingest(manifest=manifest)

    answer = room.world.answer(QUESTION)

    first, second = answer.citations
    assert (first.source_url, first.path) == ("handbook/a/README.md", "handbook/a/README.md")
    assert (second.source_url, second.path) == ("https://wiki.example/b", "handbook/b/README.md")
    assert "Source: handbook/a/README.md\n" in room.primary.prompt
    assert "Source: https://wiki.example/b\n" in room.primary.prompt
    assert str(files.parent) not in room.primary.prompt
    notes = answer.retrieved_chunks_metadata
    assert [note.source_url for note in notes] == [first.source_url, second.source_url]
    assert [note.metadata for note in notes] == [{"team": "a"}, None]
    assert [note.tags for note in notes] == [("sea",), ()]
    assert {(note.language, note.version, note.chunk_type) for note in notes} == {
        ("en", "1.0", "text")
    }
    quoted = study(tmp_path / "quoting")
    quoted.add(a__txt=scored(0.8, "Ann held the key."))
    assert "(world/a.txt)" in quoted.world.answer(QUESTION).answer
