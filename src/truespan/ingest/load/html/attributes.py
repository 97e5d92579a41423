"""What the attributes of an element say about it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from truespan.ingest.load.html.inline import Picture

Attributes = Mapping[str, str]
"""The attributes of an element, by their names in lower case and with the usual prefixes."""

NOTABLE = frozenset({"hidden", "aria-hidden", "style", "role", "epub:type"})
"""Attributes that change what an element is."""

KNOWN = ("id", "name", "hidden", "style", "role", "src", "alt", "title")
"""The least that is asked of an element with more attributes than any page has."""

_UNSEEN = re.compile(
    r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b", re.IGNORECASE
)
_BLOCK = re.compile(
    r"(?:^|[;\s])display\s*:\s*(?:block|flex|grid|list-item|table|flow-root)\b", re.IGNORECASE
)
_LONGEST_STYLE = 10_000
_ROLE_TAGS = {
    "main": "main",
    "navigation": "nav",
    "doc-toc": "nav",
    "menu": "nav",
    "menubar": "nav",
    "heading": "heading",
    "doc-pagebreak": "pagebreak",
    "doc-footnote": "footnote",
    "doc-endnote": "footnote",
    "list": "ul",
    "listitem": "li",
}
_TYPE_TAGS = {
    "pagebreak": "pagebreak",
    "footnote": "footnote",
    "endnote": "footnote",
    "rearnote": "footnote",
}
_KEEPS_ITS_TAG = frozenset({"ul", "ol", "li", "menu", "table"})
_PAGE_LABEL = re.compile(r"\s*(?:(?:page|p|pg)\b\.?)?\s*(\d{1,6})\s*\.?\s*", re.IGNORECASE)
_ONE_PIXEL = re.compile(r"\s*[01](?:px)?\s*", re.IGNORECASE)


def is_hidden(attributes: Attributes) -> bool:
    """Say whether a page does not show an element, or not to everyone."""
    # What waits for a search within the page is there for its readers.
    if "hidden" in attributes and attributes["hidden"].strip().lower() != "until-found":
        return True
    if attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    return bool(_UNSEEN.search(attributes.get("style", ""), 0, _LONGEST_STYLE))


def is_block(attributes: Attributes) -> bool:
    """Say whether an element stands on lines of its own by its style."""
    return bool(_BLOCK.search(attributes.get("style", ""), 0, _LONGEST_STYLE))


def played_tag(tag: str, attributes: Attributes) -> str:
    """Return the tag whose part an element plays, by its role or type; else its own."""
    for word in attributes.get("epub:type", "")[:200].lower().split():
        if word in _TYPE_TAGS:
            return _TYPE_TAGS[word]
    for word in attributes.get("role", "")[:200].lower().split():
        if word in _ROLE_TAGS:
            played = _ROLE_TAGS[word]
            return tag if tag in _KEEPS_ITS_TAG and played in _KEEPS_ITS_TAG else played
    return tag


def is_layout(attributes: Attributes) -> bool:
    """Say whether an element is there for the looks alone."""
    return attributes.get("role", "").strip().lower() in ("presentation", "none")


def page_number(label: str | None) -> int | None:
    """Return the number of a page by its label; None for Roman numbers and the like."""
    found = _PAGE_LABEL.fullmatch(label[:100]) if label else None
    return int(found[1]) if found and int(found[1]) else None


def picture_of(tag: str, attributes: Attributes) -> Picture | None:
    """Return the picture that an element shows; None when it is no part of the text."""
    if is_layout(attributes) or attributes.get("aria-hidden", "").strip().lower() == "true":
        return None
    if all(_ONE_PIXEL.fullmatch(attributes.get(side, "")[:20]) for side in ("width", "height")):
        return None
    source = next((attributes[name] for name in _SOURCES[tag] if attributes.get(name)), "")
    # A page that loads its pictures late names the real one apart from the stand-in.
    if source.startswith("data:") and attributes.get("data-src"):
        source = attributes["data-src"]
    alt = attributes.get("alt") or attributes.get("aria-label") or ""
    return Picture(" ".join(alt.split()), source)


_SOURCES = {
    "img": ("src", "data-src"),
    "input": ("src",),
    "image": ("xlink:href", "href"),
    "object": ("data",),
}
