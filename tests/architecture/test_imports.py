"""The dependency rule: imports point downwards only, and each package is used in one place."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.syntax import walk_file

SOURCE = Path(__file__).parents[2] / "src" / "truespan"

LAYERS = (
    ("errors",),
    ("core",),
    ("types",),
    ("tables",),
    ("observer", "text", "words", "settings", "wire"),
    ("protocols", "parsing", "observability"),
    ("store",),
    ("ingest", "jobs", "maintenance"),
    ("files", "providers", "retrieval"),
    ("answers", "index"),
    ("engine",),
    ("wiring", "integrations", "testing"),
    ("truespan",),
    ("aio",),
    ("cli",),
    ("__main__",),
    ("extensions",),
)
"""The packages, and the modules beside them, from the bottom to the top: each imports only lower
layers. `truespan` is the package's own `__init__`."""
LEVELS = {name: level for level, layer in enumerate(LAYERS) for name in layer}
CLOSED = {
    "wire": {"errors", "core", "types"},
    "settings": {"errors", "core", "tables", "types"},
    "engine": {*LEVELS} - {"files", "providers", "index", "settings", "wire", "observability"},
    "testing": {"errors", "core", "types", "protocols"},
    "integrations": {"errors", "types", "wire", "engine"},
    "cli": {*LEVELS} - {"store", "index", "providers", "files", "wiring", "parsing", "jobs"},
}
"""The only packages that some packages may import: the engine knows roles and not technology, and
the interfaces know the engine."""

EXTENSIONS = {
    "checks": {
        *("answers", "core", "errors", "retrieval", "settings", "tables", "text", "types", "words"),
    },
    "cluster": {
        "cli", "core", "errors", "files", "index", "ingest", "maintenance", "observer", "protocols",
        "providers", "settings", "store", "tables", "truespan", "types", "wire", "wiring",
    },
    "crawl": {
        *("cli", "engine", "errors", "ingest", "parsing", "protocols", "providers", "settings"),
        *("tables", "types", "wire"),
    },
    "formats": {"core", "errors", "parsing", "tables", "text", "types"},
    "models": {"errors", "protocols", "providers", "settings", "tables", "types"},
    "proof": {
        "cli", "core", "engine", "errors", "ingest", "parsing", "protocols", "settings",
        "truespan", "tables", "types", "wire", "wiring",
    },
    "quality": {
        "cli", "core", "engine", "errors", "files", "ingest", "maintenance", "observer",
        "retrieval", "store", "tables", "types", "wire",
    },
    "server": {
        "cli", "core", "engine", "errors", "extensions/crawl", "extensions/proof",
        "extensions/quality", "ingest", "maintenance", "observer", "parsing", "protocols",
        "providers", "retrieval", "settings", "store", "text", "truespan", "tables", "types",
        "wire", "wiring",
    },
}  # fmt: skip
"""The packages that each extension imports, other extensions included."""
THIRD_PARTY = {
    "apsw": "store/",
    "psycopg": "extensions/cluster/",
    "psycopg_pool": "extensions/cluster/",
    "procrastinate": "extensions/cluster/",
    "qdrant_edge": "index/edge/",
    "qdrant_client": "extensions/cluster/qdrant/",
    "httpx": "extensions/cluster/qdrant/",
    "httpcore": "extensions/cluster/qdrant/",
    "onnxruntime": ("providers/onnx", "providers/rerank.py"),
    "tokenizers": ("providers/", "extensions/models/"),
    "sentencex": "text/sentences.py",
    "markdown_it": "parsing/formats/markdown.py",
    "lxml": ("parsing/", "extensions/formats/"),
    "pypdfium2": ("parsing/formats/pdf/", "extensions/server/pictures/"),
    "python_calamine": "extensions/formats/sheets/binary.py",
    "rapidocr": "extensions/formats/ocr.py",
    "cv2": "extensions/formats/ocr.py",
    "PIL": "extensions/formats/ocr.py",
    "py3langid": "text/language.py",
    "Stemmer": "words/terms.py",
    "watchfiles": "extensions/crawl/watch.py",
    "yaml": "extensions/quality/golden.py",
    "stdnum": "extensions/checks/sanitize/",
    "phonenumbers": "extensions/checks/sanitize/",
    "torch": "extensions/models/",
    "huggingface_hub": "extensions/models/sentence_transformers.py",
    "transformers": "extensions/models/",
    "jwt": "extensions/server/openid.py",
    "click": "cli/",
    "mcp": "extensions/server/",
    "mcp_types": "extensions/server/",
    "anyio": "extensions/server/",
    "starlette": "extensions/server/",
    "uvicorn": "extensions/server/",
    "python_multipart": "extensions/server/",
    "prometheus_client": "extensions/server/metrics.py",
    "opentelemetry": "extensions/server/tracing.py",
    "langchain_core": "integrations/langchain.py",
    "pydantic": "integrations/langchain.py",
    "llama_index": "integrations/llamaindex.py",
    "haystack": "integrations/haystack.py",
    "cryptography": "extensions/proof/",
    "msgspec": "",
    "numpy": "",
}
"""Where each third-party package may be imported."""

