"""A renamed file keeps its document: number, text, vectors, labels and reading positions."""

import os
from pathlib import Path
from zipfile import ZipFile

from tests.promises import proves
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation
from truespan.types.chunk import FigureFlags
from truespan.types.document import Document


def folder(lib: LibraryFixture) -> Path:
    return lib.folder / "files"


def ingested(lib: LibraryFixture, **files: str) -> World:
    for name, text in files.items():
        lib.write(name.replace("__", "."), text)
    world = lib.library.create_world("world")
    world.ingest(str(folder(lib)), kind="book", tags=["sea"])
    return world


def listed(world: World) -> dict[int, str]:
    return {document.number: document.name for document in world.documents.list()}


def only(world: World) -> Document:
    [document] = world.documents.list()
    return document


@proves("ingest.moved-files")
def test_renamed_file_keeps_its_document_and_embeds_nothing(lib: LibraryFixture) -> None:
    world = ingested(lib, a__txt=story(30), b__txt=story(30, "garden"))
    before = {document.name: document for document in world.documents.list()}
    reader = world.reader("Ida")
    reader.set_position(before["a.txt"].doc_id, sentence=7)
    texts = len(lib.embedder.documents)

    (folder(lib) / "sub").mkdir()
    os.rename(folder(lib) / "a.txt", folder(lib) / "sub" / "c.txt")
    plan = world.documents.plan(str(folder(lib)), prune=True)
    report = world.ingest(str(folder(lib)), prune=True)

    assert (plan.to_embed, plan.removed) == (0, ())
    assert [moved.after for moved in plan.moved] == ["files/sub/c.txt"]
    assert [(moved.before, moved.after) for moved in report.moved] == [
        ("files/a.txt", "files/sub/c.txt")
    ]
    assert (report.ingested, report.removed, report.failures) == ([], [], [])
    assert len(lib.embedder.documents) == texts
    after = world.documents.get("c.txt")
    assert after.number == before["a.txt"].number
    assert after.doc_id != before["a.txt"].doc_id
    assert (after.active, after.tags) == (before["a.txt"].active, ("sea",))
    assert (after.path, after.shown_path) == (str(folder(lib) / "sub" / "c.txt"), "files/sub/c.txt")
    assert not after.damaged
    assert reader.position(after.doc_id).sid == 7
    assert world.ingest(str(folder(lib)), prune=True).unchanged == 2
    assert {hit.doc_id for hit in world.search("harbour", top_k=5).passages} >= {after.doc_id}


def test_title_from_the_file_name_follows_a_move(lib: LibraryFixture) -> None:
    lib.write("a.txt", "one two three.")
    lib.write("b.txt", "four five six.")
    world = lib.library.create_world("world")
    world.ingest(str(folder(lib) / "a.txt"))
    world.ingest(str(folder(lib) / "b.txt"), title="Numbers")
    for name in ("a", "b"):
        os.rename(folder(lib) / f"{name}.txt", folder(lib) / f"new-{name}.txt")
    world.ingest(str(folder(lib)), prune=True)
    titles = {document.name: document.title for document in world.documents.list()}
    assert titles == {"new-a.txt": "new-a.txt", "new-b.txt": "Numbers"}


def test_without_prune_a_renamed_file_is_a_second_document(lib: LibraryFixture) -> None:
    world = ingested(lib, a__txt=story(9))
    os.rename(folder(lib) / "a.txt", folder(lib) / "c.txt")
    report = world.ingest(str(folder(lib)))
    assert (report.moved, report.ingested) == ([], ["c.txt"])
    assert listed(world) == {1: "a.txt", 2: "c.txt"}


def test_file_of_the_same_name_is_preferred_as_moved(lib: LibraryFixture) -> None:
    world = ingested(lib, a__txt=story(9))
    lib.write("aa/copy.txt", story(9))
    lib.write("z/a.txt", story(9))
    lib.write("z/b.txt", story(9))
    os.remove(folder(lib) / "a.txt")
    report = world.ingest(str(folder(lib)), prune=True)
    assert [moved.after for moved in report.moved] == ["files/z/a.txt"]
    assert len(world.documents.list()) == 3


