"""What is asked for and what was found: lines of a manifest, roots, and the sources behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from truespan.model.source import Declared, Source


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a manifest that was checked by itself; nothing was looked for yet."""

    line: int
    path: str
    doc_id: str | None = None
    declared: Declared = field(default_factory=Declared)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that was searched, and how many sources were found in it.

    `pattern` says which paths below the folder were asked for; without one all of them were. A root
    with an `origin` was searched for what that manifest names.
    """

    folder: str
    found: int
    pattern: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Sources in the order in which they are taken, and what was looked at and is not among them.

    `passed_over` counts files of other kinds, `unmatched` names what matched no file at all.
    """

    sources: tuple[Source, ...] = ()
    passed_over: int = 0
    unmatched: tuple[str, ...] = ()
    roots: tuple[Root, ...] = ()

    def __iter__(self) -> Iterator[Source]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)
