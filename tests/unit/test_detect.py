"""Format detection by content and by name."""

import pytest

from tests.support.failures import raises_code
from tests.support.formats import format_name
from truespan.parsing import detect, load, supported
from truespan.parsing.detect import known_format
from truespan.parsing.formats import formats_by_ending

pytestmark = pytest.mark.needs_extension

EPUB = b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/epub+zip" + b"..."
DOCX = b"PK\x03\x04" + b"..[Content_Types].xml..word/document.xml.."
PPTX = b"PK\x03\x04" + b"..[Content_Types].xml..ppt/presentation.xml.."
ODT = b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.text..."
XLSX = b"PK\x03\x04" + b"..[Content_Types].xml..xl/workbook.xml.."
XLSB = b"PK\x03\x04" + b"..[Content_Types].xml..xl/workbook.bin.."
ODS = b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet.."
ZIP = b"PK\x03\x04 something else"
PDF = b"%PDF-1.7\n"
PAGE = b"\xef\xbb\xbf <!-- saved --> <!DOCTYPE html><html>"


def compound(*streams: str) -> bytes:
    """Return an old Office file with streams of these names and nothing in them."""
    names = [f"{name}\0".encode("utf-16-le") for name in ("Root Entry", *streams)]
    entries = b"".join(
        name.ljust(64, b"\0") + len(name).to_bytes(2, "little") + bytes(62) for name in names
    )
    sectors = [entries[at : at + 512].ljust(512, b"\0") for at in range(0, len(entries), 512)]
    # The first sector is the allocation table, which says where the directory goes on.
    chain = [0xFFFFFFFD, *range(2, len(sectors) + 1), 0xFFFFFFFE]
    table = b"".join(number.to_bytes(4, "little") for number in chain).ljust(512, b"\xff")
    head = b"\xd0\xcf\x11\xe0" + bytes(26) + (9).to_bytes(2, "little") + bytes(16)
    head += (1).to_bytes(4, "little") + bytes(24) + bytes(4)
    return head.ljust(512, b"\xff") + table + b"".join(sectors)


@pytest.mark.parametrize(("name", "data", "expected"), [
    ("a.txt", b"plain", "text"), ("a.md", b"# plain", "markdown"), ("a.txt", PAGE, "html"),
    ("a", PAGE, "html"), ("a.md", PAGE, "markdown"), ("a.html", b"no tags at all", "html"),
    ("a.txt", b"We speak of %PDF-1.4 and of <html> here.", "text"),
    ("a.md", b"We speak of %PDF-1.4 here.", "markdown"), ("a.txt", PDF, "pdf"),
    ("a.docx", PDF, "pdf"), ("a.pdf", b"junk before\n" + PDF, "pdf"), ("a.pdf", b"no mark", "pdf"),
    ("book.zip", EPUB, "epub"), ("a.docx", EPUB, "epub"), ("a.bin", DOCX, "docx"),
    ("a.epub", DOCX, "docx"), ("a.docx", ZIP, "docx"), ("a.epub", ZIP, "epub"),
    ("a.pdf", ZIP, None), ("a.zip", ZIP, "zip"), ("a.bin", ZIP, None),
    ("a.jpg", b"\xff\xd8\xff", "image"), ("a.docx", b"\xd0\xcf\x11\xe0", None),
    ("a.DOCX", DOCX, "docx"), ("a.bin", PPTX, "pptx"), ("a.pptm", ZIP, "pptx"),
    ("a.bin", ODT, "odt"), ("a.zip", ODT.replace(b".text", b".presentation"), "odp"),
    ("a.ott", ZIP, "odt"), ("a.fodt", b"<?xml", "odt"), ("a.doc", b"{\\rtf1 x}", "rtf"),
    ("a.rtf", b"no mark", "rtf"), ("a.bin", XLSX, "xlsx"), ("a.xlsx", XLSB, "xlsb"),
    ("a.xlsx", ODS, "ods"), ("a.xlsm", ZIP, "xlsx"), ("a.ods", ZIP, "ods"), ("a.xls", PAGE, "html"),
    ("a.bin", compound("Workbook"), "xls"),
    ("a.doc", compound("Other", "Other", "Other", "Other", "BOOK"), "xls"),
    ("a.xls", compound("WordDocument"), None), ("a.doc", compound("Workbook")[:600], None),
    (".txt", b"hidden", None), ("a.ipynb", b'{"cells": []}', "notebook"),
    ("a.Py", b"x = 1", "code"), ("a.eml", b"Subject: x", "email"), ("a.mbox", b"From x", "mailbox"),
    ("a.yaml", PDF, "pdf"),
])  # fmt: skip
def test_format_content_overrules_the_name(name: str, data: bytes, expected: str | None) -> None:
    assert format_name(name, data) == expected


def test_encrypted_office_document_is_reported() -> None:
    data = b"\xd0\xcf\x11\xe0" + bytes(64) + "EncryptedPackage".encode("utf-16-le")
    with raises_code("source_encrypted"):
        load("secret.docx", data)
    with raises_code("source_unsupported"):
        load("old.doc", b"\xd0\xcf\x11\xe0" + bytes(64))
    with raises_code("source_unsupported"):
        load("old.xls", compound("WordDocument"))


def test_epub_is_a_book_under_any_name() -> None:
    assert known_format("a.zip", EPUB).is_book
    assert not known_format("a.docx", DOCX).is_book


def test_formats_with_pictures_are_known() -> None:
    assert known_format("a.docx", DOCX).has_pictures
    assert known_format("a.pptx", PPTX).has_pictures
    assert known_format("a.html", b"<p>").has_pictures
    assert not known_format("a.pdf", PDF).has_pictures
    assert not known_format("a.txt", b"words").has_pictures


@pytest.mark.parametrize("name", [
    "a.docx", "a.epub", "a.pdf", "a.html", "a.htm", "a.xhtml", "a.ipynb", "a.eml", "a.mbox",
    "a.pptx", "a.odt", "a.odp", "a.rtf",
])  # fmt: skip
def test_folders_are_searched_for_every_format(name: str) -> None:
    assert supported(name)


def test_format_check_of_the_first_byte_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    beginnings = [EPUB, DOCX, PPTX, ODT, XLSX, XLSB, ODS, ZIP, PDF, PAGE, compound("Workbook")]
    beginnings += [b"{\\rtf1", b"<html>", b"\x89PNG\r\n\x1a\n", b"", b"GIF8", b"MM\0*"]
    beginnings += [bytes([byte]) + rest for byte in range(256) for rest in (b"", PAGE, PDF)]
    names = [f"a{ending}" for ending in (*formats_by_ending(), "", ".unknown")]
    found = {(name, data): format_name(name, data) for name in names for data in beginnings}
    every_byte = frozenset(bytes([byte]) for byte in range(256))
    monkeypatch.setattr(detect, "_first_bytes", lambda: every_byte | {b""})
    assert {each: format_name(*each) for each in found} == found
