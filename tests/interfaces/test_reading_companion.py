"""The example of a reading companion over MCP, started as documented."""

import runpy
from pathlib import Path

import pytest

from tests.promises import proves

EXAMPLE = Path(__file__).parents[2] / "examples" / "reading_companion.py"


@proves("mcp.retrieval", "reading.never-past-position")
def test_reading_companion_shows_more_with_each_chapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLE))["main"](str(tmp_path / "library"))

    said = capsys.readouterr().out
    parts = said.split("Ada: ")
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 100
    assert "Nothing of this book has been read yet." in parts[1]
    assert "Chapter One: The Afternoon Boat. Recorded" in parts[2]
    assert "[1] The Glass Ferry › Chapter One: The Afternoon Boat, sentences" in parts[3]
    assert "in Chapter Two: The Friday Lamp. Recorded" in parts[4]
    assert "Chapter Three" not in said
