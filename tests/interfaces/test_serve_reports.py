"""Messages of `truespan serve`: its start, and the log of requests."""

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.forked_process import ForkedProcess
from tests.support.http_server import served
from tests.support.worlds import LibraryFixture, make_library
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.server import Startup
from truespan.extensions.server.serve_command import describe_startup
from truespan.observability.logs import write_logs
from truespan.types.telemetry import ACCESS, SYSTEM

TEXT = "The lamp went out at midnight. Nobody saw it."


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    made.world("w", a__txt=TEXT)
    yield made
    made.library.close()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log of this process at its usual level, as a stream."""
    loggers = [logging.getLogger(name) for name in ("", SYSTEM, ACCESS)]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    stream = io.StringIO()
    write_logs(level="warning", as_json=True, stream=stream)
    yield stream
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if line["event"] == "http_request"]


@proves("http.request-log")
def test_each_request_is_logged_on_one_line(lib: LibraryFixture, log: io.StringIO) -> None:
    secret = lib.library.tokens.create("reading app", worlds="w")[1].reveal()
    with serve_library(lib.library, ServerOptions(log_requests=True)) as client:
        client.json("POST", "/v1/worlds/w/search", {"query": "zqquery"}, token=secret)
        client.json("GET", "/v1/worlds/w/documents/1/sentences?offset=0&limit=7", token=secret)
        client.json("GET", "/v1/worlds/zq%C3%A4", headers=[("x-request-id", "proxy-17")])
        bad = client.json("GET", "/v1/worlds", token=f"{secret}x")
        client.json("GET", f"/v1/worlds/{secret}")
        hostile = client.send("GET", b"/v1/\x85forged", headers=[("x-request-id", "a b")])
        client.json("GET", "/health")

    assert [(one["method"], one["path"], one["status"], one["token"]) for one in lines(log)] == [
        ("POST", "/v1/worlds/w/search", 200, "reading app"),
        ("GET", "/v1/worlds/w/documents/1/sentences", 200, "reading app"),
        ("GET", "/v1/worlds/zq%C3%A4", 404, None),
        ("GET", "/v1/worlds", 401, None),
        ("GET", f"/v1/worlds/{secret[:20]}***", 404, None),
        *([("GET", "/v1/%85forged", 404, None)] if hostile.status == 404 else []),
        ("GET", "/health", 200, None),
    ]
    for line in lines(log):
        assert line.keys() == {
            *("time", "level", "event", "method", "path", "call", "status", "ms"),
            *("request_id", "token"),
        }
        assert (line["event"], line["level"]) == ("http_request", "info")
        assert line["ms"] >= 0
    assert lines(log)[2]["request_id"] == "proxy-17"
    assert bad.header("x-request-id") == lines(log)[3]["request_id"]
    assert all(re.fullmatch(r"[\w.-]{1,64}", line["request_id"]) for line in lines(log))
    for word in ("zqquery", "count=7", secret[20:]):
        assert word not in log.getvalue(), word


def test_requests_are_not_logged_by_default(lib: LibraryFixture, log: io.StringIO):
    with serve_library(lib.library, ServerOptions()) as client:
        reply = client.json("GET", "/health")

    assert log.getvalue() == ""
    assert reply.header("x-request-id") is None


def test_text_log_quotes_names_with_spaces(lib: LibraryFixture, log: io.StringIO) -> None:
    write_logs(level="warning", as_json=False, stream=log)
    secret = lib.library.tokens.create('a "b" status=200', worlds="w")[1].reveal()
    with serve_library(lib.library, ServerOptions(log_requests=True)) as client:
        client.json("GET", "/v1/worlds/absent", token=secret)

    assert re.fullmatch(
        r"\S+Z info http_request method=GET path=/v1/worlds/absent call=showWorld status=404 "
        r'ms=[\d.]+ request_id=[0-9a-f]{16} token="a \\"b\\" status=200"\n',
        log.getvalue(),
    )


def startup(**changed: Any) -> Startup:
    usual: dict[str, Any] = {
        "address": "http://127.0.0.1:8700/",
        "version": "9.8.7",
        "worlds": ["handbook", "novels"],
        "requires_token": False,
        "tokens": 0,
        "processes": 1,
        "queue": False,
        "workers_running": False,
    }
    return Startup(**(usual | changed))


def test_startup_lines_describe_the_server() -> None:
    rows = {
        "plain": (startup(), ["9.8.7", "2 worlds: handbook, novels", "no token is needed",
                              "http://127.0.0.1:8700/metrics", "1 process", "in the server",
                              "http://127.0.0.1:8700/openapi.json"]),
        "damaged": (startup(worlds=None, tokens=None), ["truespan doctor", "tokens cannot be"]),
        "unknown": (startup(queue=True, workers_running=None), ["jobs run on workers"]),
        "empty": (startup(worlds=[]), ["no worlds yet", "truespan init"]),
        "many": (startup(worlds=[f"w{n}" for n in range(9)]), ["9 worlds: w0, ", "w4 and 4 more"]),
        "token": (startup(requires_token=True, tokens=3), ["a token is required; 3 are active"]),
        "no token": (startup(requires_token=True), ["truespan token create"]),
        "one": (startup(tokens=1), ["1 is active"]),
        "no metrics": (startup(metrics=False), ["none are collected", "extra 'metrics'"]),
        "processes": (startup(processes=4), ["4 processes"]),
        "idle": (startup(queue=True), ["no worker is running", "truespan worker"]),
        "working": (startup(queue=True, workers_running=True), ["jobs run on workers"]),
    }  # fmt: skip
    for name, (given, expected) in rows.items():
        said = describe_startup(given)
        assert said.count("\n") <= 7, name
        for words in expected:
            assert words in said, (name, words, said)


def test_startup_is_one_line_in_a_json_log() -> None:
    said = describe_startup(startup(log_format="json"))

    assert said.count("\n") == 1
    line = json.loads(said)
    assert (line["event"], line["level"], line["version"]) == ("server_started", "info", "9.8.7")
    assert line["worlds"] == ["handbook", "novels"]


def test_server_announces_itself_on_standard_error(lib: LibraryFixture, tmp_path: Path) -> None:
    lib.library.close()
    command = [sys.executable, "-m", "truespan", "serve", "--library", str(tmp_path / "library")]
    with (tmp_path / "err").open("w+", encoding="utf-8") as err:
        process = ForkedProcess(
            [*command, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            encoding="utf-8",
        )
        try:
            assert process.stdout
            line = process.stdout.readline()
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait(30)
            assert process.stdout
            process.stdout.close()

    said = (tmp_path / "err").read_text("utf-8")
    address = line.rpartition(" ")[2].strip()
    assert line.startswith("Truespan serves ")
    assert said.splitlines()[0] == f"Truespan {truespan.__version__}"
    assert "1 world: w" in said
    assert f"{address}openapi.json" in said


@proves("http.request-log")
def test_the_option_logs_requests_of_a_served_library(lib: LibraryFixture, tmp_path: Path) -> None:
    lib.library.close()
    log = tmp_path / "logged.log"
    with served(tmp_path / "library", "--log-requests", errors=log, quiet=False) as server:
        assert server.get("/health?zq=1").status_code == 400

    (line,) = log.read_text("utf-8").splitlines()
    assert " http_request method=GET path=/health call=health status=400 " in line
    assert "zq" not in line
