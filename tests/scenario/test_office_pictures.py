"""Slides, sheets and texts of word processors as they look, drawn by LibreOffice."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.odf_maker import flat, p
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import ImageNotFound, OfficeMissing, SourceBroken, SourceRefused
from truespan.parsing.sandbox.confined import can_confine
from truespan.parsing.sandbox.office import OfficeConverter
from truespan.types.source import Upload
from truespan.wire.serialize import to_json

FIXTURES = Path(__file__).parents[1] / "fixtures"
PROGRAM = "soffice"
needs_office = pytest.mark.skipif(
    shutil.which(PROGRAM) is None or not can_confine(),
    reason="LibreOffice is not installed, or this system cannot confine it",
)

needs_confinement = pytest.mark.skipif(
    not can_confine() or not Path("/usr/bin/python3").exists(),
    reason="this system cannot confine a program, or has no system Python",
)


class OneConversion:
    """A converter that gives one PDF file for every document, and counts its calls."""

    def __init__(self, pdf: bytes | None) -> None:
        self.pdf, self.calls = pdf, 0

    def to_pdf(self, name: str, data: bytes) -> bytes:
        self.calls += 1
        if self.pdf is None:
            raise SourceBroken(name)
        return self.pdf


def world_of(lib: LibraryFixture, *names: str) -> World:
    world = lib.library.create_world("world")
    world.ingest_uploads([Upload(name, (FIXTURES / name).read_bytes()) for name in names])
    return world


def sentence_with(world: World, name: str, words: str) -> int:
    return next(one.sid for one in world.documents.sentences(name).sentences if words in one.text)


@needs_office
@proves("pictures.office")
def test_slides_and_sheets_are_drawn_with_boxes(tmp_path: Path) -> None:
    lib = make_library(tmp_path, office=OfficeConverter(PROGRAM))
    world = world_of(lib, "libreoffice.pptx", "libreoffice.xlsx", "libreoffice.docx")

    slide = sentence_with(world, "libreoffice.pptx", "the storm of 1903")
    row = sentence_with(world, "libreoffice.xlsx", "Maria Grazia")
    told = sentence_with(world, "libreoffice.docx", "None of this is difficult")
    for name, sid, page in (
        ("libreoffice.pptx", slide, 3),
        ("libreoffice.xlsx", row, 1),
        ("libreoffice.docx", told, 1),
    ):
        drawn = world.documents.picture(name, sentence=sid)
        assert (drawn.page, drawn.media_type, drawn.partial) == (page, "image/png", False)
        assert sid in {mark.sid for mark in drawn.sentences}
    first = world.documents.picture("libreoffice.pptx", 1)
    assert [mark.sid for mark in first.sentences] == [0, 1, 2, 3]
    with pytest.raises(ImageNotFound):
        world.documents.picture("libreoffice.pptx", 4)


@needs_office
@proves("pictures.office")
def test_conversion_reads_no_other_file_and_leaves_none(tmp_path: Path) -> None:
    """A section that is linked to a file of the machine keeps its own text."""
    secret = tmp_path / "secret.txt"
    secret.write_text("The password of the harbour is zinnober.")
    linked = (
        '<text:section text:name="s"><text:section-source xmlns:xlink='
        f'"http://www.w3.org/1999/xlink" xlink:href="{secret.as_uri()}"/>{p("Nothing.")}'
        "</text:section>"
    )
    before = {*Path("/tmp").glob("OSL_PIPE*"), *Path("/tmp").glob("truespan-office-*")}

    kind = 'office:mimetype="application/vnd.oasis.opendocument.text" office:version="1.2"'
    data = flat(p("It begins.") + linked)
    data = data.replace(
        b"<office:document", b'<?xml version="1.0"?><office:document ' + kind.encode()
    )

    pdf = OfficeConverter(PROGRAM).to_pdf("a.fodt", data)

    assert "zinnober" not in _text_of(pdf)
    assert _text_of(pdf).split() == ["It", "begins.", "Nothing."]
    after = {*Path("/tmp").glob("OSL_PIPE*"), *Path("/tmp").glob("truespan-office-*")}
    assert after <= before


@needs_confinement
@proves("pictures.office")
def test_confined_program_sees_its_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("zinnober")
    tries = (
        "open('own.txt', 'w').write('x')",
        "open('../secret.txt')",
        "open('../other.txt', 'w')",
        "__import__('os').listdir('/')",
        "open('/etc/passwd')",
        "__import__('socket').socket()",
        "__import__('socket').socket(__import__('socket').AF_INET6)",
        "bytearray(1 << 30)",
    )

    codes = [_run_confined(folder, code) for code in tries]

    assert codes == [0, 1, 1, 1, 1, 1, 1, 1]


@needs_office
@proves("pictures.office")
def test_conversion_ends_at_its_time_limit(tmp_path: Path) -> None:
    data = (FIXTURES / "libreoffice.docx").read_bytes()
    began = time.monotonic()

    with pytest.raises(SourceRefused):
        OfficeConverter(PROGRAM, seconds=0.5).to_pdf("a.docx", data)

    assert time.monotonic() - began < 20


@proves("pictures.office")
def test_readers_get_no_page_of_an_office_document(tmp_path: Path) -> None:
    """Text that follows may move the text before it, so no page can be decided."""
    office = OneConversion((FIXTURES / "libreoffice.pdf").read_bytes())
    lib = make_library(tmp_path, office=office)
    world = lib.library.create_world("world")
    data = (FIXTURES / "libreoffice.docx").read_bytes()
    world.ingest_uploads([Upload("book.docx", data)], kind="book")
    reader = world.reader("ada")
    assert world.documents.picture("book.docx", 1).sentences

    for position in (-1, 0, 9):
        reader.set_position("book.docx", sentence=position)
        with pytest.raises(ImageNotFound):
            reader.picture(1)


@proves("pictures.office")
def test_document_is_converted_once_and_removed_with_it(tmp_path: Path) -> None:
    office = OneConversion((FIXTURES / "libreoffice.pdf").read_bytes())
    lib = make_library(tmp_path, office=office)
    world = world_of(lib, "libreoffice.docx")

    pages = [world.documents.picture("libreoffice.docx", page) for page in (1, 2, 1)]

    assert office.calls == 1
    assert to_json(pages[0]) == to_json(pages[2])
    assert pages[0].sentences[0].sid == 0
    assert pages[1].sentences[-1].sid > pages[0].sentences[-1].sid
    world.documents.delete("libreoffice.docx")
    assert not [path for path in (lib.folder / "pictures").rglob("*") if path.is_file()]


@proves("pictures.office")
def test_failed_conversion_is_not_repeated(tmp_path: Path) -> None:
    office = OneConversion(None)
    world = world_of(make_library(tmp_path, office=office), "libreoffice.docx")

    for _ in range(2):
        with pytest.raises(ImageNotFound):
            world.documents.picture("libreoffice.docx")
    assert office.calls == 1


@proves("pictures.office")
@pytest.mark.parametrize("office", [None, OfficeConverter("no-such-program")])
def test_missing_program_is_named(tmp_path: Path, office: OfficeConverter | None) -> None:
    world = world_of(make_library(tmp_path, office=office), "libreoffice.docx")

    with pytest.raises(OfficeMissing, match="LibreOffice"):
        world.documents.picture("libreoffice.docx")


@proves("pictures.kept-and-removed")
def test_document_deleted_while_drawn_leaves_nothing(tmp_path: Path) -> None:
    class Deleting(OneConversion):
        def to_pdf(self, name: str, data: bytes) -> bytes:
            lib.library.world("world").documents.delete("libreoffice.docx")
            return super().to_pdf(name, data)

    lib = make_library(tmp_path, office=Deleting((FIXTURES / "libreoffice.pdf").read_bytes()))
    world = world_of(lib, "libreoffice.docx")

    with pytest.raises(Exception, match=r"There is no|changed"):
        world.documents.picture("libreoffice.docx")
    assert not [path for path in (lib.folder / "pictures").rglob("*") if path.is_file()]


def _run_confined(folder: Path, code: str) -> int:
    limits = (str(512 << 20), "20", str(1 << 20))
    confined = (sys.executable, "-P", "-m", "truespan.parsing.sandbox.confined", *limits)
    command = [*confined, str(folder), "/usr/bin/python3", "-c", code]
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode


def _text_of(pdf: bytes) -> str:
    import pypdfium2

    document = pypdfium2.PdfDocument(pdf)
    return "".join(page.get_textpage().get_text_range() for page in document)
