"""Parsers: from the bytes of a source to blocks, one module or package for each format.

Owns: format detection, decoding, blocks with their chapters and sections, members of files.
Does not own: reading files, offsets in canonical text. Only `sandbox` limits time and memory.
Must hold: no readable text is lost; a label depends only on the text before it, so that no label
reveals later text (except the title of the document); nothing is written, and nothing is fetched.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any, NamedTuple

from msgspec.structs import asdict, replace

from truespan.errors import OCR_ADVICE, SourceEmpty, SourceNotText, SourceUnsupported
from truespan.parsing.detect import (
    PICTURED,
    RECOGNISED,
    SHEETS,
    Format,
    decode,
    explain_refusal,
    format_of,
    may_hold_members,
    supported,
)
from truespan.text.clean import clean
from truespan.types.picture import PictureRequest, Rendering
from truespan.types.source import PARSE_DEFAULTS, DocumentKind, ParseOptions
from truespan.types.text import Loaded, Properties

__all__ = [
    "LOADER_VERSION",
    "Traits",
    "can_recognise",
    "load",
    "may_hold_members",
    "supported",
    "traits_of",
]

LOADER_VERSION = 9
"""Version of the parsers. Increase it if a source gives other blocks or another reach."""


def load(name: str, data: bytes, options: ParseOptions = PARSE_DEFAULTS) -> Loaded:
    """Parse the source `name` with the content `data`, or raise a kind of SourceRefused."""
    shown = PurePath(name).name
    found = format_of(name, data)
    if found is None:
        raise explain_refusal(shown, data)
    loaded = _load(found, shown, data, options)
    # Alternative texts count, since the settings may make chunks of figures.
    if not any(
        clean(block.text).strip() or any(placed.figure.alt for placed in block.figures)
        for block in loaded.blocks
    ):
        raise SourceEmpty(shown)
    properties: dict[str, Any] = {
        name: tuple(filter(None, map(_one_line, value)))
        if isinstance(value, tuple)
        else value and _one_line(value)
        for name, value in asdict(loaded.properties).items()
    }
    title = loaded.title and _one_line(loaded.title)
    return replace(loaded, title=title, properties=Properties(**properties))


def _one_line(text: str) -> str | None:
    """Return a property as one printable line; None if nothing is left."""
    if text.isprintable():
        return text
    return clean(text).replace("\n", " ").replace("\t", " ") or None


class Traits(NamedTuple):
    """Properties of the format of a source, known before it is parsed."""

    kind: DocumentKind
    """Default kind of the document; an EPUB is a book."""
    pictures: bool
    """Whether the parser finds pictures."""
    sheets: bool
    """Whether the source is a workbook, which may have hidden sheets."""
    scans: bool
    """Whether the text may need OCR."""
    heads: bool
    """Whether the text may contain running heads and page numbers."""
    plain: bool
    """Whether the source is plain text, which may be a novel."""


def traits_of(name: str, data: bytes) -> Traits:
    """Return the properties of the format of a source."""
    return _traits_of_format(format_of(name, data))


# Shared by threads: a cache of named tuples, which never change.
@cache
def _traits_of_format(found: Format | None) -> Traits:
    kind = DocumentKind.BOOK if found is Format.EPUB else DocumentKind.DOCUMENT
    return Traits(
        kind,
        pictures=found in PICTURED,
        sheets=found in SHEETS,
        scans=found in RECOGNISED,
        heads=found is Format.PDF,
        plain=found is Format.TEXT,
    )


def can_recognise() -> bool:
    """Return whether the extra `ocr` is installed, without importing it."""
    return find_spec("rapidocr") is not None and find_spec("PIL") is not None


def _load(found: Format, shown: str, data: bytes, options: ParseOptions) -> Loaded:
    if found is Format.ZIP:
        # The members are the documents; an archive without any is parsed itself.
        from truespan.parsing.archive import Archive

        Archive(shown, data, lenient=True)
        raise SourceEmpty(shown, advice="The archive has no file with a supported format.")
    if found is Format.MAILBOX:
        # The messages are the documents; a mailbox without any is parsed itself.
        raise SourceEmpty(shown, advice="The mailbox has no messages.")
    ocr = options.ocr and can_recognise()
    if found is Format.IMAGE:
        if not ocr:
            raise SourceUnsupported(shown, advice=OCR_ADVICE)
        from truespan.parsing.formats.ocr import Recogniser, load_image

        return load_image(shown, data, Recogniser())
    images, hidden = {"images": options.images}, {"hidden": options.hidden_sheets}
    parsers: dict[Format, tuple[str, dict[str, bool]]] = {
        Format.DOCX: ("docx.load_docx", images),
        Format.PPTX: ("pptx.load_pptx", images),
        Format.ODT: ("odf.load_odf", images),
        Format.ODP: ("odf.load_odf", images),
        Format.RTF: ("rtf.load_rtf", {}),
        Format.EPUB: ("epub.load_epub", images),
        Format.PDF: ("pdf.load_pdf", {"ocr": ocr, "running_heads": options.running_heads}),
        Format.HTML: ("html.load_html", images),
        Format.EMAIL: ("mail.load_message", {}),
        Format.NOTEBOOK: ("notebook.load_notebook", {}),
        Format.CSV: ("delimited.load_delimited", {}),
        Format.TSV: ("delimited.load_delimited", {"tabs": True}),
        Format.JSON: ("json.load_json", {}),
        Format.JSONL: ("json.load_json", {"lines": True}),
        Format.XLSX: ("sheets.xlsx.load_xlsx", hidden),
        Format.ODS: ("sheets.ods.load_ods", hidden),
        Format.XLS: ("sheets.binary.load_binary", hidden),
        Format.XLSB: ("sheets.binary.load_binary", hidden),
    }
    if found in parsers:
        # Imported on first use, because most runs of the program parse nothing.
        path, arguments = parsers[found]
        module, _, function = path.rpartition(".")
        parse = getattr(import_module(f"truespan.parsing.formats.{module}"), function)
        return parse(shown, data, **arguments)
    text = decode(data)
    if text is None:
        raise SourceNotText(shown)
    if found is Format.CODE:
        from truespan.parsing.formats.code import load_code

        return load_code(shown, text)
    # These parsers get clean text with uniform line ends. The result is cleaned again when it is
    # assembled, because an entity may encode an invisible character.
    if found is Format.MARKDOWN:
        from truespan.parsing.formats.markdown import load_markdown

        return load_markdown(clean(text))
    from truespan.parsing.formats.text import load_text

    return load_text(clean(text))


DRAWN = frozenset({Format.PDF, Format.IMAGE, Format.HTML})
"""Formats that can be shown as they look."""
_MEDIA_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
}
"""Media types of the images that browsers show, by their first bytes."""


def is_drawn(name: str, data: bytes) -> bool:
    """Return whether a source can be shown as it looks."""
    return format_of(name, data) in DRAWN


def draw(data: bytes, request: PictureRequest) -> Rendering | None:
    """Return a page of a source as it looks; None if there is none, or no part of it alone.

    Where on an image or a web page a sentence ends is unknown, so neither has parts.

    Raises:
        SourceRefused: The source is broken or too large.
    """
    found = format_of(request.name, data)
    if found is Format.PDF:
        # Imported on first use, as parsers are.
        from truespan.parsing.formats.pdf.picture import draw_page

        return draw_page(data, request)
    if request.page != 1 or request.only_parts:
        return None
    no_boxes = ((),) * len(request.parts)
    if found is Format.IMAGE:
        media_type = next(
            (kind for mark, kind in _MEDIA_TYPES.items() if data.startswith(mark)), None
        )
        return Rendering(media_type, 0, 0, no_boxes, data) if media_type else None
    if found is Format.HTML:
        from truespan.parsing.formats.html import sanitize_page

        return Rendering("text/html", 0, 0, no_boxes, sanitize_page(request.name, data).encode())
    return None
