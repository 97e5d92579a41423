"""The example application on LangChain: filters by tag and metadata, and a read-only token."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.integrations.library import require

EXAMPLE = Path(__file__).parents[2] / "examples" / "company_bot.py"


def test_company_bot_cites_only_permitted_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require("langchain_core")
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(tmp_path / "library")])

    runpy.run_path(str(EXAMPLE), run_name="__main__")
    by_tag, by_year, by_team = capsys.readouterr().out.split("How many")[1:]

    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 100
    assert "Twenty-five [1] or thirty days [2]." in by_tag
    assert "leave-2019.md" in by_tag
    assert "leave-2026.md" in by_tag
    assert "Thirty days [1]." in by_year
    assert by_year.count("[1] leave-2026.md") == 1
    assert "leave-2019.md" not in by_year
    assert "keys.md" in by_team
    assert "leave-20" not in by_team
    assert by_team.splitlines()[-1].startswith("The token does not allow changes: ")
