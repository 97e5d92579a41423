"""Reading the pages as a newcomer does: blocks, tables, and the results of following them.

A newcomer first follows the README and then, from the files that this created, each other page by
itself. Blocks of a page run in order. Of a `console` block the lines that begin with `$` are run
and the lines below them must come out; a `text` block right after a `python` block is what that
must print. A server that is started with `&` runs until the page ends, and `curl` asks it.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.docs_server import Behind, curl
from truespan.cli import run
from truespan.core.disk import FileLock
from truespan.index.edge import channel
from truespan.wiring import open_library

ROOT = Path(__file__).resolve().parents[2]
README, CHANGELOG, DOCS = ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "docs"
SECURITY, CONTRIBUTING = ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"
FRESH = (DOCS / "index.md", DOCS / "tutorial.md")
"""Pages that create the library themselves."""
PAGES = [README, *sorted(DOCS.glob("*.md"))]

MENTIONED = {"make", "pip", "source"}
"""Commands that a page may show although they are not run here."""
SERVING = "mcp"
"""The command that would take over the standard streams of the tests; it has separate tests."""
OF_SETTINGS = ("TRUESPAN_", "EMBEDDING_", "OLLAMA_", "DOCX_", "RAG_", "SANITIZE_")
"""Beginnings of the variables that a newcomer has not set yet."""
FRAMEWORKS = {"langchain": "langchain_core", "llamaindex": "llama_index", "haystack": "haystack"}
"""Integrations with the package that each needs; without it, an example is only compiled."""
SIMILARITY = r"\b[01]\.\d{3}\b"
"""A score as the command line prints it; the last digits are those of a machine."""


# Reading a page


@dataclass(frozen=True)
class Block:
    """A fenced block; `follows` means that it shows the output of the Python block before it."""

    language: str
    body: str
    line: int
    follows: bool


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found: list[Block] = []
    end = 0
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        directly = not text[end : fence.start()].strip()
        follows = directly and bool(found) and found[-1].language == "python"
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(fence[1], fence[2], line, follows and fence[1] == "text"))
        end = fence.end()
    return found


def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def sections_of(page: Path) -> dict[str, str]:
    """Return the text below each heading, up to the next one."""
    parts = re.split(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table_rows(text: str) -> list[list[str]]:
    """Return the rows of a table without its heading, and the entries of lists `- name: meaning`.

    Marks of code around a cell are left out, and a note in brackets behind the name of an entry.
    """
    lines = text.splitlines()
    rows = [line.strip().strip("|").split("|") for line in lines if line[:1] == "|"][2:]
    entries = [re.match(r"- (`[^`]+`) \(.+?\): (.*)|- (.+?): (.*)", line) for line in lines]
    found = rows + [
        [part for part in entry.groups() if part is not None] for entry in entries if entry
    ]
    return [[cell.strip().strip("`") for cell in row] for row in found]


# Following a page


def copy_library(folder: Path, copy: Path) -> None:
    """Copy a folder without the holes of its files: most of an index is empty."""
    subprocess.run(["cp", "-a", "--sparse=always", folder, copy], check=True)


class Newcomer:
    """Follows pages in folders of their own, and records output that differs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start = folder / README.name
        self._start.mkdir()
        shutil.copytree(ROOT / "examples", self._start / "examples")
        self._at_readme = self._try(README, self._start)
        end_index_process(self._start)

    def follow(self, page: Path) -> list[str]:
        """Return the faults of a page; most pages begin where the README ends."""
        if page == README:
            return self._at_readme
        if not {"python", "console", "sh"} & {block.language for block in blocks_of(page)}:
            return []
        place = self._folder / page.name
        if page in FRESH:
            shutil.copytree(ROOT / "examples", place / "examples")
        else:
            copy_library(self._start, place)
        try:
            return self._try(page, place)
        finally:
            end_index_process(place)
            # A library takes 40 MB at least, and there are many pages.
            shutil.rmtree(place)

    def _try(self, page: Path, place: Path) -> list[str]:
        with contextlib.chdir(place), pytest.MonkeyPatch.context() as patch:
            for name in os.environ:
                if name.startswith(OF_SETTINGS) or name.endswith("_API_KEY"):
                    patch.delenv(name)
            patch.setenv("XDG_DATA_HOME", str(place / "data"))
            patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
            return Reading(page, patch).complaints()


