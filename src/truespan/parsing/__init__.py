"""Parsers: from the bytes of a source to blocks, one module or package for each format.

Owns: format detection, decoding, blocks with their chapters and sections, members of files.
Does not own: reading files, offsets in canonical text. Only `sandbox` limits time and memory.
Must hold: no readable text is lost; a label depends only on the text before it, so that no label
reveals later text (except the title of the document); nothing is written, and nothing is fetched.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from msgspec.structs import asdict, replace

from truespan.errors import SourceRefused
from truespan.parsing.detect import explain_refusal, format_of, may_hold_members, supported
from truespan.tables import FileFormat, import_member, tables
from truespan.text.clean import clean
from truespan.types.picture import PictureRequest, Rendering
from truespan.types.source import PARSE_DEFAULTS, ParseOptions
from truespan.types.text import Loaded, Properties

__all__ = [
    "LOADER_VERSION",
    "can_recognise",
    "load",
    "may_hold_members",
    "supported",
]

LOADER_VERSION = 10
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
        raise SourceRefused("source_empty", shown)
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


def can_recognise() -> bool:
    """Return whether text recognition is installed, without importing it."""
    recognition = tables().text_recognition
    return recognition is not None and recognition.is_installed


def _load(found: FileFormat, shown: str, data: bytes, options: ParseOptions) -> Loaded:
    if options.ocr and not can_recognise():
        options = options._replace(ocr=False)
    # Imported on first use, because most runs of the program parse nothing.
    parse = import_member(found.load)
    return parse(shown, data, **{name: getattr(options, name) for name in found.options})


def is_drawn(name: str, data: bytes) -> bool:
    """Return whether a source can be shown as it looks."""
    found = format_of(name, data)
    return found is not None and found.name in tables().pictures


def draw(data: bytes, request: PictureRequest) -> Rendering | None:
    """Return a page of a source as it looks; None if there is none, or no part of it alone."""
    found = format_of(request.name, data)
    path = None if found is None else tables().pictures.get(found.name)
    # Imported on first use, as parsers are.
    return None if path is None else import_member(path)(data, request)
