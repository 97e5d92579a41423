"""`truespan serve` as a process: start, refusals and end."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.interfaces.clients import settled
from tests.interfaces.http_client import Client, Response, until
from tests.interfaces.tenants import BOUNDARY, form
from tests.interfaces.test_http_limits import received
from tests.promises import proves
from tests.support.http_server import Served, served
from tests.support.providers.chat import OpenAiChatServer
from truespan.cli import run

QUESTION = "What did the key to the tower hang from?"
SEARCH, ANSWER = "/v1/worlds/w/search", "/v1/worlds/w/answer"


def client_of(server: Served) -> Client:
    return Client(int(server.address.rsplit(":", 1)[1].strip("/")))


# Refusals


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library without tokens, documents and an index."""
    folder = tmp_path_factory.mktemp("empty") / "library"
    truespan.open(folder, create=True).close()
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, Any]:
    """Return the exit code, the line and the error code of a server that does not start."""
    capsys.readouterr()
    code = run(["serve", *arguments])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("truespan: ")
    assert said.err.count("\n") == 1
    assert run(["serve", *arguments, "--json"]) == code
    return code, said.err, json.loads(capsys.readouterr().out)["error"]["code"]


@proves("http.local-and-checked")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "lamp.example"])
def test_serve_on_other_addresses_needs_a_token(
    empty: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    code, said, name = refused(capsys, "--library", str(empty), "--host", host, "--port", "0")

    assert (code, name) == (2, "invalid_argument")
    assert "truespan token create" in said


def test_expired_tokens_do_not_count(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with truespan.open(empty) as library:
        record, _ = library.tokens.create("old", worlds=[library.create_world("w").id])
        library.tokens.revoke(record.id)

    response = refused(capsys, "--library", str(empty), "--host", "0.0.0.0", "--port", "0")

    assert response[2] == "invalid_argument"


def test_port_in_use_is_named(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said, name = refused(capsys, "--library", str(empty), "--port", port)

    assert (code, name) == (3, "invalid_configuration")
    assert port in said
    assert "--port" in said


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--port", "65536"], "invalid_argument"),
        (["--port", "-1"], "invalid_argument"),
        (["--port", "http"], "invalid_argument"),
        (["--workers", "0"], "invalid_argument"),
        (["--workers", "65"], "invalid_argument"),
        (["--world", "absent"], "world_not_found"),
        (["--mcp-owner", "--mcp-reader", "ann", "--world", "w"], "invalid_argument"),
        (["--no-such"], "invalid_argument"),
    ],
)
def test_invalid_serve_options_are_refused_in_one_line(
    empty: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: str
) -> None:
    assert refused(capsys, "--library", str(empty), *options)[::2] == (2, code)


def test_serve_needs_a_world_for_mcp_without_a_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for names in ((), ("one", "two")):
        with truespan.open(tmp_path / "library", create=True) as library:
            for name in names:
                library.create_world(name)
        for options in (["--mcp-owner"], ["--mcp-reader", "ann"]):
            code, _, name = refused(capsys, "--library", str(tmp_path / "library"), *options)
            assert (code, name) == (2, "world_not_named")


def test_serve_reports_a_missing_library_in_one_line(
    empty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = refused(capsys, "--library", str(tmp_path / "absent"))
    monkeypatch.setenv("TRUESPAN_HTTP_REQUESTS_PER_MINUTE", "few")
    wrong = refused(capsys, "--library", str(empty))

    assert absent[2] == "library_not_found"
    assert wrong[::2] == (3, "invalid_configuration")
    assert not (tmp_path / "absent").exists()


# Running servers


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAiChatServer]:
    """A chat model that sends a first word, and the rest when it is released."""
    with OpenAiChatServer() as running:
        for name, value in {
            "chat_provider": "openai",
            "chat_model": running.model,
            "chat_openai_base_url": running.base,
            "chat_openai_keyless": "1",
        }.items():
            monkeypatch.setenv(f"TRUESPAN_{name.upper()}", value)
        yield running


@proves("http.local-and-checked", "errors.no-secrets")
def test_default_server_is_local_and_logs_no_secret(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: OpenAiChatServer
) -> None:
    monkeypatch.setenv("TRUESPAN_LOG_LEVEL", "debug")
    log = tmp_path / "serve.log"
    with truespan.open(library) as opened:
        record, secret = opened.tokens.create("reading", worlds=["w"])
    key = secret.reveal()
    try:
        with served(library, errors=log, quiet=False) as server:
            assert server.address.startswith("http://127.0.0.1:")
            client = client_of(server)
            response = [
                client.json("POST", SEARCH, {"query": "zqquerycanary"}, token=key),
                client.json("POST", ANSWER, {"query": QUESTION}, token=key),
                client.json("POST", ANSWER, {"query": QUESTION, "stream": True}, token=key),
                client.json("POST", SEARCH, {"query": "zqquerycanary", "zqmember": 1}, token=key),
                client.json("GET", "/v1/worlds/zqworldcanary", token=key),
                client.json("GET", "/v1/worlds", token=f"{key}x"),
                client.json("GET", "/v1/worlds", hosts=["zqhost.example"]),
            ]
            client.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", client.port), timeout=5)
    finally:
        with truespan.open(library) as opened:
            opened.tokens.revoke(record.id)

    assert [one.status for one in response] == [200, 200, 200, 400, 404, 401, 421]
    said = log.read_text("utf-8")
    assert "http_answered" in said
    for word in ("zqquerycanary", "zqmember", "zqworldcanary", "zqhost", key, key[20:], "Osric",
                 "red cord", "tower hang", "lamp.md", *model.reply):  # fmt: skip
        assert word not in said, word


def test_stopping_server_finishes_requests_and_accepts_no_more(
    library: Path, tmp_path: Path, model: OpenAiChatServer
) -> None:
    go_on = threading.Event()

    def words() -> Iterator[bytes]:
        # Only text longer than a refusal is streamed at once.
        yield from model.spoken("It hung from ", "a red cord. ", f"{'So it was said. ' * 6}")
        assert go_on.wait(60)
        yield from model.spoken("That is all.")
        yield model.end()

    model.fault = lambda _: model.saying(words())
    with served(library, errors=tmp_path / "serve.log") as server, ThreadPoolExecutor(2) as pool:
        whole, streamed = client_of(server), client_of(server)
        running = pool.submit(whole.json, "POST", ANSWER, {"query": QUESTION})
        stream = streamed.connect()
        body = json.dumps({"query": QUESTION, "stream": True}).encode()
        stream.sendall(
            f"POST {ANSWER} HTTP/1.1\r\nhost: 127.0.0.1:{streamed.port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        begun = received(stream, b"event: piece")
        until(lambda: len(model.asked) == 2)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not _is_open(streamed.port))
        go_on.set()
        response: Response = running.result(60)
        rest = b"".join(iter(lambda: stream.recv(65536), b""))
        stream.close()
        whole.close()
        assert server.process.wait(60) == 0

    assert response.status == 200
    said = "So it was said. " * 6
    assert response.content["answer"] == f"It hung from a red cord. {said}That is all."
    assert b"event: started" in begun
    assert b"event: problem" not in rest


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_upload_cut_short_by_a_signal_leaves_nothing(
    library: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with truespan.open(library) as opened:
        jobs = [job.id for job in opened.world("w").jobs.list()]
        before = [document.name for document in opened.world("w").documents.list()]
    body = form({}, text=b"Half a note. " * 100_000)
    with served(library, errors=tmp_path / "serve.log", quiet=False) as server:
        client = client_of(server)
        with client.connect() as connection:
            connection.sendall(
                f"POST /v1/worlds/w/documents HTTP/1.1\r\nhost: 127.0.0.1:{client.port}\r\n"
                f"content-type: multipart/form-data; boundary={BOUNDARY}\r\n"
                f"content-length: {len(body)}\r\n\r\n".encode()
            )
            connection.sendall(body[: len(body) // 2])
            assert client.json("GET", "/health").status == 200
            client.close()
            server.process.send_signal(number)
            connection.shutdown(socket.SHUT_WR)
            assert server.process.wait(60) == 0

    with truespan.open(library) as opened:
        world = opened.world("w")
        assert [job.id for job in world.jobs.list()] == jobs
        assert [document.name for document in world.documents.list()] == before
    assert [path for path in (library / "uploads").rglob("*") if path.is_file()] == []


def test_serve_restarts_a_killed_worker(library: Path, tmp_path: Path) -> None:
    with truespan.open(library) as opened:
        expected = settled(opened.world("w").search(QUESTION))

    def answers(server: Served, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            client = client_of(server)
            response = client.json("POST", SEARCH, {"query": QUESTION})
            client.close()
            found.append((response.status, settled(response.content)))
        return found

    with served(library, "--workers", "2", errors=tmp_path / "serve.log", quiet=False) as server:
        until(lambda: len(workers_of(server.process.pid)) == 2)
        first = workers_of(server.process.pid)
        assert all(one == (200, expected) for one in answers(server, 12))
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(set(workers_of(server.process.pid)) - {first[0]}) == 2)
        again = workers_of(server.process.pid)
        assert first[1] in again
        assert all(one == (200, expected) for one in answers(server, 12))
    assert not any(Path(f"/proc/{pid}").exists() for pid in again)


def test_server_processes_end_with_their_parent(library: Path, tmp_path: Path) -> None:
    workers: list[int] = []

    def serve_and_kill() -> None:
        with served(library, "--workers", "2", errors=tmp_path / "serve.log") as server:
            until(lambda: len(workers_of(server.process.pid)) == 2)
            workers.extend(workers_of(server.process.pid))
            client = client_of(server)
            assert client.json("GET", "/health").status == 200
            client.close()
            os.kill(server.process.pid, signal.SIGKILL)

    with pytest.raises(AssertionError, match="ended with -9"):
        serve_and_kill()
    until(lambda: not any(map(_command_of, map(str, workers))))


def workers_of(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in listed if "spawn_main" in _command_of(pid)]


def _command_of(pid: str) -> str:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if state == "Z" else Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
