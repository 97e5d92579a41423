"""Golden queries: questions whose right answers are known, read from YAML or JSON Lines.

A file is checked as a whole: everything wrong with it is reported at once, with line numbers, and
then none of its queries is used. A query that names neither expected documents nor phrases is
refused; an empty list of them is accepted and means that the query is not judged yet.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from truespan.errors import DocumentNotFound, GoldenInvalid, InvalidSettings
from truespan.evaluation.golden_yaml import Item, read_items
from truespan.evaluation.metrics import normalize_text
from truespan.types.document import Document
from truespan.types.request import LONGEST_QUERY, Filters

GOLDEN_TOP_K = 10
MOST_TOP_K = 1000
MOST_GRADE = 100
LONGEST_LINE = 20_000
LONGEST_NAME = 1000
LONGEST_PHRASE = 1000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SPELLED_OUT = {str: "a string", int: "a whole number", list: "a list", dict: "a mapping"}


class _Wrong(Exception):
    """What is wrong with a field, as words that follow its name."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A document that should be found, by number, doc id or name, and how relevant it is.

    The grade 0 means that the document was judged irrelevant.
    """

    document: str
    grade: int = 1


@dataclass(frozen=True, slots=True)
class GoldenQuery:
    """A query, and what a good search returns for it among its first `top_k`."""

    id: str
    query: str
    expected: tuple[Expected, ...] = ()
    phrases: tuple[str, ...] = ()
    top_k: int = GOLDEN_TOP_K
    filters: Filters = field(default_factory=Filters)


def parse_golden(name: str, content: bytes) -> tuple[GoldenQuery, ...]:
    """Return the golden queries of a file; its name says whether it is YAML or JSON Lines.

    Raises:
        GoldenInvalid: with every line that cannot be used, and why.
    """
    items, faults = _items(name, content)
    queries: list[GoldenQuery] = []
    seen: dict[str, int] = {}
    for item in items:
        query, wrong = _checked(item)
        faults.extend(wrong)
        if query is None:
            continue
        if query.id in seen:
            faults.append((item.line, f"has the id of line {seen[query.id]}: {query.id}"))
        seen.setdefault(query.id, item.line)
        queries.append(query)
    if not items and not faults:
        faults.append((1, "holds no query"))
    if faults:
        raise GoldenInvalid(name, sorted(faults))
    return tuple(queries)


def golden_line(query: GoldenQuery) -> str:
    """Return a query as a line of JSON Lines that reads back as the same query."""
    return json.dumps(_fields(query), ensure_ascii=False) + "\n"


def golden_entry(query: GoldenQuery) -> str:
    """Return a query as an entry of a YAML list that reads back as the same query."""
    return "- " + "\n  ".join(_yaml_lines(_fields(query))) + "\n"


def _items(name: str, content: bytes) -> tuple[list[Item], list[tuple[int, str]]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GoldenInvalid(
            name, [(content.count(b"\n", 0, error.start) + 1, "not UTF-8")]
        ) from None
    lines = enumerate(text.split("\n"), start=1)
    if long := [number for number, line in lines if len(line) > LONGEST_LINE]:
        raise GoldenInvalid(
            name, [(number, f"longer than {LONGEST_LINE} characters") for number in long]
        )
    ending = name.lower().rpartition(".")[2]
    if ending in ("yaml", "yml"):
        return read_items(text)
    if ending in ("jsonl", "ndjson"):
        return _json_items(text)
    raise InvalidSettings(
        f"{name}: golden queries are read from .yaml, .yml, .jsonl and .ndjson files."
    )


def _json_items(text: str) -> tuple[list[Item], list[tuple[int, str]]]:
    items: list[Item] = []
    faults: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip(" \t\r"):
            continue
        try:
            items.append(Item(number, _object(line), {}))
        except _Wrong as wrong:
            faults.append((number, str(wrong)))
    return items, faults


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _Wrong(f"not JSON (column {error.colno})") from None
    # Python refuses to count thousands of digits, and to go down thousands of levels.
    except (ValueError, RecursionError):
        raise _Wrong("not JSON that can be read") from None
    if not isinstance(value, dict):
        raise _Wrong("not a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise _Wrong(f"{twice[:80]!r} is there twice")
    return unique


def _checked(item: Item) -> tuple[GoldenQuery | None, list[tuple[int, str]]]:
    """Return the query of an entry, or everything that is wrong with it."""
    given, right = item.fields, {}
    faults: list[tuple[int, str]] = []
    for name, value in given.items():
        line = item.lines.get(name, item.line)
        if name not in _CHECKS:
            faults.append((line, f"unknown field {name[:80]!r}{_nearest(name)}"))
            continue
        try:
            right[name] = _CHECKS[name](value)
        except _Wrong as wrong:
            faults.append((line, f"{name} {wrong}"))
    if "query" not in given:
        faults.append((item.line, "query is missing"))
    if not given.keys() & {"expected", "relevance", "phrases"}:
        faults.append((item.line, "neither expected documents nor phrases are given"))
    if not faults:
        try:
            return _query(right), []
        except _Wrong as wrong:
            faults.append((item.lines.get("relevance", item.line), str(wrong)))
    return None, faults


def _query(right: Mapping[str, Any]) -> GoldenQuery:
    grades: dict[str, int] = dict.fromkeys(right.get("expected", ()), 1)
    for document, grade in right.get("relevance", {}).items():
        if grade == 0 and document in grades:
            raise _Wrong(f"relevance says that {document[:80]!r}, which is expected, is irrelevant")
        grades[document] = grade
    query = GoldenQuery(
        id=right.get("id", ""),
        query=right["query"],
        expected=tuple(Expected(document, grade) for document, grade in grades.items()),
        phrases=right.get("phrases", ()),
        top_k=right.get("top_k", GOLDEN_TOP_K),
        filters=right.get("filters", Filters()),
    )
    return with_id(query)


def with_id(query: GoldenQuery) -> GoldenQuery:
    """Return the query with an id; a missing id is derived from the question."""
    if query.id:
        return query
    return replace(query, id=f"q-{_digest(query, 'query', 'top_k', 'filters')[:12]}")


def question_digest(query: GoldenQuery) -> str:
    """Return a digest that two queries share only if they ask the same, for the same phrases."""
    return _digest(query, "query", "top_k", "filters", "phrases")[:16]


def _digest(query: GoldenQuery, *names: str) -> str:
    fields = _fields(query)
    asked = {name: fields[name] for name in names if name in fields}
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _fields(query: GoldenQuery) -> dict[str, Any]:
    """Return a query as the fields of a file, those with their default left out."""
    filters = query.filters
    found: dict[str, Any] = {"id": query.id, "query": query.query}
    if any(one.grade != 1 for one in query.expected):
        found["relevance"] = {one.document: one.grade for one in query.expected}
    elif query.expected or not query.phrases:
        found["expected"] = [one.document for one in query.expected]
    if query.phrases:
        found["phrases"] = list(query.phrases)
    if query.top_k != GOLDEN_TOP_K:
        found["top_k"] = query.top_k
    asked = {"language": filters.language, "version": filters.version}
    chosen: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if filters.tags:
        chosen["tags"] = list(filters.tags)
    if filters.documents is not None:
        chosen["documents"] = list(filters.documents)
    return {**found, "filters": chosen} if chosen else found


def _yaml_lines(fields: Mapping[str, Any]) -> Iterable[str]:
    for name, value in fields.items():
        key = name if name in _CHECKS or name in _FILTER_CHECKS else _quoted(name)
        if isinstance(value, dict):
            yield f"{key}:"
            yield from (f"  {line}" for line in _yaml_lines(value))
        elif isinstance(value, list):
            yield f"{key}: [{', '.join(map(_quoted, value))}]"
        else:
            yield f"{key}: {_quoted(value)}"


def _quoted(value: str | int) -> str:
    spelled = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", spelled)


def _typed(kind: type, value: Any) -> Any:
    # Python counts a boolean as a whole number; a golden query does not.
    if not isinstance(value, kind) or isinstance(value, bool):
        unquoted = kind is str and isinstance(value, int | float)
        raise _Wrong(f"must be {_SPELLED_OUT[kind]}{'; put it in quotes' if unquoted else ''}")
    return value


def _text(limit: int, value: Any) -> str:
    text: str = _typed(str, value)
    if not text.strip():
        raise _Wrong("is blank")
    if len(text) > limit:
        raise _Wrong(f"is longer than {limit} characters")
    kinds = {unicodedata.category(character) for character in text if character not in "\n\t"}
    if kinds & {"Cc", "Cs"}:
        raise _Wrong("holds a control character or half a character")
    return text


def _id(value: Any) -> str:
    counted = isinstance(value, int) and not isinstance(value, bool)
    text: str = str(value) if counted else _typed(str, value)
    if not _ID.fullmatch(text):
        raise _Wrong("must be 1 to 128 letters, digits, '.', '_', ':' and '-'")
    return text


def _whole(least: int, most: int, value: Any) -> int:
    number: int = _typed(int, value)
    if not least <= number <= most:
        raise _Wrong(f"must be from {least} to {most}")
    return number


def _document(value: Any) -> str:
    """Return a reference to a document: its number, doc id or name."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    return _text(LONGEST_NAME, value)


