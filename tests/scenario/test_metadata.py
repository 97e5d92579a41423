"""Metadata is derived after embedding, and a failure there changes nothing else."""

import json
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import StoreDamaged
from truespan.ingest.report import Progress

PAGE = """<html lang="en-GB"><head><title>The harbour book</title>
<meta name="author" content="Ada Lind"><meta name="keywords" content="boats, tides">
<meta name="description" content="About a harbour."></head>
<body><h1>The harbour</h1><h2>Morning</h2><p>The boats came in early. Nobody waved.</p>
<h2>Night</h2><p>The boats went out late. Nobody saw.</p></body></html>"""
TEXT = "\n\n".join(
    f"Lantern light fell on the harbour wall. The keeper counted lantern number {n}."
    for n in range(9)
)


def derived(world: World) -> dict:
    return world.documents.metadata(1)


def kept(lib: LibraryFixture, world: World) -> tuple:
    points = sorted((p.chunk_id, p.vector) for p in lib.points(world).values())
    return (
        world.documents.text("1"),
        points,
        lib.sql("SELECT text, text_hash FROM chunks ORDER BY 1"),
    )


@proves("ingest.metadata-after-embedding")
def test_embedded_properties_of_a_source_become_metadata(lib: LibraryFixture) -> None:
    found = derived(lib.world(book__html=PAGE))

    assert found["title"] == "The harbour"
    assert found["authors"] == ["Ada Lind"]
    assert found["keywords"] == ["boats", "tides"]
    assert found["keywords_from"] == "source"
    assert found["description"] == "About a harbour."
    assert (found["language"], found["language_from"]) == ("en", "declared")
    chapters = [entry["chapter"] for entry in found["outline"]]
    assert chapters == ["The harbour", "Morning", "Night"]


@proves("ingest.metadata-after-embedding")
def test_keywords_are_taken_from_the_text_if_none_are_declared(lib: LibraryFixture) -> None:
    found = derived(lib.world(a__txt=TEXT))

    assert found["keywords_from"] == "text"
    assert "lantern" in [word.casefold() for word in found["keywords"][:2]]
    assert "the" not in [word.casefold() for word in found["keywords"]]


@proves("ingest.metadata-after-embedding")
def test_metadata_is_derived_after_vectors_and_changes_no_text(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=TEXT)

    steps = [step.split("(")[0] for step in lib.journal]

    assert steps.index("store.revisions.keep_derived") > max(
        place
        for place, step in enumerate(steps)
        if step in ("index.upsert", "store.documents.activate")
    )
    assert derived(world)["sentences"] == world.documents.get(1).sentences


@proves("ingest.metadata-after-embedding")
def test_failed_metadata_leaves_text_and_vectors_unchanged(tmp_path: Path) -> None:
    whole = make_library(tmp_path / "whole")
    expected = whole.world(a__txt=TEXT)
    lib = make_library(tmp_path / "broken")
    world = lib.library.create_world("world")
    path = lib.write("world/a.txt", TEXT)

    def spoil(_: Progress) -> None:
        lib.sql("UPDATE revisions SET properties = 'spoilt'")

    report = world.ingest(path, on_progress=spoil)

    assert report.ingested == ["a.txt"]
    assert report.failures == []
    assert len(report.warnings) == 1
    with pytest.raises(StoreDamaged):
        world.documents.metadata(1)
    text, points, rows = kept(lib, world)
    assert (text, rows) == (kept(whole, expected)[0], kept(whole, expected)[2])
    assert [vector for _, vector in points] == [v for _, v in kept(whole, expected)[1]] or len(
        points
    ) == len(kept(whole, expected)[1])
    lib.library.maintenance.apply_plan(lib.library.doctor())
    assert world.ingest(path).ingested == ["a.txt"]
    assert derived(world)["title"] == "a.txt"


@proves("ingest.metadata-after-embedding")
def test_metadata_of_the_caller_wins_and_is_kept(lib: LibraryFixture) -> None:
    lib.write("world/a.txt", TEXT)
    line = {
        "path": "a.txt",
        "metadata": {"authors": ["B"], "shelf": 7},
        "source_url": "https://a.example/x",
    }
    manifest = lib.write("world/library.jsonl", json.dumps(line))
    world = lib.library.create_world("world")

    world.ingest(manifest=manifest)

    assert derived(world)["authors"] == ["B"]
    assert derived(world)["shelf"] == 7
    assert world.documents.get(1).source_url == "https://a.example/x"


@proves("reading.every-surface")
def test_readers_see_no_metadata_derived_from_the_whole_text(lib: LibraryFixture) -> None:
    reader = lib.world(book__html=PAGE).reader("ann")
    reader.set_position("1", sentence=2)

    told = repr((reader.retrieve("boats came in"), reader.books(), reader.position()))

    assert "The harbour book" not in told
    for secret in ("tides", "About a harbour", "Night", "went out late"):
        assert secret not in told
