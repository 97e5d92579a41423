"""What runs on every change."""

from __future__ import annotations

from pathlib import Path

from tests.promises import proves

ROOT = Path(__file__).parents[2]


@proves("upkeep.checks-pass")
def test_every_change_is_checked_for_format_rules_types_and_tests() -> None:
    steps = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "make" in line]
    makefile = (ROOT / "Makefile").read_text()

    assert steps == ["make lint", "make types", "make test", "make test-page"]
    for command in ("ruff format --check .", "ruff check .", "pyright", "-m pytest"):
        assert command in makefile
    assert "line-length = 100" in (ROOT / "pyproject.toml").read_text()
