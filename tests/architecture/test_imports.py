"""The dependency rule: arrows go downwards only, and each technology lives in one place."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "truespan"

BASE = ("errors", "strict_json", "vectors", "types", "cancel", "observer", "protocols")
"""What nearly every part may import: errors, values and roles."""
STAGES = ("parsing", "sanitize", "ingest", "retrieval", "answers", "evaluation", "maintenance")
TECHNOLOGY = (
    *("store", "files", "files/disk", "files/backup", "providers", "index", "jobs"),
    *("system", "observability"),
)
LIBRARY = (
    "components", "world_access", "jobs/world_jobs", "documents", "calibration", "ingestion",
    "watching",
    "answering", "conversation", "reader", "world_evaluation", "doctor", "generations", "world",
    "jobs/worker", "access_tokens", "idempotency", "library",
)  # fmt: skip
"""A library and its worlds, in terms of roles: each module may import those before it."""
SHARED = (*LIBRARY, "settings", "serialize", "arguments", "truespan")

ALLOWED = {
    "errors": set(),
    "strict_json": {"errors"},
    "vectors": {"errors", "types"},
    "types": {"errors", "strict_json"},
    "cancel": {"errors"},
    "observer": {"errors", "types"},
    "protocols": {"errors", "types", "observer"},
    # Ingestion
    "parsing": {*BASE},
    "sanitize": {*BASE, "parsing"},
    "ingest": {*BASE, "parsing", "sanitize", "store"},
    # Querying
    "retrieval": {*BASE, "ingest", "store"},
    "answers": {*BASE, "retrieval", "parsing"},
    "evaluation": {*BASE},
    "maintenance": {*BASE, "store"},
    "jobs/thread": {*BASE},
    **{
        name: {*BASE, *STAGES, "store", "jobs/thread", *LIBRARY[:place]}
        for place, name in enumerate(LIBRARY)
    },
    # Technology
    "files/disk": {*BASE},
    "store": {*BASE, "files/disk"},
    "files": {*BASE, "ingest", "files/disk"},
    "files/backup": {*BASE, "files", "files/disk", "store"},
    "providers": {*BASE, "ingest"},
    "index": {*BASE, "files/disk", "providers"},
    "jobs": {*BASE, "store"},
    "system": {*BASE},
    "observability": {*BASE},
    "settings": {"errors", "strict_json", "types"},
    "wiring": {*BASE, *STAGES, *TECHNOLOGY, *LIBRARY, "settings", "jobs/thread"},
    # Interfaces
    "serialize": {*BASE, "truespan"},
    "arguments": {*BASE},
    "web": {*BASE, "http"},
    "http": {*BASE, *STAGES, *SHARED, "system", "web", "mcp"},
    "mcp": {*BASE, *STAGES, *SHARED, "http"},
    "cli": {*BASE, *STAGES, *SHARED, "files/disk", "system", "http", "mcp"},
    "integrations": {*BASE, *SHARED},
    "__main__": {"cli"},
    "truespan": {*BASE, *LIBRARY, "wiring"},
}
"""Which parts of the package each part may import, besides itself; the longest name counts.
`truespan` is the package's own `__init__`."""

THIRD_PARTY = {
    "apsw": "store/",
    "psycopg": "store/",
    "psycopg_pool": "store/",
    "procrastinate": "jobs/",
    "qdrant_edge": "index/edge/",
    "qdrant_client": "index/server/",
    "httpx": "index/server/",
    "httpcore": "index/server/",
    "grpc": "index/server/",
    "onnxruntime": ("providers/onnx", "providers/rerank.py"),
    "tokenizers": "providers/",
    "sentencex": "parsing/sentences.py",
    "markdown_it": "parsing/markdown.py",
    "lxml": "parsing/",
    "pypdfium2": "parsing/pdf/",
    "python_calamine": "parsing/sheets/binary.py",
    "rapidocr": "parsing/ocr.py",
    "cv2": "parsing/ocr.py",
    "PIL": "parsing/ocr.py",
    "py3langid": "ingest/language.py",
    "snowballstemmer": "retrieval/terms.py",
    "watchfiles": "files/watch.py",
    "yaml": "evaluation/golden_yaml.py",
    "stdnum": "sanitize/",
    "phonenumbers": "sanitize/",
    "fastembed": ("providers/fastembed.py", "providers/rerank.py"),
    "typer": "cli/",
    "click": "cli/",
    "rich": "cli/",
    "mcp": "mcp/",
    "mcp_types": "mcp/",
    "anyio": "mcp/",
    "starlette": ("http/", "mcp/", "web/"),
    "uvicorn": "http/",
    "python_multipart": "http/",
    "prometheus_client": "observability/",
    "opentelemetry": "observability/",
    "langchain_core": "integrations/langchain.py",
    "pydantic": "integrations/langchain.py",
    "llama_index": "integrations/llamaindex.py",
    "haystack": "integrations/haystack.py",
    "msgspec": "",
    "numpy": "",
}
"""Where each third-party package may be imported."""

