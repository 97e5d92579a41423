"""Labels and metadata of documents: declaration, precedence and cost."""

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, StoreDamaged
from truespan.types.document import Document
from truespan.types.metadata import read_metadata

TEXT = "The lamp burns in the hut."
URL = "https://wiki.example/lamp"


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    found = make_library(tmp_path)
    yield found
    found.library.close()


def declared(document: Document) -> dict[str, Any]:
    return read_metadata(document.metadata)


def sources(world: World, **wanted: Any) -> set[str]:
    found = world.search("the lamp", floor=0, metadata=wanted).passages
    return {passage.source for passage in found}


@proves("document.labels-cost-nothing")
def test_labels_and_metadata_change_at_once_without_embedding(lib: LibraryFixture) -> None:
    world = lib.world()
    path = lib.write("a.txt", TEXT)
    world.ingest(path, metadata={"team": "a", "due": date(2026, 5, 1)}, source_url=URL)
    first = world.documents.get(1)
    assert (declared(first), first.source_url) == ({"team": "a", "due": "2026-05-01"}, URL)
    calls = len(lib.embedder.documents)

    # Again without any: what was declared stays.
    assert world.ingest(path).unchanged == 1
    assert world.documents.get(1) == first
    assert world.ingest(path, metadata={"team": "b"}, tags=["x"]).unchanged == 1
    assert len(lib.embedder.documents) == calls
    changed = world.documents.get(1)
    assert (declared(changed), changed.tags) == ({"team": "b"}, ("x",))
    assert (changed.active, changed.source_url) == (first.active, URL)
    assert world.documents.metadata(1)["team"] == "b"
    assert sources(world, team="b") == {"a.txt"}
    assert sources(world, team="a") == set()


