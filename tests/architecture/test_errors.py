"""Errors are data: few classes, and every literal code is in a table."""

import ast
from collections.abc import Iterator

from tests.architecture.test_imports import modules, relative
from tests.support.syntax import walk_file
from truespan.errors import TruespanError, error_codes

MAX_CLASSES = 45


def test_written_codes_are_known() -> None:
    """A wrong code would only fail when the error is raised."""
    kinds = {kind.__name__: kind for kind in error_codes().values() if kind.codes}
    wrong: list[str] = []
    for path in modules():
        for node in walk_file(path):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).removeprefix("errors.").removesuffix(".of")
            written = [each.value for each in node.keywords if each.arg == "code"]
            written += node.args[:1] if name in ("SourceRefused", "NotFound") else []
            for code in written:
                if name in kinds and isinstance(code, ast.Constant):
                    value = code.value
                    known = {kinds[name].code, *kinds[name].codes}
                    if not known & {value, f"{value}_not_found"} and value != "position":
                        wrong.append(f"{relative(path)}:{node.lineno}: {value!r}")
    assert wrong == []


def test_number_of_error_classes_is_limited() -> None:
    def below(kind: type[TruespanError]) -> Iterator[type[TruespanError]]:
        yield kind
        for each in kind.__subclasses__():
            if each.__module__.startswith("truespan.errors"):
                yield from below(each)

    assert len({*below(TruespanError)}) <= MAX_CLASSES
