"""Golden queries: questions with known answers, in YAML or JSON Lines.

A file is checked as a whole: all faults are reported at once, with line numbers, and then none of
its queries is used. A query needs expected documents or phrases; an empty list means that the query
is not judged yet. A query that is marked as absent needs neither: the documents do not answer it.

In YAML a file is a list of mappings. Values are strings, whole numbers, lists of these, and
mappings one level deep. Aliases, tags, repeated keys and unquoted words that YAML takes for
something else (`yes`, `1.5`) are refused.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from truespan.core.cancel import check_cancelled
from truespan.core.fields import FieldError
from truespan.core.strict_json import MAX_INTEGER, JsonError, parse_json_object
from truespan.errors import InvalidArgument, LinesInvalid
from truespan.types.arguments import FILTERS, Form
from truespan.types.catalog import document_references
from truespan.types.document import Document
from truespan.types.metadata import SYMBOLS, Condition, parse_comparisons, read_conditions
from truespan.types.request import MAX_QUERY_LENGTH, Filters
from truespan.types.source import DocumentKind

Values = TypeVar("Values", list[Any], dict[str, Any])
GOLDEN_TOP_K = 10
MAX_TOP_K = 1000
MAX_GRADE = 100
MAX_QUERIES = 10_000
"""Maximum number of queries in a file."""
MAX_LIST = 1000
"""Maximum number of entries of a list, or of judged documents of a query."""
MAX_LINE_LENGTH = 20_000
MAX_NAME_LENGTH = 1000
MAX_PHRASE_LENGTH = 1000
ABSENT = "absent"
"""Value of `answer` for a query that the documents do not answer."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_TYPES = {str: "a string", int: "a whole number", list: "a list", dict: "a mapping"}
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_TAG = "tag:yaml.org,2002:"
_MAX_DEPTH = 3
"""Maximum depth of an entry: its fields, a mapping in a field, a list in that."""


class Expected(Struct, frozen=True):
    """An expected document, by number, doc id or name, with its relevance."""

    document: str
    grade: int = 1
    """Relevance; 0 means irrelevant."""


class GoldenQuery(Struct, frozen=True):
    """A query with the documents and phrases expected among its first `top_k` results."""

    id: str
    query: str
    expected: tuple[Expected, ...] = ()
    phrases: tuple[str, ...] = ()
    top_k: int = GOLDEN_TOP_K
    filters: Filters = field(default_factory=Filters)
    absent: bool = False
    """Whether the documents do not answer the query."""


