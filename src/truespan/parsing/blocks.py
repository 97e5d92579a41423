"""Writer of blocks with their chapters and sections, for the parsers of office formats."""

from __future__ import annotations

from msgspec import Struct, field

from truespan.parsing.passage import Passage
from truespan.text.contents import ContentsFinder
from truespan.types.text import Block, BlockKind, PageStart

TITLE_LEVEL = 0
"""Level of a title, above the level of the highest heading."""
INDENT = "  "
_MAX_LEVEL = 10
_NOTES = "Notes: "
_MAX_INDENT = 20
"""Maximum number of indented list levels."""


class BlockWriter(Struct):
    """Converts passages to blocks in reading order.

    The chapter of a block depends only on the text before it. A title before all headings is the
    title of the document and its first chapter. After it, headings at the highest level so far
    begin chapters, and lower ones begin sections.
    """

    blocks: list[Block] = field(default_factory=list)
    title: str | None = None
    in_note: bool = False
    """Whether the passages belong to a note, whose headings begin no chapter."""
    _prefix: str = ""
    """Prefix of the next text, such as "Notes: " on a slide."""
    _pages: tuple[PageStart, ...] = ()
    _chapter: str | None = None
    _section: str | None = None
    _top_level: int = _MAX_LEVEL
    _contents: ContentsFinder = field(default_factory=ContentsFinder)

    def add(
        self,
        passage: Passage,
        *,
        kind: BlockKind = BlockKind.PARAGRAPH,
        level: int | None = None,
        marker: str | None = None,
        list_level: int = 0,
        in_contents: bool = False,
        is_contents: bool = False,
    ) -> None:
        """Add a paragraph, a heading of `level`, or a list item with `marker`.

        An item with the marker "" continues the previous item. A contents list (`in_contents`) has
        no headings; `is_contents` is true if the style is one of contents lists.
        """
        if passage.blank:
            return
        marked = in_contents or is_contents
        if level is not None and not in_contents and not self.in_note and passage.text:
            passage = passage.on_one_line()
            passage = passage.indent(f"{marker} ", "") if marker else passage
            kind = BlockKind.HEADING
            if self._is_contents(kind, passage.text, marked, level):
                self._add_block(kind, passage, is_contents=True)
                return
            if level == TITLE_LEVEL and self._chapter is None:
                self.title = self._chapter = passage.text
            elif level <= self._top_level:
                self._chapter, self._section = passage.text, None
                self._top_level = level
            else:
                self._section = passage.text
        elif marker is not None:
            margin = INDENT * min(list_level, _MAX_INDENT)
            rest = margin + INDENT
            passage = passage.strip().indent(f"{margin}{marker} " if marker else rest, rest)
            kind = BlockKind.LIST
        elif self.in_note:
            # Most notes begin with a space after their number.
            passage = passage.strip()
        is_contents = False
        if kind is not BlockKind.HEADING:
            is_contents = self._is_contents(kind, passage.text, marked)
        self._add_block(kind, passage, is_contents)

    def add_table(
        self, passage: Passage, header_rows: int = 0, *, in_contents: bool = False
    ) -> None:
        """Add a table, one line for each row."""
        is_contents = self._is_contents(BlockKind.TABLE, passage.text, in_contents)
        self._add_block(BlockKind.TABLE, passage, is_contents, header_rows)

    def begin_slide(self, number: int, title: str, chapter: str | None = None) -> None:
        """Begin a slide; its title, if any, is the first block and the section of the others."""
        self._chapter, self._section = chapter, title or f"Slide {number}"
        self._pages = (PageStart(0, number, "slide"),)
        if title:
            kind = BlockKind.HEADING
            self._add_block(kind, Passage(title), self._is_contents(kind, title, False, level=1))

    def begin_notes(self) -> None:
        """Begin the speaker notes of a slide; see `end_notes`."""
        self.in_note, self._prefix = True, _NOTES

    def end_notes(self) -> None:
        self.in_note, self._prefix = False, ""

    def _is_contents(self, kind: BlockKind, text: str, marked: bool, level: int = 0) -> bool:
        """Return whether the next block is part of a contents list."""
        if self.in_note or not text:
            return marked
        return self._contents.enter(text, kind, level=level, marked=marked)

    def _add_block(
        self, kind: BlockKind, passage: Passage, is_contents: bool = False, header_rows: int = 0
    ) -> None:
        if not passage.blank:
            kind = BlockKind.FOOTNOTE if self.in_note else kind
            if self._prefix and passage.text:
                passage, self._prefix = passage.strip().indent(self._prefix, ""), ""
            self.blocks.append(
                Block(
                    kind=kind,
                    text=passage.text,
                    chapter=self._chapter,
                    section=self._section,
                    figures=passage.figures,
                    pages=self._pages,
                    is_contents=is_contents,
                    header_rows=header_rows,
                )
            )
            self._pages = ()