WORLDLY = {"os", "time", "random", "datetime", "secrets", "socket", "subprocess", "pathlib.Path"}
CALENDAR = {
    *("extensions/formats/mail.py", "types/metadata.py"),
    *("extensions/formats/sheets/binary.py", "extensions/formats/sheets/number_format.py"),
}
"""Pure files that read dates which others wrote."""
PRESENT = {"now", "utcnow", "today"}
"""Ways to touch the outside, closed to the parts that are pure. A `PurePath` is only a name."""
PURE = (
    *("errors/", "observer.py", "protocols.py", "core/", "types/", "text/", "words/", "parsing/"),
    *("ingest/", "retrieval/", "answers/", "maintenance/", "engine/"),
    *("extensions/formats/", "extensions/checks/", "extensions/quality/"),
    "extensions/proof/statement.py",
)
OUTSIDE = (
    *("core/child_process.py", "core/clock.py", "core/disk.py"),
    *("parsing/sandbox/", "ingest/workers/", "extensions/quality/commands.py"),
    "extensions/checks/sanitize/setup.py",
)
"""Among the pure parts: the system's clock, files and processes, parsers, workers, commands, the
files that settings name."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def package_of(name: str) -> str:
    """Return the package that a module belongs to, by its path below `truespan`."""
    first, *rest = name.removesuffix(".py").split("/")
    if first == "extensions" and rest and rest[0] != "__init__":
        return f"extensions/{rest[0]}"
    return "truespan" if first in ("", "__init__") else first


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    tree = walk_file(path)
    return [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of every module that a file imports, anywhere in the file."""
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            assert node.level == 0, f"{relative(path)} uses a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def type_lines(path: Path) -> set[int]:
    """Return the numbers of the lines of a file that only a type checker reads."""
    return {
        line
        for node in walk_file(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for line in range(node.lineno, (node.body[-1].end_lineno or 0) + 1)
    }


def own_packages(path: Path) -> set[str]:
    """Return the other packages of Truespan that a file imports, not counting types.

    The engine names types of extensions where a member needs the extension.
    """
    found = set()
    typed = type_lines(path)
    for node in import_statements(path):
        if node.lineno in typed:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module == "truespan":
            names = [f"truespan.{a.name}" if a.name in LEVELS else "truespan" for a in node.names]
        else:
            names = [node.module or ""]
        found |= {name for name in names if name.split(".")[0] == "truespan"}
    packages = {
        package_of(name.removeprefix("truespan").strip(".").replace(".", "/")) for name in found
    }
    return packages - {package_of(relative(path)), "extensions"}


def test_number_of_root_modules_is_limited() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= 7


def test_packages_import_lower_layers_only() -> None:
    wrong = {}
    for path in modules():
        package = package_of(relative(path))
        if package in LEVELS:
            allowed = {name for name in LEVELS if LEVELS[name] < LEVELS[package]}
            allowed &= CLOSED.get(package, allowed)
        else:
            allowed = EXTENSIONS[package.removeprefix("extensions/")]
        if upwards := own_packages(path) - allowed:
            wrong[relative(path)] = sorted(upwards)
    assert wrong == {}


def test_each_third_party_package_is_used_in_one_place() -> None:
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
    """Return whether a file calls `datetime` for the current time."""
    tree = walk_file(path)
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
    # The classes of the engine name types of extensions, which know these classes.
    for name, targets in graph.items():
        if name.startswith("truespan.engine."):
            graph[name] = {to for to in targets if not to.startswith("truespan.extensions.")}
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
    """Only the terminal module escapes unprintable characters."""
    printing = re.compile(
        r"click import .*\b(?:echo|confirm)\b|\bclick\.(?:echo|confirm)\b|"
        r"(?<!console\.)\bprint\(|std(?:out|err)\.write"
    )
    found = {
        path.name
        for path in (SOURCE / "cli").glob("*.py")
        if any(map(printing.search, path.read_text("utf-8").splitlines()))
    }
    assert found == {"terminal.py"}
