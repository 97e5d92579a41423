"""Objects that live longer than a request: each has a marker, or is constant; see CONTRIBUTING.md.

An object is constant if no function of the package changes it. Two kinds of objects live long:
those of modules, and those that a library and its server hold. A search finds both, so that a new
object fails until its author adds a marker.
"""

import ast
import asyncio
import functools
import importlib
import inspect
import logging
import operator
import pkgutil
import re
import struct
import threading
import types
import typing
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest
from tools.threads import read_markers

import truespan
from tests.promises import proves
from tests.support.providers.bench import TickingClock, ring
from tests.support.syntax import walk_file
from tests.support.worlds import WordCounter, make_library
from truespan.engine.components import Components
from truespan.extensions.crawl.web import WebPages
from truespan.extensions.models.google import GoogleEmbedder
from truespan.extensions.models.multilingual import MultilingualEmbedder
from truespan.extensions.models.sentence_transformers import (
    SentenceEmbedder,
    TorchFolder,
    TorchReranker,
)
from truespan.extensions.models.torch_local import LocalTorchEmbedder
from truespan.extensions.server.http.app import ServerOptions, make_app
from truespan.extensions.server.http.streamable import StreamableApp
from truespan.extensions.server.mcp.caller import AnonymousAccess
from truespan.extensions.server.metrics import MetricsObserver
from truespan.extensions.server.openid import KeyCache
from truespan.parsing.sandbox.client import ChildParser
from truespan.providers.chat import ChatDialect
from truespan.providers.embedder import EmbedderOptions
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.providers.ollama import OllamaEmbedder
from truespan.providers.onnx_embedder import FolderEmbedder
from truespan.providers.openai import OpenAiChat, OpenAiEmbedder
from truespan.providers.rerank import OnnxReranker
from truespan.providers.token_counter import WordPieceCounter
from truespan.wiring import open_library
from truespan.wiring.providers import DeferredChat

NEED_SERVER = {
    "PostgresDatabase", "QdrantServerIndex", "Server", "GuardedTransport", "ProcrastinateQueue",
}  # fmt: skip
"""Shared classes whose objects need a database or index server, which is not started here."""
CHANGES = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "setdefault", "sort", "update", "put", "put_nowait",
}  # fmt: skip
"""Methods that change a container."""
FOR_THREADS = (ContextVar, logging.Logger, type(threading.Lock()), type(threading.RLock()))
"""Made for threads."""
LEFT_OUT = ("truespan.integrations.", "truespan.__main__", "truespan.cli")
"""Modules that need another environment, and those of a command, which has one thread."""


def marked(*, classes: bool) -> set[str]:
    """Return the names of the objects with a marker: classes, or objects of modules."""
    return {each.name for each in read_markers() if each.is_class == classes}


def modules() -> Iterator[types.ModuleType]:
    for found in pkgutil.walk_packages(truespan.__path__, "truespan."):
        if not found.name.startswith(LEFT_OUT):
            yield importlib.import_module(found.name)


@functools.cache
def nodes_of(file: str) -> list[ast.AST]:
    """Return all nodes of a file; the first is the module."""
    return walk_file(Path(file))


@functools.cache
def classes_of(file: str) -> list[ast.ClassDef]:
    return [node for node in nodes_of(file) if isinstance(node, ast.ClassDef)]


def changed_names(function: ast.AST) -> Iterator[str]:
    """Yield the names, also attributes of `self`, that code changes or rebinds."""
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield from node.names
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CHANGES:
            yield from name_of(node.func.value)  # type: ignore[attr-defined]
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for part in parts:
                if isinstance(part, ast.Subscript):
                    yield from name_of(part.value)
                elif isinstance(part, ast.Attribute):
                    yield from name_of(part)


