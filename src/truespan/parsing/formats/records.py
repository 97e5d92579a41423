"""Records as documents: each row of a table or object of a JSON file, by declared fields.

An unusable record is refused with its line, and the others are read. A record without text is
skipped. HTML is detected in the text of a field, unless the format is declared.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from truespan.core.fields import MAX_LABEL_LENGTH, FieldError
from truespan.errors import SourceRefused
from truespan.parsing.detect import format_of
from truespan.parsing.formats import CSV, JSONL, TSV
from truespan.parsing.formats.delimited import read_table
from truespan.parsing.formats.json import (
    Pairs,
    Record,
    flatten,
    read_json,
    replace_surrogates,
    to_plain,
)
from truespan.types.metadata import parse_value
from truespan.types.source import MAX_TITLE_LENGTH, Member, RecordFields, Refusal

_MAX_LISTED = 40
_SAMPLED = 1000
"""Number of records that are searched for field names."""
_MAX_NAME_LENGTH = 150
_HTML = re.compile(
    r"</(?:p|div|span|a|b|i|em|strong|ul|ol|li|table|h[1-6]|pre|code|blockquote)>|<(?:br|hr|p)\s*/?>",
    re.IGNORECASE,
)
_UNSAFE_IN_NAME = re.compile(r"[/\\%]|^\.+$|^\.")
_TAG_ENDS = re.compile(r"[,;|\n]")
_ENDINGS = {"text": ".txt", "html": ".html", "markdown": ".md"}


class _Item(NamedTuple):
    """A record: `find` returns the value of a field; None if absent."""

    line: int
    find: Callable[[str], Any]
    fault: str = ""


def open_records(name: str, data: bytes, fields: RecordFields) -> Iterator[Member | None]:
    """Yield each record as a document; None for a record without text."""
    found = format_of(name, data)
    if found in (CSV, TSV):
        known, items = _table_items(name, data, tabs=found is TSV)
    else:
        known, items = _json_items(name, data, fields, lines=found is JSONL)
    for wanted in fields.names:
        if known and wanted not in known:
            listed = ", ".join(list(known)[:_MAX_LISTED])
            more = " and others" if len(known) > _MAX_LISTED else ""
            raise SourceRefused(
                "fields_invalid",
                name,
                advice=f"There is no field {wanted!r}. The fields are {listed}{more}.",
            )
    lines: dict[str, int] = {}
    for item in items:
        try:
            member = _make_member(item, fields)
        except RecursionError:
            raise SourceRefused("source_unsafe", name) from None
        if member is None:
            yield None
            continue
        first = lines.setdefault(member.name, item.line)
        if first == item.line:
            yield member
        elif fields.id is None:
            # A duplicate record.
            yield None
        else:
            fault = f"its {fields.id} is also in line {first}"
            yield _refuse(item.line, f"{member.name} (line {item.line})", fault)


def _make_member(item: _Item, fields: RecordFields) -> Member | None:
    if item.fault:
        return _refuse(item.line, f"line {item.line}", f"it is not JSON: {item.fault}")
    texts = [text for each in fields.text if (text := _text(item.find(each)).strip())]
    title = " ".join(_text(item.find(fields.title)).split()) if fields.title else ""
    if not texts and not title:
        return None
    data, ending = _join_texts(title, texts, fields.format)
    declared: dict[str, Any] = {"title": title[:MAX_TITLE_LENGTH]} if title else {}
    if fields.source_url and (url := _text(item.find(fields.source_url)).strip()):
        declared["source_url"] = url
    if fields.language and (language := _text(item.find(fields.language)).strip()):
        declared["language"] = language.replace("_", "-")
    if fields.tags:
        declared["tags"] = _split(item.find(fields.tags))
    found = {key: _typed(item.find(field)) for key, field in fields.metadata}
    if stated := {key: value for key, value in found.items() if value not in (None, "")}:
        declared["metadata"] = stated
    if fields.id is None:
        digest = sha256(repr((data, sorted(declared.items()))).encode()).hexdigest()
        name = f"record-{digest[:16]}"
    elif identity := " ".join(_text(item.find(fields.id)).split()):
        name = _to_name(identity)
    else:
        return _refuse(item.line, f"line {item.line}", f"its {fields.id} is blank")
    if fields.audience and (labels := _split(item.find(fields.audience))):
        # Not part of the name: a record with another audience is still the same document.
        declared["audience"] = labels
    return Member(name, data.encode(), ending=ending, declared=declared, line=item.line)


def _split(value: Any) -> list[str]:
    """Return the labels in a field: a list, or a text with separators."""
    given = value if isinstance(value, list) else _TAG_ENDS.split(_text(value))
    return [label for each in given if (label := _text(each).strip())]


def _refuse(line: int, name: str, fault: str) -> Member:
    advice = f"In line {line} {fault}."
    return Member(name, line=line, refusal=Refusal("record_invalid", advice))


def _join_texts(title: str, texts: Sequence[str], declared: str) -> tuple[str, str]:
    """Return the text of a document with its title first, and the ending of its format."""
    joined = "\n\n".join(texts)
    is_html = declared == "html" or (not declared and any(map(_HTML.search, texts)))
    if is_html:
        parts = [
            text
            if declared == "html" or _HTML.search(text)
            else "".join(f"<p>{html.escape(part)}</p>" for part in re.split(r"\n\s*\n", text))
            for text in texts
        ]
        body = "\n".join(parts)
        # With a byte order mark, because the encoding of a page without one is guessed.
        return f"\ufeff<h1>{html.escape(title)}</h1>\n{body}" if title else f"\ufeff{body}", ".html"
    if title and not joined.startswith(title):
        heading = f"# {title}" if declared == "markdown" else title
        joined = f"{heading}\n\n{joined}".strip()
    return joined, _ENDINGS.get(declared, ".txt")


def _to_name(identity: str) -> str:
    """Return an id as a unique path component."""
    name = _UNSAFE_IN_NAME.sub(lambda found: "".join(f"%{ord(c):02X}" for c in found[0]), identity)
    name = "".join(char if char.isprintable() else f"%{ord(char):02X}" for char in name)
    if len(name) > _MAX_NAME_LENGTH:
        name = f"{name[:_MAX_NAME_LENGTH]}-{sha256(identity.encode()).hexdigest()[:16]}"
    return name


def _text(value: Any) -> str:
    """Return a value as text: fields of an object and items of a list are lines."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(f"{path}: {text}" if path else text for path, text in flatten(value))
    return replace_surrogates(str(value)) if isinstance(value, str) else str(value).lower()


