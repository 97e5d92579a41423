"""What runs on every change."""

from __future__ import annotations

from pathlib import Path

import yaml

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


def test_the_workflow_runs_the_same_checks_on_the_oldest_and_newest_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    checks = workflow["jobs"]["checks"]

    assert ".ci/run" in [step.get("run") for step in checks["steps"]]
    assert checks["strategy"]["matrix"]["python"] == ["3.11", "3.13"]
    assert workflow["permissions"] == {"contents": "read"}


def test_the_hooks_run_the_commands_of_the_makefile() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    makefile = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    commands = [hook["entry"] for repo in config["repos"] for hook in repo["hooks"]]

    # `make test` goes on after a failure, with the tests that failed.
    lines = [line.strip().removesuffix(" || { \\") for line in makefile.splitlines()]
    assert [command for command in commands if command not in lines] == []
    assert len(commands) == 4


def test_the_documentation_site_is_built_from_a_lock_without_hosts() -> None:
    lock = (ROOT / "lock/docs.txt").read_text("utf-8")

    assert "zensical==" in lock
    assert "://" not in lock
    assert "site/" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_lock_files_are_installed_with_hashes_and_without_resolving() -> None:
    """An older pip resolves a package with an extra to its newest release, which has no hash."""
    installs = [
        line
        for name in ("Makefile", "Dockerfile")
        for line in (ROOT / name).read_text("utf-8").splitlines()
        if "lock/" in line and ("-r lock/" in line or "--requirement lock/" in line)
    ]

    assert len(installs) == 8
    assert [line for line in installs if "--no-deps --require-hashes" not in line] == []
