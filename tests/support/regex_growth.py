"""Find regular expressions in source code, and inputs on which matching one grows too fast.

A backtracking engine takes quadratic time where two repetitions can share the same characters
(`\\s*:?\\s*$`), and where a search fails at every place only after reading on (`<!--.*?-->`). The
inputs are made from the parsed expression: the text before each repetition, then its body many
times, then a character at which the match fails.
"""

import ast
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tests.laws.examples import in_test_or_prove
from tests.support.syntax import parse_file

_ANCHORED = frozenset({"match", "fullmatch"})
_METHODS = _ANCHORED | {"search", "sub", "subn", "split", "findall", "finditer"}

Node: TypeAlias = Any
"""A node of the engine's own parser, which has no types."""


class Expression(NamedTuple):
    """A regular expression of a source file and the methods that are called on it.

    `place` is the file with the name or the function that the expression belongs to.
    """

    place: str
    line: int
    pattern: str | bytes
    flags: int
    methods: frozenset[str]


class Slow(NamedTuple):
    """An input on which the time of a match grows faster than its length."""

    method: str
    start: str
    pump: str
    suffix: str
    length: int
    ratio: float


def find_expressions(
    root: Path,
    built: Mapping[str, Callable[[], Iterable[str]]],
    passed_on: Mapping[str, frozenset[str]],
) -> Iterator[Expression]:
    """Yield every expression that a call of `re` in the package at `root` compiles.

    `built` gives, by place, the patterns that are put together from arguments; `passed_on` gives
    the methods of those that are called elsewhere.
    """
    paths = {_module_name(path, root): path for path in sorted(root.rglob("*.py"))}
    trees = {name: parse_file(path) for name, path in paths.items()}
    uses = _find_uses(trees)
    for module, tree in trees.items():
        file = paths[module].relative_to(root).as_posix()
        for call, function, name in _calls(tree):
            place, called = f"{file}:{function or name or call.lineno}", _called(call)
            own = frozenset({called}) if called != "compile" else uses.get((module, name))
            methods = passed_on.get(place) or own or _METHODS
            if place in built:
                patterns = [(pattern, 0) for pattern in built[place]()]
            else:
                patterns = [_evaluate(call, vars(import_module(module)), place)]
            for pattern, flags in patterns:
                yield Expression(place, call.lineno, pattern, flags, methods)


def _module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _called(node: ast.AST) -> str:
    """Return the function of `re` that a node calls; empty for any other node."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    owner, name = node.func.value, node.func.attr
    is_re = isinstance(owner, ast.Name) and owner.id == "re"
    return name if is_re and name in {"compile", *_METHODS} else ""


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the calls of `re`, each with its function and its assigned name."""

    def walk(node: ast.AST, function: str, target: str) -> Iterator[tuple[ast.Call, str, str]]:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.Assign | ast.AnnAssign):
            to = node.targets[0] if isinstance(node, ast.Assign) else node.target
            target = to.id if isinstance(to, ast.Name) else ""
        if isinstance(node, ast.Call) and _called(node):
            yield node, function, target
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function, target)

    yield from walk(tree, "", "")


def _find_uses(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], frozenset[str]]:
    """Return the methods called on each module-level name; all of them where it is passed on."""
    found: dict[tuple[str, str], set[str]] = {}
    for module, tree in trees.items():
        nodes = [*ast.walk(tree)]
        origin = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        direct = {id(node.value): node.attr for node in attributes}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                key = origin.get(node.id, (module, node.id))
                method = direct.get(id(node), "")
                methods = {method} if method in _METHODS or method == "pattern" else _METHODS
                found.setdefault(key, set()).update(methods)
    return {key: frozenset(methods - {"pattern"}) for key, methods in found.items()}


