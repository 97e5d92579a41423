"""Rules of style that a linter does not check: names of tests and of limits, and docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.syntax import walk_file

ROOT = Path(__file__).parents[2]
MAX_TEST_NAME = 70


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_names_of_tests_are_short() -> None:
    names = [
        name
        for path in python_files("tests")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    ]
    assert len(names) > 1000
    assert [name for name in names if len(name) > MAX_TEST_NAME] == []


def test_limits_are_named_max_and_min() -> None:
    pattern = re.compile(r"\b_?(?:MOST|LEAST|LONGEST|LARGEST)_[A-Z]")
    wrong = [
        str(path.relative_to(ROOT))
        for path in python_files("src", "bench", "tests")
        if path != Path(__file__) and pattern.search(path.read_text())
    ]
    assert wrong == []


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    found = [
        (path, node.value.value.strip())
        for path in python_files("src")
        for node in walk_file(path)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    assert len(found) > 1000
    clauses = re.compile(r"(What|Where|How|Which|Who|When)\b")
    wrong = [f"{path.name}: {text[:60]}" for path, text in found if clauses.match(text)]
    wrong += [path.name for path, text in found if re.search(r"\bso many\b", text, re.IGNORECASE)]
    assert wrong == []