def test_copy_beside_its_original_is_a_new_document(lib: LibraryFixture) -> None:
    world = ingested(lib, a__txt=story(9), gone__txt=story(9, "garden"))
    lib.write("copy.txt", story(9))
    os.remove(folder(lib) / "gone.txt")
    report = world.ingest(str(folder(lib)), prune=True)
    assert (report.moved, report.ingested) == ([], ["copy.txt"])
    assert report.removed == ["files/gone.txt"]


def test_moved_file_with_another_ending_is_a_new_revision(lib: LibraryFixture) -> None:
    world = ingested(lib, a__txt="# Lamps\n\nThe lamp is red. It hangs low.")
    number = only(world).number
    os.rename(folder(lib) / "a.txt", folder(lib) / "a.md")
    report = world.ingest(str(folder(lib)), prune=True)
    assert (report.ingested, len(report.moved)) == (["a.md"], 1)
    assert (only(world).number, only(world).title) == (number, "Lamps")
    assert world.ingest(str(folder(lib)), prune=True).unchanged == 1


def test_images_move_with_their_document(tmp_path: Path) -> None:
    flags = FigureFlags(extract_images=True, placeholders=True, chunks=True)
    lib = make_library(tmp_path, preparation=Preparation(figures=flags))
    picture = '<img alt="A lamp" src="data:image/png;base64,iVBORw0KGgo=">'
    world = ingested(lib, a__html=f"<p>Before it.</p>{picture}<p>After it.</p>")
    before = only(world)
    os.rename(folder(lib) / "a.html", folder(lib) / "b.html")

    world.ingest(str(folder(lib)), prune=True)

    after = only(world)
    assert after.number == before.number
    assert f"[FIGURE:{after.doc_id}-fig-001]" in world.documents.text(after.number)
    assert os.listdir(tmp_path / "assets") == [after.doc_id]


def test_erased_document_leaves_none_of_its_earlier_names(lib: LibraryFixture) -> None:
    world = ingested(lib, secret_plan__txt=story(9))
    world.ingest(str(folder(lib) / "secret_plan.txt"))
    earlier = only(world)
    os.rename(folder(lib) / "secret_plan.txt", folder(lib) / "plain.txt")
    world.ingest(str(folder(lib)), prune=True)
    os.remove(folder(lib) / "plain.txt")

    world.documents.delete("plain.txt")

    rows = lib.sql("SELECT doc_id || name FROM job_documents")
    rows += lib.sql("SELECT line FROM job_lines") + lib.sql("SELECT request FROM jobs")
    kept = "\n".join(str(row[0]) for row in rows)
    assert "secret" not in kept
    assert earlier.doc_id not in kept


def test_renamed_archive_keeps_the_documents_inside(lib: LibraryFixture, world: World) -> None:
    folder(lib).mkdir()
    with ZipFile(folder(lib) / "a.zip", "w") as archive:
        archive.writestr("one.txt", story(5))
        archive.writestr("deep/two.txt", story(5, "garden"))
    world.ingest(str(folder(lib)))
    os.rename(folder(lib) / "a.zip", folder(lib) / "b.zip")

    report = world.ingest(str(folder(lib)), prune=True)

    assert sorted(moved.after for moved in report.moved) == [
        "files/b.zip/deep/two.txt",
        "files/b.zip/one.txt",
    ]
    assert (report.ingested, report.removed, report.unchanged) == ([], [], 2)
    paths = {document.path for document in world.documents.list()}
    assert paths == {str(folder(lib) / "b.zip" / name) for name in ("one.txt", "deep/two.txt")}
    assert world.ingest(str(folder(lib)), prune=True).unchanged == 2