def parse_golden(name: str, content: bytes) -> tuple[GoldenQuery, ...]:
    """Return the golden queries of a YAML or JSON Lines file; raises LinesInvalid."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LinesInvalid("golden_invalid", name, [(line, "not UTF-8")]) from None
    lengths = enumerate(map(len, text.split("\n")), start=1)
    if long := [number for number, length in lengths if length > MAX_LINE_LENGTH]:
        reason = f"longer than {MAX_LINE_LENGTH} characters"
        raise LinesInvalid("golden_invalid", name, [(number, reason) for number in long])
    items, faults = _read_items(name, text)
    queries: list[GoldenQuery] = []
    seen: dict[str, int] = {}
    for item in items:
        check_cancelled()
        query = _check_item(item, faults)
        if query is None:
            continue
        if query.id in seen:
            faults.append((item.line, f"has the id of line {seen[query.id]}: {query.id}"))
        seen.setdefault(query.id, item.line)
        queries.append(query)
    if not items and not faults:
        faults.append((1, "contains no query"))
    if faults:
        raise LinesInvalid("golden_invalid", name, sorted(faults))
    return tuple(queries)


def _read_items(name: str, text: str) -> tuple[list[Item], list[tuple[int, str]]]:
    lines = list(enumerate(text.split("\n"), start=1))
    if _is_yaml(name):
        # An entry begins with a dash at the left margin.
        starts = [number for number, line in lines if line == "-" or line.startswith(("- ", "-\r"))]
    elif name.lower().endswith((".jsonl", ".ndjson")):
        lines = [(number, line) for number, line in lines if line.strip(" \t\r")]
        starts = [number for number, _ in lines]
    else:
        raise InvalidArgument(
            f"{name}: golden queries are read from .yaml, .yml, .jsonl and .ndjson files."
        )
    if len(starts) > MAX_QUERIES:
        reason = f"has {len(starts)} queries; at most {MAX_QUERIES} are accepted"
        raise LinesInvalid("golden_invalid", name, [(starts[MAX_QUERIES], reason)])
    try:
        entries = parse_yaml(text) if _is_yaml(name) else [_read_line(*line) for line in lines]
    except Refused as refused:
        entries = [refused]
    faults = [(entry.args[0], entry.args[1]) for entry in entries if isinstance(entry, Refused)]
    return [entry for entry in entries if isinstance(entry, Item)], faults


def _read_line(number: int, line: str) -> Item | Refused:
    check_cancelled()
    try:
        return Item(number, parse_json_object(line), {})
    except JsonError as error:
        return Refused(number, str(error))


def golden_line(query: GoldenQuery) -> str:
    """Return a query as a line of JSON Lines that reads back as the same query."""
    return json.dumps(_fields(query), ensure_ascii=False) + "\n"


def _is_yaml(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))


def _check_item(item: Item, faults: list[tuple[int, str]]) -> GoldenQuery | None:
    """Return the query of an entry; None if it has faults, which are added to `faults`."""
    checked: dict[str, Any] = {}
    found: list[tuple[int, str]] = []
    for name, value in item.fields.items():
        line = item.lines.get(name, item.line)
        if name in _CHECKS:
            try:
                checked[name] = _CHECKS[name](value)
            except FieldError as error:
                found.append((line, f"{name} {error}"))
        else:
            close = get_close_matches(name.lower()[:40], _CHECKS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            found.append((line, f"unknown field {name[:80]!r}{hint}"))
    if "query" not in item.fields:
        found.append((item.line, "query is missing"))
    judgements = item.fields.keys() & {"expected", "relevance", "phrases"}
    if "answer" in item.fields and judgements:
        message = "has an expected answer, and says that the answer is absent"
        found.append((item.lines.get("answer", item.line), message))
    elif "answer" not in item.fields and not judgements:
        found.append((item.line, "has neither expected documents nor phrases"))
    grades: dict[str, int] = dict.fromkeys(checked.pop("expected", ()), 1)
    for document, grade in checked.pop("relevance", {}).items():
        if grade == 0 and document in grades and not found:
            message = f"relevance says that {document[:80]!r}, which is expected, is irrelevant"
            found.append((item.lines.get("relevance", item.line), message))
        grades[document] = grade
    faults += found
    if found:
        return None
    expected = tuple(Expected(document, grade) for document, grade in grades.items())
    absent = checked.pop("answer", None) is not None
    query = GoldenQuery(**{"id": "", **checked, "expected": expected, "absent": absent})
    # A missing id is derived from the question.
    made = f"q-{_digest(query, 'query', 'top_k', 'filters')[:12]}"
    return replace(query, id=query.id or made)


def question_digest(query: GoldenQuery) -> str:
    """Return a digest of the question, its filters and its phrases."""
    return _digest(query, "query", "top_k", "filters", "phrases")[:16]


def _digest(query: GoldenQuery, *names: str) -> str:
    fields = {name: value for name, value in _fields(query).items() if name in names}
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _fields(query: GoldenQuery) -> dict[str, Any]:
    """Return the fields of a query in a file, without defaults."""
    fields: dict[str, Any] = {"id": query.id, "query": query.query}
    grades = {expected.document: expected.grade for expected in query.expected}
    if set(grades.values()) - {1}:
        fields["relevance"] = grades
    elif query.absent:
        fields["answer"] = ABSENT
    elif grades or not query.phrases:
        fields["expected"] = list(grades)
    if query.phrases:
        fields["phrases"] = list(query.phrases)
    if query.top_k != GOLDEN_TOP_K:
        fields["top_k"] = query.top_k
    given = {**asdict(query.filters), "where": _where(query.filters)}
    filters = {
        name: list(given[name]) if isinstance(given[name], tuple) else given[name]
        for name in _FILTER_CHECKS
        if given[name] or (name == "documents" and given[name] is not None)
    }
    return {**fields, "filters": filters} if filters else fields


def _where(filters: Filters) -> list[str]:
    try:
        return _spell_comparisons(filters.metadata)
    except FieldError as error:
        raise InvalidArgument(f"A golden query {error}.") from None


def _spell_comparisons(conditions: Iterable[Condition]) -> list[str]:
    """Return conditions as texts for `parse_comparisons`."""
    signs = {operator: symbol for symbol, operator in SYMBOLS.items()}
    texts: list[str] = []
    for condition in conditions:
        key = condition.key
        if condition.any_of == () or key != key.strip() or re.search("[=<>!]", key):
            raise FieldError(f"has a condition on {key!r} that cannot be written as text")
        if not condition.compares:
            texts.append(key if condition.exists else f"!{key}")
        for operator, value in condition.to_json().items():
            if operator != "exists":
                values = value if operator == "any_of" else [value]
                sign = signs.get(operator, "=")
                texts += [f"{key}{sign}{json.dumps(one, ensure_ascii=False)}" for one in values]
    return texts


def _check_type(kind: type, value: Any) -> Any:
    # Python counts a boolean as a whole number; a golden query does not.
    if not isinstance(value, kind) or isinstance(value, bool):
        unquoted = kind is str and isinstance(value, int | float)
        raise FieldError(f"must be {_TYPES[kind]}{'; put it in quotes' if unquoted else ''}")
    return value


def _check_text(limit: int, value: Any) -> str:
    text: str = _check_type(str, value)
    if not text.strip():
        raise FieldError("is blank")
    if len(text) > limit:
        raise FieldError(f"is longer than {limit} characters")
    kinds = {unicodedata.category(character) for character in text if character not in "\n\t"}
    if kinds & {"Cc", "Cs"}:
        raise FieldError("contains a control character or half a character")
    return text


def _check_id(value: Any) -> str:
    counted = isinstance(value, int) and not isinstance(value, bool)
    text: str = str(value) if counted else _check_type(str, value)
    if not _ID.fullmatch(text):
        raise FieldError("must be 1 to 128 letters, digits, '.', '_', ':' and '-'")
    return text


def _check_integer(least: int, most: int, value: Any) -> int:
    number: int = _check_type(int, value)
    if not least <= number <= most:
        raise FieldError(f"must be from {least} to {most}")
    return number


def _check_count(value: Values) -> Values:
    if len(value) > MAX_LIST:
        raise FieldError(f"has {len(value)} entries; at most {MAX_LIST} are accepted")
    return value


def _check_document(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(_check_integer(0, MAX_INTEGER, value))
    return _check_text(MAX_NAME_LENGTH, value)


def _check_list(check: Callable[[Any], str], value: Any) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for place, entry in enumerate(_check_count(_check_type(list, value)), start=1):
        try:
            checked = check(entry)
        except FieldError as error:
            raise FieldError(f"has an entry, number {place}, that {error}") from None
        if checked in found:
            raise FieldError(f"names {checked[:80]!r} twice")
        found[checked] = None
    return tuple(found)


def _check_relevance(value: Any) -> dict[str, int]:
    grades = {}
    for document, grade in _check_count(_check_type(dict, value)).items():
        try:
            grades[_check_document(document)] = _check_integer(0, MAX_GRADE, grade)
        except FieldError as error:
            raise FieldError(f"of {document[:80]!r} {error}") from None
    return grades


def _check_filters(value: Any) -> Filters:
    checked = {}
    for name, wanted in _check_type(dict, value).items():
        if name not in _FILTER_CHECKS:
            raise FieldError(f"have the unknown field {name[:80]!r}")
        try:
            checked[name] = _FILTER_CHECKS[name](wanted)
        except FieldError as error:
            raise FieldError(f"have a {name} that {error}") from None
    metadata = checked.pop("where", ())
    return Filters(**checked, metadata=metadata)


def _check_kind(value: Any) -> str:
    kind: str = _check_type(str, value)
    if kind not in set(DocumentKind):
        raise FieldError(f"must be one of {', '.join(DocumentKind)}")
    return kind


def _check_answer(value: Any) -> str:
    if _check_type(str, value) != ABSENT:
        raise FieldError(f"must be {ABSENT!r}")
    return value


def _check_where(value: Any) -> tuple[Condition, ...]:
    texts = _check_list(partial(_check_text, MAX_NAME_LENGTH), value)
    return read_conditions(parse_comparisons(texts))


_check_name = partial(_check_text, MAX_NAME_LENGTH)
_CHECK_OF_FORM: dict[Form, Callable[[Any], Any]] = {
    Form.TEXT: _check_name,
    Form.TEXTS: partial(_check_list, _check_name),
    Form.KINDS: partial(_check_list, _check_kind),
    Form.REFERENCES: partial(_check_list, _check_document),
    Form.CONDITIONS: _check_where,
}
_FILTER_CHECKS = {
    "where" if row.form is Form.CONDITIONS else name: _CHECK_OF_FORM[row.form]
    for name, row in FILTERS.items()
}
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "id": _check_id,
    "query": partial(_check_text, MAX_QUERY_LENGTH),
    "expected": partial(_check_list, _check_document),
    "relevance": _check_relevance,
    "phrases": partial(_check_list, partial(_check_text, MAX_PHRASE_LENGTH)),
    "answer": _check_answer,
    "top_k": partial(_check_integer, 1, MAX_TOP_K),
    "filters": _check_filters,
}


class DocumentNames:
    """Documents of a world by all their references.

    A reference is a number, doc id or name, or the last parts of a path on this machine. A
    reference that matches several documents names none of them.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        documents = list(documents)
        self._references = document_references(documents)
        self._by_name: dict[str, list[Document]] = defaultdict(list)
        for document in documents:
            self._by_name[document.name].append(document)

    def find(self, reference: str) -> Document | None:
        """Return the document that a reference names; None if none or several match."""
        found = self._references.find(reference)
        if not found:
            parts = PurePath(reference).parts
            found = [
                document
                for document in self._by_name.get(PurePath(reference).name, [])
                if PurePath(document.path).parts[-len(parts) :] == parts
            ]
        return found[0] if len(found) == 1 else None

    def key_of(self, reference: str) -> str | None:
        """Return the doc id of the document that a reference names; all revisions share it."""
        found = self.find(reference)
        return found.doc_id if found else None


