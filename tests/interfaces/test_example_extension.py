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
        '[embedding]\nprovider = "words"\ndimensions = 512\n\n[rerank]\nkind = "words"\n'
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
from truespan.protocols import ChatModels
from truespan.wiring import open_library

class Guide:
    name = "guide"

    def stream(self, messages):
        yield "The mill was sold in 1904 [1]. It was built in 1811 [1]."

with open_library("library", create=True, chat=ChatModels(Guide())) as library:
    world = library.world("village", create=True)
    world.add_texts(["The mill was sold to Jonas Reed in 1904."])
    for warning in world.answer("When was the mill sold?").warnings:
        if warning.code == "year_not_found":
            print(warning.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("No source names 1811.\n", "")
