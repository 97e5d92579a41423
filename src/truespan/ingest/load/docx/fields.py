"""Fields: what a program computes. Their results are read, the instructions for them are not."""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST_OPEN = 60


@dataclass(slots=True)
class _Field:
    instruction: str = ""
    in_result: bool = False
    lists_contents: bool = False


@dataclass(slots=True)
class Fields:
    """The fields that are open at some place of a story. They nest, and run across paragraphs."""

    open: list[_Field] = field(default_factory=list)
    muted: bool = False
    """Whether the text at this place belongs to an instruction."""

    @property
    def in_contents(self) -> bool:
        """Say whether the text at this place belongs to a table of contents."""
        return any(found.lists_contents for found in self.open)

    def mark(self, kind: str | None) -> None:
        """Take the mark that begins a field, divides it from its result, or ends it."""
        if kind == "begin":
            # A document that opens fields and never closes them must not cost more and more.
            if len(self.open) < _MOST_OPEN:
                self.open.append(_Field())
        elif self.open and kind == "separate":
            self.open[-1].in_result = True
            self.open[-1].lists_contents = self.open[-1].instruction.split()[:1] == ["TOC"]
        elif self.open and kind == "end":
            self.open.pop()
        self._settle()

    def instruct(self, text: str) -> None:
        """Take a piece of an instruction."""
        if (
            self.open
            and not self.open[-1].in_result
            and len(self.open[-1].instruction) < _MOST_OPEN
        ):
            self.open[-1].instruction += text[:_MOST_OPEN]

    def end_paragraph(self) -> None:
        """Take the end of a paragraph. No instruction runs across it.

        So a field that nobody divided or closed hides the rest of its paragraph, and no more.
        """
        for found in self.open:
            found.in_result = True
        self._settle()

    def _settle(self) -> None:
        self.muted = not all(found.in_result for found in self.open)
