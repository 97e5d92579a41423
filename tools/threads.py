"""Read the markers of objects that threads share: `# Shared by threads: REASON`.

A marker stands directly above a definition; "as above" repeats the reason of the one before it.
`python -m tools.threads` prints them. `tests/architecture/test_shared_state.py` finds objects that
lack one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "truespan"
MARKER = re.compile(r"# Shared by threads: (.*)")


class SharedObject(NamedTuple):
    """A marked object: the name of a class, or a dotted name without the package."""

    name: str
    is_class: bool
    reason: str


def read_markers() -> list[SharedObject]:
    """Return all marked objects, by file and line."""
    found: list[SharedObject] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        if "# Shared by threads: " in text:
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            module = ".".join(part for part in parts if part != "__init__")
            found += _read_file(text, module)
    return found


def _read_file(text: str, module: str) -> Iterator[SharedObject]:
    lines = text.split("\n")
    starts = {_first_line(node): node for node in ast.parse(text).body}
    previous = ""
    for number, line in enumerate(lines):
        if marker := MARKER.fullmatch(line):
            parts, below = [marker[1]], number + 1
            while lines[below].startswith("# "):
                parts.append(lines[below][2:])
                below += 1
            reason = " ".join(parts).rstrip(".")
            previous = previous if reason == "as above" else reason
            node = starts[below + 1]
            name = _name_of(node)
            is_class = isinstance(node, ast.ClassDef)
            yield SharedObject(name if is_class else f"{module}.{name}", is_class, previous)


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _name_of(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    assert isinstance(target, ast.Name), f"line {node.lineno}: a marker stands above a definition"
    return target.id


if __name__ == "__main__":
    for each in read_markers():
        print(f"{each.name}: {each.reason}")