def normalize_text(text: str) -> str:
    """Return a text for comparing phrases: case-folded, with single spaces."""
    return " ".join(text.casefold().split())


class Refused(Exception):
    """A fault of a file: the number of its line, and the reason."""


class Item(Struct, frozen=True):
    """One entry of a file: its first line, its fields, and the line of each field."""

    line: int
    fields: dict[str, Any]
    lines: dict[str, int]


def parse_yaml(text: str) -> list[Item | Refused]:
    """Return each entry of a YAML list, or its error; raises Refused."""
    root = _compose(text)
    if root is None:
        return []
    if root.id != "sequence" or root.flow_style or root.start_mark.column:
        raise _refusal(root, "the file must be one list whose entries begin with '- ' at the left")
    return [_read_entry(node) for node in root.value]


def _compose(text: str) -> Any:
    # Imported lazily: few programs read golden queries.
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            check_cancelled()
            event: Any = self.peek_event()
            if event.anchor is not None:
                raise _refusal(event, "anchors and aliases are not accepted; repeat the text")
            return super().compose_node(parent, index)

    try:
        return yaml.compose(text, Loader)
    except yaml.MarkedYAMLError as error:
        # An unclosed quote, list or key is reported where it begins, anything else where it is.
        is_open = re.search("quoted|flow|simple key", error.context or "")
        mark = error.context_mark if is_open else error.problem_mark
        reason = f"not valid YAML: {error.problem}; a text may need quotes"
        raise Refused(mark.line + 1 if mark else 1, reason) from None
    except yaml.reader.ReaderError as error:
        reason = "contains a control character; write it as an escape, in double quotes"
        raise Refused(text.count("\n", 0, error.position) + 1, reason) from None
    except RecursionError:
        raise Refused(1, "nested too deep") from None


