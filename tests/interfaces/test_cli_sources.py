"""Files that `truespan ask` and `truespan chat` read into a temporary library."""

import io
import json
import os
import sys
import tempfile
from pathlib import Path

import click
import pytest

from tests.interfaces.test_cli_newcomer import NOTE, Shell
from tests.promises import proves
from truespan.cli.follow import progress_bar
from truespan.cli.sources import make_room
from truespan.cli.terminal import WrappedText, echo_wrapped
from truespan.core.disk import FileLock
from truespan.ingest.report import Progress
from truespan.types.arguments import MAX_QUERY_LENGTH

QUESTION = "Where does the spare key hang?"
ANSWER = "> The spare key hangs on hook seven at the inn."


@pytest.fixture
def shell(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Shell:
    """Commands in a folder with a note, on a machine that has no library."""
    for name in ("TRUESPAN_LIBRARY", "TRUESPAN_WORLD"):
        monkeypatch.delenv(name, raising=False)
    temporary = tmp_path / "temporary"
    for folder in (temporary, tmp_path / "work"):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "note.md").write_text(NOTE)
    return Shell(tmp_path / "work", capsys)


def left_behind(shell: Shell) -> list[str]:
    """Return the files that commands left beside the note."""
    folder = shell.folder.parent
    kept = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(folder)) for path in kept if path.name != "note.md")


@proves("cli.ask-file")
@pytest.mark.parametrize("source", ["note.md", "."])
def test_one_command_answers_from_a_file(
    shell: Shell, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUESPAN_WORLD", "elsewhere")
    code, out, err = shell("ask", source, QUESTION)

    assert (code, ANSWER in out) == (0, True)
    [folder] = kept_libraries()
    assert err == (
        "Read 1 document.\n"
        f"Kept in {folder} for the next question. "
        f"'truespan ingest {source}' adds the documents to a library.\n"
    )
    assert left_behind(shell) == []


def kept_libraries() -> list[Path]:
    home = Path(os.environ["XDG_CACHE_HOME"]) / "truespan" / "asked"
    return sorted(path for path in home.glob("*") if path.is_dir())


@proves("cli.asked-again")
def test_same_files_are_read_once(shell: Shell) -> None:
    _, first, _ = shell("ask", "note.md", QUESTION)
    code, again, err = shell("ask", "note.md", QUESTION)
    [folder] = kept_libraries()

    assert code == 0
    assert again.splitlines()[:-1] == first.splitlines()[:-1]
    assert err.startswith(f"Nothing was read again: the files are kept in {folder}.")
    assert (folder.parent.stat().st_mode & 0o077) == 0
    (shell.folder / "note.md").write_text(NOTE.replace("hook seven", "hook nine"))
    _, changed, err = shell("ask", "note.md", QUESTION)
    assert "hook nine" in changed
    assert err.startswith("Read 1 document")
    assert len(kept_libraries()) == 2


@proves("cli.asked-again")
def test_other_settings_read_the_files_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("ask", "note.md", QUESTION)
    monkeypatch.setenv("TRUESPAN_DOCX_EXTRACT_IMAGES", "true")

    assert shell("ask", "note.md", QUESTION)[2].startswith("Read 1 document")
    assert len(kept_libraries()) == 2


@proves("cli.asked-again")
def test_unfinished_library_is_continued(shell: Shell) -> None:
    shell("ask", "note.md", QUESTION)
    [folder] = kept_libraries()
    (folder / "complete").unlink()

    _, out, err = shell("ask", "note.md", QUESTION)
    assert (ANSWER in out, err.startswith("Read 1 document.\n")) == (True, True)
    assert (folder / "complete").exists()
    with FileLock(folder.parent / f"{folder.name}.lock"):
        assert "Nothing was kept." in shell("ask", "note.md", QUESTION)[2]


@proves("cli.asked-again")
def test_kept_libraries_have_a_size_limit(shell: Shell) -> None:
    shell("ask", "note.md", QUESTION)
    [oldest] = kept_libraries()
    os.utime(oldest / "complete", (1, 1))
    (shell.folder / "note.md").write_text(NOTE + "More.")
    shell("ask", "note.md", QUESTION)
    size = sum(path.stat().st_size for path in oldest.rglob("*") if path.is_file())

    make_room(oldest.parent, max_bytes=size * 3 // 2)

    [left] = kept_libraries()
    assert left != oldest


@proves("cli.ask-file")
def test_asking_files_leaves_the_library_alone(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    (shell.folder / "other.md").write_text("# Lamp\n\nThe lamp burned all night.\n")
    assert shell("ingest", "other.md")[0] == 0
    monkeypatch.setenv("TRUESPAN_STORE_URL", "postgresql://127.0.0.1:1/none")

    found = json.loads(shell("ask", "note.md", QUESTION, "--json")[1])

    assert {note["source"] for note in found["retrieved_chunks_metadata"]} == {"note.md"}
    monkeypatch.delenv("TRUESPAN_STORE_URL")
    assert json.loads(shell("status", "--json")[1])["worlds"][0]["status"]["documents"] == 1


@proves("cli.ask-file")
def test_files_are_asked_beside_several_libraries(shell: Shell) -> None:
    for name in ("one", "two"):
        assert shell("init", "--library", name)[0] == 0

    code, out, _ = shell("ask", "note.md", QUESTION)

    assert (code, ANSWER in out) == (0, True)


@proves("cli.ask-file")
def test_chat_asks_files(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\nWho may touch it?\n"))

    code, out, err = shell("chat", "note.md")

    assert (code, ANSWER in out, "Nobody is to touch it." in out) == (0, True, True)
    assert "conversation" not in err
    assert left_behind(shell) == []


@proves("cli.ask-file")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "note.md"], "There is no question after 'note.md'."),
        (["ask", "Where", "is", "it?"], "a question of several words needs quotes."),
        (["ask", "nowhere.md", "What?"], "nowhere.md: no such file or folder."),
        (["ask", "empty", "What?"], "No document was found in empty."),
        (["ask", "note.md", "What?", "-w", "w"], "without a reader, world or generation."),
        (["ask", "note.md", "What?", "--reader", "ada"], "without a reader, world or generation."),
        (["chat", "nowhere.md"], "nowhere.md: no such file or folder."),
    ],
)
def test_wrong_sources_are_refused(shell: Shell, arguments: list[str], said: str) -> None:
    (shell.folder / "empty").mkdir()

    code, out, err = shell(*arguments)

    assert (code, out) == (2, "")
    assert said in err
    assert left_behind(shell) == []


