"""Which parts of a page are its text, and which are the furniture around it.

Nothing a person would read may be lost, so what is in doubt is kept. Furniture is what says so of
itself, and a header, footer or side note of the page that is made of links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

_LONG_ENOUGH_TO_READ = 1000
"""Characters outside links that make even a list of links worth reading."""
_LEAST_OF_MAIN, _LEAST_OF_ARTICLE = 4, 2
"""What is called the main part is believed to be if it holds this part of the text, or more."""
_NOTICES = ("©", "(c) ", "copyright", "all rights reserved")
_LONG_NOTICE = 600


@dataclass(slots=True, eq=False)
class Landmark:
    """A header, footer or side note of the page as a whole, and what speaks against it."""

    tag: str
    letters: int = 0
    linked: int = 0
    has_navigation: bool = False
    has_title: bool = False
    has_notice: bool = False

    def count(self, text: str, linked: bool) -> None:
        """Take note of text in it."""
        self.letters += len(text)
        if linked:
            self.linked += len(text)
        elif self.tag == "footer" and not self.has_notice:
            self.has_notice = any(notice in text.lower() for notice in _NOTICES)

    @property
    def is_furniture(self) -> bool:
        """Say whether nobody would miss it."""
        unlinked = self.letters - self.linked
        if self.has_title or unlinked > _LONG_ENOUGH_TO_READ:
            return False
        linked = self.has_navigation or self.linked > unlinked
        return linked or (self.has_notice and self.letters < _LONG_NOTICE)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Where on a page a piece of it stands. `article` counts the outermost articles from 1."""

    main: bool = False
    article: int = 0
    navigation: bool = False
    fallback: bool = False
    divided: bool = False
    """Within a part that has its own header and footer, which are then part of its text."""
    landmark: Landmark | None = None


PAGE = Region()


class Placed(Protocol):
    """What `main_text` looks at."""

    @property
    def text(self) -> str: ...
    @property
    def level(self) -> int: ...
    @property
    def region(self) -> Region: ...


PieceT = TypeVar("PieceT", bound=Placed)


def enter(region: Region, tag: str, articles: int) -> Region:
    """Return the region that begins with an element; `articles` were met before."""
    match tag:
        case "main":
            return replace(region, main=True, divided=True, landmark=None)
        case "article":
            return replace(region, article=region.article or articles + 1, divided=True)
        case "section":
            return replace(region, divided=True)
        case "nav":
            if region.landmark:
                region.landmark.has_navigation = True
            return replace(region, navigation=True, divided=True)
        case "noscript" | "noframes":
            return replace(region, fallback=True)
        case _:
            landmark = region.landmark or (None if region.divided else Landmark(tag))
            return replace(region, divided=region.divided or tag == "aside", landmark=landmark)


def main_text(pieces: Sequence[PieceT]) -> list[PieceT]:
    """Return the pieces that are the text of a page."""
    shown = [piece for piece in pieces if not piece.region.fallback]
    if not _weight(shown):
        shown = list(pieces)
    body = [piece for piece in shown if not _is_furniture(piece.region)]
    if not _weight(body):
        return shown
    main = [piece for piece in body if piece.region.main]
    if _weight(main) * _LEAST_OF_MAIN >= _weight(body):
        return _with_title(body, main)
    articles = {piece.region.article for piece in body if piece.text}
    if len(articles - {0}) == 1:
        article = [piece for piece in body if piece.region.article]
        if _weight(article) * _LEAST_OF_ARTICLE >= _weight(body):
            return _with_title(body, article)
    return body


def _is_furniture(region: Region) -> bool:
    return region.navigation or bool(region.landmark and region.landmark.is_furniture)


def _weight(pieces: Sequence[Placed]) -> int:
    return sum(len(piece.text) for piece in pieces)


def _with_title(body: Sequence[PieceT], chosen: Sequence[PieceT]) -> list[PieceT]:
    """Put the title of the page before its main part, where it stands outside of it."""
    if any(piece.level == 1 for piece in chosen):
        return list(chosen)
    before = body[: next(place for place, piece in enumerate(body) if piece is chosen[0])]
    return [*(piece for piece in before if piece.level == 1), *chosen]
