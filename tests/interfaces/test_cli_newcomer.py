"""First use of the command line: help, advice in errors, pipes, completion, confirmations."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import truespan
from tests.promises import proves
from truespan.cli import run
from truespan.cli.follow import ProgressLines
from truespan.ingest.report import Progress

NOTE = "# Keys\n\nThe spare key hangs on hook seven at the inn. Nobody is to touch it.\n"
QUOTED = re.compile(r"'(truespan [^']*)'|`(truespan [^`]*)`")


class Shell:
    """Runs commands in a fresh folder and returns code, output and errors."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = run(list(arguments))
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    for name in ("TRUESPAN_LIBRARY", "TRUESPAN_WORLD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "note.md").write_text(NOTE)
    return Shell(work, capsys)


def test_help_groups_commands_with_whole_summaries(shell: Shell) -> None:
    code, out, _ = shell("--help")

    assert code == 0
    assert "..." not in out.replace("[ARGS]...", "")
    panels = [line[:-1] for line in out.splitlines() if re.fullmatch(r"[A-Z].*:", line)]
    assert panels[:3] == ["Options", "Start", "Ask"]
    assert panels[-1] == "Maintenance"
    words = " ".join(out.split())
    assert "search Find the passages closest to a query, each verified as it is read." in words


@proves("cli.advice-runs")
def test_advised_command_fixes_the_error(shell: Shell) -> None:
    mistakes = [
        # A missing library, then a missing world.
        (["status", "-L", "my books"], 3, "truespan init -L 'my books'"),
        (["ingest", "note.md", "-L", "books", "-w", "it's"], 3, None),
        (["search", "key", "--library=books", "-w", "other"], 2, None),
        (["config", "-Lbooks", "-w", "third"], 2, None),
    ]
    for arguments, code, expected in mistakes:
        found, _, err = shell(*arguments)

        assert (found, err.count("\n")) == (code, 1), arguments
        named = [one or other for one, other in QUOTED.findall(err)]
        assert expected is None or expected in named, err
        mend = shlex.split(next(command for command in named if " init " in command))
        assert shell(*mend[1:])[0] == 0, mend
        assert shell(*arguments)[0] == 0, arguments
    with truespan.open("books") as library:
        assert [world.name for world in library.worlds()] == ["it's", "other", "third"]


def test_advice_names_the_only_world(shell: Shell) -> None:
    shell("init", "-L", "books", "-w", "my novels")

    _, _, err = shell("show", "nope.md")

    assert "`truespan status --world 'my novels'` lists its documents" in err
    assert "my novels" not in shell("search", "x", "-L", "nowhere")[2]


def test_usage_errors_name_the_help_of_the_command(shell: Shell) -> None:
    for arguments, said in (
        (["serach", "x"], "Did you mean 'search'? See 'truespan --help'."),
        (["search"], "See 'truespan search --help'."),
        (["token", "revok", "x"], "Did you mean 'revoke'? See 'truespan token --help'."),
        (["jobs", "--wrold", "x"], "See 'truespan jobs show --help'."),
        (["-w", "x", "search", "y"], "Give options after the command, as in 'truespan status"),
        (
            ["--versoin"],
            "No such option '--versoin'. Did you mean '--version'? See 'truespan --help'.",
        ),
    ):
        code, out, err = shell(*arguments)

        assert (code, out, err.count("\n")) == (2, "", 1), arguments
        assert said in err

    for arguments, end in (
        (("restore", "one", "two"), "extra argument (two). See 'truespan restore --help'."),
        (("search", "spare", "key"), "several words needs quotes. See 'truespan search --help'."),
        (("serch", "key"), "'search', 'serve'?) See 'truespan --help'."),
    ):
        assert shell(*arguments)[2].strip().endswith(end)


def test_group_without_a_command_lists_its_items(shell: Shell) -> None:
    shell("ingest", "note.md", "-L", "books")

    for group, name in (("jobs", "show"), ("reader", "show"), ("token", "list")):
        assert shell(group, "-L", "books") == shell(group, name, "-L", "books"), group
        assert "Usage:" in shell(group, "--help")[1]


def test_piped_output_is_not_wrapped_or_padded(shell: Shell) -> None:
    (shell.folder / "long.md").write_text("# Long\n\n" + "The lamp burned all night. " * 12)
    shell("init", "-L", "books", "-w", "w")
    assert shell("ingest", "long.md", "note.md")[0] == 0

    for command in (["search", "the lamp", "--full"], ["retrieve", "the lamp"]):
        _, out, _ = shell(*command)
        assert all(line == line.rstrip() for line in out.splitlines())
        assert max(len(line) for line in out.splitlines()) > 200
        assert "floor" not in out.lower()
        assert "✓ verified" in out
    assert "similarity of" in shell("doctor", "--no-self-test")[1]


def test_an_answer_without_a_model_is_an_excerpt(shell: Shell) -> None:
    (shell.folder / "long.md").write_text(NOTE + "The lamp burned all night. " * 40)
    shell("init", "-L", "books", "-w", "w")
    shell("ingest", "long.md")

    code, out, _ = shell("ask", "Where does the spare key hang?")

    assert code == 0
    assert "> The spare key hangs on hook seven at the inn." in out
    asked = "ask", "Where does the spare key hang?", "--json"
    short = json.loads(shell(*asked)[1])["answer"]
    whole = json.loads(shell(*asked, "-o", "granularity=passage")[1])["answer"]
    assert len(short) < 600 < len(whole)


@proves("notes.found-by-queries")
def test_notes_are_written_found_and_removed(shell: Shell) -> None:
    shell("init", "-L", "books", "-w", "w")
    shell("ingest", "note.md", "--kind", "book")
    shell("reader", "set", "note.md", "-r", "ben", "--sentence", "1")
    assert "truespan notes add" in shell("notes", "show", "-r", "ben")[1]
    code, out, _ = shell("notes", "add", "Who has the key?", "-r", "ben", "--first", "1", "--json")
    note = json.loads(out)
    assert (code, note["sid"], note["first"]) == (0, 1, 1)

    assert "Who has the key?" in shell("notes", "show", "-r", "ben", "--search", "key")[1]
    assert shell("notes", "show", "--markdown", "-r", "ben")[1].startswith("# Notes on ")
    found = shell("retrieve", "keys", "-r", "ben", "--notes")[1]
    assert "Note at sentence 1: Who has the key?" in found
    shell("reader", "set", "note.md", "-r", "ben", "--sentence", "0")
    for command in (
        ("notes", "show"),
        ("notes", "show", "--markdown"),
        ("retrieve", "keys", "--notes"),
    ):
        assert "Who has" not in shell(*command, "-r", "ben")[1]
    assert shell("notes", "remove", note["id"], "-r", "ben")[0] == 2
    shell("reader", "set", "note.md", "-r", "ben", "--sentence", "1")
    assert shell("notes", "remove", note["id"], "-r", "ben")[0] == 0
    assert json.loads(shell("notes", "show", "-r", "ben", "--json")[1]) == {"notes": []}
    assert shell("retrieve", "keys", "--notes")[0] == 2


def test_readers_are_listed_and_tokens_revoked_by_name(shell: Shell) -> None:
    shell("init", "-L", "books", "-w", "w")
    shell("ingest", "note.md", "--kind", "book")
    assert "truespan reader set BOOK" in shell("reader", "show")[1]
    shell("reader", "set", "note.md", "-r", "ben", "--sentence", "1")
    shell("reader", "set", "note.md", "-r", "ann", "--sentence", "0")

    listed = json.loads(shell("reader", "show", "--json")[1])["readers"]
    assert [(entry["reader"], entry["books"][0]["sid"]) for entry in listed] == [
        ("ann", 0),
        ("ben", 1),
    ]
    assert "ben" in shell("reader", "show")[1]

    made = [
        json.loads(shell("token", "create", name, "-w", "w", "--json")[1])["token"]["id"]
        for name in ("app", "app", "my app")
    ]
    code, _, err = shell("token", "revoke", "app")
    assert (code, "2 tokens have this name" in err) == (2, True)
    assert all(token in err for token in made[:2])
    assert "Revoked token" in shell("token", "revoke", made[0])[1]
    # Only the other token with this name is active now.
    assert made[1] in shell("token", "revoke", "app")[1]
    assert made[2] in shell("token", "revoke", "my app")[1]
    assert shell("token", "revoke", "nobody")[0] == 2


def on_terminal(arguments: list[str], answer: str) -> tuple[int, str]:
    """Run a command on a new terminal, type an answer, and return code and output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "truespan", *arguments], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    shown = b""
    try:
        while block := os.read(ours, 4096):
            shown += block
    except OSError:
        pass  # The other end was closed.
    os.close(ours)
    return process.wait(), shown.decode()


def test_delete_asks_only_on_a_terminal(shell: Shell) -> None:
    shell("init", "-L", "books", "-w", "w")
    shell("ingest", "note.md")

    code, shown = on_terminal(["delete", "note.md"], "n\n")
    assert (code, "Delete document 1, note.md?" in shown) == (0, True)
    assert "Nothing was deleted." in shown
    assert "1 document" in shell("status")[1]
    code, out, _ = shell("delete", "note.md")
    assert (code, "Deleted document 1" in out) == (0, True)
    code, out, _ = shell("delete", "--all", "-w", "w")
    assert (code, "add --yes" in out) == (0, True)
    code, shown = on_terminal(["delete", "--all", "-w", "w"], "y\n")
    assert (code, "Deleted world w" in shown) == (0, True)


def test_shells_complete_commands_options_and_worlds(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    shell("init", "-L", "books", "-w", "novels")

    def complete(kind: str, words: str) -> str:
        variables = {
            "_TRUESPAN_COMPLETE": f"{kind}_complete",
            "COMP_WORDS": words,
            # fish passes the typed word, the other shells its index.
            "COMP_CWORD": words.split(" ")[-1] if kind == "fish" else str(words.count(" ")),
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            run([])
        for name in variables:
            monkeypatch.delenv(name)
        return shell._capsys.readouterr().out  # type: ignore[attr-defined]

    for kind in ("bash", "zsh", "fish"):
        assert "search" in complete(kind, "truespan sea")
        assert "--chapter" in complete(kind, "truespan search x --ch")
        assert "revoke" in complete(kind, "truespan token re")
        options = complete(kind, "truespan search x --").splitlines()
        # zsh reads type, value and help from a line each, the others from one.
        values = options[1::3] if kind == "zsh" else [line.split("\t")[0] for line in options]
        assert all("--" in value for value in values), options
        assert "novels" in complete(kind, "truespan search x -w n")


def test_progress_without_a_terminal_is_plain_lines() -> None:
    lines: list[str] = []

    show = ProgressLines(lines.append, iter([0.0, 1.0, 3.0, 3.0, 4.0, 4.0]).__next__)
    for fraction in (0.2, 0.31, 0.35, 0.9, 1.0):
        show(Progress(fraction, 1, 4, 10, 5, "note.md"))

    assert lines == [
        "31%: 1 of 4 documents, 10 chunks, 3.3/s, 3 s, about 7 s left\n",
        "90%: 1 of 4 documents, 10 chunks, 2.5/s, 4 s, about 0 s left\n",
    ]

    lines.clear()
    ProgressLines(lines.append, iter([0.0, 4.0, 4.0]).__next__)(Progress(0.5, 0, 0, 10, 5, ""))
    assert lines == ["50%: 10 chunks, 2.5/s, 4 s, about 4 s left\n"]


def test_advice_names_world_and_command(shell: Shell) -> None:
    assert shell("ingest", "note.md")[0] == 0
    for arguments in (("ask", "Who?", "--reader", "ada"), ("reader", "show", "--reader", "ada")):
        code, out, _ = shell(*arguments)

        assert (code, "truespan reader set BOOK --reader NAME" in out) == (0, True)

    _, _, err = shell("delete", "absent.md")

    assert "'truespan status --world main' lists its documents." in err
