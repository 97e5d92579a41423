"""From the elements of a page to pieces of text, in one pass and without a tree.

`Reading` is told where elements begin and end, by the parser itself or by whoever walks a tree. So
neither depth nor width of a page costs more than its length, and nothing here recurses.
"""

from __future__ import annotations

from truespan.ingest.load.html.attributes import (
    NOTABLE,
    Attributes,
    is_block,
    is_hidden,
    played_tag,
)
from truespan.ingest.load.html.elements import OPENINGS, Opening, is_always_block, open_block, skip
from truespan.ingest.load.html.inline import Anchor
from truespan.ingest.load.html.open import Closing, Open, Piece

_IN_DRAWINGS = frozenset({"svg", "image", "title"})


class Reading(Open):
    """The reading of one page. `targets` are the ids of elements whose place is wanted."""

    def __init__(self, targets: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._targets = targets
        self._closings: list[Closing | None] = []

    # The parser knows these four by their names.

    def start(self, tag: str, attributes: Attributes) -> None:
        """Take note that an element begins."""
        if self.skipped:
            self.skipped += 1
            return
        opening = OPENINGS.get(tag)
        if opening is None and ":" in tag:
            tag = tag[tag.rfind(":") + 1 :]
            opening = OPENINGS.get(tag)
        if self.drawings and tag not in _IN_DRAWINGS:
            opening = None
        elif attributes:
            if self._targets:
                self._aim(tag, attributes)
            if not NOTABLE.isdisjoint(attributes):
                opening = _noted(tag, attributes, opening)
        self._closings.append(opening(self, tag, attributes) if opening else None)

    def data(self, text: str) -> None:
        """Take the text that stands here."""
        if self.skipped:
            if self.caught is not None:
                self.caught.append(text)
        elif not self.drawings:
            self.inline.add(text)
            region = self.region
            if region.landmark and not region.navigation:
                region.landmark.count(text, bool(self.links))

    def end(self, _: str) -> None:
        """Take note that the element that began last ends."""
        if self.skipped:
            self.skipped -= 1
            if self.skipped:
                return
        if closing := self._closings.pop():
            closing()

    def close(self) -> list[Piece]:
        """Return the pieces of the whole page.

        Marks that no text follows come out on a last piece without text.
        """
        flow = self.inline.take()
        if flow.text or flow.marks:
            self.emit(flow, self.kind)
        return self.pieces

    def _aim(self, tag: str, attributes: Attributes) -> None:
        """Mark the place of an element that is wanted."""
        for attribute in ("id", "xml:id", "name") if tag == "a" else ("id", "xml:id"):
            if (id := attributes.get(attribute)) and id in self._targets:
                if is_always_block(tag):
                    self.flush()
                self.inline.mark(Anchor(id))
                return


def _noted(tag: str, attributes: Attributes, opening: Opening | None) -> Opening | None:
    """Return what to do with an element whose attributes say that it is not what it seems."""
    if tag in ("html", "body"):
        return opening
    played = played_tag(tag, attributes)
    # A note that is shown on request is hidden in the page, but not from its readers.
    if played == "footnote":
        return OPENINGS[played]
    if is_hidden(attributes):
        return skip
    if played != tag and opening is not skip:
        return OPENINGS[played]
    return open_block if opening is None and is_block(attributes) else opening
