"""Plain text: a block for each paragraph, with chapters from headings; code with its lines.

A heading is recognised by its own words and by an earlier list of chapters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.parsing.detect import require_text
from truespan.text.clean import clean
from truespan.text.contents import ContentsFinder, announced_list, plain_title
from truespan.text.headings import BEFORE_THE_FIRST, Heading, is_prose, is_title_like, parse_heading
from truespan.types.text import Block, BlockKind, Loaded, PageStart

_GAP = re.compile(r"\n(?:[^\S\n]*\n)+")
_LONG, _LONG_LINE = 240, 60


class Paragraph(NamedTuple):
    """A paragraph; in a PDF with the pages that start in it and the index of its first line."""

    text: str
    blank_lines: int
    pages: tuple[PageStart, ...] = ()
    first: int = 0
    bulleted: bool = False


def load_text_file(name: str, data: bytes) -> Loaded:
    return load_text(clean(require_text(name, data)))


def load_text(text: str) -> Loaded:
    """Parse plain text; blank lines separate paragraphs."""
    paragraphs: list[Paragraph] = []
    start, blank_lines = 0, 0
    for end, next_start in [*(gap.span() for gap in _GAP.finditer(text)), (len(text), len(text))]:
        if text[start:end].strip():
            paragraphs.append(Paragraph(text[start:end], blank_lines))
        start, blank_lines = next_start, text.count("\n", end, next_start) - 1
    return Loaded(tuple(to_blocks(paragraphs)))


def to_blocks(paragraphs: Sequence[Paragraph]) -> Iterator[Block]:
    """Yield paragraphs as blocks with their chapters and sections."""
    outline = Outline()
    skip = False
    for paragraph, title in zip(paragraphs, [*paragraphs[1:], None], strict=False):
        if skip:
            skip = False
            continue
        text, pages = paragraph.text, paragraph.pages
        heading = outline.enter(paragraph)
        if heading and heading.bare and title and is_title_like(title.text):
            skip = not parse_heading(title.text) and not announced_list(title.text)
        if title and skip:
            outline.add_title(title.text)
            shift = len(text) + 2
            pages += tuple(page._replace(offset=page.offset + shift) for page in title.pages)
            text = f"{text}\n\n{title.text}"
        kind = BlockKind.LIST if paragraph.bulleted else BlockKind.PARAGRAPH
        kind = BlockKind.HEADING if heading else kind
        yield Block(
            kind,
            text,
            outline.chapter,
            outline.section,
            pages=pages,
            is_contents=outline.is_contents,
        )


class Outline(Struct):
    """The current chapter and section. It receives each paragraph in order."""

    chapter: str | None = None
    section: str | None = None
    is_contents: bool = False
    _parts: dict[str, str] = field(default_factory=dict)
    _contents: ContentsFinder = field(default_factory=ContentsFinder)
    _numeral: int = 0
    _current: Heading | None = None
    _previous: Heading | None = None

    def enter(self, paragraph: Paragraph) -> Heading | None:
        """Process the next paragraph; return the heading it is, or None for body text."""
        text, contents = paragraph.text, self._contents
        # Fast path: nearly all paragraphs are too long for a heading or a list.
        if len(text) > _LONG and "\n" not in text[:_LONG_LINE] and not contents.is_open:
            self.is_contents, self._previous = False, None
            contents.end()
            return None
        kind = BlockKind.LIST if paragraph.bulleted else BlockKind.PARAGRAPH
        found, contents.previous = parse_heading(text), self._previous
        self.is_contents = contents.enter(text, kind, blank_lines=paragraph.blank_lines)
        if self.is_contents:
            found = None
        elif found is None:
            # A list of chapters may contain exactly this title.
            title = plain_title(text) if contents.titles and not is_prose(text) else ""
            if title in contents.titles:
                # Once only: a repetition is a running head or direct speech.
                contents.titles.discard(title)
                label = " ".join(text.split())
                found = Heading("named", "listed", label, label, label)
        elif found.rank == "numeral":
            # A Roman number out of sequence is a word or an initial.
            is_first = self._previous is not None or paragraph.blank_lines > 1
            is_next = found.number == self._numeral + 1 and (self._numeral > 0 or is_first)
            found = found if is_next else None
        if found:
            self._place(found)
        self._previous = found
        return found

    def add_title(self, title: str) -> None:
        """Add the title of the bare heading that was entered last."""
        if self._previous:
            label = f"{self._previous.label} {' '.join(title.split())}"
            self._place(replace(self._previous, label=label))

    def _place(self, heading: Heading) -> None:
        if heading.rank == "numeral":
            self._numeral = int(heading.number)
            # Within a chapter, Roman numbers are sections.
            current = self._current
            if current and (
                current.rank == "chapter"
                or (current.rank == "named" and not BEFORE_THE_FIRST.search(current.kind))
            ):
                self.section = heading.label
                return
        else:
            self._numeral, self._current = 0, heading
        if heading.rank == "part":
            # End the open part of the same kind and all parts inside it.
            kinds = list(self._parts)
            for kind in kinds[kinds.index(heading.kind) :] if heading.kind in kinds else ():
                del self._parts[kind]
        outer = [] if heading.rank == "named" else list(self._parts.values())
        if heading.rank == "part":
            self._parts[heading.kind] = heading.short
        self.chapter, self.section = ", ".join([*outer, heading.label]), None


_OTHER_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Line separators that editors do not count."""


def load_code_file(name: str, data: bytes) -> Loaded:
    text = require_text(name, data).replace("\r\n", "\n").replace("\r", "\n")
    lines = clean(_OTHER_LINE_ENDS.sub(" ", text)).split("\n")
    shown = [number for number, line in enumerate(lines) if line.strip()]
    if not shown:
        return Loaded(())
    lines = lines[: shown[-1] + 1]
    marks: list[PageStart] = []
    offset = 0
    for number, line in enumerate(lines[shown[0] :], shown[0] + 1):
        if line.strip():
            marks.append(PageStart(offset, number, "line"))
        offset += len(line) + 1
    text = "\n".join(lines[shown[0] :])
    return Loaded((Block(BlockKind.CODE, text, name, pages=tuple(marks)),))
