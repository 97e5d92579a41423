"""Records with many fields are built by keyword: swapped positions would pass a type checker."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.syntax import walk_file
from truespan.store.integrity.checksums import REVISION_CELLS, RevisionCells

SOURCE = Path(__file__).parents[2] / "src" / "truespan"
MAX_POSITIONAL = 5
ROW_TYPES = {"RevisionCells"}
"""Tuples of database columns, which `_make` reads in the order of their column lists."""

Classes = Mapping[str, Mapping[str, ast.ClassDef]]
"""The classes of each module, by module and name."""


def test_constructors_take_at_most_five_positions() -> None:
    modules = {_module(path): walk_file(path) for path in SOURCE.rglob("*.py")}
    classes = {
        module: {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        for module, nodes in modules.items()
    }
    checked = [
        (module, call, _positions(call, found, classes))
        for module, nodes in modules.items()
        for call, found in _constructor_calls(nodes, module, classes)
    ]
    assert len(checked) > 1000
    assert [
        f"{module}:{call.lineno}: {ast.unparse(call)[:90]}"
        for module, call, count in checked
        if count > MAX_POSITIONAL
    ] == []


def test_row_types_follow_their_column_lists() -> None:
    columns = [column.strip() for column in REVISION_CELLS.split(",")]
    expected = ["document" if name == "d.number" else name[2:] for name in columns]
    assert list(RevisionCells._fields) == expected


def test_starred_arguments_count_as_all_fields() -> None:
    module = "truespan.sample"
    tree = ast.parse(
        "class Wide:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int\n    f: int\n"
        "class Narrow:\n    a: int\n    b: int\n"
        "Wide(*row)\nWide(1, *row)\nNarrow(*row)\nWide._make(row)\nmap(Wide, rows)\n"
        "Wide(1, 2, 3, 4, 5, f=6)\nWide(1, 2, 3, 4, 5, 6)\n"
    )
    classes = {module: {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}}
    counts = [
        _positions(call, found, classes)
        for call, found in _constructor_calls([*ast.walk(tree)], module, classes)
    ]
    assert counts == [6, 6, 2, 6, 1, 5, 6]


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _constructor_calls(
    nodes: Sequence[ast.AST], module: str, classes: Classes
) -> Iterator[tuple[ast.Call, ast.ClassDef]]:
    """Give each call that builds an object of one of our own classes, with the class."""
    known = _known_classes(nodes, module, classes)
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr == "_make":
            function = function.value
        elif isinstance(function, ast.Name) and function.id in ("map", "starmap") and call.args:
            function = call.args[0]
        if isinstance(function, ast.Name) and function.id in known:
            yield call, known[function.id]


def _known_classes(
    nodes: Sequence[ast.AST], module: str, classes: Classes
) -> dict[str, ast.ClassDef]:
    """Return the classes that a module defines or imports, by the name that it uses."""
    known: dict[str, ast.ClassDef] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module in classes:
            origin = classes[node.module]
            known |= {a.asname or a.name: origin[a.name] for a in node.names if a.name in origin}
    return known | dict(classes[module])


def _positions(call: ast.Call, found: ast.ClassDef, classes: Classes) -> int:
    """Return how many positional arguments a call may pass; a starred one may fill all fields."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "_make":
        return 0 if found.name in ROW_TYPES else _field_count(found, classes)
    if isinstance(call.func, ast.Name) and call.func.id in ("map", "starmap"):
        return _field_count(found, classes) if call.func.id == "starmap" else len(call.args) - 1
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return _field_count(found, classes)
    return len(call.args)


def _field_count(found: ast.ClassDef, classes: Classes) -> int:
    """Return how many arguments a constructor takes, counting the fields of base classes."""
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return len(node.args.args) - 1
    bases = {base.id for base in found.bases if isinstance(base, ast.Name)}
    inherited = {
        name: base for own in classes.values() for name, base in own.items() if name in bases
    }
    own = sum(isinstance(node, ast.AnnAssign) for node in found.body)
    return own + sum(_field_count(base, classes) for base in inherited.values())