def _read_entry(node: Any) -> Item | Refused:
    try:
        if node.id != "mapping":
            raise _refusal(node, "not a mapping of fields")
        fields = _read_value(node, _MAX_DEPTH)
        lines = {key.value: key.start_mark.line + 1 for key, _ in node.value}
        return Item(node.start_mark.line + 1, fields, lines)
    except Refused as refused:
        return refused


def _read_value(node: Any, depth: int) -> Any:
    if node.id == "scalar":
        return _read_scalar(node)
    if node.tag not in (f"{_TAG}seq", f"{_TAG}map"):
        raise _refusal(node, "tags are not accepted")
    if not depth:
        raise _refusal(node, "nested too deep; put it in quotes if it is a text")
    if node.id == "sequence":
        return [_read_value(entry, 0) for entry in node.value]
    found: dict[str, Any] = {}
    for key_node, value in node.value:
        key = str(_read_value(key_node, 0))
        if key in found:
            raise _refusal(key_node, f"{key!r} occurs twice")
        found[key] = _read_value(value, depth - 1)
    return found


def _read_scalar(node: Any) -> str | int:
    if node.tag == f"{_TAG}str":
        return node.value
    if node.tag == f"{_TAG}int" and _INTEGER.fullmatch(node.value):
        return int(node.value)
    if not node.value:
        raise _refusal(node, "has no value")
    raise _refusal(node, f"{node.value[:80]!r} is not a string in YAML; put it in quotes")


def _refusal(node: Any, reason: str) -> Refused:
    return Refused(node.start_mark.line + 1, reason)