def _typed(value: Any) -> Any:
    """Return a metadata value: text in a table may be a number or a boolean."""
    if isinstance(value, _Cell):
        try:
            return parse_value(value.strip())
        except FieldError:
            return value.strip()
    return to_plain(value)


class _Cell(str):
    """The text of a cell, which may be a number."""


def _table_items(name: str, data: bytes, *, tabs: bool) -> tuple[list[str], Iterator[_Item]]:
    """Return the columns of a table and its rows. With a mapping the first row is the header."""
    table = read_table(name, data, tabs=tabs)
    # The rows of a table with one column are parsed as lines above a table.
    rows = [table.header, *table.rows] if table.header else table.rows or table.above
    if not rows:
        return [], iter(())
    columns = [" ".join(cell.split()) for cell in rows[0].cells]
    places: dict[str, int] = {}
    for place, column in enumerate(columns):
        places.setdefault(column, place)

    def item(line: int, cells: list[str]) -> _Item:
        def find(field: str) -> _Cell | None:
            place = places[field]
            return _Cell(cells[place]) if place < len(cells) else None

        return _Item(line, find)

    return [column for column in places if column], (item(*row) for row in rows[1:])


def _json_items(
    name: str, data: bytes, fields: RecordFields, *, lines: bool
) -> tuple[list[str], Iterator[_Item]]:
    """Return the field names of a JSON file, and its records."""
    records = _choose_records(name, list(read_json(name, data, lines=lines)), fields.records)
    names: dict[str, None] = {}
    sound = [record for record in records if not record.fault]
    for record in [*sound[:_SAMPLED], *sound[_SAMPLED:][-_SAMPLED:]]:
        names |= dict.fromkeys(_field_names(record.value))
    # A rare field may not occur in the sample.
    for wanted in fields.names:
        if wanted not in names and any(_find(each.value, wanted) is not None for each in sound):
            names[wanted] = None

    def item(record: Record) -> _Item:
        return _Item(record.line, lambda field: _find(record.value, field), record.fault)

    return list(names), map(item, records)


def _choose_records(name: str, records: list[Record], path: str) -> list[Record]:
    """Return the records of the list at a path; without a path, of the longest list."""
    lists = Counter(record.path for record in records if record.path)
    parts = [record for record in records if record.is_part]
    whole = Pairs(pair for record in parts if not record.path for pair in record.value)
    if path and not lists[path]:
        value = _find(whole, path)
        if not isinstance(value, list) or isinstance(value, Pairs) or not value:
            known = ", ".join(lists) or "none"
            raise SourceRefused(
                "fields_invalid",
                name,
                advice=f"There is no list of records at {path!r}. The lists are: {known}.",
            )
        line = parts[0].line
        return [Record(line, inner) for inner in value]
    if lists:
        chosen = path or lists.most_common(1)[0][0]
        return [record for record in records if record.path == chosen]
    return [Record(parts[0].line, whole)] if parts else records


def _field_names(value: Any, path: str = "", depth: int = 3) -> Iterator[str]:
    """Yield the field names of a record; nested fields as paths."""
    if isinstance(value, Pairs):
        for name, inner in value:
            full = f"{path}.{name}" if path else name
            if len(full) > MAX_LABEL_LENGTH:
                # Too long for a mapping.
                continue
            yield full
            if depth:
                yield from _field_names(inner, full, depth - 1)


def _find(value: Any, field: str) -> Any:
    if not isinstance(value, Pairs):
        return None
    members: Mapping[str, Any] = dict(value)
    if field in members:
        return members[field]
    at = field.find(".")
    while at > 0:
        if field[:at] in members:
            found = _find(members[field[:at]], field[at + 1 :])
            if found is not None:
                return found
        at = field.find(".", at + 1)
    return None
