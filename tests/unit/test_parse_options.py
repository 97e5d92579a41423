"""What of a source is read: chosen by setting, and for an ingestion or a manifest line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.sheet_maker import rows, sheet, xlsx
from tests.support.worlds import Place, place
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.files.sources import FileSources
from truespan.ingest.draft import Preparation
from truespan.ingest.requests import IngestRequest
from truespan.parsing import supported
from truespan.types.source import DocumentOptions, IngestOptions

BOOK = xlsx(
    {"Open": sheet(rows([["City"], ["Oslo"]])), "Closed": sheet(rows([["Wage"], ["900"]]))},
    states={"Closed": "hidden"},
)
REPLY = b"From: a@b.example\n\nIt is lit.\n\n> Is the lamp lit?\n"


def write(folder: Path, **files: bytes) -> str:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return str(folder)


def text_of(world: World, name: str) -> str:
    return world.documents.text(name)


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path / "library")


def test_hidden_sheets_and_quotes_are_read_as_an_ingestion_says(
    here: Place, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    path = write(folder, book__xlsx=BOOK, reply__eml=REPLY, plain__txt=b"The keeper wrote.")
    world = here.library.create_world("world")

    world.ingest(path)
    assert "900" not in text_of(world, "book.xlsx")
    assert "Is the lamp lit?" in text_of(world, "reply.eml")

    report = world.ingest(path, hidden_sheets=True, mail_quotes=False)
    assert sorted(report.ingested) == ["book.xlsx", "reply.eml"]
    assert "900" in text_of(world, "book.xlsx")
    assert "Is the lamp lit?" not in text_of(world, "reply.eml")
    assert world.ingest(path, hidden_sheets=True, mail_quotes=False).unchanged == 3

    # Without a choice, the settings count.
    assert len(world.ingest(path).ingested) == 2
    assert "900" not in text_of(world, "book.xlsx")


def test_settings_say_what_is_read_and_a_line_of_a_manifest_says_otherwise(tmp_path: Path) -> None:
    here = place(tmp_path / "library", preparation=Preparation(hidden_sheets=True))
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder, a__xlsx=BOOK, b__xlsx=BOOK)
    lines = [{"path": "a.xlsx"}, {"path": "b.xlsx", "hidden_sheets": False}]
    manifest = folder / "list.jsonl"
    manifest.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    world = here.library.create_world("world")

    world.ingest(manifest=str(manifest))

    assert "900" in text_of(world, "a.xlsx")
    assert "900" not in text_of(world, "b.xlsx")


def test_recognition_that_is_not_installed_is_refused_before_anything_is_read(
    here: Place, tmp_path: Path
) -> None:
    path = write(tmp_path, plain__txt=b"The keeper wrote.")
    world = here.library.create_world("world")

    with pytest.raises(InvalidArgument, match=r"truespan\[ocr\]"):
        world.ingest(path, ocr=True)
    with pytest.raises(InvalidArgument, match="ocr must be true or false"):
        world.ingest(path, ocr="yes")  # pyright: ignore[reportArgumentType]
    assert not world.documents.list()


def test_images_are_found_for_recognition_alone(tmp_path: Path) -> None:
    folder = write(tmp_path, scan__png=b"\x89PNG", plain__txt=b"The keeper wrote.")
    files = FileSources(supported)

    def found(ocr: bool | None) -> list[str]:
        return sorted(source.name for source in files.find([folder], DocumentOptions(ocr=ocr)))

    assert found(None) == found(False) == ["plain.txt"]
    assert found(True) == ["plain.txt", "scan.png"]


def test_choices_are_kept_with_a_job() -> None:
    options = IngestOptions.from_arguments(
        ocr=True, hidden_sheets=False, mail_quotes=False, running_heads=True
    )
    request = IngestRequest(("/a",), options=options)

    assert IngestRequest.from_json(request.to_json()) == request
