"""Pictures of the pages of a source, with the places of its sentences."""

from __future__ import annotations

from msgspec import Struct

SOURCE = "source"
"""Name under which the source of an upload or of a web page is kept among its pictures."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of the width and height of a picture."""


class PictureRequest(Struct, frozen=True, array_like=True):
    """A page to draw, counted from 1, and the text on it that the caller may see.

    `parts` are the sentences of the page in the order of the text, each as far as it is on the
    page. With `only_parts`, nothing else on the page is drawn.
    """

    name: str
    page: int
    parts: tuple[str, ...] = ()
    only_parts: bool = False


class Rendering(Struct, frozen=True, array_like=True):
    """A drawn page. `boxes` are the places of each requested part; empty if it was not found."""

    media_type: str
    width: int
    height: int
    boxes: tuple[tuple[Box, ...], ...]
    data: bytes


class MarkedSentence(Struct, frozen=True):
    """A sentence and its places in a picture, one for each line."""

    sid: int
    boxes: tuple[Box, ...]


class PagePicture(Struct, frozen=True):
    """The source of a document as it looks: a page, a slide, an image, or a web page.

    `image` has the bytes in the format `media_type`. For a web page that is HTML without scripts,
    and width and height are 0.
    """

    document: int
    doc_id: str
    page: int
    media_type: str
    width: int
    height: int
    partial: bool
    """Whether only text that was read is drawn, as on the page of a reader's position."""
    sentences: tuple[MarkedSentence, ...]
    image: bytes