def _listed(check: Callable[[Any], str], value: Any) -> tuple[str, ...]:
    found: list[str] = []
    for place, entry in enumerate(_typed(list, value), start=1):
        try:
            checked = check(entry)
        except _Wrong as wrong:
            raise _Wrong(f"has an entry, number {place}, that {wrong}") from None
        if checked in found:
            raise _Wrong(f"names {checked[:80]!r} twice")
        found.append(checked)
    return tuple(found)


def _relevance(value: Any) -> dict[str, int]:
    grades = {}
    for document, grade in _typed(dict, value).items():
        try:
            grades[_document(document)] = _whole(0, MOST_GRADE, grade)
        except _Wrong as wrong:
            raise _Wrong(f"of {document[:80]!r} {wrong}") from None
    return grades


def _filters(value: Any) -> Filters:
    right = {}
    for name, given in _typed(dict, value).items():
        if name not in _FILTER_CHECKS:
            raise _Wrong(f"have the unknown field {name[:80]!r}")
        try:
            right[name] = _FILTER_CHECKS[name](given)
        except _Wrong as wrong:
            raise _Wrong(f"have a {name} that {wrong}") from None
    return Filters(**right)


def _nearest(name: str) -> str:
    found = get_close_matches(name.lower()[:40], _CHECKS, n=1)
    return f"; did you mean {found[0]}?" if found else ""


