"""Images and web pages as they look.

Where on one a sentence ends is unknown, so neither has parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from truespan.types.picture import PictureRequest, Rendering

_MEDIA_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
}
"""Media types of the images that browsers show, by their first bytes."""


def draw_image(data: bytes, request: PictureRequest) -> Rendering | None:
    """Return an image itself; None if browsers do not show it."""
    found = (kind for mark, kind in _MEDIA_TYPES.items() if data.startswith(mark))
    media_type = next(found, None)
    return None if media_type is None else _render(request, media_type, data)


def draw_web_page(data: bytes, request: PictureRequest) -> Rendering | None:
    """Return a web page without scripts, styles, forms and references."""
    return _render(request, "text/html", sanitize_page(request.name, data).encode())


def _render(request: PictureRequest, media_type: str, data: bytes) -> Rendering | None:
    if request.page != 1 or request.only_parts:
        return None
    return Rendering(media_type, 0, 0, ((),) * len(request.parts), data)


_KEPT = frozenset(
    {"a", "abbr", "address", "article", "aside", "b", "blockquote", "br", "caption", "cite",
     "code", "col", "colgroup", "dd", "del", "details", "dfn", "div", "dl", "dt", "em",
     "figcaption", "figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr",
     "i", "ins", "kbd", "li", "main", "mark", "nav", "ol", "p", "pre", "q", "s", "samp",
     "section", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td",
     "tfoot", "th", "thead", "time", "tr", "u", "ul", "var"}
)  # fmt: skip
"""Elements that are kept, without attributes other than `_ATTRIBUTES`."""
_DROPPED = frozenset(
    {"script", "style", "template", "noscript", "iframe", "object", "embed", "applet", "svg",
     "math", "canvas", "audio", "video", "head", "form", "button", "input", "select",
     "textarea", "datalist", "dialog", "frameset", "noframes", "title"}
)  # fmt: skip
"""Elements that are left out with their content."""
_VOID = frozenset({"br", "hr", "col"})
_ATTRIBUTES = frozenset({"colspan", "rowspan", "dir", "lang", "start", "scope"})
_MAX_VALUE_LENGTH = 20


def sanitize_page(name: str, data: bytes) -> str:
    """Return the body of a web page with plain elements only, which loads and runs nothing."""
    from truespan.parsing.formats.html import read_page

    writer = _Writer()
    read_page(name, data, writer)
    return "".join(writer.pieces)


class _Writer:
    """Target of the parser that writes kept elements and text."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._dropped = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in _DROPPED:
            self._dropped += 1
        elif tag in _KEPT and not self._dropped:
            kept = "".join(
                f' {name}="{escape(value)}"'
                for name, value in attributes.items()
                if name in _ATTRIBUTES and len(value) <= _MAX_VALUE_LENGTH
            )
            self.pieces.append(f"<{tag}{kept}>")

    def end(self, tag: str) -> None:
        if tag in _DROPPED:
            self._dropped -= 1
        elif tag in _KEPT and tag not in _VOID and not self._dropped:
            self.pieces.append(f"</{tag}>")

    def data(self, text: str) -> None:
        if not self._dropped:
            self.pieces.append(escape(text))

    def close(self) -> None:
        pass
