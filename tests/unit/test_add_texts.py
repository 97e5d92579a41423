"""Texts in memory become documents, by id or by hash, with their own metadata."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world_ingestion import as_uploads
from truespan.errors import InvalidArgument
from truespan.jobs.thread import JobThread
from truespan.types.job import IngestJob

KEY, LAMP = "The key hangs on hook seven.", "# Lamps\n\nThe lamp is red."


def test_add_texts_makes_a_document_of_each(tmp_path: Path) -> None:
    world = make_library(tmp_path).library.world()

    report = world.add_texts(
        [KEY, LAMP], ids=["key", "lamp.md"], metadata=[{"team": "a"}, {"team": "b"}], tags=["x"]
    )

    assert report.ingested == ["key.txt", "lamp.md"]
    assert world.documents.text("key.txt") == KEY
    assert [entry.chapter for entry in world.documents.outline("lamp.md")] == ["Lamps"]
    assert {document.tags for document in world.documents.list()} == {("x",)}
    for team, text in (("a", KEY), ("b", "red")):
        [passage] = world.search("hook lamp", floor=0.0, metadata={"team": team}).passages
        assert text in passage.text


def test_add_text_with_known_id_is_a_new_revision(tmp_path: Path) -> None:
    world = make_library(tmp_path).library.world()
    world.add_text(KEY, id="key", title="The key", metadata={"team": "a"})
    world.add_text("The key is lost.", id="key")
    [document] = world.documents.list()
    assert world.documents.text("key.txt") == "The key is lost."
    assert document.active == 2


def test_add_text_without_id_is_idempotent(tmp_path: Path) -> None:
    world = make_library(tmp_path).library.world()
    first, again = world.add_text(KEY), world.add_text(KEY)
    assert (len(first.ingested), again.ingested, again.unchanged) == (1, [], 1)
    assert len(world.documents.list()) == 1


def test_add_texts_in_background_returns_a_job(lib: LibraryFixture) -> None:
    world = lib.library.world()
    job = world.jobs.submit(IngestJob(as_uploads([KEY], ["key"], [{"team": "a"}])))
    assert job.kind == "ingest"
    queue = lib.library._components.queue
    assert isinstance(queue, JobThread)
    queue.wait()
    assert world.search("hook", floor=0.0, metadata={"team": "a"}).passages


def test_add_texts_refuses_wrong_arguments(tmp_path: Path) -> None:
    world = make_library(tmp_path).library.world()
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ("one text", {}), ([KEY, 5], {}), ([], {}), ([KEY], {"ids": []}),
        ([KEY], {"ids": ["a", "b"]}), ([KEY, LAMP], {"ids": ["a", "a"]}),
        ([KEY], {"ids": ["../a"]}), ([KEY], {"metadata": []}), ([KEY], {"metadata": [{"": 1}]}),
        ([KEY], {"kind": "novel"}),
    ]  # fmt: skip

    for texts, arguments in wrong:
        with pytest.raises(InvalidArgument):
            world.add_texts(texts, **arguments)

    assert world.documents.list() == []


def test_empty_library_creates_the_world_main(tmp_path: Path) -> None:
    library = make_library(tmp_path).library
    assert library.world().name == "main"
    assert [world.name for world in library.worlds()] == ["main"]
    assert library.world().name == "main"