@proves("document.labels-cost-nothing")
def test_labels_are_updated_without_the_file(lib: LibraryFixture) -> None:
    world = lib.world()
    path = lib.write("a.txt", TEXT)
    world.ingest(path, tags=["x"], metadata={"team": "a", "year": 2020}, version="2.0")
    calls, revision = len(lib.embedder.documents), world.documents.get(1).active
    Path(path).unlink()

    update = world.documents.update
    found = update("a.txt", metadata={"team": None, "open": True}, source_url=URL, language="de")
    assert declared(found) == {"year": 2020, "open": True}
    assert (found.tags, found.version, found.language) == (("x",), "2.0", "de")
    assert found.source_url == URL
    assert world.documents.metadata(1)["open"] is True
    assert sources(world, open=True) == {"a.txt"}
    found = update(1, tags=["y", "y"], version=None, source_url=None, metadata=None)
    assert (found.tags, found.version, found.source_url) == (("y",), "1.0", None)
    assert declared(found) == {}
    assert update(1, tags=None).tags == ()
    assert len(lib.embedder.documents) == calls
    assert found.active == revision
    # The earlier labels stay when the file comes back.
    lib.write("a.txt", TEXT)
    world.ingest(path)
    assert world.documents.get(1).language == "de"

    for changes, reason in (
        ({"metadata": {"x": float("nan")}}, "metadata has nan under 'x'"),
        ({"metadata": "team=a"}, "metadata must be an object"),
        ({"metadata": {"x": "y" * 17_000}}, "more than 16384 bytes"),
        ({"tags": "red"}, "tags must be a list"),
        ({"language": None}, "language must be a string"),
        ({"source_url": "lamp"}, "source_url must be"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            update(1, **changes)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="title"):
        update(1, title="x")  # type: ignore[call-arg]
    with raises_code("document_not_found"):
        update("b.txt", tags=[])


@proves("document.labels-cost-nothing")
def test_damaged_metadata_is_neither_shown_nor_used(lib: LibraryFixture) -> None:
    world = lib.world()
    path = lib.write("a.txt", TEXT)
    world.ingest(path, metadata={"team": "a"})
    lib.sql("""UPDATE revisions SET metadata = '{"team":"z"}'""")
    lib.sql("UPDATE worlds SET changes = changes + 1")

    damaged = world.documents.get(1)
    assert (damaged.metadata, damaged.damaged) == (None, True)
    with pytest.raises(StoreDamaged, match="do not match their checksum"):
        world.documents.update(1, metadata={"year": 1})
    calls = len(lib.embedder.documents)
    world.ingest(path, metadata={"team": "b"})
    mended = world.documents.get(1)
    assert (declared(mended), mended.damaged) == ({"team": "b"}, False)
    assert len(lib.embedder.documents) == calls


@proves("document.labels-cost-nothing")
def test_unchanged_bytes_are_read_again_if_other_values_differ(lib: LibraryFixture) -> None:
    world = lib.world()
    path = lib.write("shelf/a.txt", TEXT)
    folder = Path(path).parent
    listed = folder.parent / "list.jsonl"
    listed.write_text(json.dumps({"path": "shelf/a.txt"}))
    world.ingest(path)
    calls = len(lib.embedder.documents)

    def again(*paths: str, manifest: str | None = None) -> Document:
        report = world.ingest(paths, manifest=manifest)
        assert (report.unchanged, report.ingested) == (1, [])
        assert [entry.state for entry in world.jobs.documents(report.job)] == ["unchanged"]
        return world.documents.get(1)

    first = again(path)
    assert (first.shown_path, first.origin) == ("shelf/a.txt", "")
    # Found below another folder, more of its path is known.
    assert again(str(folder.parent)).shown_path == f"{folder.parent.name}/shelf/a.txt"
    assert again(path).shown_path == f"{folder.parent.name}/shelf/a.txt"
    # Named by a manifest, and no longer.
    assert again(manifest=str(listed)).origin.endswith("list.jsonl")
    assert again(path).origin == ""
    assert len(lib.embedder.documents) == calls

    # A label that was changed behind the library's back is not believed, but written anew.
    lib.sql("UPDATE revisions SET title = 'another'")
    lib.sql("UPDATE worlds SET changes = changes + 1")
    assert world.documents.get(1).damaged
    assert world.ingest(str(folder.parent)).unchanged == 0
    assert not world.documents.get(1).damaged
    assert again(path).title == first.title


@proves("document.labels-cost-nothing")
def test_source_url_belongs_to_one_document(lib: LibraryFixture) -> None:
    world = lib.world()
    paths = [lib.write(name, TEXT) for name in ("a.txt", "b.txt")]
    with pytest.raises(InvalidArgument, match="source_url is the origin of one document, but 2"):
        world.ingest(paths, source_url=URL)
    assert world.documents.list() == []
    for options, reason in (
        ({"metadata": ["a"]}, "metadata must be an object"),
        ({"source_url": "ftp://x/y"}, "source_url must be an http"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            world.ingest(paths[0], **options)  # type: ignore[arg-type]


SIDECAR = """
title = "The Lamp"
tags = ["sea"]
version = "3"
language = "de"
source_url = "https://wiki.example/lamp"

[metadata]
team = "a"
due = 2026-05-01
at = 2026-05-01T10:00:00Z
scores = [1, 2.5]
open = true
"""


@proves("document.sidecar")
def test_sidecar_describes_its_document_and_is_not_a_document(lib: LibraryFixture) -> None:
    world = lib.world()
    path = lib.write("docs/lamp.txt", TEXT)
    lib.write("docs/lamp.txt.meta.toml", SIDECAR)
    lib.write("docs/hut.txt", "The hut is warm.")
    lib.write("docs/hut.txt.meta.json", '{"kind": "book", "metadata": {"team": "b"}}')
    lib.write("docs/alone.txt.meta.toml", "tags = ['x']")
    folder = str(Path(path).parent)

    report = world.ingest(folder)

    assert (sorted(report.ingested), report.failures) == (["hut.txt", "lamp.txt"], [])
    assert report.unsupported == 0
    lamp, hut = (world.documents.get(name) for name in ("lamp.txt", "hut.txt"))
    assert (lamp.title, lamp.tags, lamp.version, lamp.language) == ("The Lamp", ("sea",), "3", "de")
    assert lamp.source_url == URL
    assert declared(lamp) == {
        "team": "a",
        "due": "2026-05-01",
        "at": "2026-05-01T10:00:00+00:00",
        "scores": [1, 2.5],
        "open": True,
    }
    assert (hut.kind, declared(hut)) == ("book", {"team": "b"})

    # A changed sidecar changes labels; a command adds to it by key, and wins.
    calls = len(lib.embedder.documents)
    lib.write("docs/lamp.txt.meta.toml", 'title = "The Lamp"\n[metadata]\nteam = "c"\nyear = 1\n')
    assert world.ingest(folder).unchanged == 2
    assert declared(world.documents.get("lamp.txt")) == {"team": "c", "year": 1}
    assert world.documents.get("lamp.txt").tags == ("sea",)
    world.ingest(folder, metadata={"team": "d", "batch": 7}, tags=["z"])
    lamp, hut = (world.documents.get(name) for name in ("lamp.txt", "hut.txt"))
    assert declared(lamp) == {"team": "d", "year": 1, "batch": 7}
    assert (lamp.tags, declared(hut)) == (("z",), {"team": "d", "batch": 7})
    assert len(lib.embedder.documents) == calls
    # Without a sidecar, the earlier labels stay.
    Path(f"{path}.meta.toml").unlink()
    world.ingest(path)
    assert declared(world.documents.get("lamp.txt")) == {"team": "d", "year": 1, "batch": 7}


@proves("document.sidecar")
def test_sidecar_added_later_labels_an_unchanged_document(lib: LibraryFixture) -> None:
    world = lib.world()
    folder = str(Path(lib.write("docs/lamp.txt", TEXT)).parent)
    world.ingest(folder)
    assert world.ingest(folder).unchanged == 1

    lib.write("docs/lamp.txt.meta.toml", "tags = ['sea']")
    report = world.ingest(folder)

    assert (report.unchanged, report.relabelled) == (1, ["lamp.txt"])
    assert world.documents.get("lamp.txt").tags == ("sea",)


@proves("document.sidecar")
def test_manifest_wins_over_a_sidecar(lib: LibraryFixture) -> None:
    world = lib.world()
    lib.write("lamp.txt", TEXT)
    lib.write("lamp.txt.meta.toml", SIDECAR)
    line = {"path": "*", "version": "4", "metadata": {"team": "m", "when": "2026-01-02"}}

    report = world.ingest(manifest=lib.write("all.jsonl", json.dumps(line)))

    assert (report.ingested, report.unsupported) == (["lamp.txt"], 0)
    lamp = world.documents.get("lamp.txt")
    assert (lamp.version, lamp.tags, lamp.title) == ("4", ("sea",), "The Lamp")
    found = declared(lamp)
    assert (found["team"], found["when"], found["open"]) == ("m", "2026-01-02", True)


@proves("document.sidecar")
def test_faulty_sidecar_is_named_with_its_line_or_field(lib: LibraryFixture) -> None:
    world = lib.world()
    rows: list[tuple[str, str, str]] = [
        ("toml", 'tags = ["x"\nversion = 1', "line 2"),
        ("json", '{\n"tags": x}', "line 2, column"),
        ("json", '{"tags": [], "tags": []}', "'tags' occurs twice"),
        ("json", "[]", "not a JSON object"),
        ("toml", 'team = "a"', "unknown field 'team' (put your own keys under metadata)"),
        ("toml", 'titel = "a"', "did you mean title?"),
        ("toml", "version = 2", "version must be a string"),
        ("toml", 'source_url = "x"', "source_url must be"),
        ("toml", "[metadata]\nx = nan", "metadata has nan under 'x'"),
        ("toml", f"[metadata]\nx = {'9' * 30}", "too large"),
        ("toml", f"x = {'9' * 5000}", "number too long"),
        ("toml", f"x = {'[' * 5000}", "nested too deep"),
        ("toml", '[metadata]\nx = "' + "y" * 17_000 + '"', "more than 16384 bytes"),
        ("toml", "tags = ['\ud800']", "not UTF-8"),
        ("toml", "#" * (1 << 20) + "#", "larger than"),
    ]
    wrong = []
    good = lib.write("good.txt", TEXT)
    for number, (ending, content, reason) in enumerate(rows):
        path = Path(lib.write(f"{number}.txt", f"{TEXT} {number}."))
        sidecar = path.with_name(f"{path.name}.meta.{ending}")
        sidecar.write_bytes(content.encode("utf-8", "surrogatepass"))
        [failure] = world.ingest([str(path), good]).failures
        if reason not in failure.message or not failure.message.startswith(sidecar.name):
            wrong.append((content[:40], failure.message))
    assert wrong == []
    assert [document.name for document in world.documents.list()] == ["good.txt"]

    lib.write("two.txt", TEXT)
    lib.write("two.txt.meta.toml", "")
    path = lib.write("two.txt.meta.json", "{}").removesuffix(".meta.json")
    [failure] = world.ingest(path).failures
    assert "there is two.txt.meta.json too" in failure.message
    # Metadata that are too long only together.
    long = lib.write("long.txt", TEXT)
    lib.write("long.txt.meta.json", json.dumps({"metadata": {"x": "y" * 9_000}}))
    [failure] = world.ingest(long, metadata={"z": "y" * 9_000}).failures
    assert failure.code == "sidecar_invalid"
    assert "more than 16384 bytes, with those declared" in failure.message
