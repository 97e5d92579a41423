"""HTML and SVG in which nothing foreign can become markup: text enters through one function."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import NewType

Markup = NewType("Markup", str)
"""Text in which every character that HTML gives a meaning was meant so by us."""

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = {"meta", "br"}


def text(value: object) -> Markup:
    """Return a value as text that stands for itself; what no page may hold is replaced."""
    return Markup(escape(_UNFIT.sub("\ufffd", str(value)), quote=True))


def foreign(value: str) -> Markup:
    """Return text that somebody else wrote, so that its writing direction ends where it ends."""
    return element("bdi", {}, text(value))


def element(name: str, attributes: Mapping[str, object], *children: Markup) -> Markup:
    """Return an element; values of attributes are escaped, numbers cut to two decimals."""
    spelled = "".join(f' {key}="{_spelled(value)}"' for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{spelled}>")
    return Markup(f"<{name}{spelled}>{''.join(children)}</{name}>")


def joined(*parts: Markup) -> Markup:
    """Return parts one below the other."""
    return Markup("\n".join(part for part in parts if part))


def _spelled(value: object) -> Markup:
    return text(f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value)
