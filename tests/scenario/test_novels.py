"""Novels as plain text: they become books, keep their kind, and are read by chapter."""

import json
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.novels import PROSE, make_text
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.types.request import Defaults

CHAPTERS = ["CHAPTER I", "CHAPTER II", "CHAPTER III"]
NOVEL = make_text(["PART I", *CHAPTERS, "PART II", *CHAPTERS, "EPILOGUE"])
REPORT = make_text(
    CHAPTERS, PROSE.replace("six", "6").replace("thirty", "30") * 2 + "1. 2. 3. " * 40
)


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path / "library")


def write(tmp_path: Path, text: str, name: str = "novel.txt") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def kind_of(world: World, name: str = "novel.txt") -> str:
    return world.documents.get(name).kind


@proves("reading.novels")
def test_novel_becomes_a_book_and_the_report_says_so(lib: LibraryFixture, tmp_path: Path) -> None:
    world = lib.library.create_world("world", defaults="recommended")

    report = world.ingest(write(tmp_path, NOVEL))

    assert kind_of(world) == "book"
    assert world.documents.get("novel.txt").chunking == "sentences"
    (said,) = report.warnings
    assert said.startswith("novel.txt: Ingested as a book")
    assert any("Ingested as a book" in line.line for line in world.jobs.lines(report.job))
    again = world.ingest(write(tmp_path, NOVEL))
    assert (again.unchanged, again.warnings) == (1, [])


@proves("reading.novels")
def test_chapters_without_a_story_are_reported(lib: LibraryFixture, tmp_path: Path) -> None:
    world = lib.library.create_world("world", defaults="recommended")

    report = world.ingest(write(tmp_path, make_text(CHAPTERS, PROSE)))

    assert kind_of(world) == "document"
    assert "If it is read from front to back" in report.warnings[0]


@proves("reading.novels")
def test_declared_kind_applies_without_a_remark(lib: LibraryFixture, tmp_path: Path) -> None:
    world = lib.library.create_world("world", defaults="recommended")

    report = world.ingest(write(tmp_path, NOVEL), kind="document")

    assert kind_of(world) == "document"
    assert not report.warnings
    world.ingest(write(tmp_path, NOVEL), kind="book")
    assert kind_of(world) == "book"


@proves("reading.novels")
def test_contract_world_treats_every_text_as_a_document(lib: LibraryFixture, tmp_path: Path):
    world = lib.library.create_world("world", defaults=Defaults.CONTRACT)

    report = world.ingest(write(tmp_path, NOVEL))

    assert kind_of(world) == "document"
    assert world.documents.get("novel.txt").chunking == "window"
    assert not report.warnings


@proves("reading.novels")
def test_text_keeps_its_kind_when_its_content_changes(lib: LibraryFixture, tmp_path: Path):
    manifest = tmp_path / "list.jsonl"
    manifest.write_text(json.dumps({"path": "*.txt"}), encoding="utf-8")
    world, listed = (
        lib.library.create_world("world", defaults="recommended"),
        lib.library.create_world("listed", defaults="recommended"),
    )
    for first, second, kind in ((NOVEL, REPORT, "book"), (REPORT, NOVEL, "document")):
        name = f"{kind}.txt"
        path = write(tmp_path, first, name)
        world.ingest(path)
        listed.ingest(manifest=str(manifest))
        assert kind_of(world, name) == kind_of(listed, name) == kind

        write(tmp_path, second, name)
        assert not world.ingest(path).warnings
        assert not listed.ingest(manifest=str(manifest)).warnings
        assert kind_of(world, name) == kind_of(listed, name) == kind
        assert listed.ingest(manifest=str(manifest)).unchanged


@proves("reading.chapters-by-name")
def test_reader_names_parts_and_chapters(lib: LibraryFixture, tmp_path: Path) -> None:
    world = lib.library.create_world("world", defaults="recommended")
    world.ingest(write(tmp_path, NOVEL))
    ada = world.reader("ada")

    def through(chapter: str) -> str | None:
        return ada.set_position("novel.txt", through_chapter=chapter).chapter

    assert through("chapter ii") == "PART I, CHAPTER II"
    assert through("chapter ii") == "PART I, CHAPTER II"
    assert through("PART I") == "PART I, CHAPTER III"
    assert through("chapter i") == "PART II, CHAPTER I"
    assert through("3") == "PART II, CHAPTER III"
    assert through("part 1, chapter 1") == "PART I, CHAPTER I"
    assert through("part two") == "PART II, CHAPTER III"
    assert through("epilogue") == "EPILOGUE"
    with pytest.raises(InvalidArgument, match="'PART I, CHAPTER II', 'PART II, CHAPTER II'"):
        through("chapter ii")


@proves("reading.chapters-by-name")
def test_damaged_position_can_be_set_by_chapter(lib: LibraryFixture, tmp_path: Path) -> None:
    world = lib.library.create_world("world", defaults="recommended")
    world.ingest(write(tmp_path, NOVEL))
    world.reader("ada").set_position("novel.txt", through_chapter="chapter i")
    lib.sql("UPDATE positions SET sid = sid + 1")

    assert world.reader("ada").set_position("novel.txt", through_chapter="chapter ii").chapter
