"""The dependency rule: arrows go downwards only, and each technology lives in one place."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "truespan"

ALLOWED = {
    "errors": {"errors"},
    "model": {"errors", "model"},
    "ports": {"errors", "model", "ports"},
    "ingest": {"errors", "model", "ports", "ingest"},
    "query": {"errors", "model", "ports", "query"},
    "reading": {"errors", "model", "ports", "ingest", "query", "reading"},
    "answer": {"errors", "model", "ports", "query", "answer"},
    "upkeep": {"errors", "model", "ports", "upkeep"},
    "engine": {
        "errors",
        "model",
        "ports",
        "ingest",
        "query",
        "reading",
        "answer",
        "upkeep",
        "engine",
    },
    "adapters": {"errors", "model", "ports", "ingest", "adapters"},
    "settings": {"errors", "model", "settings"},
    "compose": {
        "errors",
        "model",
        "ports",
        "engine",
        "adapters",
        "settings",
        "ingest",
        "compose",
    },
    "doors": {
        "answer",
        "errors",
        "model",
        "ports",
        "ingest",
        "reading",
        "upkeep",
        "engine",
        "settings",
        "doors",
        "truespan",
    },
    "__main__": {"doors"},
    "truespan": {"truespan", "errors", "model", "engine", "ports", "compose"},
}
"""Which parts of the package each part may import. `truespan` is the package's own `__init__`."""

ENGINE = (
    "job_thread", "parts", "uploads", "given_up", "shares", "jobs", "intake", "held", "removal",
    "evaluation", "judged", "answering", "queue_check", "checkup",
    "generations", "upkeep_orders", "kept", "filled", "submitted", "shelved", "reader", "world",
    "upkeep_work", "worker", "tokens", "once", "library", "moved",
)  # fmt: skip
"""The modules of the engine: each may import only those that stand before it."""

THIRD_PARTY = {
    "apsw": "adapters/sqlite_store/",
    "psycopg": "adapters/postgres_store/",
    "psycopg_pool": "adapters/postgres_store/",
    "procrastinate": "adapters/procrastinate_queue/",
    "qdrant_edge": "adapters/edge/",
    "qdrant_client": "adapters/qdrant_server/",
    "httpx": "adapters/qdrant_server/",
    "httpcore": "adapters/qdrant_server/",
    "grpc": "adapters/qdrant_server/",
    "onnxruntime": "adapters/local/embedder.py",
    "tokenizers": "adapters/",
    "sentencex": "ingest/sentences.py",
    "markdown_it": "ingest/load/markdown.py",
    "lxml": "ingest/load/",
    "pypdfium2": "ingest/load/pdf/",
    "py3langid": "ingest/language.py",
    "snowballstemmer": "query/terms.py",
    "stdnum": "ingest/sanitize/",
    "phonenumbers": "ingest/sanitize/",
    "fastembed": "adapters/providers/fastembed_embedder.py",
    "typer": "doors/cli/",
    "click": "doors/cli/",
    "rich": "doors/cli/",
    "mcp": "doors/mcp/",
    "anyio": "doors/mcp/",
    "starlette": "doors/",
    "uvicorn": "doors/http/",
    "python_multipart": "doors/http/",
    "prometheus_client": "adapters/watch/",
    "opentelemetry": "adapters/watch/",
    "langchain_core": "doors/langchain.py",
    "pydantic": "doors/langchain.py",
    "llama_index": "doors/llamaindex.py",
    "haystack": "doors/haystack.py",
    "msgspec": "",
    "numpy": "",
}
"""Where each third-party package may be imported."""

WORLDLY = {"os", "time", "random", "datetime", "secrets", "socket", "subprocess", "pathlib.Path"}
"""Ways to touch the outside, closed to the parts that are pure. A `PurePath` is only a name."""
PURE = (
    "model/",
    "query/",
    "answer/",
    "ingest/",
    "reading/",
    "upkeep/",
    "ports/",
    "errors/",
    "engine/",
)


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def part(path: Path) -> str:
    first = relative(path).split("/")[0].removesuffix(".py")
    return "truespan" if first == "__init__" else first


def imports(path: Path) -> Iterator[str]:
    """Give the dotted name of every module that a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{relative(path)} uses a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_parts(path: Path) -> set[str]:
    """Return the parts of the package that a file imports."""
    found = set()
    for name in imports(path):
        pieces = name.split(".")
        if pieces[0] == "truespan":
            inner = pieces[1] if len(pieces) > 1 else "truespan"
            found.add(inner if inner in ALLOWED else "truespan")
    if found - {"truespan"} and not any(name == "truespan" for name in imports(path)):
        found.discard("truespan")
    return found


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_a_part_imports_only_what_lies_below_it(path: Path) -> None:
    assert own_parts(path) <= ALLOWED[part(path)]


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_a_third_party_package_stays_in_its_place(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    foreign = roots - set(sys.stdlib_module_names) - {"truespan"}
    misplaced = [name for name in foreign if not relative(path).startswith(THIRD_PARTY[name])]
    assert not misplaced


@pytest.mark.parametrize(
    "path", [path for path in modules() if relative(path).startswith(PURE)], ids=relative
)
def test_pure_parts_touch_no_clock_file_or_environment(path: Path) -> None:
    names = set(imports(path))
    assert not (names | {name.split(".")[0] for name in names}) & WORLDLY


@pytest.mark.parametrize("path", modules(), ids=relative)
def test_only_settings_read_the_environment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if relative(path) == "adapters/local/embedder.py":
        # Sets one variable, which only the environment can tell onnxruntime, and reads none.
        text = text.replace('os.environ["ORT_DISABLE_TELEMETRY"] = "1"', "", 1)
    reads = "os.environ" in text or "getenv" in text
    # The index process inherits the environment, and its socket lies where the system says.
    exceptions = ("adapters/edge/link.py", "adapters/edge/channel.py")
    assert not reads or relative(path) in ("settings/__init__.py", *exceptions)


def test_no_import_cycle_exists_between_modules() -> None:
    graph = {
        _dotted(path): {name for name in imports(path) if name.startswith("truespan.")}
        for path in modules()
    }
    edges = {name: {to for to in targets if to in graph} for name, targets in graph.items()}
    assert _cycle(edges) is None


def _dotted(path: Path) -> str:
    name = "truespan." + relative(path).removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def _cycle(edges: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str] | None:
        if node in trail:
            return [*trail, node]
        if node in done:
            return None
        for to in sorted(edges[node] - {node}):
            if found := visit(to, [*trail, node]):
                return found
        done.add(node)
        return None

    for node in sorted(edges):
        if found := visit(node, []):
            return found
    return None


@pytest.mark.parametrize("name", ENGINE)
def test_a_module_of_the_engine_imports_only_what_stands_before_it(name: str) -> None:
    used = {
        module.split(".")[2]
        for module in imports(SOURCE / "engine" / f"{name}.py")
        if module.startswith("truespan.engine.")
    }

    assert used <= set(ENGINE[: ENGINE.index(name)])


def test_every_module_of_the_engine_has_its_place() -> None:
    there = {path.stem for path in (SOURCE / "engine").glob("*.py")} - {"__init__"}

    assert there == set(ENGINE)
