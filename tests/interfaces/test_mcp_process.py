"""The MCP server as a process: output, start and end."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.mcp_clients import HELLO, READER_TOOLS, bare, command
from tests.promises import proves
from truespan.cli import run
from truespan.extensions.server.mcp.server import TemplateFormatter

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "Who had the key to the tower?"

SABOTAGE = """
import os, subprocess, sys
from truespan.cli import run
from truespan.engine.reader import Reader

def retrieve(self, query, **settings):
    if "print" in query:
        print("stray words")
        os.write(1, b"stray bytes\\n")
        subprocess.run([sys.executable, "-c", "print('stray child')"])
        print("stray input", repr(sys.stdin.read()))
    if "fail" in query:
        raise ZeroDivisionError("The culprit was Quillfeather.")
    if "wait" in query:
        open(os.path.join(os.path.dirname(__file__), "gate")).read()
    return untouched(self, query, **settings)

untouched, Reader.retrieve = Reader.retrieve, retrieve
sys.exit(run(sys.argv[1:]))
"""
"""A server whose engine prints, fails or blocks, depending on the query."""


def sabotaged(library: Path) -> list[str]:
    script = library.parent / "sabotage.py"
    script.write_text(SABOTAGE, encoding="utf-8")
    return [str(script), *command(library, "--reader", "ann")]


@pytest.fixture
def gate(library: Path) -> Iterator[Path]:
    """A pipe that blocks the engine until it is opened."""
    path = library.parent / "gate"
    os.mkfifo(path)
    yield path
    path.unlink()


# Output


def test_standard_output_has_only_the_protocol(library: Path) -> None:
    with bare(*sabotaged(library), fresh=True) as server:
        server.greet()
        server.send_call(1, "retrieve_context", query="print the key")
        answer = server.receive()
        code, errors = server.leave()

    assert (answer["id"], answer["result"]["isError"]) == (1, False)
    assert "stray" not in json.dumps(answer)
    assert code == 0
    for stray in ("stray words", "stray bytes", "stray child", "stray input ''"):
        assert stray in errors


@proves("errors.no-secrets", "errors.stable-codes", "mcp.text-as-data")
def test_unexpected_error_is_one_code_and_reveals_nothing(library: Path) -> None:
    with bare(*sabotaged(library)) as server:
        server.greet()
        server.send_call(1, "retrieve_context", query="fail the key")
        failed = server.receive()["result"]
        server.send_call(2, "retrieve_context", query=QUESTION)
        fine = server.receive()["result"]
        _, errors = server.leave()

    assert (failed["isError"], fine["isError"]) == (True, False)
    assert failed["structuredContent"]["error"]["code"] == "internal_error"
    for said in (json.dumps(failed), errors):
        assert "Quillfeather" not in said
        assert "Traceback" not in said
    assert "ZeroDivisionError" not in json.dumps(failed)
    assert "unexpected ZeroDivisionError" in errors


@proves("errors.no-secrets")
def test_sdk_logs_have_no_arguments() -> None:
    record = logging.LogRecord(
        "mcp", logging.ERROR, "", 0, "bad result %r", ("Quillfeather",), broken("postmistress")
    )

    assert TemplateFormatter().format(record) == "error: mcp: bad result %r"


def broken(text: str) -> Any:
    try:
        raise ValueError(text)
    except ValueError:
        return sys.exc_info()


def test_malformed_line_gets_an_error_reply(library: Path) -> None:
    with bare("-m", "truespan", *command(library, "--reader", "ann")) as server:
        for line in ("no JSON at all", '{"jsonrpc": "2.0"}', "[]", ""):
            server.send_line(line)
        assert [server.receive()["error"]["code"] for _ in range(3)] == [-32700] * 3
        server.send_line('{"jsonrpc":"2.0","id":7,"method":"ping","id":8}')
        server.send_line(
            '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search",'
            '"arguments":{"query":"a","query":"b"}}}'
        )
        told = [server.receive()["error"]["message"] for _ in range(2)]
        assert told == ["Parse error: 'id' occurs twice", "Parse error: 'query' occurs twice"]
        server.greet()
        server.send_call(1, "list_books")

        assert server.receive()["result"]["isError"] is False


def test_cancelled_call_affects_no_other(library: Path, gate: Path) -> None:
    with bare(*sabotaged(library)) as server:
        server.greet()
        server.send_call(1, "retrieve_context", query="wait for the key")
        with gate.open("w"):
            server.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
            server.send({"id": 2, "method": "ping"})
            pinged = server.receive()
        server.send_call(3, "retrieve_context", query=QUESTION)
        answered = server.receive()
        code, errors = server.leave()

    assert (pinged["id"], answered["id"]) == (2, 3)
    assert answered["result"]["structuredContent"]["retrieved_chunks"]
    assert (code, errors) == (0, "")


# Start


def test_mcp_without_a_library_ends_with_one_line(library: Path) -> None:
    nowhere = command(library, "--reader", "ann", world="nowhere")
    unnamed = ["mcp", "--library", str(library), "--owner"]
    for arguments, said in (
        (nowhere, "truespan: There is no world 'nowhere'"),
        (unnamed, "truespan: There are 2 worlds: beside, w."),
    ):
        with bare("-m", "truespan", *arguments) as server:
            # It gets a request, its input stays open, and it ends without a reply.
            server.send({"id": 0, "method": "initialize", "params": HELLO})
            code = server.process.wait(timeout=60)
            _, errors = server.leave()

        assert code == 2
        assert errors.startswith(said)
        assert errors.count("\n") == 1


def test_engine_is_not_loaded_before_the_first_reply() -> None:
    heavy = "{'numpy', 'onnxruntime', 'apsw', 'tokenizers', 'qdrant_edge', 'rich', 'sentencex'}"
    script = (
        "import sys, truespan.extensions.server.mcp.stdio; "
        f"sys.exit(str({heavy} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stderr == "set()\n"


def test_library_for_a_reader_opens_without_first_call_parts(library: Path) -> None:
    script = (
        "import sys; from pathlib import Path; "
        "from truespan.extensions.server.mcp.stdio import open_narrowed; "
        f"opened, caller = open_narrowed(Path({str(library)!r}), 'w', ' ann '); opened.close(); "
        "lazy = {'truespan.engine.reader', 'truespan.engine.answering', 'numpy'}; "
        "print(caller.reader, *lazy & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("ann\n", "")


def test_documented_configuration_starts_a_server(library: Path) -> None:
    shown = [configuration(ROOT / page) for page in ("README.md", "docs/mcp.md")]
    (server,) = shown[0]["mcpServers"].values()
    where = {"--library": str(library), "--world": "w"}
    arguments = server["args"]
    for option, value in where.items():
        arguments[arguments.index(option) + 1] = value

    assert configuration(ROOT / "README.md") == shown[1]
    assert server["command"] == "truespan"
    with bare("-m", "truespan", *arguments) as started:
        started.greet()
        assert started.leave() == (0, "")


def test_printed_configuration_starts_a_server(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library.parent)
    whom = ["--reader", "ann", "--may", "move"]
    relative = ["mcp", "--library", library.name, "--world", "w", *whom]

    assert run([*relative, "--print-config"]) == 0
    printed = json.loads(capsys.readouterr().out)

    (name,) = printed["mcpServers"]
    entry = printed["mcpServers"][name]
    assert name == "truespan-w"
    assert Path(entry["command"]).is_file()
    assert entry["args"] == [*command(library.resolve(), "--reader", "ann"), "--may", "move"]
    monkeypatch.chdir("/")
    with bare("-m", "truespan", *entry["args"]) as started:
        started.greet()
        assert started.leave() == (0, "")


def test_the_configuration_of_each_client_has_the_same_command(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ["--may", "ingest"]
    whole = [*command(library, "--owner"), *folders, "--print-config"]

    def printed(client: str) -> str:
        assert run([*whole, client]) == 0
        return capsys.readouterr().out

    entry = json.loads(printed("desktop"))["mcpServers"]["truespan-w"]
    assert set(entry) == {"command", "args"}
    assert entry["args"][-2:] == ["--may", "ingest"]
    vscode = json.loads(printed("vscode"))["servers"]["truespan-w"]
    assert vscode == {"type": "stdio", **entry}
    zed = json.loads(printed("zed"))["context_servers"]["truespan-w"]
    assert zed == {"source": "custom", **entry}
    assert tomllib.loads(printed("codex"))["mcp_servers"]["truespan-w"] == entry


@proves("mcp.writes-opt-in")
def test_impossible_options_are_refused(library: Path, capsys: pytest.CaptureFixture[str]):
    for options, said in (
        ([], "--reader NAME"),
        (["--reader", "ann", "--owner"], "--owner"),
        (["--owner", "--may", "move"], "--reader NAME"),
        (["--reader", "ann", "--may", "ingest"], "--owner"),
        (["--owner", "--may", "fly"], "move, ingest or note"),
        (["--print-config"], "--reader NAME"),
        (["--owner", "--print-config", "--world", "nowhere"], "no world 'nowhere'"),
        (["--owner", "--print-config", "x"], "desktop, vscode"),
    ):
        code = run(command(library, *options))

        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), options
        assert said in err


def configuration(page: Path) -> dict[str, Any]:
    block = re.search(r"^```json\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block
    return json.loads(block[1])


# End


def test_an_interrupt_ends_the_server_while_its_input_is_open(library: Path) -> None:
    with bare("-m", "truespan", *command(library, "--reader", "ann")) as server:
        server.greet()
        server.send_call(1, "list_books")
        server.receive()
        server.process.send_signal(signal.SIGINT)

        assert server.process.wait(timeout=30) == 130
        assert server.leave() == (130, "")


def test_ending_server_does_not_wait_for_a_stuck_call(library: Path, gate: Path) -> None:
    with bare(*sabotaged(library)) as server:
        server.greet()
        server.send_call(1, "retrieve_context", query="wait for the key")
        with gate.open("w"):
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=30) == 0


# Another client


def inspector() -> str | None:
    """Return the inspector's command line from npm, if it is installed here."""
    return shutil.which("mcp-inspector") or shutil.which(
        "mcp-inspector", path=ROOT / ".venv" / "npm" / "node_modules" / ".bin"
    )