_FILTER_CHECKS: dict[str, Callable[[Any], Any]] = {
    "language": partial(_text, LONGEST_NAME),
    "version": partial(_text, LONGEST_NAME),
    "tags": partial(_listed, partial(_text, LONGEST_NAME)),
    "documents": partial(_listed, _document),
}
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "id": _id,
    "query": partial(_text, LONGEST_QUERY),
    "expected": partial(_listed, _document),
    "relevance": _relevance,
    "phrases": partial(_listed, partial(_text, LONGEST_PHRASE)),
    "top_k": partial(_whole, 1, MOST_TOP_K),
    "filters": _filters,
}


class DocumentNames:
    """The documents of a world by every reference to them.

    A reference is a number, a doc id, a file name or a path, in this order; the last parts of a
    path are enough. A reference that several documents match names none of them.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_number: dict[str, list[Document]] = defaultdict(list)
        self._by_id: dict[str, list[Document]] = defaultdict(list)
        self._by_name: dict[str, list[Document]] = defaultdict(list)
        for document in documents:
            self._by_number[str(document.number)].append(document)
            self._by_id[document.doc_id].append(document)
            self._by_name[document.name].append(document)

    def find(self, reference: str) -> Document | None:
        """Return the document that a reference names; None if none or several match."""
        for called in (self._by_number, self._by_id, self._by_name):
            if len(found := called.get(reference, [])) == 1:
                return found[0]
        return self._by_path(reference)

    def key_of(self, reference: str) -> str | None:
        """Return the doc id of the document that a reference names: it outlives every revision."""
        found = self.find(reference)
        return found.doc_id if found else None

    def written(self, reference: str) -> str:
        """Return the reference to write into a file: the name if no other document has it.

        Raises:
            DocumentNotFound: none or several documents match the reference.
        """
        found = self.find(reference)
        if found is None:
            raise DocumentNotFound(reference)
        return found.name if self.find(found.name) is found else found.doc_id

    def _by_path(self, reference: str) -> Document | None:
        wanted = PurePath(reference).parts
        named = self._by_name.get(PurePath(reference).name, [])
        found = [
            document
            for document in named
            if PurePath(document.path).parts[-len(wanted) :] == wanted
        ]
        return found[0] if wanted and len(found) == 1 else None


def is_yaml(name: str) -> bool:
    """Return whether a file of golden queries is YAML and not JSON Lines."""
    return name.lower().endswith((".yaml", ".yml"))


def check_golden(name: str, query: GoldenQuery) -> GoldenQuery:
    """Return a query with an id, after the checks that an entry of a file gets.

    Raises:
        GoldenInvalid: it cannot be a golden query.
        InvalidSettings: the name is not that of a file of golden queries.
    """
    return parse_golden(name, _spelled(name, with_id(query)))[0]


def append_golden(name: str, content: bytes, query: GoldenQuery) -> bytes:
    """Return a file's bytes with one more query at the end; the rest stays unchanged.

    Raises:
        GoldenInvalid: the file is not valid as it stands.
        InvalidSettings: it has the query already.
    """
    there = parse_golden(name, content) if content.strip() else ()
    _refuse_again(there, query)
    glue = b"" if not content or content.endswith(b"\n") else b"\n"
    return content + glue + _spelled(name, query)


def _spelled(name: str, query: GoldenQuery) -> bytes:
    return (golden_entry(query) if is_yaml(name) else golden_line(query)).encode()


def _refuse_again(there: Sequence[GoldenQuery], query: GoldenQuery) -> None:
    def asked(one: GoldenQuery) -> tuple[object, ...]:
        return normalize_text(one.query), one.top_k, one.filters

    for one in there:
        if one.id == query.id or asked(one) == asked(query):
            raise InvalidSettings(
                f"The file asks this already, as {one.id}.",
                advice="Change that entry, or give this one another id and question.",
            )