@dataclass
class Reading:
    """A page while it is being followed."""

    page: Path
    patch: pytest.MonkeyPatch
    behind: Behind = field(default_factory=Behind)

    def complaints(self) -> list[str]:
        try:
            return self._complaints()
        finally:
            self.behind.stop()

    def _complaints(self) -> list[str]:
        namespace: dict[str, Any] = {"__name__": self.page.stem}
        printed: str | None = ""
        found: list[str] = []
        for block in blocks_of(self.page):
            if block.language == "python" and needs_missing_framework(block.body):
                printed = None
                compile(block.body, self.page.name, "exec", dont_inherit=True)
            elif block.language == "python":
                printed, wrong = self._python(block, namespace)
                found += wrong
            elif block.follows and printed is not None:
                found += self._compared(block.line, block.body, printed)
            elif block.language in ("console", "sh"):
                found += self._console(block)
        return found

    def _python(self, block: Block, namespace: dict[str, Any]) -> tuple[str, list[str]]:
        # Blank lines in front make the lines of a traceback those of the page.
        source = "\n" * block.line + self.behind.inward(block.body)
        with captured() as output:
            try:
                code = compile(source, self.page.name, "exec", dont_inherit=True)
                exec(code, namespace)
            except Exception:
                return output.getvalue(), [self._at(block.line, traceback.format_exc())]
        return output.getvalue(), []

    def _console(self, block: Block) -> list[str]:
        found: list[str] = []
        for command, shown in commands_in(block.body):
            expected = re.search(r"\s# exit (\d+)$", command)
            code, output = self._run(command)
            wanted = int(expected[1]) if expected else 0
            if code != wanted:
                found.append(self._at(block.line, f"{command}: exit {code}\n{output}"))
            found += self._compared(block.line, shown, output)
        return found

    def _run(self, command: str) -> tuple[int, str]:
        """Run one line of a console block; truespan itself runs in this process."""
        first, *rest = shlex.split(command, comments=True)
        if first == "truespan" and rest[:1] == [SERVING] and "--print-config" not in rest:
            return 0, ""
        if first == "truespan" and rest[-1:] == ["&"]:
            return 0, self.behind.start(rest)
        if first == "curl":
            return 0, self.behind.outward(curl(self.behind.inward(command)))
        if first == "truespan":
            if "<" in rest:
                *rest, _, source = rest
                self.patch.setattr("sys.stdin", io.StringIO(Path(source).read_text("utf-8")))
            with captured() as output:
                return run(rest), output.getvalue()
        if first == "export":
            for assignment in rest:
                self.patch.setenv(*assignment.split("=", 1))
            return 0, ""
        if first in ("echo", "mkdir"):
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr
        return (0, "") if first in MENTIONED else (-1, "the tests do not run this command")

    def _compared(self, line: int, shown: str, output: str) -> list[str]:
        missing = first_missing(shown, output)
        return [self._at(line, f"{missing!r} is not in\n{output}")] if missing else []

    def _at(self, line: int, what: str) -> str:
        return f"{self.page.name}, line {line}: {what}"


def needs_missing_framework(source: str) -> bool:
    return any(
        f"integrations.{name}" in source and find_spec(package) is None
        for name, package in FRAMEWORKS.items()
    )


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        yield output


def commands_in(body: str) -> list[tuple[str, str]]:
    """Return each command of a console block with the output that is shown below it."""
    _, *parts = re.split(r"^\$ ", "\n" + body, flags=re.MULTILINE)
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def first_missing(shown: str, output: str) -> str | None:
    """Return the first shown line that the output lacks after the earlier lines.

    White space counts as one space, so that it does not matter where a terminal breaks lines. Three
    dots stand for anything, and similarities need only be close.
    """
    real, place = " ".join(output.split()), 0
    for line in shown.splitlines():
        wanted = " ".join(line.split())
        found = re.compile(pattern_of(wanted)).search(real, place)
        if found is None or not close(re.findall(SIMILARITY, wanted), found.groups()):
            return wanted
        place = found.end()
    return None


def pattern_of(line: str) -> str:
    parts = re.split(rf"(\.\.\.|{SIMILARITY})", line)
    return "".join(
        ".*?" if part == "..." else f"({SIMILARITY})" if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )


def close(shown: list[str], real: tuple[str, ...]) -> bool:
    return all(abs(float(a) - float(b)) <= 0.02 for a, b in zip(shown, real, strict=True))


def end_index_process(place: Path) -> None:
    for store in place.glob("*/store.db"):
        library = open_library(store.parent)
        library._components.index.retire()  # type: ignore[attr-defined]
        library.close()
        # It answers before it has put its files away; the lock is let go once it has.
        if (index := store.parent / "index").exists():
            with FileLock(index / channel.LOCK):
                pass
