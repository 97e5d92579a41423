"""Answers on the command line, on the real store, index and model, with chat servers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.interfaces import test_cli as cli
from tests.interfaces.mcp_clients import UNREAD, prepare
from tests.support.providers.chat import ChatServer, OllamaChatServer, OpenAiChatServer
from truespan.wiring import open_library

pytestmark = pytest.mark.contract
QUESTION = "What did the key to the tower hang from?"
SAID = ["It hung from “a red cord” [1], ", "and “a blue one” [9]."]


class Terminal(cli.Terminal):
    """Runs commands on the library of a folder; those that print JSON must succeed."""

    def json(self, *arguments: str) -> Any:
        code, found = super().json(*arguments)
        assert code == 0
        return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A library whose world has the defaults of the contract."""
    folder = prepare(tmp_path_factory.mktemp("answers"))
    yield folder
    open_library(folder)._components.index.retire()  # type: ignore[attr-defined]


@pytest.fixture
def terminal(library: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(library.parent, capsys)


@pytest.fixture(params=["openai", "ollama"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    made = OpenAiChatServer() if request.param == "openai" else OllamaChatServer()
    with made as running:
        running.reply = list(SAID)
        settings = {
            "chat_provider": request.param,
            "chat_model": running.model,
            f"chat_{request.param}_base_url": running.base,
            "chat_openai_keyless": "1",
        }
        for name, value in settings.items():
            monkeypatch.setenv(f"TRUESPAN_{name.upper()}", value)
        yield running


def test_ask_prints_answer_sources_quotes_and_reason(terminal: Terminal, server: ChatServer):
    code, out, err = terminal("ask", QUESTION, "-w", "w")

    assert (code, err) == (0, "")
    assert out.startswith("It hung from “a red cord” [1], and “a blue one” [9].\n")
    assert "[1] The Lamp › One: The Keeper (" in out
    assert "/lamp.md, sentences " in out
    assert "[9] ✗ no such source" in out
    assert "✗ a blue one" in out
    assert "✗ a red cord" not in out
    assert "Sentences not supported by the sources:\n  ✗ It hung from “a red cord” [1], and" in out
    assert "words not found: a blue one\n0 of 1 sentence supported." in out
    assert "Answered from the documents: the best passage reached the high threshold" in out
    assert "the model was used" in out
    (question,) = server.questions
    assert "BEGIN SOURCE" in question["messages"][-1]["content"]


def test_json_answer_is_one_object(terminal: Terminal, server: ChatServer) -> None:
    answer = terminal.json("ask", QUESTION, "-w", "w")

    assert answer["answer"] == "".join(SAID)
    assert answer["decision_explain"]["used_llm"] == "primary"
    assert [quote["verified"] for quote in answer["quotes"]] == [True, False]
    assert answer["support"]["claims"] == 1
    assert terminal.json("status", "--usage", "-w", "w")["records"][0]["id"] == answer["record"]


def test_events_are_printed_one_per_line(terminal: Terminal, server: ChatServer) -> None:
    code, out, _ = terminal("ask", QUESTION, "-w", "w", "--json", "--stream")

    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [event["event"] for event in events] == ["started", "piece", "piece", "finished"]
    assert "".join(event["text"] for event in events[1:-1]) == events[-1]["answer"]["answer"]


def test_streamed_and_unstreamed_answers_are_equal(terminal: Terminal, server: ChatServer) -> None:
    def words(*options: str) -> str:
        return terminal("ask", QUESTION, "-w", "w", *options)[1].split("\n\n")[0].strip()

    assert words("--stream") == words("--no-stream") == words() == "".join(SAID)


def test_model_output_cannot_control_the_terminal(terminal: Terminal, server: ChatServer):
    server.reply = ["Red \x1b[2J\x1b]0;title\x07cord\r [1]."]

    _, out, _ = terminal("ask", QUESTION, "-w", "w")

    assert out.startswith(R"Red \u001b[2J\u001b]0;title\u0007cord\u000d [1].")


def test_unavailable_server_is_one_line_and_not_logged(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUESPAN_CHAT_PROVIDER", "ollama")
    monkeypatch.setenv("TRUESPAN_CHAT_MODEL", "absent")
    with OllamaChatServer() as gone:
        monkeypatch.setenv("TRUESPAN_CHAT_OLLAMA_BASE_URL", gone.base)
        before = terminal.json("status", "--usage", "-w", "w")

        code, out, err = terminal("ask", QUESTION, "-w", "w")

    assert (code in (3, 4), out) == (True, "")
    assert err.startswith("truespan: ")
    assert len(err.splitlines()) == 1
    assert terminal.json("status", "--usage", "-w", "w") == before


@pytest.mark.parametrize("wishes", [["--json", "--stream"], ["--no-stream", "--stream", "--json"]])
def test_error_is_the_last_printed_event(
    terminal: Terminal, server: ChatServer, wishes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [*server.spoken("It hung there [1]"), server.trouble("overloaded")]
    monkeypatch.setattr(server, "whole", lambda: broken)

    code, out, err = terminal("ask", QUESTION, "-w", "w", *wishes)

    *events, last = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (4, "")
    assert [event["event"] for event in events] == ["started", "piece"]
    assert last["event"] == "error"
    assert last["code"].startswith("provider_")
    assert (isinstance(last["retryable"], bool), bool(last["message"])) == (True, True)


def test_error_before_any_event_is_one_line(terminal: Terminal) -> None:
    code, out, err = terminal("ask", "Who?", "-w", "elsewhere", "--json", "--stream")

    (event,) = [json.loads(line) for line in out.splitlines()]
    assert (code, err, event["event"], event["code"]) == (2, "", "error", "world_not_found")
    code, out, _ = terminal("ask", "Who?", "-w", "elsewhere", "--json", "--no-stream")
    assert (code, json.loads(out)["error"]["code"]) == (2, "world_not_found")


@pytest.mark.parametrize("column", ["evidence", "decision_explain", "mode"])
@pytest.mark.parametrize("spelled", ["{", "[]", "{}", "\x00"])
def test_damaged_record_is_reported_and_hides_no_other(
    terminal: Terminal, column: str, spelled: str
):
    whole, broken = (terminal.json("ask", QUESTION, "-w", "w")["record"] for _ in range(2))
    store = apsw.Connection(str(terminal.folder / "library" / "store.db"))
    store.execute(f"UPDATE usage SET {column} = ? WHERE id = ?", (spelled, broken))

    code, out, err = terminal("status", "--usage", "-w", "w")
    assert (code, err) == (0, "")
    assert whole in out
    damaged = [line for line in out.splitlines() if broken in line]
    assert len(damaged) == 1
    listed = terminal.json("status", "--usage", "-w", "w")["records"]
    assert {whole, broken} <= {record["id"] for record in listed}
    if spelled != "{}" or column == "mode":
        assert "damaged record" in damaged[0]
    store.execute("DELETE FROM usage WHERE id = ?", (broken,))
    store.close()


def test_log_limit_out_of_range_is_refused_at_start(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUESPAN_RETRIEVAL_MAX_TOKENS", "99999999999999999999")

    code, out, err = terminal("ask", QUESTION, "-w", "w")

    assert (code, out) == (3, "")
    assert "must be a whole number of at least 1 and at most 1000000000" in err


def test_reader_answer_uses_only_read_text(terminal: Terminal, server: ChatServer) -> None:
    answer = terminal.json("ask", "Who copied the key in candle wax?", "-w", "w", "-r", "ann")

    assert not any(word in str(server.questions) for word in UNREAD if word != "candle wax")
    shown = str({**answer, "decision_explain": None})
    assert not any(word in shown for word in UNREAD)


def test_without_a_model_the_passages_are_printed(terminal: Terminal) -> None:
    code, out, _ = terminal("ask", QUESTION, "-w", "w")

    assert code == 0
    assert out.startswith("> ")
    assert "red cord" in out
    assert "no model was used" in out


def test_refusal_shows_the_closest_passages(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRUESPAN_ANSWER_THRESHOLD_LOW", "0.98")
    monkeypatch.setenv("TRUESPAN_ANSWER_THRESHOLD_HIGH", "0.99")

    code, out, _ = terminal("ask", QUESTION, "-w", "w")
    answer = terminal.json("ask", QUESTION, "-w", "w")

    assert code == 0
    assert out.startswith("Nothing certain. No passage is close enough to the question: ")
    best = answer["near_misses"][0]
    assert f"Closest:\n  {best['similarity']:.3f}  " in out
    assert best["text"] in out
    assert (answer["used_chunks"], answer["sources_used"]) == ([], "none")
