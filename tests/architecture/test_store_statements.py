"""Every statement of the store that touches rows of a world names the world."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.promises import proves
from tests.support.syntax import walk_file
from truespan.store.engines.session import SHARED_TABLES
from truespan.store.engines.sqlite import WORLD_TABLES

STORE = Path(__file__).parents[2] / "src" / "truespan" / "store"
RUN = {"all", "one", "value", "execute", "execute_many", "stream", "in_each", "all_shared"}
TABLES = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)")
WITH_WORLD = (WORLD_TABLES | {"worlds"}) - SHARED_TABLES
MIN_STATEMENTS = 150
"""Fewer would mean that this test no longer finds them."""
ROWS_OF_EXTENSIONS = [
    STORE.parent / "extensions" / path
    for path in (
        "cluster/copy.py",
        "cluster/paces.py",
        "quality/generation_rows.py",
        "server/request_rows.py",
    )
]
NOT_OF_ONE_WORLD = {"sqlite.py", "postgres.py", "snapshot.py"}
"""Drivers, which find and create worlds, and copies of a whole file."""

IN_EVERY_WORLD = {
    # What is too old goes in idle worlds too; where there is row security, it keeps to one world.
    "DELETE FROM query_cache WHERE created_at < :oldest OR created_at > :now",
    "DELETE FROM usage WHERE created_at < :oldest",
    "DELETE FROM turns WHERE asked_at < :oldest",
    "DELETE FROM conversations WHERE NOT EXISTS "
    "(SELECT 1 FROM turns t WHERE t.conversation = conversations.key)",
}


def statements() -> Iterator[tuple[str, str]]:
    """Yield every statement with its place, composed of the constants of its module."""
    for path in (*ROWS_OF_EXTENSIONS, *sorted(STORE.rglob("*.py"))):
        if path.name in NOT_OF_ONE_WORLD:
            continue
        name = ".".join(path.relative_to(STORE.parents[1]).with_suffix("").parts)
        known = vars(importlib.import_module(name.removesuffix(".__init__")))
        for node in walk_file(path):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in RUN:
                continue
            for argument in node.args:
                place = f"{path.name}:{argument.lineno}"
                if isinstance(argument, ast.Constant | ast.JoinedStr | ast.Name | ast.BinOp):
                    text = _evaluate(argument, known)
                    if text is not None and TABLES.search(text):
                        yield place, text


def _evaluate(node: ast.expr, known: dict[str, object]) -> str | None:
    """Return the text of an expression; parts known only to a call stay blank."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_evaluate(part, known) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _evaluate(node.value, known) or "_unknown_"
    if isinstance(node, ast.BinOp):
        return (_evaluate(node.left, known) or "") + (_evaluate(node.right, known) or "")
    value = node.value if isinstance(node, ast.Constant) else known.get(getattr(node, "id", ""))
    return value if isinstance(value, str) else None


@proves("store.space-isolation")
def test_statements_on_rows_of_a_world_name_the_world() -> None:
    found = list(statements())
    wrong = {
        place: " ".join(text.split())
        for place, text in found
        if WITH_WORLD.intersection(TABLES.findall(text)) and ":world" not in text
    }
    assert len(found) >= MIN_STATEMENTS
    assert {place: text for place, text in wrong.items() if text not in IN_EVERY_WORLD} == {}
