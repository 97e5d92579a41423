"""Write `aio.pyi`, the types of `truespan.aio`, from the classes of the library.

Methods become coroutines, iterators asynchronous iterators, and objects of the library their
asynchronous twins. Arguments and their types are copied from the source.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from truespan import aio
from truespan.engine.conversations import Conversation
from truespan.engine.documents import Documents
from truespan.engine.library import Library
from truespan.engine.library_parts import LibraryMaintenance, LibraryModels
from truespan.engine.notes import ReaderNotes
from truespan.engine.reader import Reader
from truespan.engine.tokens import AccessTokens
from truespan.engine.world import World
from truespan.engine.world_jobs import WorldJobs
from truespan.extensions.proof.signing import LibraryKeys
from truespan.extensions.quality.generations import Generations
from truespan.extensions.quality.world import WorldEvaluation

STUB = Path(aio.__file__).with_suffix(".pyi")
HEAD = '"""Types of `truespan.aio`; written by `make reference`."""\n\n'
OPENING = """
def open(
    path: str | Path,
    *,
    create: bool = ...,
    embedder: Embedder | None = ...,
    counter: TokenCounter | None = ...,
    chat: ChatModels | None = ...,
    others: Mapping[str, Embedder] | None = ...,
    reranker: Reranker | None = ...,
    authority: Authority | None = ...,
    observer: Observer | None = ...,
    metrics: bool | None = ...,
    logs: bool = ...,
) -> AbstractAsyncContextManager[AsyncLibrary]: ...
def open_temporary(
    settings_folder: str | Path = ...,
) -> AbstractAsyncContextManager[AsyncLibrary]: ...
"""
IMPORTS = """
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from truespan.observer import Observer
from truespan.protocols import ChatModels, Embedder, Reranker, TokenCounter
from truespan.types.scope import Authority
"""
INTERNAL = frozenset({"access", "server"})
"""Public attributes for other modules of the package."""
WRAPPED: tuple[type, ...] = (
    *(Library, World, Reader, Conversation, Documents, WorldEvaluation, Generations, WorldJobs),
    *(ReaderNotes, LibraryMaintenance, LibraryModels),
    *(AccessTokens, LibraryKeys),
)
STREAMS: frozenset[str] = vars(aio)["STREAMS"]
TWINS = {kind.__name__: f"Async{kind.__name__}" for kind in WRAPPED}


class ToAsync(ast.NodeTransformer):
    """Names the asynchronous twins in annotations, and notes the other names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.Name:
        twin = TWINS.get(node.id, node.id)
        if twin == node.id:
            self.names.add(node.id)
        return ast.Name(twin)


def write_stub() -> str:
    """Return the text of the stub."""
    imported, used = dict[str, str](), set[str]()
    classes = list[str]()
    for kind in WRAPPED:
        lines = list[str]()
        for part in reversed([base for base in kind.__mro__ if base.__module__ in sys.modules]):
            if not part.__module__.startswith("truespan."):
                continue
            source = ast.parse(inspect.getsource(sys.modules[part.__module__]))
            imported |= dict(_find_imports(source, part.__module__))
            body = next(
                node
                for node in source.body
                if isinstance(node, ast.ClassDef) and node.name == part.__name__
            )
            transformer = ToAsync()
            lines += [line for node in body.body for line in _describe(node, transformer)]
            used |= transformer.names
        classes.append(f"class {TWINS[kind.__name__]}:\n" + "\n".join(lines))
    needed = sorted({imported[name] for name in used if name in imported})
    text = HEAD + "\n".join([*needed, IMPORTS, *classes, OPENING])
    return _format(text)


def _find_imports(source: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Yield each name that a module imports or defines, and the statement that imports it."""
    for node in ast.walk(source):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"from {module} import {node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, f"from {module} import {target.id}"
    for found in ast.walk(source):
        if isinstance(found, ast.ImportFrom | ast.Import):
            origin = f"from {found.module} " if isinstance(found, ast.ImportFrom) else ""
            for alias in found.names:
                name = alias.asname or alias.name
                renamed = f" as {name}" if alias.asname else ""
                yield name, f"{origin}import {alias.name}{renamed}"


def _describe(node: ast.stmt, transformer: ToAsync) -> Iterator[str]:
    """Yield the lines of a public method, property or attribute."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        if not (node.target.id.startswith("_") or node.target.id in INTERNAL):
            shown = ast.unparse(transformer.visit(node.annotation))
            yield f"    @property\n    def {node.target.id}(self) -> {shown}: ..."
        return
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.name in INTERNAL:
        return
    decorators = [ast.unparse(each) for each in node.decorator_list]
    arguments = node.args
    for argument in (*arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None and argument.annotation is not None:
            argument.annotation = transformer.visit(argument.annotation)
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [each and ast.Constant(...) for each in arguments.kw_defaults]
    returns = ast.unparse(transformer.visit(node.returns)) if node.returns else "None"
    is_stream = node.name in STREAMS
    if is_stream:
        returns = returns.replace("Iterator[", "AsyncIterator[", 1)
    prefix = "" if is_stream or "property" in decorators else "async "
    for name in decorators:
        if name in ("property", "overload"):
            transformer.names.add(name)
            yield f"    @{name}"
    yield f"    {prefix}def {node.name}({ast.unparse(arguments)}) -> {returns}: ..."


def _format(text: str) -> str:
    for command in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text
