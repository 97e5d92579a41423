"""Loaders of the formats that every installation reads, and the table of all formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from truespan.tables import FileFormat, tables

_HERE = "truespan.parsing.formats"
TEXT = FileFormat(
    name="text",
    endings=(".txt", ".text"),
    load=f"{_HERE}.text:load_text_file",
    is_text=True,
    may_be_novel=True,
    yields_to_content=True,
)
HTML = FileFormat(
    name="html",
    endings=(".html", ".htm", ".xhtml"),
    load=f"{_HERE}.html:load_html",
    options=("images",),
    is_text=True,
    has_pictures=True,
    yields_to_content=True,
)
PDF = FileFormat(
    name="pdf",
    endings=(".pdf",),
    load=f"{_HERE}.pdf:load_pdf",
    options=("ocr", "running_heads"),
    may_need_ocr=True,
    has_running_heads=True,
)
ZIP = FileFormat(
    name="zip",
    endings=(".zip",),
    load="truespan.parsing.members:refuse_empty_archive",
    open="truespan.parsing.members:open_archive",
    only_members=True,
    is_zip=True,
)


def _record_format(name: str, endings: tuple[str, ...], load: str) -> FileFormat:
    return FileFormat(
        name=name,
        endings=endings,
        load=f"{_HERE}.{load}",
        open=f"{_HERE}.records:open_records",
        has_records=True,
        is_text=True,
    )


CSV = _record_format("csv", (".csv",), "delimited:load_delimited")
TSV = _record_format("tsv", (".tsv", ".tab"), "delimited:load_tabs")
JSON = _record_format("json", (".json",), "json:load_json")
JSONL = _record_format("jsonl", (".jsonl", ".ndjson"), "json:load_json_lines")
CODE = FileFormat(
    name="code",
    endings=tuple(
        f".{ending}"
        for ending in re.findall(
            r"\w+",
            "bash c cc cfg cjs coffee conf cpp cr cs cts cu cxx dart ex exs gd go gradle groovy h"
            " hh hpp hxx ini ino java jl js jsx kt kts lua mjs mts nim php pl pm properties proto"
            " ps1 psm1 py pyi pyw pyx r rake rb rs scala sh sol sql swift toml ts tsx yaml yml"
            " zig zsh",
        )
    ),
    load=f"{_HERE}.text:load_code_file",
    is_text=True,
    needs_pattern=True,
)
_ENGINE_FORMATS = (
    TEXT,
    FileFormat(
        name="markdown",
        endings=(".md", ".markdown"),
        load=f"{_HERE}.markdown:load_markdown_file",
        is_text=True,
    ),
    HTML,
    PDF,
    ZIP,
    FileFormat(
        name="docx",
        endings=(".docx", ".docm", ".dotx"),
        load=f"{_HERE}.docx:load_docx",
        options=("images",),
        has_pictures=True,
        is_zip=True,
        zip_part=b"word/document",
        zip_word=b"wordprocessingml",
    ),
    FileFormat(
        name="epub",
        endings=(".epub",),
        load=f"{_HERE}.epub:load_epub",
        options=("images",),
        is_book=True,
        has_pictures=True,
        is_zip=True,
        zip_mark=b"mimetypeapplication/epub+zip",
        zip_part=b"META-INF/container.xml",
    ),
    CSV,
    TSV,
    JSON,
    JSONL,
    CODE,
)


# Shared by threads: a tuple of formats, which never change.
@cache
def all_formats() -> tuple[FileFormat, ...]:
    return (*_ENGINE_FORMATS, *tables().formats)


# Shared by threads: a table of formats that nothing changes.
@cache
def formats_by_ending() -> Mapping[str, FileFormat]:
    return {ending: each for each in all_formats() for ending in each.endings}