def name_of(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield f"{node.value.id}.{node.attr}"


def is_constant(value: Any, depth: int = 0) -> bool:
    """Return whether a value can only be changed by changing one of the built-in containers."""
    kind = type(value)
    if depth > 8 or isinstance(value, (*FOR_THREADS, FIXED)) or kind.__module__ == "typing":
        return True
    if isinstance(value, dict | types.MappingProxyType):
        return all(is_constant(part, depth + 1) for pair in value.items() for part in pair)
    if isinstance(value, tuple | list | set | frozenset):
        return all(is_constant(part, depth + 1) for part in value)
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        return all(is_constant(part, depth + 1) for part in parts)
    if is_frozen(kind):
        names = getattr(kind, "__struct_fields__", None) or kind.__dataclass_fields__
        return all(is_constant(getattr(value, name), depth + 1) for name in names)
    return kind.__module__.startswith("truespan") and not changing_methods(kind)


FIXED = (
    str | bytes | int | float | complex | bool | None | type | Enum | range | slice
    | re.Pattern | struct.Struct | types.FunctionType | types.BuiltinFunctionType
    | types.MethodType | types.GenericAlias | types.UnionType | types.EllipsisType | Path
    | typing.TypeVar | operator.itemgetter | date | timedelta
)  # fmt: skip


def is_frozen(kind: type) -> bool:
    config = getattr(kind, "__struct_config__", None) or getattr(kind, "__dataclass_params__", None)
    return config is not None and config.frozen


def is_cache(value: object) -> bool:
    return hasattr(value, "cache_info")


def changing_methods(kind: type) -> set[str]:
    """Return the attributes that methods of a class change after its objects were made."""
    changed: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith(("truespan", "tests.")):
            continue
        found = classes_of(inspect.getsourcefile(base) or "")
        own = [node for node in found if node.name == base.__name__]
        for method in (part for node in own for part in node.body):
            if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            decorators = [ast.unparse(decorator) for decorator in method.decorator_list]
            if "cached_property" in decorators:
                changed.add(method.name)
            elif method.name not in ("__init__", "__post_init__", "__new__"):
                names = map(str, changed_names(method))
                changed |= {name[5:] for name in names if name.startswith("self.")}
    return changed


def long_lived_in(module: types.ModuleType) -> Iterator[str]:
    """Yield the objects of a module that are neither constant nor made for threads."""
    nodes = nodes_of(module.__file__ or "")
    tree = cast("ast.Module", nodes[0])
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    changed = {name for function in functions for name in changed_names(function)}
    bound: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and is_cache(vars(module).get(node.name)):
            bound[node.name] = None
    for node in (
        *tree.body,
        *(part for n in tree.body if isinstance(n, ast.If) for part in n.body),
    ):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        names = [part for target in targets for part in ast.walk(target)]
        bound |= dict.fromkeys(name.id for name in names if isinstance(name, ast.Name))
    for name in bound:
        value = vars(module).get(name)
        if name.startswith("__") or isinstance(value, FOR_THREADS):
            continue
        if is_cache(value) or name in changed or not is_constant(value):
            yield f"{module.__name__.removeprefix('truespan.')}.{name}"
    for kind in {id(k): k for k in vars(module).values() if isinstance(k, type)}.values():
        if kind.__module__ == module.__name__ and not issubclass(kind, Enum):
            for name, value in vars(kind).items():
                container = isinstance(value, dict | list | set) and not name.startswith("_")
                if container and f"{kind.__name__}.{name}" in changed:
                    yield f"{module.__name__.removeprefix('truespan.')}.{kind.__name__}.{name}"


@proves("threads.shared-state")
def test_every_object_of_a_module_is_constant_or_marked() -> None:
    found = {name for module in modules() for name in long_lived_in(module)}
    listed = marked(classes=False)
    assert sorted(found - listed) == [], "new shared objects: mark them as CONTRIBUTING.md says"
    assert sorted(listed - found) == [], "objects that are gone or constant"


def held_by(*roots: object) -> dict[type, object]:
    """Return the classes of the package whose objects are reachable from these objects."""
    seen: dict[int, object] = {}
    found: dict[type, object] = {}
    todo = list(roots)
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | type | None):
            continue
        seen[id(value)] = value
        kind = type(value)
        if isinstance(value, types.FunctionType):
            if value.__module__.startswith("truespan"):
                todo += [cell.cell_contents for cell in value.__closure__ or ()]
        elif isinstance(value, types.MethodType):
            todo.append(value.__self__)
        elif isinstance(value, functools.partial):
            todo += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            todo += value
        elif kind.__module__.startswith(("truespan", "starlette.routing")):
            found.setdefault(kind, value)
            names = [*getattr(kind, "__struct_fields__", ()), *getattr(value, "__dict__", ())]
            names += [slot for base in kind.__mro__ for slot in base.__dict__.get("__slots__", ())]
            todo += [getattr(value, name, None) for name in names if name != "__weakref__"]
    return {k: v for k, v in found.items() if k.__module__.startswith("truespan")}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[object, ...]]:
    """A library with everything that it and its server hold, used once, and all providers."""
    folder, clock = tmp_path_factory.mktemp("shared"), TickingClock()
    options = EmbedderOptions("http://127.0.0.1:9", "bge-m3", clock)
    keys, counter = ring("openai", clock), WordCounter()
    providers = (
        OllamaEmbedder(options, counter=counter),
        OpenAiEmbedder(options, keys=keys, counter=counter),
        GoogleEmbedder(options, keys=keys),
        OpenAiChat(options.base_url, "chat", keys=keys, clock=clock, dialect=ChatDialect()),
        DeferredChat("chat", lambda: None),  # type: ignore[arg-type]
        LocalEmbedder(model := LocalModel()),
        WordPieceCounter(model),
        MultilingualEmbedder(),
        FolderEmbedder(folder / "model"),
        OnnxReranker(folder / "model", clock=clock, seconds=1),
        LocalTorchEmbedder(model),
        SentenceEmbedder(TorchFolder(folder, "model")),
        TorchReranker(TorchFolder(folder, "model"), "auto", clock=clock, seconds=1),
        MetricsObserver(),
        ChildParser(),
        KeyCache(bytes, (), clock, 60),
        WebPages(["docs.example.org"], clock=clock, version="1", max_bytes=1),
    )
    with open_library(folder / "library", create=True) as library:
        # What is created when it is first used is created now.
        for name in Components.__struct_fields__:
            getattr(getattr(library._components, name), "anything", None)
        library._components.mark_query("world", "query")
        lib = make_library(folder / "small")
        lib.world(a__txt="The tide comes in twice a day.").search("tide", mode="hybrid")
        app = make_app(library, ServerOptions(), asyncio.Event())
        mcp = StreamableApp(library, AnonymousAccess(None, None, False), sessions=True)
        yield library, lib.library, app, mcp, *providers
        lib.library.close()


