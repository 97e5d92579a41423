"""A renamed file keeps its document: number, text, vectors, labels and reading positions."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.promises import proves
from tests.support.sample_texts import story
from tests.support.worlds import Place, place
from truespan.engine.world import World
from truespan.ingest.draft import Preparation
from truespan.types.chunk import FigureFlags
from truespan.types.document import Document


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def folder(here: Place) -> Path:
    return here.folder / "files"


def ingested(here: Place, **files: str) -> World:
    for name, text in files.items():
        here.write(name.replace("__", "."), text)
    world = here.library.create_world("world")
    world.ingest(str(folder(here)), kind="book", tags=["sea"])
    return world


def listed(world: World) -> dict[int, str]:
    return {document.number: document.name for document in world.documents.list()}


def only(world: World) -> Document:
    [document] = world.documents.list()
    return document


@proves("ingest.moved-files")
def test_renamed_file_keeps_its_document_and_embeds_nothing(here: Place) -> None:
    world = ingested(here, a__txt=story(30), b__txt=story(30, "garden"))
    before = {document.name: document for document in world.documents.list()}
    reader = world.reader("Ida")
    reader.set_position(before["a.txt"].doc_id, sentence=7)
    texts = len(here.embedder.documents)

    (folder(here) / "sub").mkdir()
    os.rename(folder(here) / "a.txt", folder(here) / "sub" / "c.txt")
    plan = world.plan_ingest(str(folder(here)), prune=True)
    report = world.ingest(str(folder(here)), prune=True)

    assert (plan.to_embed, plan.removed) == (0, ())
    assert [moved.after for moved in plan.moved] == ["files/sub/c.txt"]
    assert [(moved.before, moved.after) for moved in report.moved] == [
        ("files/a.txt", "files/sub/c.txt")
    ]
    assert (report.ingested, report.removed, report.failures) == ([], [], [])
    assert len(here.embedder.documents) == texts
    after = world.documents.get("c.txt")
    assert after.number == before["a.txt"].number
    assert after.doc_id != before["a.txt"].doc_id
    assert (after.active, after.tags) == (before["a.txt"].active, ("sea",))
    assert (after.path, after.shown_path) == (
        str(folder(here) / "sub" / "c.txt"),
        "files/sub/c.txt",
    )
    assert not after.damaged
    assert reader.position(after.doc_id).sid == 7
    assert world.ingest(str(folder(here)), prune=True).unchanged == 2
    assert {hit.doc_id for hit in world.search("harbour", top_k=5).passages} >= {after.doc_id}


def test_title_from_the_file_name_follows_a_move(here: Place) -> None:
    here.write("a.txt", "one two three.")
    here.write("b.txt", "four five six.")
    world = here.library.create_world("world")
    world.ingest(str(folder(here) / "a.txt"))
    world.ingest(str(folder(here) / "b.txt"), title="Numbers")
    for name in ("a", "b"):
        os.rename(folder(here) / f"{name}.txt", folder(here) / f"new-{name}.txt")

    world.ingest(str(folder(here)), prune=True)

    titles = {document.name: document.title for document in world.documents.list()}
    assert titles == {"new-a.txt": "new-a.txt", "new-b.txt": "Numbers"}


def test_without_prune_a_renamed_file_is_a_second_document(here: Place) -> None:
    world = ingested(here, a__txt=story(9))
    os.rename(folder(here) / "a.txt", folder(here) / "c.txt")

    report = world.ingest(str(folder(here)))

    assert (report.moved, report.ingested) == ([], ["c.txt"])
    assert listed(world) == {1: "a.txt", 2: "c.txt"}


def test_file_of_the_same_name_is_preferred_as_moved(here: Place) -> None:
    world = ingested(here, a__txt=story(9))
    here.write("aa/copy.txt", story(9))
    here.write("z/a.txt", story(9))
    here.write("z/b.txt", story(9))
    os.remove(folder(here) / "a.txt")

    report = world.ingest(str(folder(here)), prune=True)

    assert [moved.after for moved in report.moved] == ["files/z/a.txt"]
    assert len(world.documents.list()) == 3


def test_copy_beside_its_original_is_a_new_document(here: Place) -> None:
    world = ingested(here, a__txt=story(9), gone__txt=story(9, "garden"))
    here.write("copy.txt", story(9))
    os.remove(folder(here) / "gone.txt")

    report = world.ingest(str(folder(here)), prune=True)

    assert (report.moved, report.ingested) == ([], ["copy.txt"])
    assert report.removed == ["files/gone.txt"]


def test_moved_file_with_another_ending_is_a_new_revision(here: Place) -> None:
    world = ingested(here, a__txt="# Lamps\n\nThe lamp is red. It hangs low.")
    number = only(world).number
    os.rename(folder(here) / "a.txt", folder(here) / "a.md")

    report = world.ingest(str(folder(here)), prune=True)

    assert (report.ingested, len(report.moved)) == (["a.md"], 1)
    assert (only(world).number, only(world).title) == (number, "Lamps")
    assert world.ingest(str(folder(here)), prune=True).unchanged == 1


def test_images_move_with_their_document(tmp_path: Path) -> None:
    flags = FigureFlags(extract_images=True, placeholders=True, chunks=True)
    here = place(tmp_path, preparation=Preparation(figures=flags))
    picture = '<img alt="A lamp" src="data:image/png;base64,iVBORw0KGgo=">'
    world = ingested(here, a__html=f"<p>Before it.</p>{picture}<p>After it.</p>")
    before = only(world)
    os.rename(folder(here) / "a.html", folder(here) / "b.html")

    world.ingest(str(folder(here)), prune=True)

    after = only(world)
    assert after.number == before.number
    assert f"[FIGURE:{after.doc_id}-fig-001]" in world.documents.text(after.number)
    assert os.listdir(tmp_path / "assets") == [after.doc_id]


def test_erased_document_leaves_none_of_its_earlier_names(here: Place) -> None:
    world = ingested(here, secret_plan__txt=story(9))
    world.ingest(str(folder(here) / "secret_plan.txt"))
    earlier = only(world)
    os.rename(folder(here) / "secret_plan.txt", folder(here) / "plain.txt")
    world.ingest(str(folder(here)), prune=True)
    os.remove(folder(here) / "plain.txt")

    world.documents.delete("plain.txt")

    rows = here.sql("SELECT doc_id || name FROM job_documents")
    rows += here.sql("SELECT line FROM job_lines") + here.sql("SELECT request FROM jobs")
    kept = "\n".join(str(row[0]) for row in rows)
    assert "secret" not in kept
    assert earlier.doc_id not in kept


def test_renamed_archive_keeps_the_documents_inside(here: Place) -> None:
    world = here.library.create_world("world")
    folder(here).mkdir()
    with ZipFile(folder(here) / "a.zip", "w") as archive:
        archive.writestr("one.txt", story(5))
        archive.writestr("deep/two.txt", story(5, "garden"))
    world.ingest(str(folder(here)))
    os.rename(folder(here) / "a.zip", folder(here) / "b.zip")

    report = world.ingest(str(folder(here)), prune=True)

    assert sorted(moved.after for moved in report.moved) == [
        "files/b.zip/deep/two.txt",
        "files/b.zip/one.txt",
    ]
    assert (report.ingested, report.removed, report.unchanged) == ([], [], 2)
    paths = {document.path for document in world.documents.list()}
    assert paths == {str(folder(here) / "b.zip" / name) for name in ("one.txt", "deep/two.txt")}
    assert world.ingest(str(folder(here)), prune=True).unchanged == 2