def _evaluate(call: ast.Call, scope: dict[str, object], place: str) -> tuple[str | bytes, int]:
    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), place, "eval"), dict(scope))

    flags = next((word.value for word in call.keywords if word.arg == "flags"), None)
    position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(_called(call), 2)
    if flags is None and len(call.args) > position:
        flags = call.args[position]
    try:
        return value(call.args[0]), int(value(flags)) if flags is not None else 0
    except NameError as missing:
        raise AssertionError(
            f"{place}: name the patterns that are built here ({missing})"
        ) from None


_ALPHABET = " a0\n-A.\t_\"'*|(<>[{=:,/\\#é`~!\x00%"
_FIRST = in_test_or_prove((" ", "a", "\n"), (" ", "a", "0", "\n", "-", "A", ".", "_"))
_SUFFIXES = in_test_or_prove(("", "\x00"), ("", "\x00", "a", " \x00", "\n!"))
_MAX_LENGTH = 4096
# A quadratic match of 2,400 characters takes 10 ms, and a quarter of them is more than the 512
# characters to which many repetitions are limited.
_LENGTHS = (512, in_test_or_prove(2400, _MAX_LENGTH))
_NESTED_LENGTHS = (16, 24, 36, 54, 81, 121, 182, 273, 410, 615, _LENGTHS[-1])
"""Small steps, since repetitions within repetitions may take exponential time."""
_SUSPICIOUS_SECONDS = 0.0015
_MAX_RATIO = 9.0
"""Between a length and a quarter of it. 4 is linear, 16 is quadratic."""
_CUBIC = 40.0


class _Samples:
    """Short strings that parts of a parsed expression match, one way for each preferred letter."""

    def __init__(self, first: str, *, optional: bool) -> None:
        self._alphabet = first + _ALPHABET
        self._optional = optional
        self._groups: dict[int, str] = {}

    def of(self, nodes: Iterable[Node]) -> str:
        return "".join(self._node(op, value) for op, value in nodes)

    def _node(self, op: Any, value: Any) -> str:
        name = str(op)
        if name == "LITERAL":
            return chr(value)
        if name == "NOT_LITERAL":
            return next(sign for sign in self._alphabet if ord(sign) != value)
        if name == "ANY":
            return self._alphabet[0] if self._alphabet[0] != "\n" else "a"
        if name == "IN":
            return self._of_class(value)
        if name == "BRANCH":
            return self.of(value[1][0])
        if name == "SUBPATTERN":
            text = self.of(value[3])
            self._groups[value[0]] = text
            return text
        if name == "GROUPREF":
            return self._groups.get(value, "")
        if name == "ATOMIC_GROUP":
            return self.of(value)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = value
            count = max(int(least), 1 if self._optional and most else 0)
            return self.of(body) * min(count, 50)
        if name == "GROUPREF_EXISTS":
            return self.of(value[1])
        return ""  # Assertions have no width.

    def _of_class(self, items: list[tuple[Any, Any]]) -> str:
        others = [chr(value) for op, value in items if str(op) == "LITERAL"]
        others += [chr(value[0]) for op, value in items if str(op) == "RANGE"]
        return next((sign for sign in [*self._alphabet, *others] if _in_class(items, sign)), "")


def _in_class(items: list[tuple[Any, Any]], sign: str) -> bool:
    kinds = {"SPACE": str.isspace, "DIGIT": str.isdigit, "WORD": lambda s: s.isalnum() or s == "_"}
    negated, found = False, False
    for op, value in items:
        name = str(op)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            found = found or ord(sign) == value
        elif name == "RANGE":
            found = found or value[0] <= ord(sign) <= value[1]
        else:
            kind = str(value).removeprefix("CATEGORY_")
            test = kinds[kind.removeprefix("NOT_")]
            found = found or test(sign) != kind.startswith("NOT_")
    return found != negated


