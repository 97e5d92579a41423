"""The YAML of golden queries: a list of mappings, without anything that readers read differently.

Accepted are words, quoted texts and whole numbers on one line, lists in both styles, mappings in
block style, and comments. Everything else is refused with its line: anchors, tags, blocks of text,
several documents, tabs, repeated keys, and words that some readers take for something else.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from msgspec import Struct

from truespan.core.cancel import check_cancelled

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_AMBIGUOUS = re.compile(
    r"y|n|[-+]?0[xob][0-9a-f_]+|[-+]?(?:[0-9][0-9_]*+(?:\.[0-9_]*+)?|\.[0-9_]+)(?:e[-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|nan)|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[t ].*)?",
    re.IGNORECASE,
)
"""Words beyond those that PyYAML resolves which other readers take for something else."""
_ODD = re.compile("[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_DEPTH = 2
"""A field may hold a mapping, whose values hold none."""


class Refused(Exception):
    """What is wrong: the number of a line, and what it holds that is not accepted here."""


class Item(Struct, frozen=True):
    """One mapping of the list: its first line, its fields, and the line of each of its keys."""

    line: int
    fields: dict[str, Any]
    lines: dict[str, int]


def split_entries(text: str) -> list[tuple[int, list[str]]]:
    """Return the lines of each entry of the list in `text`, after the number of its first line."""
    lines = [line.removesuffix("\r").rstrip(" ") for line in text.split("\n")]
    starts: list[int] = []
    for place, line in enumerate(lines):
        plain = line.lstrip(" ")
        comment = plain.startswith("#") and not _ODD.search(plain)
        # An entry begins at the left margin. Whatever else stands there is reported as one.
        begins = plain == line or not starts
        if plain and not comment and begins and (line != "---" or starts):
            starts.append(place)
    return [(start + 1, lines[start:end]) for start, end in pairwise([*starts, len(lines)])]


def read_entry(first: int, lines: list[str]) -> Item:
    """Return the mapping in the lines of an entry; raises `Refused`."""
    return _EntryReader(lines, first).read()


class _EntryReader:
    """Reads one entry of the list from the events of PyYAML's safe loader."""

    def __init__(self, lines: list[str], first: int) -> None:
        # Imported here because few programs read golden queries.
        import yaml

        self._yaml = yaml
        self._first = first
        self._lines = lines
        self._text = "\n".join(lines)
        self._places: dict[str, int] = {}

    def read(self) -> Item:
        for place, line in enumerate(self._lines):
            if "\t" in line:
                raise Refused(self._first + place, "holds a tab; write spaces")
            if _ODD.search(line):
                reason = "holds a control character; write it as an escape, in quotes"
                raise Refused(self._first + place, reason)
        self._loader = self._yaml.SafeLoader(self._text)
        try:
            return self._item()
        except self._yaml.MarkedYAMLError as error:
            # An unclosed quote, list or key is reported where it begins, anything else where it is.
            opened = re.search("quoted|flow|simple key", error.context or "")
            mark = error.context_mark if opened else error.problem_mark
            line = self._first + (mark.line if mark else 0)
            reason = f"not valid YAML here: {error.problem}; a text may need quotes"
            raise Refused(line, reason) from None
        finally:
            self._loader.dispose()

    def _item(self) -> Item:
        events = self._yaml.events
        shape = "the file must be one list whose entries begin with '- ' at the left"
        self._take(events.StreamStartEvent, shape)
        self._take(events.DocumentStartEvent, shape)
        start = self._take(events.SequenceStartEvent, shape)
        if start.flow_style or start.start_mark.column:
            self._refuse(start, shape)
        mapping = self._take(events.MappingStartEvent, "not a mapping of fields")
        item = Item(self._first, self._mapping(mapping, _DEPTH), self._places)
        self._take(events.SequenceEndEvent, "is indented unlike the lines above")
        self._take(events.DocumentEndEvent, "is not part of the list")
        return item

    def _take(self, kind: type, otherwise: str) -> Any:
        event = self._next()
        if not isinstance(event, kind):
            self._refuse(event, otherwise)
        return event

    def _next(self) -> Any:
        check_cancelled()
        event = self._loader.get_event()
        if isinstance(event, self._yaml.AliasEvent):
            self._refuse(event, "holds an alias; repeat the text")
        for extra, name in (("anchor", "an anchor"), ("tag", "a tag")):
            if getattr(event, extra, None) is not None:
                self._refuse(event, f"holds {name}; quote the text if it is meant literally")
        return event

    def _refuse(self, event: Any, reason: str) -> None:
        raise Refused(self._first + event.start_mark.line, reason)

    def _mapping(self, start: Any, depth: int) -> dict[str, Any]:
        if start.flow_style or not depth:
            self._refuse(start, "holds a mapping that is not accepted here; quote it")
        found: dict[str, Any] = {}
        while not isinstance(event := self._next(), self._yaml.MappingEndEvent):
            mark = event.start_mark
            leads = self._lines[mark.line][: mark.column].strip(" ") in ("", "-")
            if not leads or not isinstance(event, self._yaml.ScalarEvent):
                self._refuse(event, "is neither a field nor part of the one above")
            key = str(self._scalar(event))
            if key in found:
                self._refuse(event, f"{key!r} occurs twice")
            if depth == _DEPTH:
                self._places[key] = self._first + mark.line
            value = self._next()
            is_list = isinstance(value, self._yaml.SequenceStartEvent)
            if isinstance(value, self._yaml.MappingStartEvent):
                found[key] = self._mapping(value, depth - 1)
            elif value.start_mark.line != mark.line and (not is_list or value.flow_style):
                self._refuse(value, "is neither a field nor an entry of a list")
            else:
                found[key] = self._list(value) if is_list else self._scalar(value)
        return found

    def _list(self, start: Any) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := self._next(), self._yaml.SequenceEndEvent):
            if not isinstance(event, self._yaml.ScalarEvent):
                self._refuse(event, "lists hold texts and numbers only; put it in quotes")
            before = self._lines[event.start_mark.line][: event.start_mark.column].strip(" ")
            if not start.flow_style and before != "-":
                self._refuse(event, "is not on the line of its dash")
            found.append(self._scalar(event))
        if start.flow_style:
            inside = self._text[start.end_mark.index : event.start_mark.index]
            self._require_end(event)
            if "\n" in inside or inside.rstrip(" ").endswith(","):
                self._refuse(
                    start, "holds a list that does not end on its line, or ends with a comma"
                )
        return found

    def _require_end(self, event: Any) -> None:
        """Refuse a comment without a space before it, which not all readers take for one."""
        end = event.end_mark.index
        if self._text[end : end + 1] == "#":
            self._refuse(event, "holds a '#' without a space before it")

    def _scalar(self, event: Any) -> str | int:
        """Return what one word, text or number means, if all readers agree on that."""
        start, end = event.start_mark, event.end_mark
        if event.style in ("|", ">"):
            self._refuse(event, "holds a block of text; write it on one line, in quotes")
        if start.line != end.line and event.style is None:
            raise Refused(self._first + start.line + 1, "is neither a field nor an entry of a list")
        if start.line != end.line:
            self._refuse(event, "holds a quoted text that does not end on its line")
        if event.style is not None:
            self._require_end(event)
        if event.style == '"':
            try:
                return json.loads(self._text[start.index : end.index])
            except json.JSONDecodeError:
                self._refuse(event, "holds an escape that JSON does not have")
        if event.style == "'":
            return event.value
        if not event.value:
            self._refuse(event, "has no value")
        if _INTEGER.fullmatch(event.value):
            return int(event.value)
        tag = self._loader.resolve(self._yaml.ScalarNode, event.value, (True, False))
        ambiguous = tag != "tag:yaml.org,2002:str" or _AMBIGUOUS.fullmatch(event.value)
        if ambiguous or event.value == "-" or event.value.endswith(":"):
            self._refuse(event, f"{event.value!r} is not read alike everywhere; put it in quotes")
        return event.value
