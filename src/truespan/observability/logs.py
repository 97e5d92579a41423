"""The log: one line for each request, with fixed names and numbers, for people or for machines.

What other libraries log comes out in the same form, but only the fixed words of it: what is filled
into a line, and what an exception says, may quote a document or a key.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from time import perf_counter
from types import TracebackType
from typing import Any, TextIO

from truespan.errors import CallerError
from truespan.observer import failure_of
from truespan.types.telemetry import FIELDS, SYSTEM, CounterName, Event, Request, Stage, known_code

JOURNAL = f"{SYSTEM}.ingest"
"""The logger of ingestion, whose lines hold names of files and never a text."""
JOBS = f"{SYSTEM}.jobs"
"""The logger of jobs, whose lines hold numbers, ids of jobs, codes and names of exceptions."""
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_log = logging.getLogger(f"{SYSTEM}.requests")
_log.addHandler(logging.NullHandler())


class LogWatch:
    """Writes a line when a request is over; at level debug one for each stage as well."""

    def request(self, name: Request, /) -> _LoggedRequest:
        """Begin a request that will be told of."""
        return _LoggedRequest(name)


class _LoggedRequest:
    """One request, and what was counted of it."""

    __slots__ = ("_began", "_counts", "_name")

    def __init__(self, name: Request) -> None:
        self._name = name
        self._counts: dict[str, int] = {}
        self._began = 0.0

    def __enter__(self) -> _LoggedRequest:
        self._began = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        level, event, more = _ending(error)
        seconds = round(perf_counter() - self._began, 6)
        _write(level, event, {"request": self._name, "seconds": seconds, **self._counts, **more})

    def stage(self, name: Stage, /) -> _LoggedStage:
        """Begin a stage."""
        return _LoggedStage(self._name, name)

    def count(self, tally: CounterName, amount: int = 1, code: str = "", /) -> None:
        """Add to a number of the line."""
        code = known_code(tally, code)
        name = f"{tally}.{code}" if code else tally.value
        self._counts[name] = self._counts.get(name, 0) + amount


class _LoggedStage:
    """One stage of a request."""

    __slots__ = ("_began", "_name", "_request")

    def __init__(self, request: Request, name: Stage) -> None:
        self._request = request
        self._name = name
        self._began = 0.0

    def __enter__(self) -> _LoggedStage:
        self._began = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fields = {
            "request": self._request,
            "stage": self._name,
            "seconds": round(perf_counter() - self._began, 6),
        }
        _write(logging.DEBUG, Event.STAGE_FINISHED, fields)


def _ending(error: BaseException | None) -> tuple[int, Event, dict[str, Any]]:
    failure = failure_of(error)
    if failure is None:
        return logging.INFO, Event.REQUEST_FINISHED, {}
    tally, code = failure
    if tally is CounterName.ABANDONED:
        return logging.INFO, Event.REQUEST_ABANDONED, {}
    if tally is CounterName.BUGS:
        return logging.ERROR, Event.REQUEST_BROKEN, {"exception": type(error).__name__}
    level = logging.INFO if isinstance(error, CallerError) else logging.WARNING
    return level, Event.REQUEST_FAILED, {"code": known_code(tally, code)}


def _write(level: int, event: Event, fields: dict[str, Any]) -> None:
    if _log.isEnabledFor(level):
        _log.log(level, event.value, extra={FIELDS: fields})


class Lines(logging.Formatter):
    """Makes one line of a record: an object of JSON, or words for people."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's fixed words and our own fields, and nothing else of it."""
        event, fields = _told(record)
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        level = record.levelname.lower()
        if self._as_json:
            return json.dumps({"time": time, "level": level, "event": event, **fields})
        told = " ".join(f"{name}={value}" for name, value in fields.items())
        return f"{time} {level} {event} {told}".rstrip()


def _told(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """Return what may be told of a record: of a foreign one its template, if it has one."""
    fields = getattr(record, FIELDS, None)
    if fields is not None:
        return str(record.msg), fields
    if record.name == JOURNAL:
        return Event.INGEST_LINE.value, {"line": str(record.msg)}
    foreign: dict[str, Any] = {"logger": record.name, "place": f"{record.module}:{record.lineno}"}
    if record.name == JOBS:
        foreign["line"] = record.getMessage()
    elif record.args:
        # A line without arguments may have been put together before it was logged.
        foreign["template"] = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        foreign["exception"] = record.exc_info[0].__name__
    return Event.FOREIGN.value, foreign


class LinesHandler(logging.StreamHandler[TextIO]):
    """The one that `write_logs` puts in place."""


def write_logs(*, level: str, as_json: bool, stream: TextIO | None = None) -> LinesHandler:
    """Write what is logged in this process as lines, to standard error unless told otherwise.

    Done again, it replaces what it did before; whatever else listens to the log stays.
    """
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, LinesHandler)]:
        root.removeHandler(handler)
    lines = LinesHandler(stream or sys.stderr)
    lines.setFormatter(Lines(as_json=as_json))
    lines.setLevel(LEVELS[level])
    root.addHandler(lines)
    # Others keep the level they have: how much they say is not what was asked for.
    logging.getLogger(SYSTEM).setLevel(LEVELS[level])
    return lines
