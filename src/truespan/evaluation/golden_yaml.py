"""Golden queries in YAML: a list of mappings, with the line of each entry and field.

Values are strings, whole numbers, lists of these, and mappings one level deep. Aliases, tags,
repeated keys and unquoted words that YAML takes for something else (`yes`, `1.5`) are refused.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from truespan.core.cancel import check_cancelled

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_TAG = "tag:yaml.org,2002:"
_MAX_DEPTH = 3
"""Maximum depth of an entry: its fields, a mapping in a field, a list in that."""


class Refused(Exception):
    """A fault of a file: the number of its line, and the reason."""


class Item(Struct, frozen=True):
    """One entry of a file: its first line, its fields, and the line of each field."""

    line: int
    fields: dict[str, Any]
    lines: dict[str, int]


def parse_yaml(text: str) -> list[Item | Refused]:
    """Return each entry of a YAML list, or what is wrong with it; raises Refused."""
    root = _compose(text)
    if root is None:
        return []
    if root.id != "sequence" or root.flow_style or root.start_mark.column:
        raise _refusal(root, "the file must be one list whose entries begin with '- ' at the left")
    return [_read_entry(node) for node in root.value]


def dump_yaml(entries: list[dict[str, Any]]) -> str:
    """Return entries as a YAML list that `parse_yaml` reads back, each text on one line."""
    import yaml

    return yaml.safe_dump(entries, allow_unicode=True, sort_keys=False, width=float("inf"))


def _compose(text: str) -> Any:
    """Return the root node of a YAML text, None if it is empty."""
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
