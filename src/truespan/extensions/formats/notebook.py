"""Jupyter notebooks (format 4): Markdown cells, code cells, and the text of their outputs.

Headings of Markdown cells are the chapters and sections of the following cells. Pictures and data
for programs are skipped.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.decoding import prepare
from truespan.errors import SourceRefused
from truespan.parsing.detect import decode
from truespan.parsing.formats.html import load_html
from truespan.parsing.formats.markdown import make_parser, read_markdown
from truespan.text.clean import clean
from truespan.text.contents import ContentsFinder
from truespan.text.headings import HeadingPlaces, begins_with_title
from truespan.types.text import Block, BlockKind, Loaded, PageStart, Properties

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
"""Terminal escape sequences in the output of a program."""
_OBJECT = re.compile(r"\s*<[^<>\n]+>\s*")
"""Default representation of a Python object, such as "<Figure size 640x480 with 1 Axes>"."""
_DATA_ADDRESS = re.compile(r"data:[\w.+/-]{1,80};base64,[A-Za-z0-9+/=]{100,}")
_MAX_TITLE_LENGTH = 1000
_MAX_AUTHORS = 100


class _Data(Struct, rename=lambda name: name.replace("_", "/")):
    """Representations of one output. Text is a string or a list of lines."""

    text_plain: Any = None
    text_html: Any = None
    text_markdown: Any = None
    text_latex: Any = None
    image_png: Any = None
    image_jpeg: Any = None
    image_gif: Any = None
    image_svg: Any = field(default=None, name="image/svg+xml")

    @property
    def is_picture(self) -> bool:
        return any((self.image_png, self.image_jpeg, self.image_gif, self.image_svg))


class _Output(Struct):
    """An output of a code cell."""

    output_type: Any = None
    data: _Data | None = None
    text: Any = None
    ename: Any = None
    evalue: Any = None


class _Cell(Struct):
    cell_type: Any = None
    source: Any = None
    outputs: list[_Output] | None = None


class _Metadata(Struct):
    title: Any = None
    name: Any = None
    authors: Any = None


class _Notebook(Struct):
    cells: list[_Cell] | None = None
    metadata: _Metadata | None = None


def load_notebook(name: str, data: bytes) -> Loaded:
    """Parse a notebook or raise `SourceRefused`."""
    notebook = _decode(name, data)
    if notebook.cells is None:
        raise SourceRefused("source_broken", name)
    reader = _Reader(name)
    for number, cell in enumerate(notebook.cells, 1):
        before = len(reader.blocks)
        reader.read_cell(cell)
        if len(reader.blocks) > before:
            start = PageStart(0, number, "cell")
            reader.blocks[before] = replace(reader.blocks[before], pages=(start,))
    metadata = notebook.metadata or _Metadata()
    title = _join(metadata.title).strip()[:_MAX_TITLE_LENGTH] or None
    shown = title or _join(metadata.name).strip()[:_MAX_TITLE_LENGTH] or None
    if not title and begins_with_title(reader.levels):
        shown = reader.blocks[0].text
    properties = Properties(title=title, authors=tuple(_read_authors(metadata.authors)))
    return Loaded(tuple(reader.blocks), shown, properties)


def _decode(name: str, data: bytes) -> _Notebook:
    text = decode(data)
    if text is None:
        raise SourceRefused("source_not_text", name)
    try:
        try:
            return msgspec.json.decode(text, type=prepare(_Notebook))
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            # Python also writes NaN and lone surrogates, which are not JSON.
            return msgspec.convert(json.loads(text), prepare(_Notebook))
    except RecursionError:
        raise SourceRefused("source_unsafe", name) from None
    except ValueError as error:
        raise SourceRefused("source_broken", name) from error


class _Reader(Struct):
    """The blocks so far, and the heading level of each."""

    name: str
    blocks: list[Block] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    _places: HeadingPlaces = field(default_factory=HeadingPlaces)
    _contents: ContentsFinder = field(default_factory=ContentsFinder)
    _parser: Any = None
    """Markdown parser, created on first use."""

    def read_cell(self, cell: _Cell) -> None:
        source = _join(cell.source)
        match cell.cell_type:
            case "markdown":
                self._add_markdown(source)
            case "code":
                self._add(BlockKind.CODE, source)
            case _:
                self._add(BlockKind.PARAGRAPH, source)
        for output in cell.outputs or ():
            self._read_output(output)

    def _read_output(self, output: _Output) -> None:
        if output.output_type == "stream":
            self._add(BlockKind.CODE, _as_shown(_join(output.text)))
            return
        if output.output_type == "error":
            message = f"{_join(output.ename)}: {_join(output.evalue)}".strip(": ")
            self._add(BlockKind.CODE, _as_shown(message))
            return
        forms = output.data or _Data()
        plain, html = _as_shown(_join(forms.text_plain)), _join(forms.text_html)
        is_object = _OBJECT.fullmatch(plain) is not None
        if markdown := _join(forms.text_markdown):
            self._add_markdown(markdown)
        elif html and ("<table" in html or not plain or is_object):
            # HTML without text is drawn by a script.
            self._add_html(html)
        elif not is_object or not forms.is_picture:
            self._add(BlockKind.CODE, plain or _join(forms.text_latex))

    def _add(self, kind: BlockKind, text: str) -> None:
        self._add_block(Block(kind, clean(text).strip("\n")))

    def _add_markdown(self, text: str) -> None:
        text = clean(_DATA_ADDRESS.sub("", text))
        self._parser = self._parser or make_parser()
        blocks, levels = read_markdown(text, self._places, self._contents, self._parser)
        self.blocks += blocks
        self.levels += levels or [0] * len(blocks)

    def _add_html(self, text: str) -> None:
        try:
            content = codecs.BOM_UTF8 + text.encode("utf-8", "replace")
            for block in load_html(self.name, content, images=False).blocks:
                self._add_block(Block(block.kind, block.text, header_rows=block.header_rows))
        except SourceRefused:
            self._add(BlockKind.PARAGRAPH, text)

    def _add_block(self, block: Block) -> None:
        """Add a block that is not a heading, at the current place."""
        if block.text:
            self._places.enter(0, block.text)
            self._contents.end()
            place = self._places
            self.blocks.append(replace(block, chapter=place.chapter, section=place.section))
            self.levels.append(0)


def _join(value: Any) -> str:
    """Return a text that is a string or a list of lines; empty for other values."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _as_shown(text: str) -> str:
    """Return the output of a program as a terminal shows it at the end.

    A line that was overwritten, as by a progress bar, shows its last text.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _read_authors(value: Any) -> Iterator[str]:
    for author in value[:_MAX_AUTHORS] if isinstance(value, list) else ():
        name = author.get("name") if isinstance(author, dict) else author
        if isinstance(name, str) and name.strip():
            yield " ".join(name.split())
