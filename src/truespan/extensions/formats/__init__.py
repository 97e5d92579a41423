"""File formats beyond text, Markdown, HTML, EPUB, PDF, DOCX, tables as text and JSON.

Owns: loaders of workbooks, OpenDocument, RTF, presentations, mail and notebooks, and the
recognition of text in pictures.
Does not own: detection, archives, XML and the shared parts of Office documents.
Must hold: what holds for all loaders; the laws about loaders run over every registered format.
"""

from __future__ import annotations

import re

from truespan.tables import FileFormat, Tables, TextRecognition

_HERE = "truespan.extensions.formats"
_OPEN_DOCUMENT = b"mimetypeapplication/vnd.oasis.opendocument."


def register(tables: Tables) -> None:
    """Add the formats and the text recognition."""
    tables.formats += (
        FileFormat(
            name="pptx",
            endings=(".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"),
            load=f"{_HERE}.pptx:load_pptx",
            options=("images",),
            has_pictures=True,
            is_zip=True,
            zip_part=b"ppt/presentation",
            zip_word=b"presentationml",
        ),
        *(
            FileFormat(
                name=name,
                endings=endings,
                load=f"{_HERE}.odf:load_odf",
                options=("images",),
                has_pictures=True,
                is_zip=True,
                zip_mark=_OPEN_DOCUMENT + kind,
            )
            for name, endings, kind in (
                ("odt", (".odt", ".ott", ".fodt"), b"text"),
                ("odp", (".odp", ".otp", ".fodp"), b"presentation"),
            )
        ),
        FileFormat(name="rtf", endings=(".rtf",), load=f"{_HERE}.rtf:load_rtf", mark=b"{\\rtf"),
        *_workbooks(),
        FileFormat(
            name="email",
            endings=(".eml",),
            load=f"{_HERE}.mail:load_message",
            open=f"{_HERE}.mail:open_message",
        ),
        FileFormat(
            name="mailbox",
            endings=(".mbox", ".mbx"),
            load=f"{_HERE}.mail:refuse_empty_mailbox",
            open=f"{_HERE}.mail:open_mailbox",
            only_members=True,
        ),
        FileFormat(
            name="notebook",
            endings=(".ipynb",),
            load=f"{_HERE}.notebook:load_notebook",
            is_text=True,
        ),
        FileFormat(
            name="image",
            endings=(".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"),
            load=f"{_HERE}.ocr:load_image_file",
            options=("ocr",),
            may_need_ocr=True,
            only_ocr=True,
            mark_pattern=re.compile(
                rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|II\*\x00|MM\x00\*|RIFF....WEBP|BM.{4}\x00{4}",
                re.DOTALL,
            ),
        ),
    )
    tables.text_recognition = TextRecognition(f"{_HERE}.ocr:Recogniser", needs=("rapidocr", "PIL"))


def _workbooks() -> tuple[FileFormat, ...]:
    options = ("hidden_sheets",)
    return (
        FileFormat(
            name="xlsx",
            endings=(".xlsx", ".xlsm", ".xltx", ".xltm"),
            load=f"{_HERE}.sheets.xlsx:load_xlsx",
            options=options,
            has_hidden_sheets=True,
            is_zip=True,
            zip_part=b"xl/workbook",
            zip_word=b"spreadsheetml",
        ),
        FileFormat(
            name="xlsb",
            endings=(".xlsb",),
            load=f"{_HERE}.sheets.binary:load_binary",
            options=options,
            has_hidden_sheets=True,
            is_zip=True,
            zip_part=b"xl/workbook.bin",
        ),
        FileFormat(
            name="xls",
            endings=(".xls", ".xlt"),
            load=f"{_HERE}.sheets.binary:load_binary",
            options=options,
            has_hidden_sheets=True,
            # Many programs export tables as HTML and name them `.xls`.
            yields_to_content=True,
            mark=b"\xd0\xcf\x11\xe0",
            recognise=f"{_HERE}.sheets.compound:is_workbook",
        ),
        FileFormat(
            name="ods",
            endings=(".ods", ".ots"),
            load=f"{_HERE}.sheets.ods:load_ods",
            options=options,
            has_hidden_sheets=True,
            is_zip=True,
            zip_mark=_OPEN_DOCUMENT + b"spreadsheet",
        ),
    )
