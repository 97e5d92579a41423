"""Without an observer, no observer library is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOADED = "print(*sorted({'opentelemetry', 'prometheus_client'} & {*sys.modules}))"
HELP = f"""
import sys
from truespan.cli import run
run(["--help"])
{LOADED}
"""
SEARCH = f"""
import sys
import truespan
from tests.support.worlds import WordCounter, WordEmbedder

with truespan.open(
    sys.argv[1], create=True, embedder=WordEmbedder(), counter=WordCounter()
) as library:
    world = library.create_world("one")
    world.ingest(sys.argv[2])
    assert world.search("harbour", floor=0.0).passages
{LOADED}
"""


def loaded(code: str, *arguments: str, **variables: str) -> str:
    """Run code in a separate process and return what it printed last."""

    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    return ran.stdout.splitlines()[-1]


def test_help_loads_no_observer_library() -> None:
    assert loaded(HELP) == ""


@pytest.mark.parametrize(("variables", "expected"), [
    ({}, ""), ({"TRUESPAN_METRICS": "1"}, "prometheus_client"),
    ({"TRUESPAN_TRACING": "1"}, "opentelemetry"),
])  # fmt: skip
def test_search_loads_only_configured_observers(
    tmp_path: Path, variables: dict[str, str], expected: str
) -> None:
    (tmp_path / "a.txt").write_text("The harbour light burned all night.")
    found = loaded(SEARCH, str(tmp_path / "library"), str(tmp_path / "a.txt"), **variables)
    assert found == expected