def _repetitions(nodes: Iterable[Node], before: list[Node]) -> Iterator[tuple[list[Node], Node]]:
    """Yield the body of every long repetition, with the nodes that come before it."""
    before = list(before)
    for op, value in nodes:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            if int(value[1]) > 100:
                yield before, value[2]
            yield from _repetitions(value[2], before)
        elif name == "SUBPATTERN":
            yield from _repetitions(value[3], before)
        elif name == "ATOMIC_GROUP":
            yield from _repetitions(value, before)
        elif name == "BRANCH":
            for branch in value[1]:
                yield from _repetitions(branch, before)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repetitions(value[1], before)
        before.append((op, value))


def hostile_inputs(pattern: str, flags: int) -> tuple[list[tuple[str, str]], bool]:
    """Return pairs of a start and a repeated text, and whether repetitions nest."""
    parser: Any = import_module("re._parser")
    tree = parser.parse(pattern, flags)
    pairs: set[tuple[str, str]] = set()
    nested = False
    for before, body in _repetitions(tree, []):
        nested = nested or any(_divides(op) for op, _ in _walk(body))
        for first in _FIRST:
            for optional in (False, True):
                samples = _Samples(first, optional=optional)
                start, pump = samples.of(before), samples.of(body)
                pairs |= {("", start + pump), ("", start), ("", pump), (start, pump)}
                pairs |= {("", f"{start}{pump} "), (start, f"{pump}\n"), ("", f"{start}\n")}
    return sorted(pair for pair in pairs if pair[1]), nested


def _divides(op: object) -> bool:
    """Return whether a node within a repetition can divide the same text in several ways."""
    return str(op) == "BRANCH" or "REPEAT" in str(op)


def _walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield every node below, in alternatives and groups too."""
    for op, value in nodes:
        yield op, value
        for part in value if isinstance(value, tuple | list) else [value]:
            groups = part if isinstance(part, list) else [part]
            for group in groups:
                if hasattr(group, "data"):
                    yield from _walk(group)


def find_slow_input(expression: Expression) -> Slow | None:
    """Return an input on which matching grows faster than the input; None if there is none."""
    written = expression.pattern
    is_bytes = isinstance(written, bytes)
    text = written.decode("latin-1") if isinstance(written, bytes) else written
    compiled = re.compile(expression.pattern, expression.flags)
    pairs, nested = hostile_inputs(text, expression.flags)
    lengths = _NESTED_LENGTHS if nested else _LENGTHS
    for (start, pump), suffix in product(pairs, _SUFFIXES):
        for method in _distinct(expression.methods):
            call = getattr(compiled, method)
            run = partial(_seconds, call, start, pump, suffix, is_bytes)
            length = next((n for n in lengths if run(n) > _SUSPICIOUS_SECONDS), None)
            if length is None:
                continue
            ratio = min(_ratio(run, length) for _ in range(3))
            while _MAX_RATIO < ratio < _CUBIC and length < _MAX_LENGTH:
                # A repetition of limited length is linear beyond its limit.
                length *= 2
                ratio = min(_ratio(run, length) for _ in range(3))
            if ratio > _MAX_RATIO:
                return Slow(method, start, pump, suffix, length, ratio)
    return None


def _distinct(methods: frozenset[str]) -> Iterator[str]:
    """Yield one method for each way to look: a sequence of matches costs what `findall` does."""
    yield from sorted(methods & _ANCHORED)
    if methods - _ANCHORED:
        yield "findall" if methods - _ANCHORED - {"search"} else "search"


def _ratio(run: Callable[[int], float], length: int) -> float:
    quarter = sorted(run(length // 4) for _ in range(5))[2]
    return run(length) / max(quarter, 1e-7)


def _seconds(
    call: Callable[[Any], object], start: str, pump: str, suffix: str, is_bytes: bool, length: int
) -> float:
    """Return the CPU time of one call, which a busy machine does not change."""
    line = start + pump * (length // len(pump) or 1) + suffix
    text = line.encode() if is_bytes else line
    began = time.thread_time()
    call(text)
    return time.thread_time() - began
