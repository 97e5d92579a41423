"""Conversations at the command line: in a pipe and in a terminal, with and without a model."""

import builtins
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.mcp_clients import UNREAD
from tests.interfaces.test_cli_answers import QUESTION, Terminal
from tests.promises import proves
from tests.support.providers.chat import OpenAiChatServer

FOLLOW_UP = "And who took it?"
SAID = "It hung from “a red cord” [1]."


@pytest.fixture
def terminal(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    """Commands on the library of the session, which has no conversations before and after."""
    monkeypatch.setenv("TRUESPAN_WORLD", "w")
    made = Terminal(library.parent, capsys)
    yield made
    made("conversations", "delete", "--all", "--yes", "--no-erase")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAiChatServer]:
    with OpenAiChatServer() as running:
        running.reply = [SAID]
        monkeypatch.setenv("TRUESPAN_CHAT_PROVIDER", "openai")
        monkeypatch.setenv("TRUESPAN_CHAT_MODEL", running.model)
        monkeypatch.setenv("TRUESPAN_CHAT_OPENAI_BASE_URL", running.base)
        monkeypatch.setenv("TRUESPAN_CHAT_OPENAI_KEYLESS", "1")
        yield running


def pipe(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> None:
    """Simulate a terminal that gets these lines, then Ctrl-D. An exception is a key press."""
    left = iter(lines)

    def read_line(prompt: str = "") -> str:
        assert prompt
        line = next(left, EOFError)
        if not isinstance(line, str):
            raise line
        return line

    monkeypatch.setattr(builtins, "input", read_line)
    # The streams of a test are not a terminal.
    monkeypatch.setattr("truespan.cli.chat_session.is_terminal", lambda: True)


def test_piped_lines_are_turns_of_one_conversation(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, QUESTION, "", FOLLOW_UP)
    code, out, err = terminal("chat")

    assert (code, err) == (0, "")
    # Without a model each quote is followed by its place, so the sources are not listed again.
    assert (out.count("\nAnswered from the documents: "), "Sources:" in out) == (2, False)
    assert "Searched for: " in out
    (entry,) = terminal.json("conversations", "show")["conversations"]
    assert (entry["title"], entry["turns"]) == (QUESTION, 2)
    shown = terminal("conversations", "show", entry["id"])[1]
    assert shown.startswith(f"{QUESTION}\n{entry['id']}, 2 turns, begun ")
    assert f"2. {FOLLOW_UP}\n(searched for: " in shown
    listed = terminal("conversations", "show")[1]
    assert [row.split()[0] for row in listed.splitlines()] == ["conversation", entry["id"]]


def test_chat_json_is_one_object_per_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    pipe(monkeypatch, QUESTION, "/new", FOLLOW_UP, "x" * 10_001, QUESTION)
    code, out, err = terminal("chat", "--json")

    first, second, failed = (json.loads(line) for line in out.splitlines())
    assert (code, failed["error"]["code"]) == (2, "query_too_long")
    assert err == "A new conversation begins with your next question.\n"
    assert first["conversation"]["id"] != second["conversation"]["id"]
    assert second["conversation"]["rewritten_by"] == "none"
    assert len(terminal.json("conversations", "show")["conversations"]) == 2


def test_a_conversation_is_continued_exported_and_deleted(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, QUESTION)
    terminal("chat")
    key = terminal.json("conversations", "show")["conversations"][0]["id"]
    pipe(monkeypatch, FOLLOW_UP)
    assert terminal("chat", "--conversation", key)[0] == 0

    exported = terminal.json("conversations", "show", key)
    assert [turn["question"] for turn in exported["turns"]] == [QUESTION, FOLLOW_UP]
    text = terminal("conversations", "show", key, "--markdown")[1]
    assert text.startswith(f"# {QUESTION}\n")
    for refused in (["--markdown"], [key, "--markdown", "--json"], [key, "--book", "1"]):
        assert terminal("conversations", "show", *refused)[0] == 2

    code, out, _ = terminal("conversations", "delete", key)
    assert (code, out.splitlines()[0]) == (0, "Deleted 1 conversation with 2 turns.")
    pipe(monkeypatch, QUESTION)
    for command in (
        ("chat", "--conversation", key),
        ("conversations", "show", key),
        ("conversations", "show", key, "--markdown"),
        ("conversations", "delete", key),
    ):
        code, out, err = terminal(*command)
        assert (code, out) == (2, "")
        assert f"There is no conversation '{key}'." in err


def test_conversations_are_deleted_only_on_request(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, QUESTION)
    terminal("chat")

    code, _, err = terminal("conversations", "delete", "--all")
    assert (code, "--yes" in err) == (2, True)
    assert terminal("conversations", "delete")[0] == 2
    receipt = terminal.json("conversations", "delete", "--all", "--yes")["receipt"]
    assert receipt["rows"] == {"conversations": 1, "turns": 1}
    assert "No conversations yet." in terminal("conversations", "show")[1]


def test_conversation_of_a_reader_contains_nothing_unread(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe(monkeypatch, QUESTION, "What happens to it in the end?", "/sources")
    code, out, _ = terminal("chat", "--reader", "ann")

    assert code == 0
    assert not any(words in out for words in UNREAD)
    assert terminal.json("conversations", "show")["conversations"] == []
    (entry,) = terminal.json("conversations", "show", "--reader", "ann")["conversations"]
    assert (entry["reader"], entry["turns"]) == ("ann", 2)
    assert terminal("conversations", "show", entry["id"])[0] == 2
    assert terminal("conversations", "show", entry["id"], "--reader", "ann")[0] == 0
    assert terminal("chat", "--book", "lamp.md")[0] == 2
    assert terminal("chat", "--reader", "ann", "--tag", "x")[0] == 2
    assert terminal("conversations", "delete", entry["id"], "-r", "ann", "--no-erase")[0] == 0


def test_terminal_chat_greets_obeys_commands_and_shows_help(
    terminal: Terminal, model: OpenAiChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(
        monkeypatch,
        "/sources",
        QUESTION,
        "/sources",
        "/history",
        KeyboardInterrupt,
        "/wrong",
        "/help",
    )
    code, out, err = terminal("chat")

    key = terminal.json("conversations", "show")["conversations"][0]["id"]
    assert (code, err) == (0, "")
    assert out.startswith("Ask a question. /help lists the commands; Ctrl-D ends.\n")
    assert "Nothing was asked yet." in out
    assert f"{SAID}\n\nSources:\n  [1] The Lamp › One: The Keeper (" in out
    assert " used for the answer." in out
    assert f"1. {QUESTION}\n{SAID}" in out
    assert "Ctrl-D or /quit ends." in out
    assert "There is no command /wrong." in out
    assert f"'truespan chat --conversation {key} -L {terminal.folder / 'library'}' continues" in out

    type_lines(monkeypatch, FOLLOW_UP, "/quit", QUESTION)
    _, out, _ = terminal("chat", "--conversation", key)
    assert out.startswith(f"1. {QUESTION}\n{SAID}")
    assert len(terminal.json("conversations", "show", key)["turns"]) == 2


@proves("conversations.whole-turns")
def test_ctrl_c_stops_the_answer_but_not_the_program(
    terminal: Terminal, model: OpenAiChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> Iterator[bytes]:
        yield model.piece(f"{SAID} Everybody in the valley knew that very well. " * 3)
        os.kill(os.getpid(), signal.SIGINT)
        # The user has stopped the answer, so the rest is not printed.
        while not model.ended.is_set():
            yield model.piece("More. ")

    asked = 0

    def first_time(_: Any) -> Any:
        nonlocal asked
        asked += 1
        return model.saying(interrupted()) if asked == 1 else None

    model.fault = first_time
    before = signal.getsignal(signal.SIGINT)
    type_lines(monkeypatch, QUESTION, FOLLOW_UP)
    code, out, err = terminal("chat")

    assert (code, err) == (0, "")
    assert "\nStopped. This question and its answer are not stored.\n" in out
    (entry,) = terminal.json("conversations", "show")["conversations"]
    assert (entry["title"], entry["turns"]) == (FOLLOW_UP, 1)
    assert signal.getsignal(signal.SIGINT) is before


def test_terminal_chat_continues_after_an_error(
    terminal: Terminal, model: OpenAiChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = f"{SAID} Everybody in the valley knew that very well. " * 3
    model.fault = lambda _: model.saying([model.piece(long)], ended=False)
    type_lines(monkeypatch, QUESTION, "x" * 10_001)
    code, out, err = terminal("chat")

    assert code == 0
    # The error begins on a new line.
    assert out.endswith(f"{long.rstrip()}\n\n")
    assert [line[:10] for line in err.splitlines()] == ["truespan: "] * 2
    assert terminal.json("conversations", "show")["conversations"] == []


def test_model_output_cannot_control_the_terminal(
    terminal: Terminal, model: OpenAiChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.reply = ["Red \x1b[2J\x1b]0;title\x07cord\r [1]."]
    pipe(monkeypatch, QUESTION, "/history")
    out = terminal("chat")[1]
    key = terminal.json("conversations", "show")["conversations"][0]["id"]
    out += terminal("conversations", "show", key)[1]

    assert R"Red \u001b[2J\u001b]0;title\u0007cord\u000d [1]." in out
    assert not {"\x1b", "\x07", "\r"} & set(out)