@pytest.mark.skipif(
    inspector() is None, reason="NOT DRIVEN BY THE INSPECTOR: `make test-mcp` installs it from npm"
)
@proves("mcp.retrieval")
def test_the_inspector_lists_and_calls_the_tools(library: Path) -> None:
    serving = [sys.executable, "-m", "truespan", *command(library, "--reader", "ann")]

    def inspect(*options: str) -> dict[str, Any]:
        whole = [str(inspector()), "--cli", *serving, *options]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = inspect("--method", "tools/list")
    call = ("--method", "tools/call", "--tool-name", "retrieve_context", "--tool-arg")
    found = inspect(*call, f"query={QUESTION}")
    refused = inspect(*call, f"query={QUESTION}", "position=99")

    assert {tool["name"] for tool in listed["tools"]} == READER_TOOLS
    assert "red cord" in found["structuredContent"]["context"]
    assert refused["structuredContent"]["error"]["code"] == "invalid_argument"


def test_sdk_loads_no_web_server_by_itself() -> None:
    """The SDK's streams check a loaded web server for its end."""
    patched = "sys.modules['sse_starlette.sse'].AppStatus.original_handler is not None"
    rows = {
        "import sys, truespan.extensions.server.mcp.stdio": "['False', 'False']",
        "import sys, uvicorn, truespan.extensions.server.mcp.sdk": "['True', 'True']",
    }
    for imports, expected in rows.items():
        script = f"{imports}; print([str('uvicorn' in sys.modules), str({patched})])"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout.strip() == expected, done.stderr


def test_garbage_is_collected_after_an_answer(library: Path) -> None:
    script = """
import gc, sys
from truespan.extensions.server.mcp import stdio
from truespan.cli import run

finish = stdio._finish_start
def observe(reader):
    before = gc.isenabled()
    finish(reader)
    print("collects", before, gc.isenabled(), file=sys.stderr)
stdio._finish_start = observe
sys.exit(run(sys.argv[1:]))
"""
    arguments = [sys.executable, "-c", script, *command(library, "--reader", "ann")]
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    done = subprocess.run(arguments, input=f"{hello}\n", capture_output=True, text=True)

    assert "result" in json.loads(done.stdout)
    assert "collects False True" in done.stderr
