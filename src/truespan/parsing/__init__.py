"""Loaders: from the bytes of a source to blocks, one file a format.

Owns: which format a source has, how its bytes become text, its blocks and their chapters.
Does not own: reading files, cleaning, offsets in canonical text, limits of time and memory.
Must hold: nothing a person would read is lost; a place is told from what stands before it, so that
no label speaks of what follows (`markdown` names its one exception); nothing is written, and
nothing is fetched.
"""

from __future__ import annotations

from pathlib import PurePath

from truespan.errors import (
    SourceEmpty,
    SourceEncrypted,
    SourceNotText,
    SourceRefused,
    SourceUnsupported,
)
from truespan.parsing.clean import clean
from truespan.parsing.detect import (
    Format,
    decode,
    format_of,
    is_encrypted_office,
    is_known_ending,
    promises_text,
)
from truespan.types.source import DocumentKind
from truespan.types.text import Loaded

LOADER_VERSION = 2
"""Raised whenever a source would give other blocks."""


def supported(name: str) -> bool:
    """Return whether files of this name are looked for in a folder."""
    return is_known_ending(name)


def load(name: str, data: bytes, *, images: bool = False) -> Loaded:
    """Return what the source `name` with the content `data` holds.

    Pictures are always found and placed; their bytes are read only if `images` are wanted.

    Raises:
        SourceRefused: the source cannot become a document; its kind says why.
    """
    shown = PurePath(name).name
    found = format_of(name, data)
    if found is None:
        raise _refusal(shown, data)
    loaded = _load(found, shown, data, images)
    if not any(clean(block.text).strip() for block in loaded.blocks):
        raise SourceEmpty(shown)
    return loaded


def _refusal(shown: str, data: bytes) -> SourceRefused:
    if is_encrypted_office(data):
        return SourceEncrypted(shown)
    return SourceNotText(shown) if promises_text(shown) else SourceUnsupported(shown)


def usual_kind(name: str, data: bytes) -> DocumentKind:
    """Return what a source is when nobody says: an EPUB is read from front to back."""
    is_book = format_of(name, data) is Format.EPUB
    return DocumentKind.BOOK if is_book else DocumentKind.DOCUMENT


def may_have_pictures(name: str, data: bytes) -> bool:
    """Return whether pictures are looked for in a source of this format."""
    return format_of(name, data) in (Format.DOCX, Format.EPUB, Format.HTML)


def _load(found: Format, shown: str, data: bytes, images: bool) -> Loaded:
    # Imported here, because most runs of the program load nothing.
    match found:
        case Format.DOCX:
            from truespan.parsing.docx import load_docx

            return load_docx(shown, data, images=images)
        case Format.EPUB:
            from truespan.parsing.epub import load_epub

            return load_epub(shown, data, images=images)
        case Format.PDF:
            from truespan.parsing.pdf import load_pdf

            return load_pdf(shown, data)
        case Format.HTML:
            from truespan.parsing.html import load_html

            return load_html(shown, data, images=images)
    text = decode(data)
    if text is None:
        raise SourceNotText(shown)
    # These loaders see clean text, so that every line end is one to them. What they make of it is
    # cleaned again when it is assembled: an entity can stand for an invisible character.
    if found is Format.MARKDOWN:
        from truespan.parsing.markdown import load_markdown

        return load_markdown(clean(text))
    from truespan.parsing.text import load_text

    return load_text(clean(text))
