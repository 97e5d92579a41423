"""The package in examples/extension, installed as a user would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension"
CARDS = """# The ferry
The ferry leaves at noon from the old stone quay, and nobody waits for it.

# The mill
The mill was sold to Jonas Reed in 1904. Nobody has ground corn there since.
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the example beside the other packages, and return an environment that has it."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-index", "--no-deps", "--no-build-isolation", "--target", str(site)),
            str(EXAMPLE),
        ],
        # The build back end is a program beside Python.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
    )
    return {**os.environ, "PYTHONPATH": str(site)}


def run(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    """Run Truespan in a folder, and return what it prints."""
    command = [sys.executable, "-m", "truespan", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_example_brings_format_models_and_command(environment: dict[str, str], tmp_path: Path):
    (tmp_path / "village.cards").write_text(CARDS)
    run(environment, tmp_path, "init", "-L", "library")
    (tmp_path / "library" / "truespan.toml").write_text(
        '[embedding]\nprovider = "words"\ndimensions = 512\n\n'
        '[rerank]\nkind = "words"\nmodel = "shared"\n'
    )
    run(environment, tmp_path, "ingest", "-L", "library", "village.cards")

    assert run(environment, tmp_path, "cards", "-L", "library") == "The ferry\nThe mill\n"
    found = json.loads(
        run(environment, tmp_path, "search", "-L", "library", "--json", "who bought the mill")
    )
    assert "Jonas Reed" in found["context"]
    assert found["rerank"]["model"] == "words/shared"


def test_example_checks_replies(environment: dict[str, str], tmp_path: Path) -> None:
    script = """
from types import SimpleNamespace
from truespan.tables import import_member, tables
check = import_member(tables().answer_checks["years"])
sources = [SimpleNamespace(text="The mill was sold in 1904.")]
for text in ("It was sold in 1904.", "It was sold in 1911."):
    result = check(SimpleNamespace(text=text, sources=sources))
    print([warning.message for warning in result.warnings])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, text=True, capture_output=True, check=True
    )
    assert done.stdout == "[]\n['No source names 1911.']\n"
