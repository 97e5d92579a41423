"""Web pages without scripts, styles, forms and references: what is safe to show in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from truespan.parsing.formats.html import read_page

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
    """Return the body of a web page with plain elements only, which loads and runs nothing.

    Raises:
        SourceRefused: The page cannot be parsed.
    """
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
