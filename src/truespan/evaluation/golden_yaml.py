"""YAML as golden queries need it: a list of mappings, and nothing that two readers read apart.

Read are words, quoted texts and whole numbers of one line, lists in both styles, mappings within
mappings in block style, and comments. All else is refused with its line: anchors, tags, blocks of
text, several documents, tabs, repeated keys, and words that some readers take for something else.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'"""
_ENTRY = re.compile(r"-(?: +|$)")
_KEY = re.compile(rf"({_QUOTED}|(?!- )[^\s\"'\[\]{{}},#](?:(?! #|: ).)*?) *:(?: +|$)")
_ALONE = re.compile(rf"({_QUOTED})(?: *$| +#)")
_FLOW_PART = re.compile(rf" *({_QUOTED}|(?![ \"':])(?:(?! #)[^,\[\]{{}}?])+) *(,|\](?: *$| +#))")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DOUBTFUL = re.compile(
    r"y|n|yes|no|on|off|true|false|null|~|=|<<|[-+]?\.(?:inf|nan)|[-+]?0[xob][0-9a-f_]+"
    r"|[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:e[-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[t ].*)?",
    re.IGNORECASE,
)
"""Plain scalars that are a word to some readers of YAML and something else to others."""
_ODD = re.compile("[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_MEANINGS = {
    **dict(zip("&*!", ("an anchor", "an alias", "a tag"), strict=True)),
    **dict.fromkeys("|>", "a block of text"),
    **dict.fromkeys("%@`#,]{}", "a character that YAML keeps for itself; put it in quotes"),
    **dict.fromkeys("[\"'", "a list or quoted text that does not end well on its line"),
}


class Refused(Exception):
    """What is wrong: the number of a line, and what it holds that is not read here."""


@dataclass(frozen=True, slots=True)
class Item:
    """One mapping of the list: where it begins, what it says, and the line of each of its keys."""

    line: int
    fields: dict[str, Any]
    lines: dict[str, int]


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


Lines = deque[_Line]


def read_items(text: str) -> tuple[list[Item], list[tuple[int, str]]]:
    """Return the mappings of the list that `text` holds, and what is wrong with which lines.

    A fault spoils the entry it stands in and no other, so that all of them are told at once.
    """
    items, faults = [], []
    for part in _entries(text):
        try:
            items.append(_item(part))
        except Refused as refused:
            faults.append((refused.args[0], refused.args[1]))
    return items, faults


def _entries(text: str) -> list[Lines]:
    """Cut the text where an entry of the outermost list begins; a stray line is cut off alone."""
    parts: list[Lines] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        content = raw.removesuffix("\r").rstrip(" ")
        plain = content.lstrip(" ")
        comment = plain.startswith("#") and not _ODD.search(plain)
        if not plain or comment or (content == "---" and not parts):
            continue
        line = _Line(number, len(content) - len(plain), plain)
        if not parts or line.indent == 0:
            parts.append(deque())
        parts[-1].append(line)
    return parts


def _item(lines: Lines) -> Item:
    for line in lines:
        _check_characters(line)
    first = lines.popleft()
    dash = _ENTRY.match(first.text)
    if dash is None or first.indent:
        raise Refused(first.number, "one list is read, its entries begin with '- ' at the left")
    rest = first.text[dash.end() :]
    if rest and not rest.startswith("#"):
        lines.appendleft(_Line(first.number, first.indent + dash.end(), rest))
    if not lines or not _KEY.match(lines[0].text):
        raise Refused(first.number, "not a mapping of fields")
    places: dict[str, int] = {}
    fields = _mapping(lines, 2, places)
    if lines:
        raise Refused(lines[0].number, "is indented unlike the lines above")
    return Item(first.number, fields, places)


def _check_characters(line: _Line) -> None:
    if "\t" in line.text:
        raise Refused(line.number, "holds a tab; write spaces")
    if _ODD.search(line.text):
        raise Refused(line.number, "holds a control character; write it as an escape, in quotes")


def _mapping(lines: Lines, levels: int, places: dict[str, int]) -> dict[str, Any]:
    """Take the fields with which `lines` begin; they may hold mappings `levels` - 1 deep."""
    found: dict[str, Any] = {}
    indent = lines[0].indent
    while lines and lines[0].indent >= indent:
        line = lines.popleft()
        match = _KEY.match(line.text)
        if line.indent > indent or match is None:
            raise Refused(line.number, "is neither a field nor part of the one above")
        key = str(_scalar(match[1], line.number))
        if key in found:
            raise Refused(line.number, f"{key!r} is there twice")
        places[key] = line.number
        found[key] = _value(lines, line, line.text[match.end() :], levels - 1)
    return found


def _value(lines: Lines, line: _Line, rest: str, levels: int) -> Any:
    """Take what a key has: the `rest` of its line, or what stands on the lines below.

    Below it a list may begin at the key's own indentation; a mapping stands deeper.
    """
    if rest.startswith("["):
        return [] if _uncommented(rest) == "[]" else _flow_list(rest, line.number)
    if plain := _uncommented(rest):
        return _scalar(plain, line.number)
    if lines and lines[0].indent >= line.indent and _ENTRY.match(lines[0].text):
        return _block_list(lines)
    if not lines or lines[0].indent <= line.indent:
        raise Refused(line.number, "has no value")
    if not levels or not _KEY.match(lines[0].text):
        raise Refused(lines[0].number, "is neither a field nor an entry of a list")
    return _mapping(lines, levels, {})


def _block_list(lines: Lines) -> list[Any]:
    found: list[Any] = []
    indent = lines[0].indent
    while lines and lines[0].indent == indent and (dash := _ENTRY.match(lines[0].text)):
        line = lines.popleft()
        found.append(_scalar(_uncommented(line.text[dash.end() :]), line.number))
    return found


def _uncommented(text: str) -> str:
    """Return a value without the comment after it; a mark within quotes begins none."""
    if alone := _ALONE.match(text):
        return alone[1]
    return "" if text.startswith("#") else text.partition(" #")[0].rstrip(" ")


def _flow_list(text: str, line: int) -> list[Any]:
    found: list[Any] = []
    at = 1
    while part := _FLOW_PART.match(text, at):
        found.append(_scalar(part[1].strip(" "), line))
        at = part.end()
        if part[2] != ",":
            return found
    raise Refused(line, f"begins with {_MEANINGS['[']}")


def _scalar(text: str, line: int) -> str | int:
    """Return what one word, text or number means, if all readers agree on that."""
    if re.fullmatch(_QUOTED, text):
        return _unquoted(text, line)
    if _INTEGER.fullmatch(text):
        return int(text)
    if not text or _DOUBTFUL.fullmatch(text):
        raise Refused(line, f"{text!r} is not read alike everywhere; put it in quotes")
    if text[0] in _MEANINGS:
        raise Refused(line, f"begins with {_MEANINGS[text[0]]}")
    if re.match(r"[-?:](?: |$)", text) or ": " in text or text.endswith(":"):
        raise Refused(line, "holds a dash, colon or question mark with a meaning; put it in quotes")
    return text


def _unquoted(spelled: str, line: int) -> str:
    if spelled[0] == "'":
        return spelled[1:-1].replace("''", "'")
    try:
        return json.loads(spelled)
    except json.JSONDecodeError:
        raise Refused(line, "holds an escape that JSON does not have") from None
