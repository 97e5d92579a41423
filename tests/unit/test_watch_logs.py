"""The log of a server: fixed names and numbers, for people or for machines."""

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.support.failures import raises_code
from tests.support.observers import watched
from tests.support.worlds import WordCounter, WordEmbedder
from truespan.errors import ProviderUnavailable
from truespan.observability.logs import LEVELS, LinesHandler, LogObserver, write_logs

TEXT = "The harbour light burned all night."
Write = Callable[..., io.StringIO]


@pytest.fixture
def write() -> Iterator[Write]:
    """Start a log, and restore everything afterwards."""
    ours = logging.getLogger("truespan")
    before, heavy = list(logging.getLogger().handlers), ours.level

    def begin(level: str = "info", *, as_json: bool = True) -> io.StringIO:
        stream = io.StringIO()
        write_logs(level=level, as_json=as_json, stream=stream)
        return stream

    yield begin
    logging.getLogger().handlers[:] = before
    ours.setLevel(heavy)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_request_is_one_log_line_with_its_numbers(tmp_path: Path, write: Write) -> None:
    world = watched(tmp_path, LogObserver()).world(a__txt=TEXT)
    stream = write()

    result = world.search("harbour")

    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", line.pop("time"))
    assert line.pop("seconds") > 0
    assert line == {
        "level": "info", "event": "request_finished", "request": "search", "query_cache.miss": 1,
        "fetched": result.funnel.fetched, "verified": result.funnel.verified,
        "returned": result.funnel.returned,
    }  # fmt: skip


def test_level_debug_logs_each_stage(tmp_path: Path, write: Write) -> None:
    world = watched(tmp_path, LogObserver()).world(a__txt=TEXT)
    stream = write("debug")
    world.search("harbour")
    told = lines(stream)
    assert [line["stage"] for line in told[:-1]][:3] == ["admitted", "scoped", "vector"]
    assert {line["event"] for line in told[:-1]} == {"stage_finished"}
    assert {line["level"] for line in told[:-1]} == {"debug"}


def test_text_line_has_the_same_fields_as_json(tmp_path: Path, write: Write) -> None:
    world = watched(tmp_path, LogObserver()).world(a__txt=TEXT)
    stream = write(as_json=False)
    world.search("harbour")
    (line,) = stream.getvalue().splitlines()
    assert re.search(r" info request_finished request=search seconds=0\.\d+ ", line)
    assert line.endswith("fetched=1 verified=1 returned=1")


def test_failure_is_logged_with_code_and_level(tmp_path: Path, write: Write) -> None:
    lib = watched(tmp_path, LogObserver())
    world = lib.world(a__txt=TEXT)
    stream = write()

    with raises_code("blank_query"):
        world.search(" ")
    for failure in (ProviderUnavailable("harbour"), ZeroDivisionError("harbour")):
        lib.embedder.before = _raising(failure)
        with pytest.raises(type(failure)):
            world.search("harbour")

    told = [(line["level"], line["event"], line.get("code")) for line in lines(stream)]
    assert told == [
        ("info", "request_failed", "blank_query"),
        ("warning", "request_failed", "provider_unavailable"),
        ("error", "request_broken", None),
    ]
    assert lines(stream)[-1]["exception"] == "ZeroDivisionError"
    assert "harbour" not in stream.getvalue()


def _raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_other_libraries_lines_keep_only_their_template(write: Write) -> None:
    stream = write()
    foreign = logging.getLogger("somebody.else")

    foreign.warning("Reading %s took %d ms", "the secret passage", 7)
    foreign.warning(f"put together with {'the secret passage'}")
    try:
        raise KeyError("the secret passage")
    except KeyError:
        foreign.exception("It failed")

    told = lines(stream)
    assert {line["event"] for line in told} == {"foreign"}
    assert [line.get("template") for line in told] == ["Reading %s took %d ms", None, None]
    assert told[2]["exception"] == "KeyError"
    assert {line["logger"] for line in told} == {"somebody.else"}
    assert told[0]["place"].startswith("test_watch_logs:")
    assert "secret" not in stream.getvalue()


def test_lines_of_ingestion_name_their_logger(tmp_path: Path, write: Write) -> None:
    lib = watched(tmp_path, LogObserver())
    world = lib.world(a__txt=TEXT)
    stream = write("warning")
    world.ingest(lib.write("world/empty.txt", ""))
    (line,) = lines(stream)
    assert (line["event"], line["line"]) == ("ingest_line", "empty.txt: source_empty")


@pytest.mark.parametrize("level", LEVELS)
def test_lines_below_the_level_are_dropped(level: str, write: Write) -> None:
    stream = write(level)
    for name, weight in LEVELS.items():
        logging.getLogger("truespan.requests").log(weight, name, extra={"truespan_fields": {}})
    written = [line["event"] for line in lines(stream)]
    assert written == list(LEVELS)[list(LEVELS).index(level) :]


def test_library_writes_a_log_only_on_request(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("TRUESPAN_LOG_FORMAT", "json")
    monkeypatch.setenv("TRUESPAN_LOG_LEVEL", "info")
    for logs in (False, True, True):
        with truespan.open(
            tmp_path, create=True, embedder=WordEmbedder(), counter=WordCounter(), logs=logs
        ) as library:
            library.world("one", create=True).search("harbour")
    assert sum(isinstance(one, LinesHandler) for one in logging.getLogger().handlers) == 1
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["request"] for line in told] == ["search", "search"]
