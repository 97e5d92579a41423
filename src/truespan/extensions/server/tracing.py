"""Traces: a span for each request, and within it a span for each stage.

Only the API of OpenTelemetry is used. The process that installs the SDK decides where spans go and
which are kept; without the SDK, nothing is recorded.

Parents are passed on explicitly, because a streamed answer continues in the thread that asks
for the next piece. Only a request looks for a current span around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from truespan.observer import failure_of
from truespan.types.telemetry import ERROR_TYPE, SYSTEM, CounterName, Request, Stage, known_code


class TracingObserver:
    """An observer that creates OpenTelemetry spans for requests and stages."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer(SYSTEM)

    @contextmanager
    def request(self, name: Request, /) -> Iterator[_TracedRequest]:
        """Create the span of a request, below the current span if there is one."""
        with _span(self._tracer, f"{SYSTEM}.{name}", None) as span:
            yield _TracedRequest(self._tracer, span)


@contextmanager
def _span(tracer: Tracer, name: str, parent: Context | None) -> Iterator[Span]:
    span = tracer.start_span(name, parent, record_exception=False, set_status_on_exception=False)
    try:
        yield span
    except BaseException as error:
        if (failure := failure_of(error)) is not None:
            _mark_failed(span, *failure)
        raise
    finally:
        span.end()


def _mark_failed(span: Span, counter: CounterName, code: str) -> None:
    # The exception itself is not recorded: its message may quote a text.
    span.set_attribute(ERROR_TYPE, known_code(counter, code) or counter.value)
    if counter is not CounterName.ABANDONED:
        span.set_status(Status(StatusCode.ERROR))


class _TracedRequest:
    """The span of a request, with its counts as attributes."""

    __slots__ = ("_counts", "_span", "_tracer")

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._counts: dict[str, int] = {}

    @contextmanager
    def stage(self, name: Stage, /) -> Iterator[None]:
        parent = trace.set_span_in_context(self._span)
        with _span(self._tracer, f"{SYSTEM}.stage.{name}", parent):
            yield

    def count(self, counter: CounterName, amount: int = 1, code: str = "", /) -> None:
        """Add to an attribute; an error inside a result also marks the span as failed."""
        code = known_code(counter, code)
        name = f"{SYSTEM}.{counter}.{code}" if code else f"{SYSTEM}.{counter}"
        self._counts[name] = self._counts.get(name, 0) + amount
        self._span.set_attribute(name, self._counts[name])
        if counter is CounterName.ERRORS:
            _mark_failed(self._span, counter, code)
