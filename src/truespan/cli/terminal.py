"""Output of the commands: the only module that writes to the terminal and to files.

Names, labels, metadata and the words of a model come from strangers. A control character in one of
them could move the cursor or rename the window, and a direction override could turn a line around.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from unicodedata import east_asian_width

import click

from truespan.core.disk import create_file
from truespan.errors import InvalidArgument, resource_error

if TYPE_CHECKING:
    from truespan.types.answer import Citation
    from truespan.types.bundle import Notice, Passage, SourceNote

_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line feed, line separators, direction controls, surrogates."""
_SPACES = re.compile(r"([\n \t])")
_BLOCK_QUOTE = re.compile(r"(?:^>.*(?:\n|\Z))+", re.MULTILINE)
_LINES_COUNT = re.compile(r"^>(?:\t| {3}| (?:[-*+•]|\d+[.)]) )|\s\|(?!\S)", re.MULTILINE)
"""Text in a block quote whose line ends matter: code, a list or a table."""
_MODE = 0o666
"""Permissions before those that the user's umask removes."""
_SAID_BY_DOCTOR = frozenset({"floor_does_not_discriminate"})
SET_POSITION = "'truespan reader set BOOK --reader NAME --through-chapter 1' records one."
"""Advice where a reader has no position."""
_ADVICE = {"no_reading_position": SET_POSITION}
"""Advice on a command by the code of a notice, which callers of all interfaces get."""


def printable(text: str) -> str:
    r"""Return a text with unprintable characters as escapes such as `\u202e`, as in JSON."""
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: object = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text, by default with a line end. JSON stays the same JSON."""
    click.echo(printable(str(text)), nl=nl, err=err)


_STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    "green": {"fg": "green"},
    "red": {"fg": "red"},
}


def echo_wrapped(*parts: tuple[str, str], indent: int = 0) -> None:
    """Print parts, each with its style or "", as one paragraph that fits a terminal."""
    shown = [(printable(text), style) for text, style in parts]
    text = "".join(part for part, _ in shown)
    styles = [style for part, style in shown for _ in part]
    for start, end in break_lines(text, shutil.get_terminal_size().columns - indent):
        line = " " * indent
        for style, places in groupby(range(start, end), styles.__getitem__):
            line += _style("".join(text[place] for place in places), style)
        click.echo(line)


def _style(text: str, style: str) -> str:
    from truespan.settings import shows_styles

    return click.style(text, **_STYLES[style]) if style and shows_styles() else text


def break_lines(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the lines of a paragraph, broken at spaces, or within a longer word."""
    start, space, used = 0, None, 0
    for place, char in enumerate(text):
        if char == " ":
            space = place
        # Chinese, Japanese and Korean characters take two columns.
        used += 2 if east_asian_width(char) in "WF" else 1
        if used > width and place > start and char != " ":
            end, following = (place, place) if space is None else (space, space + 1)
            yield start, end
            start, space = following, None
            used = sum(2 if east_asian_width(c) in "WF" else 1 for c in text[start : place + 1])
    yield start, len(text)


def overwrite_error_line(text: str) -> None:
    """Write a text in place of the last line of standard error, which has no line end."""
    width = shutil.get_terminal_size().columns - 1
    _, end = next(break_lines(text, width))
    sys.stderr.write(f"\r{printable(text[:end])}\x1b[K")
    sys.stderr.flush()


class WrappedText:
    """Prints a text that arrives in pieces, and breaks the lines of a terminal between words.

    At a terminal, a block quote of prose that arrives in one piece fills the lines as well.
    """

    def __init__(self) -> None:
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._width = shutil.get_terminal_size().columns if is_terminal else None
        self._column, self._word, self._margin = 0, "", ""

    def write(self, piece: str) -> None:
        """Print a piece. At a terminal, its last word waits until the word is complete."""
        if self._width is None:
            echo(piece, nl=False)
            return
        piece = _BLOCK_QUOTE.sub(_fill_quote, piece)
        *parts, self._word = _SPACES.split(self._word + piece)
        for word, space in zip(parts[::2], parts[1::2], strict=True):
            self._place(word)
            self._place(space)

    def finish(self) -> None:
        """Print the last word and end the line."""
        self._place(self._word)
        self._column, self._word, self._margin = 0, "", ""
        echo()

    def _place(self, part: str) -> None:
        if not part:
            return
        if part == "\n":
            self._column, self._margin = 0, ""
        elif self._width is not None and self._column + len(part) > self._width and self._column:
            # A space at the end of a line is not needed.
            part = self._margin + part.strip(" ")
            self._column = len(part)
            echo()
        else:
            if not self._column and part == ">":
                self._margin = "> "
            self._column += len(part)
        echo(part, nl=False)


def _fill_quote(block: re.Match[str]) -> str:
    """Return a block quote with its paragraphs in one line each, unless its line ends matter."""
    if _LINES_COUNT.search(block[0]):
        return block[0]
    return re.sub(r"(?<=[^>\n])\n> (?=\S)", " ", block[0])


def write_error(text: str) -> None:
    """Write a text to standard error as it is, without a line end."""
    sys.stderr.write(printable(text))


def confirm(question: str) -> bool:
    """Ask a question that is answered with yes or no; the default is no."""
    return click.confirm(printable(question), default=False)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file that did not exist; it is removed if the block raises an exception.

    Raises:
        InvalidArgument: it exists, or cannot be created.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(create_file(path, _MODE))
        except FileExistsError:
            raise InvalidArgument(f"The file {path} already exists.") from None
        except OSError as error:
            raise resource_error(error) or _unwritable(path, error) from None
        yield file


def _unwritable(path: Path, error: OSError) -> InvalidArgument:
    reason = error.strerror or type(error).__name__
    return InvalidArgument(f"{path} cannot be written: {reason}.", advice="Check the folder.")


def pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


def show_notices(notices: Iterable[Notice]) -> list[str]:
    """Return notices as lines, except those about the model that 'truespan doctor' shows."""
    return [
        " ".join(filter(None, ("Note:", notice.message, _ADVICE.get(notice.code))))
        for notice in notices
        if notice.code not in _SAID_BY_DOCTOR
    ]


def name_others(part: Passage | SourceNote | Citation) -> str:
    """Return the documents that have the same text, to be put after the source of a passage."""
    from truespan.types.text import name_sources

    others = name_sources(at.source_url for at in part.other_places)
    return f"; also in {others}" if others else ""


def name_span(chunk: Any) -> str:
    """Return the characters, the sentences and the location of a chunk."""
    location = f", {chunk.location}" if chunk.location else ""
    return f"characters {chunk.start}-{chunk.end}, {name_sentences(chunk)}{location}"


def name_sentences(part: Any) -> str:
    """Return the numbers of the sentences of a passage in words."""
    if part.first_sid == part.last_sid:
        return f"sentence {part.first_sid}"
    return f"sentences {part.first_sid}-{part.last_sid}"
