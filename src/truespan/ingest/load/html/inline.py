"""The text of one block while it is read: white space as a page shows it, and marks in it."""

from __future__ import annotations

import re
from typing import NamedTuple


class Picture(NamedTuple):
    """A picture as a page names it. `source` may be empty, an address, or the bytes themselves."""

    alt: str
    source: str


class Page(NamedTuple):
    """A place where a page of the printed book begins."""

    number: int


class Anchor(NamedTuple):
    """A place that a table of contents points to."""

    id: str


Mark = Picture | Page | Anchor


class PlacedMark(NamedTuple):
    """A mark at an offset of the text around it."""

    offset: int
    mark: Mark


class Flow(NamedTuple):
    """A text and the marks in it, in order."""

    text: str
    marks: tuple[PlacedMark, ...] = ()


class Spot(NamedTuple):
    """A place in a text that is being gathered: the block it is in, and the part it is before."""

    block: int
    part: int


# No page can hold a NUL, because whoever feeds the reading takes it out, so it is free to stand for
# a line break. The other sign is taken out here, in the few blocks that have marks.
_BREAK, PLACE = "\0", "\x01"
_SIGNED_RUN = re.compile(f"[ {_BREAK}{PLACE}]{{2,}}|[{_BREAK}{PLACE}]")
_EDGES = re.compile(f"\\A[ \n{PLACE}]+|[ \n{PLACE}]+\\Z")
_UNSEEN = f" \t\r\n\f{_BREAK}{PLACE}"
_MOST_PARTS = 16
_MOST_BREAKS = 2
"""Two line breaks are a blank line; more of them say nothing more."""


class Inline:
    """Text on its way into a block."""

    __slots__ = ("_marks", "_taken", "add", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        """What was gathered. It is public because to look whether it is empty must cost nothing."""
        self._marks: dict[int, Mark] = {}
        self._taken = 0
        self.add = self.parts.append
        """Take a piece of text as it stands in the source."""

    def break_line(self) -> None:
        """Begin a new line, as `<br>` does."""
        self.add(_BREAK)

    def begin_line(self) -> None:
        """Begin a new line unless one has just begun."""
        if self.parts and not self.parts[-1].endswith((_BREAK, "\n")):
            self.add(_BREAK)

    def mark(self, mark: Mark) -> None:
        """Put a mark at the current place."""
        self._marks[len(self.parts)] = mark
        self.add(PLACE)

    def here(self) -> Spot:
        """Return the current place, so that what follows it can be looked at again."""
        return Spot(self._taken, len(self.parts))

    def since(self, spot: Spot) -> str | None:
        """Return the text behind a place.

        None when its block has ended, when there are marks in it, or when it is in many parts: so
        that links within links, however many, are looked through in no time.
        """
        end = len(self.parts)
        if spot.block != self._taken or end - spot.part > _MOST_PARTS:
            return None
        if any(place in self._marks for place in range(spot.part, end)):
            return None
        return "".join(self.parts[spot.part :])

    def put_since(self, spot: Spot, text: str) -> None:
        """Put a text in the place of what `since` returns."""
        del self.parts[spot.part :]
        self.add(text)

    def is_blank_before(self, spot: Spot) -> bool:
        """Say whether a place is at the beginning of its block."""
        if spot.part > _MOST_PARTS:
            return False
        return not any(part.strip(_UNSEEN) for part in self.parts[: spot.part])

    def is_bracketed(self, spot: Spot) -> bool:
        """Say whether a bracket opens right before a place."""
        return spot.part > 0 and self.parts[spot.part - 1].endswith(("[", "("))

    def add_flow(self, flow: Flow) -> None:
        """Take text that has marks already."""
        done = 0
        for offset, mark in flow.marks:
            self.add(flow.text[done:offset])
            self.mark(mark)
            done = offset
        self.add(flow.text[done:])

    def take(self, *, breaks: bool = True) -> Flow:
        """Give out what was gathered, with white space collapsed, and begin anew.

        Without `breaks` a line break is white space like any other.
        """
        if not self.parts:
            return _NOTHING
        text = collapsed(self._joined())
        if not self._marks and _BREAK not in text:
            return Flow(text.strip(" "))
        text = _SIGNED_RUN.sub(lambda run: _shown(run[0], breaks), text)
        return self._placed(_EDGES.sub(lambda edge: PLACE * edge[0].count(PLACE), text))

    def take_plain(self) -> str | None:
        """Give out a text as `take` does; None, with nothing taken, if it has marks or breaks.

        Nearly all blocks are such, and they are by far the quicker to make.
        """
        if self._marks:
            return None
        parts = self.parts
        text = parts[0] if len(parts) == 1 else "".join(parts)
        if _BREAK in text:
            return None
        parts.clear()
        self._taken += 1
        return collapsed(text).strip(" ")

    def take_verbatim(self) -> Flow:
        """Give out what was gathered as it stands, without the line end that may open it."""
        text = self._joined().replace("\r\n", "\n").replace(_BREAK, "\n")
        return self._placed(text.removeprefix("\n"))

    def _joined(self) -> str:
        """Return all parts as one text; where there are marks, nothing else has their sign."""
        parts = self.parts
        if self._marks:
            for place, part in enumerate(parts):
                if PLACE in part and place not in self._marks:
                    parts[place] = part.replace(PLACE, "")
        text = "".join(parts)
        parts.clear()
        self._taken += 1
        return text

    def _placed(self, text: str) -> Flow:
        if not self._marks:
            return Flow(text)
        pieces, placed, offset = text.split(PLACE), [], 0
        for piece, mark in zip(pieces, self._marks.values(), strict=False):
            offset += len(piece)
            placed.append(PlacedMark(offset, mark))
        self._marks.clear()
        return Flow("".join(pieces), tuple(placed))


_NOTHING = Flow("")


def collapsed(text: str) -> str:
    """Return `text` with each run of spaces and line ends as one space.

    Other white space is left alone, as a page does. Each step halves what is left of the longest
    run, so even one of millions takes no longer than a few passes; an expression is far slower.
    """
    # Asked first and one by one, because most of the many short texts have none of them.
    if "\n" in text:
        text = text.replace("\n", " ")
    if "\t" in text:
        text = text.replace("\t", " ")
    if "\r" in text:
        text = text.replace("\r", " ")
    if "\f" in text:
        text = text.replace("\f", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _shown(run: str, breaks: bool) -> str:
    """Return what a page shows of a run of spaces, breaks and marks: its breaks, else one space."""
    white, room = ("\n", _MOST_BREAKS) if breaks and _BREAK in run else (" ", 1)
    shown: list[str] = []
    for sign in run:
        if sign == PLACE:
            shown.append(sign)
        elif room and (white == " " or sign == _BREAK):
            shown.append(white)
            room -= 1
    return "".join(shown)
