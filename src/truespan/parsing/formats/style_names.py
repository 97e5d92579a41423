"""Meaning of the names of paragraph styles in word processors of several languages."""

from __future__ import annotations

import re

from truespan.types.text import BlockKind

_HEADING = re.compile(
    "(?:heading|[uü]?berschrift|titre|t[ií]?tulo|titolo|kop|rubrik|overskrift|otsikko|nadpis"
    "|nag[lł]?[oó]?wek|заголовок|标题|標題|見出し|제목)[ _-]?([1-9])",
    re.IGNORECASE,
)
_KINDS = {
    "caption": BlockKind.CAPTION,
    **dict.fromkeys(("quote", "intense quote", "block text", "quotations"), BlockKind.QUOTE),
    **dict.fromkeys(
        ("code", "source code", "preformatted text", "html preformatted"), BlockKind.CODE
    ),
}
_KINDS |= {name.replace(" ", ""): kind for name, kind in _KINDS.items()}
"""Block kinds by style name, and by style id, which has no spaces."""


_CONTENTS_STYLE = re.compile(
    r"toc ?[1-9]|toc ?heading|contents ?(?:[1-9]|10|heading)|table ?of ?figures"
    r"|table ?of ?authorities|toa ?heading"
    r"|(?:(?:figure|illustration|table|object|user|alphabetical) ?)?index ?(?:[1-9]|heading)",
    re.IGNORECASE,
)
"""Styles of entries and headings of tables of contents, lists of figures and indexes."""


def heading_level(style: str) -> int | None:
    """Return the level of a heading style; None for another style."""
    found = _HEADING.fullmatch(style)
    return int(found[1]) if found else None


def style_kind(style: str) -> BlockKind | None:
    """Return the block kind of a style by its name or id; None for plain text."""
    return _KINDS.get(style.lower())


def is_contents_style(style: str) -> bool:
    """Return whether a style is one of contents lists or indexes."""
    return bool(_CONTENTS_STYLE.fullmatch(style))
