"""Parse options: by setting, for an ingestion and for a line of a manifest."""

import json
from pathlib import Path

import pytest

from tests.support.sheet_maker import rows, sheet, xlsx
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.files.sources import FileSources
from truespan.ingest.draft import Preparation
from truespan.ingest.requests import IngestRequest
from truespan.parsing import supported
from truespan.types.source import DocumentOptions, IngestOptions

pytestmark = pytest.mark.needs_extension

BOOK = xlsx(
    {"Open": sheet(rows([["City"], ["Oslo"]])), "Closed": sheet(rows([["Wage"], ["900"]]))},
    states={"Closed": "hidden"},
)


def write(folder: Path, **files: bytes) -> str:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return str(folder)


def text_of(world: World, name: str) -> str:
    return world.documents.text(name)


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path / "library")


def test_parse_options_of_an_ingestion_override_the_settings(lib: LibraryFixture, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    path = write(folder, book__xlsx=BOOK, plain__txt=b"The keeper wrote.")
    world = lib.library.create_world("world")

    world.ingest(path)
    assert "900" not in text_of(world, "book.xlsx")

    assert world.ingest(path, hidden_sheets=True).ingested == ["book.xlsx"]
    assert "900" in text_of(world, "book.xlsx")
    assert world.ingest(path, hidden_sheets=True).unchanged == 2

    # Without a declared option, the settings apply.
    assert world.ingest(path).ingested == ["book.xlsx"]
    assert "900" not in text_of(world, "book.xlsx")


def test_parse_options_of_a_manifest_line_override_the_settings(tmp_path: Path) -> None:
    lib = make_library(tmp_path / "library", preparation=Preparation(hidden_sheets=True))
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder, a__xlsx=BOOK, b__xlsx=BOOK)
    lines = [{"path": "a.xlsx"}, {"path": "b.xlsx", "hidden_sheets": False}]
    manifest = folder / "list.jsonl"
    manifest.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    world = lib.library.create_world("world")

    world.ingest(manifest=str(manifest))

    assert "900" in text_of(world, "a.xlsx")
    assert "900" not in text_of(world, "b.xlsx")


def test_ocr_without_the_extra_is_refused_before_reading(lib: LibraryFixture, tmp_path: Path):
    path = write(tmp_path, plain__txt=b"The keeper wrote.")
    world = lib.library.create_world("world")
    with pytest.raises(InvalidArgument, match="extra 'ocr'"):
        world.ingest(path, ocr=True)
    with pytest.raises(InvalidArgument, match="ocr must be true or false"):
        world.ingest(path, ocr="yes")  # pyright: ignore[reportArgumentType]
    assert not world.documents.list()


def test_images_are_sources_only_with_ocr(tmp_path: Path) -> None:
    folder = write(tmp_path, scan__png=b"\x89PNG", plain__txt=b"The keeper wrote.")
    files = FileSources(supported)

    def found(ocr: bool | None) -> list[str]:
        return sorted(source.name for source in files.find([folder], DocumentOptions(ocr=ocr)))

    assert found(None) == found(False) == ["plain.txt"]
    assert found(True) == ["plain.txt", "scan.png"]


def test_parse_options_survive_a_job_request() -> None:
    options = IngestOptions.from_arguments(ocr=True, hidden_sheets=False, running_heads=True)
    request = IngestRequest(("/a",), options=options)
    assert IngestRequest.from_json(request.to_json()) == request
