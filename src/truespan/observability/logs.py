"""The log: one line for each request, with fixed names and numbers, as text or JSON.

Lines of other libraries have the same form, but only with their template: the values of a line and
the message of an exception may quote a document or a key.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any, TextIO

from truespan.core.clock import format_time
from truespan.errors import CallerError
from truespan.observer import NO_STAGE, failure_of
from truespan.types.telemetry import (
    ACCESS,
    FIELDS,
    SYSTEM,
    CounterName,
    Event,
    Request,
    Stage,
    known_code,
)

JOURNAL = f"{SYSTEM}.ingest"
"""The logger of ingestion; its lines contain names of files but no text."""
JOBS = f"{SYSTEM}.jobs"
"""The logger of jobs; its lines contain numbers, ids of jobs, codes and names of exceptions."""
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_log = logging.getLogger(f"{SYSTEM}.requests")
_log.addHandler(logging.NullHandler())


class LogObserver:
    """An observer that writes a line for each request; at level debug also for each stage."""

    def request(self, name: Request, /) -> _LoggedRequest:
        return _LoggedRequest(name)


class _LoggedRequest:
    __slots__ = ("_name", "_start", "counts")

    def __init__(self, name: Request) -> None:
        self._name = name
        self._start = 0.0
        self.counts: dict[str, int] = {}

    def __enter__(self) -> _LoggedRequest:
        self._start = perf_counter()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        level, event, outcome = _describe_end(error)
        if _log.isEnabledFor(level):
            seconds = round(perf_counter() - self._start, 6)
            fields = {"request": self._name, "seconds": seconds, **self.counts, **outcome}
            _log.log(level, event.value, extra={FIELDS: fields})

    def stage(self, name: Stage, /) -> AbstractContextManager[object]:
        # Stages are many, and hardly ever logged.
        return _log_stage(self._name, name) if _log.isEnabledFor(logging.DEBUG) else NO_STAGE

    def count(self, counter: CounterName, amount: int = 1, code: str = "", /) -> None:
        code = known_code(counter, code)
        name = f"{counter}.{code}" if code else counter.value
        self.counts[name] = self.counts.get(name, 0) + amount


def _describe_end(error: BaseException | None) -> tuple[int, Event, dict[str, Any]]:
    """Return the level, the event and the further fields for the end of a request."""
    failure = failure_of(error)
    if failure is None:
        return logging.INFO, Event.REQUEST_FINISHED, {}
    counter, code = failure
    if counter is CounterName.ABANDONED:
        return logging.INFO, Event.REQUEST_ABANDONED, {}
    if counter is CounterName.BUGS:
        return logging.ERROR, Event.REQUEST_BROKEN, {"exception": type(error).__name__}
    level = logging.INFO if isinstance(error, CallerError) else logging.WARNING
    return level, Event.REQUEST_FAILED, {"code": known_code(counter, code)}


@contextmanager
def _log_stage(request: Request, stage: Stage) -> Iterator[None]:
    start = perf_counter()
    try:
        yield
    finally:
        seconds = round(perf_counter() - start, 6)
        fields = {"request": request, "stage": stage, "seconds": seconds}
        _log.debug(Event.STAGE_FINISHED.value, extra={FIELDS: fields})


class Lines(logging.Formatter):
    """A formatter with one line for each record: a JSON object, or text for people."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the template of a record and our own fields, and nothing else."""
        event, fields = _safe_parts(record)
        time = format_time(record.created)
        level = record.levelname.lower()
        if self._as_json:
            return json.dumps({"time": time, "level": level, "event": event, **fields})
        pairs = " ".join(f"{name}={_quote(name, value)}" for name, value in fields.items())
        return f"{time} {level} {event} {pairs}".rstrip()


def _quote(field: str, value: Any) -> Any:
    """Return a value for a line of text: quoted if it has spaces, `-` if it is missing."""
    if value is None:
        return "-"
    is_plain = not isinstance(value, str) or field in ("line", "template")
    return value if is_plain or not re.search(r'[\s"=]', value) else json.dumps(value)


def _safe_parts(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """Return the parts of a record without text; the template of a record of other libraries."""
    fields = getattr(record, FIELDS, None)
    if fields is not None:
        return str(record.msg), fields
    if record.name == JOURNAL:
        return Event.INGEST_LINE.value, {"line": str(record.msg)}
    foreign: dict[str, Any] = {"logger": record.name, "place": f"{record.module}:{record.lineno}"}
    if record.name == JOBS:
        foreign["line"] = record.getMessage()
    elif record.args:
        # The message of a line without arguments may have been formatted before.
        foreign["template"] = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        foreign["exception"] = record.exc_info[0].__name__
    return Event.FOREIGN.value, foreign


class LinesHandler(logging.StreamHandler[TextIO]):
    """The handler that `write_logs` installs.

    The log of requests is written at every level: it is on only if the operator asked for it.
    """

    def __init__(self, stream: TextIO, level: int) -> None:
        super().__init__(stream)
        self.setLevel(min(level, logging.INFO))
        self.addFilter(lambda record: record.levelno >= level or record.name == ACCESS)


def write_logs(*, level: str, as_json: bool, stream: TextIO | None = None) -> LinesHandler:
    """Write the log of this process as lines, by default to standard error.

    A second call replaces the handler of the first; other handlers stay.
    """
    root = logging.getLogger()
    for handler in [entry for entry in root.handlers if isinstance(entry, LinesHandler)]:
        root.removeHandler(handler)
    lines = LinesHandler(stream or sys.stderr, LEVELS[level])
    lines.setFormatter(Lines(as_json=as_json))
    root.addHandler(lines)
    # Other loggers keep their own level.
    logging.getLogger(SYSTEM).setLevel(LEVELS[level])
    return lines