WORLDLY = {"os", "time", "random", "datetime", "secrets", "socket", "subprocess", "pathlib.Path"}
CALENDAR = {
    *("parsing/mail.py", "parsing/charts.py"),
    *("types/metadata.py", "types/timestamp.py"),
    *("parsing/sheets/binary.py", "parsing/sheets/number_format.py"),
}
"""Pure files that read dates which others wrote."""
PRESENT = {"now", "utcnow", "today"}
"""Ways to touch the outside, closed to the parts that are pure. A `PurePath` is only a name."""
PURE = (
    *("types/", "errors.py", "strict_json.py", "vectors.py", "protocols.py", "cancel.py"),
    *("observer.py", "engine/"),
    *(f"{part}/" for part in STAGES),
    *(f"{part}.py" for part in LIBRARY),
)
OUTSIDE = ("parsing/child_",)
"""Below the pure parts, what starts the restricted subprocess."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def part(name: str) -> str:
    """Return the part that a module belongs to, by its path below the package."""
    pieces = name.removesuffix(".py").split("/")
    for length in (2, 1):
        if "/".join(pieces[:length]) in ALLOWED:
            return "/".join(pieces[:length])
    return "truespan"


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> Iterator[str]:
    """Give the dotted name of every module that a file imports, wherever in the file it does."""
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            assert node.level == 0, f"{relative(path)} uses a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_parts(path: Path) -> set[str]:
    """Return the parts of the package that a file imports."""
    found = {
        part("/".join(node.module.split(".")[1:]))
        for node in import_statements(path)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.split(".")[0] == "truespan"
        and not (node.module == "truespan" and node.names[0].name in ALLOWED)
    }
    return found - {part(relative(path))}


def test_a_part_imports_only_what_lies_below_it() -> None:
    wrong = {
        relative(path): sorted(own_parts(path) - ALLOWED[part(relative(path))])
        for path in modules()
        if own_parts(path) - ALLOWED[part(relative(path))]
    }
    assert wrong == {}


def test_a_third_party_package_stays_in_its_place() -> None:
    wrong = {}
    for path in modules():
        roots = {name.split(".")[0] for name in imports(path)}
        foreign = roots - set(sys.stdlib_module_names) - {"truespan"}
        if misplaced := [n for n in foreign if not relative(path).startswith(THIRD_PARTY[n])]:
            wrong[relative(path)] = misplaced
    assert wrong == {}


def test_pure_parts_touch_no_clock_file_or_environment() -> None:
    wrong = {}
    for path in modules():
        if not relative(path).startswith(PURE) or relative(path).startswith(OUTSIDE):
            continue
        names = set(imports(path))
        touched = (names | {name.split(".")[0] for name in names}) & WORLDLY
        if relative(path) in CALENDAR and not reads_clock(path):
            touched -= {"datetime"}
        if touched:
            wrong[relative(path)] = sorted(touched)
    assert wrong == {}


def reads_clock(path: Path) -> bool:
    """Return whether a file asks `datetime` for the present."""
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return any(isinstance(node, ast.Attribute) and node.attr in PRESENT for node in tree)


def test_only_settings_read_the_environment() -> None:
    # The index process inherits the environment, and its socket lies where the system says.
    allowed = ("settings/__init__.py", "index/edge/client.py", "index/edge/channel.py")
    # Only the environment can tell onnxruntime to send nothing: one variable is set, none is read.
    telemetry = 'os.environ["ORT_DISABLE_TELEMETRY"] = "1"'
    reading = []
    for path in modules():
        text = path.read_text(encoding="utf-8")
        if relative(path) == "providers/onnx.py":
            text = text.replace(telemetry, "", 1)
        if re.search(r"os\.environ|getenv", text):
            reading.append(relative(path))
    assert set(reading) <= set(allowed)


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


def test_commands_print_through_the_terminal_module() -> None:
    """Only there are unprintable characters escaped."""
    printing = re.compile(
        r"typer import .*\b(?:echo|confirm)\b|(?<!console\.)\bprint\(|std(?:out|err)\.write"
    )
    found = {
        path.name
        for path in (SOURCE / "cli").glob("*.py")
        if any(map(printing.search, path.read_text("utf-8").splitlines()))
    }
    assert found == {"terminal.py"}
