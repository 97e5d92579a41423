"""Ingestion step by step: reuse, refusals, resuming and reports."""

from pathlib import Path

import pytest

from tests.support.failures import raises_code
from tests.support.sample_texts import assert_settled, once, story
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.engine.world import World
from truespan.errors import Interrupted, InvalidArgument, ProviderRefused


def test_edited_sentence_embeds_only_its_chunks_again(lib: LibraryFixture) -> None:
    paragraphs = [story(6, word) for word in ("sea", "hill", "town", "wood", "lake") * 8]
    world = lib.world(a__txt="\n\n".join(paragraphs))
    total = len(lib.points(world))
    lib.embedder.documents.clear()
    paragraphs[20] = paragraphs[20].replace("Sentence 3 tells", "Sentence three says")
    world.ingest(lib.write("world/a.txt", "\n\n".join(paragraphs)))
    assert 0 < len(lib.embedder.documents) <= 4 < total
    assert_settled(lib, world)


def test_numbers_of_deleted_documents_are_not_reused(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(3))
    world.documents.delete("1")
    world.ingest(str(lib.folder / "files"))
    assert [document.number for document in world.documents.list()] == [2]
    assert_settled(lib, world)


def test_killed_run_keeps_its_paid_vectors(lib: LibraryFixture, world: World):
    path = lib.write("a.txt", story(1500))

    def stop_after_two() -> None:
        if len(lib.embedder.documents) >= 32:
            raise KeyboardInterrupt

    lib.embedder.before = stop_after_two
    with pytest.raises(Interrupted) as stopped:
        world.ingest(path)
    paid = list(lib.embedder.documents)
    lib.embedder.before = None
    report = world.ingest(path)

    assert stopped.value.retryable
    assert report.resumed == 1
    assert len(paid) == 32
    assert len(lib.embedder.documents) == len(set(lib.embedder.documents))
    assert_settled(lib, world)


def test_bad_file_is_one_reported_failure(lib: LibraryFixture, world: World) -> None:
    lib.write("good.txt", story(3))
    lib.write("empty.txt", " \n ")
    (lib.folder / "files" / "binary.txt").write_bytes(b"\x7fELF\0\0\1\2" * 40)
    report = world.ingest(str(lib.folder / "files"))
    assert report.ingested == ["good.txt"]
    assert {(failure.name, failure.code) for failure in report.failures} == {
        ("empty.txt", "source_empty"), ("binary.txt", "source_not_text"),
    }  # fmt: skip
    assert [document.name for document in world.documents.list()] == ["good.txt"]


def test_missing_path_changes_nothing(tmp_path: Path, lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(3))
    before = lib.sql("SELECT * FROM documents")
    with raises_code("source_missing"):
        world.ingest([lib.write("b.txt", story(2)), str(tmp_path / "nowhere.txt")])
    assert lib.sql("SELECT * FROM documents") == before


@pytest.mark.parametrize(("argument", "error"), [
    ({"kind": "novel"}, InvalidArgument), ({"title": "  "}, InvalidArgument),
    ({"version": 2}, InvalidArgument), ({"chunking": "pages"}, InvalidArgument),
], ids=str)  # fmt: skip
def test_wrong_arguments_are_refused_before_any_write(
    lib: LibraryFixture, world: World, argument: dict, error: type[Exception]
) -> None:
    with pytest.raises(error):
        world.ingest(lib.write("a.txt", story(3)), **argument)
    assert world.documents.list() == []
    assert lib.embedder.calls == 0


def test_provider_refusal_stops_the_run_and_loses_nothing(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The old harbour.")

    def refuse() -> None:
        raise ProviderRefused("The provider answered no.")

    lib.embedder.before = refuse
    with pytest.raises(ProviderRefused):
        world.ingest(lib.write("world/a.txt", "The new harbour."))
    lib.embedder.before = None

    assert world.search("old harbour", floor=0.0).context == "The old harbour."
    world.ingest(str(lib.folder / "files"))
    assert world.search("new harbour", floor=0.0).context == "The new harbour."
    assert_settled(lib, world)


def test_concurrent_runs_on_one_document_leave_one_result(tmp_path: Path) -> None:
    index = MemoryIndex()
    lib, there = make_library(tmp_path, index=index), make_library(tmp_path, index=index)
    world = lib.world(a__txt="The first harbour.")
    other = there.library.world("world")
    # It takes the document as if the process that has it were dead.
    there.library._components.store.jobs.claim_documents = lambda *_, **__: True
    path = lib.write("world/a.txt", story(40, "second"))

    def overtake() -> None:
        Path(path).write_text(story(10, "third"))
        other.ingest(path)

    lib.embedder.before = once(overtake)
    world.ingest(path)
    lib.embedder.before = None
    world.ingest(path)

    assert "third" in world.search("third harbour", floor=0.0).context
    assert_settled(lib, world)
