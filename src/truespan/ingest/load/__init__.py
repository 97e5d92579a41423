"""Loaders: from the bytes of a source to blocks, one file a format.

Owns: which format a source has, how its bytes become text, its blocks and their chapters.
Does not own: reading files, cleaning, offsets.
Must hold: nothing a person would read is lost; a place is told from what stands before it, so that
no label speaks of what follows (`markdown` names its one exception).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from truespan.errors import SourceEmpty, SourceNotText, SourceUnsupported
from truespan.ingest.clean import clean
from truespan.ingest.load.decode import decode
from truespan.model.text import Loaded

LOADER_VERSION = 1
"""Raised whenever a source would give other blocks."""

_TEXT = frozenset({".txt", ".text"})
_MARKDOWN = frozenset({".md", ".markdown"})


def supported(name: str) -> bool:
    """Say whether a file of this name has a loader."""
    return _suffix(name) in _TEXT | _MARKDOWN


def load(name: str, data: bytes) -> Loaded:
    """Return what the source `name` with the content `data` holds.

    Raises:
        SourceUnsupported: no loader is for files of this name.
        SourceNotText: the name promises text and the bytes are none.
        SourceEmpty: there is nothing but white space.
    """
    shown = PurePath(name).name
    if not supported(name):
        raise SourceUnsupported(shown)
    text = decode(data)
    if text is None:
        raise SourceNotText(shown)
    # Loaders see clean text, so that every line end is one to them. What they make of it is
    # cleaned again when it is assembled: an entity can stand for an invisible character.
    loaded = _loader(_suffix(name))(clean(text))
    if not any(clean(block.text).strip() for block in loaded.blocks):
        raise SourceEmpty(shown)
    return loaded


def _suffix(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


def _loader(suffix: str) -> Callable[[str], Loaded]:
    # Imported here, because most runs of the program load nothing.
    if suffix in _MARKDOWN:
        from truespan.ingest.load.markdown import load_markdown

        return load_markdown
    from truespan.ingest.load.text import load_text

    return load_text
