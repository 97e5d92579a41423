"""Manifests: validated as a whole, confined to their folder, planned, and synchronized."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.sample_texts import assert_settled, story
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.files.sources import FileSources
from truespan.ingest.plan import DocumentOutcome
from truespan.parsing import supported
from truespan.types.document import Document
from truespan.types.source import Source

WRITES = {"stage", "keep_vectors", "mark_embedded", "activate", "purge", "tombstone", "add"}


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path, watched=True)


def manifest(lib: LibraryFixture, *lines: str | dict[str, Any], name: str = "library.jsonl") -> str:
    """Write a manifest beside the files; a text is a path."""
    spelled = [json.dumps({"path": line} if isinstance(line, str) else line) for line in lines]
    return lib.write(name, "\n".join(spelled))


def names(world: World) -> list[str]:
    return sorted(document.name for document in world.documents.list())


def new_world(lib: LibraryFixture, **files: str) -> World:
    """Create an empty world, and files that are not ingested yet."""
    for name, text in files.items():
        lib.write(name.replace("__", "."), text)
    return lib.library.create_world("world")


# What is ingested


@proves("manifest.lines")
def test_each_line_becomes_a_document_with_its_declarations(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(3), b__txt=story(30, "garden"), c__png="no text")
    path = manifest(
        lib,
        {
            "path": "a.txt", "doc_id": "harbour", "title": "The Harbour", "tags": ["sea", "night"],
            "lang": "de", "version": "2.0", "metadata": {"shelf": 3},
            "source_url": "https://example.org/harbour",
        },
        {"path": "b.*", "profile": "sentences", "kind": "book"},
        "gone/*.txt",
    )  # fmt: skip

    report = world.ingest(manifest=path)

    assert (sorted(report.ingested), report.failures) == (["a.txt", "b.txt"], [])
    assert report.unmatched == ("line 3: gone/*.txt",)
    harbour, garden = world.documents.get("harbour"), world.documents.get("b.txt")
    assert (harbour.title, harbour.tags) == ("The Harbour", ("night", "sea"))
    assert (harbour.language, harbour.version) == ("de", "2.0")
    assert (harbour.metadata, harbour.source_url) == ('{"shelf":3}', "https://example.org/harbour")
    assert (garden.kind, garden.chunking) == ("book", "sentences")
    assert harbour.origin == garden.origin == os.path.realpath(path)
    assert_settled(lib, world)


@proves("manifest.lines")
def test_one_bad_line_stops_the_whole_manifest(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(3), b__txt=story(3, "garden"))
    path = manifest(lib, "a.txt", "", {"path": "b.txt", "profile": "bge-small-en-v1.5"})
    lib.journal.clear()
    with raises_code("manifest_invalid", match="line 3: profile"):
        world.ingest(manifest=path)
    assert world.documents.list() == []
    assert lib.embedder.calls == 0
    assert not [call for call in lib.journal if call.split(".")[-1] in WRITES]


@proves("manifest.inside-root")
def test_line_outside_the_folder_stops_the_whole_manifest(lib: LibraryFixture, tmp_path: Path):
    world = new_world(lib, a__txt=story(3))
    (tmp_path / "secret.txt").write_text("This was never meant to be read.")
    (lib.folder / "files" / "link.txt").symlink_to(tmp_path / "secret.txt")
    for line in ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "*.txt", "a\0.txt"):
        with raises_code("manifest_invalid", match="line 2"):
            world.ingest(manifest=manifest(lib, "a.txt", line))
    assert world.documents.list() == []
    assert lib.embedder.calls == 0


@proves("manifest.inside-root")
def test_file_swapped_for_a_link_while_embedding_is_refused(lib: LibraryFixture, tmp_path: Path):
    world = new_world(lib, a__txt=story(3))
    (tmp_path / "secret.txt").write_text("This was never meant to be read.")
    victim = Path(lib.write("b.txt", story(3, "garden")))
    path = manifest(lib, "a.txt", "b.txt")

    class Raced(FileSources):
        def read(self, source: Source) -> bytes:
            if source.name == "b.txt":
                victim.unlink()
                victim.symlink_to(tmp_path / "secret.txt")
            return super().read(source)

    parts = replace(lib.library._components, sources=Raced(supported))
    report = Library(parts).world("world").ingest(manifest=path)

    assert report.ingested == ["a.txt"]
    assert [(failure.name, failure.code) for failure in report.failures] == [
        ("b.txt", "source_unreadable")
    ]
    assert names(world) == ["a.txt"]


def test_highest_priority_is_embedded_first(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt="Alpha waits.", b__txt="Beta waits.", c__txt="Gamma hurries.")
    world.ingest(manifest=manifest(lib, "a.txt", "b.txt", {"path": "c.txt", "priority": 9}))
    order = sorted(world.documents.list(), key=lambda document: document.number)
    assert [document.name for document in order] == ["c.txt", "a.txt", "b.txt"]


def test_repeated_manifest_changes_nothing(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(3), b__txt=story(3, "garden"))
    path = manifest(lib, {"path": "*.txt", "tags": ["x"]})
    world.ingest(manifest=path)
    asked = lib.embedder.calls
    report = world.ingest(manifest=path, prune=True)
    assert (report.unchanged, report.ingested, report.removed) == (2, [], [])
    assert lib.embedder.calls == asked


# What a sync removes


def test_prune_announces_and_removes_unlisted_documents(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(3), b__txt=story(3, "garden"), c__txt=story(3, "tower"))
    world.ingest(manifest=manifest(lib, "a.txt", "b.txt"))
    world.ingest(str(lib.folder / "files" / "c.txt"))
    told: list[tuple[list[str], list[str]]] = []

    def hear(doomed: Any) -> None:
        told.append(([document.name for document in doomed], names(world)))

    report = world.ingest(manifest=manifest(lib, "a.txt"), prune=True, on_prune=hear)

    assert told == [(["b.txt"], ["a.txt", "b.txt", "c.txt"])]
    assert report.removed == ["files/b.txt"]
    assert names(world) == ["a.txt", "c.txt"]
    assert_settled(lib, world)


def test_folder_sync_removes_missing_files_of_that_folder_only(lib: LibraryFixture) -> None:
    world = new_world(lib)
    kept, gone = lib.write("in/a.txt", story(3)), lib.write("in/b.txt", story(3, "garden"))
    world.ingest([kept, gone, lib.write("out/c.txt", story(3, "tower"))])
    os.unlink(gone)
    os.unlink(lib.folder / "files" / "out" / "c.txt")
    assert world.ingest(str(lib.folder / "files" / "in"), prune=True).removed == ["in/b.txt"]
    assert names(world) == ["a.txt", "c.txt"]
    assert_settled(lib, world)


def test_missing_or_empty_root_removes_nothing(lib: LibraryFixture) -> None:
    world = new_world(lib)
    folder = lib.folder / "files" / "disk"
    world.ingest(lib.write("disk/a.txt", story(3)))
    os.unlink(folder / "a.txt")

    with pytest.raises(InvalidArgument, match="No file was found"):
        world.ingest(str(folder), prune=True)
    folder.rename(folder.with_name("unmounted"))
    with raises_code("source_missing"):
        world.ingest(str(folder), prune=True, allow_empty=True)
    assert names(world) == ["a.txt"]

    folder.mkdir()
    world.ingest(str(folder), prune=True, allow_empty=True)
    assert names(world) == []


def test_bad_manifest_removes_nothing(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(3))
    world.ingest(manifest=manifest(lib, "a.txt"))
    with raises_code("manifest_invalid"):
        world.ingest(manifest=manifest(lib, "../a.txt"), prune=True, allow_empty=True)
    assert names(world) == ["a.txt"]


# What a run would do


def test_dry_run_plans_and_writes_nothing(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(60), b__txt=story(3, "garden"), c__txt=story(3, "tower"))
    world.ingest(manifest=manifest(lib, "a.txt", "b.txt", "c.txt"))
    asked, documents = lib.embedder.calls, world.documents.list()
    lib.write("b.txt", story(3, "orchard"))
    lib.write("new.txt", f"{story(60)} {story(40, 'cellar')}")
    lib.write("empty.txt", " ")
    path = manifest(lib, "a.txt", "b.txt", "new.txt", "empty.txt", "gone.txt")
    lib.journal.clear()

    plan = world.documents.plan(manifest=path, prune=True)

    assert {row.name: row.outcome for row in plan.rows} == {
        "a.txt": DocumentOutcome.UNCHANGED, "b.txt": DocumentOutcome.CHANGED,
        "new.txt": DocumentOutcome.NEW, "empty.txt": DocumentOutcome.FAILED,
    }  # fmt: skip
    assert [document.name for document in plan.removed] == ["c.txt"]
    assert plan.unmatched == ("line 5: gone.txt",)
    assert lib.embedder.calls == asked
    assert world.documents.list() == documents
    assert not [call for call in lib.journal if call.split(".")[-1] in WRITES]


def test_run_has_the_effects_of_the_dry_run(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(60), b__txt=story(3, "garden"))
    world.ingest(manifest=manifest(lib, "a.txt", "b.txt"))
    lib.write("b.txt", story(30, "orchard"))
    lib.write("new.txt", f"{story(60)} {story(40, 'cellar')}")
    path = manifest(lib, "a.txt", "b.txt", "new.txt")

    plan = world.documents.plan(manifest=path)
    asked = len(lib.embedder.documents)
    report = world.ingest(manifest=path)

    assert report.chunks == plan.chunks
    assert report.embedded == plan.to_embed == len(lib.embedder.documents) - asked
    assert 0 < plan.to_embed < plan.chunks
    assert (plan.count(DocumentOutcome.NEW), plan.count(DocumentOutcome.CHANGED)) == (1, 1)
    assert plan.requests > 0


def test_documents_record_the_last_manifest_that_named_them(lib: LibraryFixture) -> None:
    world = new_world(lib, a__txt=story(3))
    path = str(lib.folder / "files" / "a.txt")
    origins: list[str] = []

    def origin() -> str:
        [document] = world.documents.list()
        assert isinstance(document, Document)
        return document.origin

    world.ingest(path)
    origins.append(origin())
    world.ingest(manifest=manifest(lib, "a.txt"))
    origins.append(origin())

    assert origins == ["", str(Path(os.path.realpath(path)).with_name("library.jsonl"))]