def test_invalid_question_is_refused_before_files_are_read(shell: Shell) -> None:
    for question in (" ", "x" * (MAX_QUERY_LENGTH + 1)):
        code, out, err = shell("ask", "note.md", question)
        assert (code, out, "query" in err) == (2, "", True)
    assert kept_libraries() == []


def test_unreadable_files_are_named(shell: Shell) -> None:
    (shell.folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")

    code, out, err = shell("ask", ".", QUESTION)

    assert (code, ANSWER in out) == (0, True)
    assert err.startswith("Not read: broken.pdf")


def test_pipe_is_refused_unread(shell: Shell) -> None:
    os.mkfifo(shell.folder / "pipe")

    code, out, err = shell("ask", "pipe", QUESTION)

    assert (code, out) == (2, "")
    assert "It is a link or not a regular file." in err
    assert "Nothing in pipe can be read." in err


def test_search_prints_the_best_sentence_with_its_neighbours(shell: Shell) -> None:
    parts = ["The boat left.", "Rain fell.", NOTE.split("\n")[2], "Gulls cried.", "Night came."]
    (shell.folder / "long.md").write_text(" ".join(parts))
    shell("ingest", "long.md")

    short = shell("search", QUESTION, "-k", "1")[1]
    full = shell("search", QUESTION, "-k", "1", "--full")[1]

    assert "   … Rain fell. The spare key hangs on hook seven at the inn. Nobody is" in short
    assert f"   {' '.join(parts)}\n" in full


def test_search_prints_a_row_of_a_table_with_its_header(shell: Shell) -> None:
    rows = [f"Lamp {number},{number} pieces,shelf {number}" for number in range(9)]
    (shell.folder / "stock.csv").write_text("\n".join(["item,stock,place", *rows, "Key,,inn"]))
    shell("ingest", "stock.csv")

    short = shell("search", "lamp 5 pieces", "-k", "1", "--mode", "keyword")[1]

    shown = [line.strip() for line in short.splitlines() if " | " in line]
    assert shown[0] == "item | stock | place"
    assert [line.removeprefix("… ").split(" | ")[0] for line in shown[1:]] == [
        "Lamp 4",
        "Lamp 5",
        "Lamp 6",
    ]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_lines_of_a_terminal_break_between_words(
    size: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "The spare key hangs on hook seven.\n\nNobody is to touch it: Donaudampfschifffahrt."
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "16")
    wrapped = WrappedText()

    for start in range(0, len(text), size):
        wrapped.write(text[start : start + size])
    wrapped.finish()

    lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
    assert lines == [
        *("The spare key", "hangs on hook", "seven.", "", "Nobody is to"),
        *("touch it:", "Donaudampfschifffahrt.", ""),
    ]


def test_terminal_fills_the_lines_of_quoted_prose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prose = "> The spare key hangs\n> on hook seven at the inn.\n>\n> Nobody is\n> to touch it."
    code = ">     if key:\n>         take(key)"
    listed = "> - the key\n> - the hook"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    wrapped = WrappedText()

    wrapped.write(f"{prose}\n\n{code}\n\n{listed}\n\n[1] Rules")
    wrapped.finish()

    lines = [line.rstrip() for line in capsys.readouterr().out.split("\n")]
    assert lines == [
        *("> The spare key hangs on hook", "> seven at the inn.", ">", "> Nobody is to touch it."),
        *("", ">     if key:", ">         take(key)", "", "> - the key", "> - the hook"),
        *("", "[1] Rules", ""),
    ]


def test_styled_paragraphs_fit_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "16")

    echo_wrapped(("The spare ", ""), ("key", "bold"), (" hangs on hook seven", ""), indent=3)
    echo_wrapped(("鍵は七番のフックに掛かっている。", ""))

    lines = capsys.readouterr().out.splitlines()
    assert [click.unstyle(line) for line in lines] == [
        *("   The spare key", "   hangs on hook", "   seven"),
        *("鍵は七番のフック", "に掛かっている。"),
    ]


def test_bar_shows_progress_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar(hidden=False) as show:
        assert show is not None
        show(Progress(0.5, chunks=20, current="a\x1b]0;b.md"))

    shown = capsys.readouterr().err
    assert "a\\u001b]0;b.md" in shown
    assert " 50%" in shown
    assert "20 chunks" in shown
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown
