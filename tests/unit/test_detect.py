"""Format detection by content and by name."""

from __future__ import annotations

import pytest

from truespan.errors import SourceEncrypted, SourceUnsupported
from truespan.parsing import detect, load, supported, traits_of
from truespan.parsing.detect import Format, format_of
from truespan.types.source import DocumentKind

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


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.txt", b"plain", Format.TEXT),
        ("a.md", b"# plain", Format.MARKDOWN),
        ("a.txt", PAGE, Format.HTML),
        ("a", PAGE, Format.HTML),
        ("a.md", PAGE, Format.MARKDOWN),
        ("a.html", b"no tags at all", Format.HTML),
        ("a.txt", b"We speak of %PDF-1.4 and of <html> here.", Format.TEXT),
        ("a.md", b"We speak of %PDF-1.4 here.", Format.MARKDOWN),
        ("a.txt", PDF, Format.PDF),
        ("a.docx", PDF, Format.PDF),
        ("a.pdf", b"junk before\n" + PDF, Format.PDF),
        ("a.pdf", b"no mark", Format.PDF),
        ("book.zip", EPUB, Format.EPUB),
        ("a.docx", EPUB, Format.EPUB),
        ("a.bin", DOCX, Format.DOCX),
        ("a.epub", DOCX, Format.DOCX),
        ("a.docx", ZIP, Format.DOCX),
        ("a.epub", ZIP, Format.EPUB),
        ("a.pdf", ZIP, None),
        ("a.zip", ZIP, Format.ZIP),
        ("a.bin", ZIP, None),
        ("a.jpg", b"\xff\xd8\xff", Format.IMAGE),
        ("a.docx", b"\xd0\xcf\x11\xe0", None),
        ("a.DOCX", DOCX, Format.DOCX),
        ("a.bin", PPTX, Format.PPTX),
        ("a.pptm", ZIP, Format.PPTX),
        ("a.bin", ODT, Format.ODT),
        ("a.zip", ODT.replace(b".text", b".presentation"), Format.ODP),
        ("a.ott", ZIP, Format.ODT),
        ("a.fodt", b"<?xml", Format.ODT),
        ("a.doc", b"{\\rtf1 x}", Format.RTF),
        ("a.rtf", b"no mark", Format.RTF),
        ("a.bin", XLSX, Format.XLSX),
        ("a.xlsx", XLSB, Format.XLSB),
        ("a.xlsx", ODS, Format.ODS),
        ("a.xlsm", ZIP, Format.XLSX),
        ("a.ods", ZIP, Format.ODS),
        ("a.xls", PAGE, Format.HTML),
        ("a.bin", compound("Workbook"), Format.XLS),
        ("a.doc", compound("Other", "Other", "Other", "Other", "BOOK"), Format.XLS),
        ("a.xls", compound("WordDocument"), None),
        ("a.doc", compound("Workbook")[:600], None),
        (".txt", b"hidden", None),
        ("a.ipynb", b'{"cells": []}', Format.NOTEBOOK),
        ("a.Py", b"x = 1", Format.CODE),
        ("a.eml", b"Subject: x", Format.EMAIL),
        ("a.mbox", b"From x", Format.MAILBOX),
        ("a.yaml", PDF, Format.PDF),
    ],
)
def test_format_content_overrules_the_name(name: str, data: bytes, expected: Format | None) -> None:
    assert format_of(name, data) is expected


def test_an_office_document_with_a_password_says_so() -> None:
    data = b"\xd0\xcf\x11\xe0" + bytes(64) + "EncryptedPackage".encode("utf-16-le")

    with pytest.raises(SourceEncrypted):
        load("secret.docx", data)
    with pytest.raises(SourceUnsupported):
        load("old.doc", b"\xd0\xcf\x11\xe0" + bytes(64))
    with pytest.raises(SourceUnsupported):
        load("old.xls", compound("WordDocument"))


def test_an_epub_is_a_book_whatever_it_is_called() -> None:
    assert traits_of("a.zip", EPUB).kind is DocumentKind.BOOK
    assert traits_of("a.docx", DOCX).kind is DocumentKind.DOCUMENT


def test_formats_with_pictures_are_known() -> None:
    assert traits_of("a.docx", DOCX).pictures
    assert traits_of("a.pptx", PPTX).pictures
    assert traits_of("a.html", b"<p>").pictures
    assert not traits_of("a.pdf", PDF).pictures
    assert not traits_of("a.txt", b"words").pictures


@pytest.mark.parametrize(
    "name",
    [
        "a.docx",
        "a.epub",
        "a.pdf",
        "a.html",
        "a.htm",
        "a.xhtml",
        "a.ipynb",
        "a.eml",
        "a.mbox",
        "a.pptx",
        "a.odt",
        "a.odp",
        "a.rtf",
    ],
)
def test_folders_are_searched_for_every_format(name: str) -> None:
    assert supported(name)


def test_format_check_of_the_first_byte_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beginnings = [EPUB, DOCX, PPTX, ODT, XLSX, XLSB, ODS, ZIP, PDF, PAGE, compound("Workbook")]
    beginnings += [b"{\\rtf1", b"<html>", b"\x89PNG\r\n\x1a\n", b"", b"GIF8", b"MM\0*"]
    beginnings += [bytes([byte]) + rest for byte in range(256) for rest in (b"", PAGE, PDF)]
    names = [f"a{ending}" for ending in (*detect._ENDINGS, "", ".unknown")]
    found = {(name, data): format_of(name, data) for name in names for data in beginnings}

    every_byte = frozenset(bytes([byte]) for byte in range(256))
    monkeypatch.setattr(detect, "_FIRST_BYTES", every_byte | {b""})

    assert {each: format_of(*each) for each in found} == found
