"""Delete extensions from a copy of the source and see whether the engine still does its work.

    python -m tools.border              the README's path with each extension deleted, then the fast
                                        tests of the engine with all of them deleted
    python -m tools.border server proof the path with these deleted, one at a time

`make border` runs it. The path is the README's: help, a library, a book, a search, passages, a
reader and an answer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.fast import FOLDERS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "truespan"
PATH_SECONDS = 120
TEST_SECONDS = 600


def find_extensions() -> list[str]:
    """Return the names of the project's own extensions."""
    return sorted(folder.parent.name for folder in (SOURCE / "extensions").glob("*/__init__.py"))


def copy_without(names: list[str], folder: Path) -> None:
    """Copy the package into a folder, without the named extensions."""

    def leave_out(directory: str, entries: list[str]) -> set[str]:
        dropped = names if Path(directory) == SOURCE / "extensions" else []
        return {"__pycache__", *dropped}.intersection(entries)

    shutil.copytree(SOURCE, folder / "truespan", ignore=leave_out)


def run_without(names: list[str], command: list[str], seconds: int) -> tuple[bool, str]:
    """Run a Python command on a copy without extensions: whether it succeeded, and its output."""
    with tempfile.TemporaryDirectory() as folder:
        copy_without(names, Path(folder))
        environment = {**os.environ, "PYTHONPATH": folder, "HOME": folder}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT, env=environment, timeout=seconds, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    return done.returncode == 0, done.stdout


def follow_path(names: list[str]) -> tuple[bool, str]:
    """Follow the README's path on a copy without extensions."""
    return run_without(names, ["-c", PATH], PATH_SECONDS)


def run_tests(names: list[str]) -> tuple[bool, str]:
    """Run the engine's fast tests on a copy without extensions."""
    options = ["-n", "auto", "--dist", "loadfile", "--fast", "--engine-only"]
    folders = [f"tests/{folder}" for folder in FOLDERS]
    return run_without(names, ["-m", "pytest", *options, *folders], TEST_SECONDS)


def report(what: str, outcome: tuple[bool, str]) -> bool:
    """Print the outcome of a check, and return whether it failed."""
    succeeded, output = outcome
    print(f"{what}: {output.splitlines()[-1] if succeeded else output[-6000:]}", flush=True)
    return not succeeded


PATH = """
import tempfile
from pathlib import Path
import truespan
from truespan.cli import run

assert Path(truespan.__file__).is_relative_to(Path.home()), truespan.__file__
book = "examples/the-glass-ferry.md"
question = "Which hook at the inn holds the spare key?"
with tempfile.TemporaryDirectory() as folder:
    with truespan.open(f"{folder}/library", create=True) as library:
        world = library.world("mysteries", create=True)
        world.ingest(book, kind="book", title="The Glass Ferry")
        assert world.search(question, top_k=1).passages
        assert world.retrieve(question).context
        assert "hook seven" in world.answer(question).answer
        reader = world.reader("ada")
        reader.set_position("the-glass-ferry.md", through_chapter="Chapter Two")
        assert reader.retrieve("Who killed Mr. Vayle?", top_k=2).context
    assert run(["--help"]) == 0
    assert run(["ask", "-L", f"{folder}/library", question]) == 0
"""


def main(arguments: list[str]) -> int:
    """Check the border, and return the exit code."""
    extensions = find_extensions()
    cases = {f"without {name}": [name] for name in arguments or extensions}
    if not arguments:
        cases["without any"] = extensions
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = zip(cases, pool.map(follow_path, cases.values()), strict=True)
        failed = [what for what, outcome in outcomes if report(what, outcome)]
    what = "tests without any"
    if not arguments and report(what, run_tests(extensions)):
        failed.append(what)
    if failed:
        print(f"the engine does not work: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
