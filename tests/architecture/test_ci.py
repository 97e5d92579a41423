"""Checks that run on every change."""

import re
import subprocess
from itertools import groupby
from pathlib import Path

import pytest
import yaml
from tools.long_suites import MAX_MINUTES, SUITES, Suite, choose_suite, find_turn, main, run_suite

from tests.promises import proves

ROOT = Path(__file__).parents[2]


@proves("upkeep.checks-pass")
def test_every_change_is_checked_for_format_rules_types_and_tests() -> None:
    steps = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "make" in line]
    makefile = (ROOT / "Makefile").read_text()
    targets = ("lint", "types", "test", "test-page", "border")
    steps = [step for step in steps if step.startswith("make ")]
    assert [step.split()[1] for step in steps] == list(targets)
    assert [step.split()[2:] != [] for step in steps] == [False, False, False, True, False]
    for command in ("ruff format --check .", "ruff check .", "pyright", "-m pytest"):
        assert command in makefile
    assert "line-length = 100" in (ROOT / "pyproject.toml").read_text()
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert last == ".venv/bin/python -m tools.long_suites"


def test_successive_commits_run_every_long_suite() -> None:
    assert {choose_suite(turn) for turn in range(1000, 1000 + len(SUITES))} == set(SUITES)
    assert len({suite.command for suite in SUITES}) == len(SUITES)
    assert [suite for suite in SUITES if suite.minutes > MAX_MINUTES] == []


def test_shards_of_a_long_suite_are_all_listed() -> None:
    shards: dict[str, list[tuple[int, int]]] = {}
    for suite in SUITES:
        if found := re.search(r"SHARD=(\d+)/(\d+)", suite.command):
            shards.setdefault(suite.target, []).append((int(found[1]), int(found[2])))
    assert shards.keys() == {"test-contract", "test-postgres", "prove-laws"}
    for listed in shards.values():
        assert listed == [(number, len(listed)) for number in range(1, len(listed) + 1)]


def test_targets_of_long_suites_exist_and_are_documented() -> None:
    makefile = (ROOT / "Makefile").read_text()
    documented = (ROOT / "CONTRIBUTING.md").read_text()
    for target, suites in groupby(SUITES, lambda suite: suite.target):
        listed = list(suites)
        assert f"\n{target}: " in makefile
        assert f"\n| `{target}` | {len(listed)} | {listed[0].minutes:g} |" in documented


def test_turn_is_the_number_of_commits_or_the_id_in_a_shallow_clone(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet", "whole")
    for number in range(3):
        git("-C", "whole", "commit", "--quiet", "--allow-empty", "-m", str(number))
    git("clone", "--quiet", "--depth", "1", f"file://{tmp_path}/whole", "shallow")

    assert find_turn(tmp_path / "whole") == 3
    assert find_turn(tmp_path / "shallow") == int(git("-C", "whole", "rev-parse", "HEAD"), 16)


def test_successive_commits_run_every_third_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--shard", "3"]) == 0
    assert capsys.readouterr().out == f"{find_turn() % 3 + 1}/3\n"
    assert '--shard 3)"' in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(("target", "fails"), [("help", False), ("no-such-target", True)])
def test_failing_suite_fails(target: str, fails: bool) -> None:
    assert bool(run_suite(Suite(target, 1), 0)) is fails


def test_suite_without_its_program_is_skipped_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_suite(Suite("no-such-target", 1, ("no-such-program",)), 0) == 0
    assert "SKIPPED, NOT TESTED: make no-such-target needs no-such-program" in (
        capsys.readouterr().out
    )


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