@proves("threads.shared-state")
def test_every_class_that_threads_share_is_constant_or_marked(served: tuple[object, ...]) -> None:
    kinds = {kind for kind in held_by(*served) if not issubclass(kind, Enum)}
    found = {kind.__name__ for kind in kinds if changing_methods(kind)}
    listed = marked(classes=True)
    assert sorted(found - listed) == [], "new shared classes: mark them as CONTRIBUTING.md says"
    assert sorted(listed - found) == sorted(NEED_SERVER), "classes that are gone or never change"


def test_a_new_object_that_functions_change_is_found(tmp_path: Path) -> None:
    module = types.ModuleType("truespan.added")
    module.__file__ = str(tmp_path / "added.py")
    source = """
from collections import OrderedDict, deque
from functools import cache
TABLE = {"a": 1}
SEEN = {}
LATEST = None
KEPT = deque()
class Held:
    found = []
    def find(self): Held.found.append(1)
@cache
def learn(name): SEEN[name] = TABLE[name]
def note(value):
    global LATEST
    LATEST = value
"""
    Path(module.__file__).write_text(source)
    exec(compile(source, module.__file__, "exec"), vars(module))
    vars(module)["Held"].__module__ = module.__name__

    found = sorted(long_lived_in(module))

    assert found == ["added.Held.found", "added.KEPT", "added.LATEST", "added.SEEN", "added.learn"]
