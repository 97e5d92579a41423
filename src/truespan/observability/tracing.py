"""Traces: a span for each request, and within it one for each stage.

Only the programming interface of OpenTelemetry is used. Where spans go, and which are kept, is for
the process that brings the SDK; without one, nothing is recorded.

Parents are handed down and never looked up: an answer that is given piece by piece goes on in
whatever thread asks for the next piece. Only a request looks for the span around it.
"""

from __future__ import annotations

from types import TracebackType

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from truespan.observer import failure_of
from truespan.types.telemetry import ERROR_TYPE, SYSTEM, CounterName, Request, Stage, known_code


class TracingWatch:
    """Tells requests and stages to OpenTelemetry."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer(SYSTEM)

    def request(self, name: Request, /) -> _RequestSpan:
        """Begin the span of a request, below the one that is current, if there is one."""
        return _RequestSpan(self._tracer, f"{SYSTEM}.{name}", None)


class _Spanned:
    """A span from when it is entered until it is left."""

    __slots__ = ("_name", "_parent", "_span", "_tracer")

    def __init__(self, tracer: Tracer, name: str, parent: Context | None) -> None:
        self._tracer = tracer
        self._name = name
        self._parent = parent
        self._span: Span = trace.INVALID_SPAN

    def __enter__(self) -> _Spanned:
        self._span = self._tracer.start_span(
            self._name, self._parent, record_exception=False, set_status_on_exception=False
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failure = failure_of(error)
        if failure is not None:
            self._fail(*failure)
        self._span.end()

    def _fail(self, tally: CounterName, code: str) -> None:
        # The exception itself is not recorded: what it says may quote a text.
        self._span.set_attribute(ERROR_TYPE, known_code(tally, code) or tally.value)
        if tally is not CounterName.ABANDONED:
            self._span.set_status(Status(StatusCode.ERROR))


class _RequestSpan(_Spanned):
    """The span of a request, which has its counts as attributes."""

    __slots__ = ("_counts",)

    def __init__(self, tracer: Tracer, name: str, parent: Context | None) -> None:
        super().__init__(tracer, name, parent)
        self._counts: dict[str, int] = {}

    def __enter__(self) -> _RequestSpan:
        super().__enter__()
        return self

    def stage(self, name: Stage, /) -> _Spanned:
        """Begin a span below this one."""
        below = trace.set_span_in_context(self._span)
        return _Spanned(self._tracer, f"{SYSTEM}.stage.{name}", below)

    def count(self, tally: CounterName, amount: int = 1, code: str = "", /) -> None:
        """Add to an attribute; a failure that is told in a result is the span's, too."""
        code = known_code(tally, code)
        name = f"{SYSTEM}.{tally}.{code}" if code else f"{SYSTEM}.{tally}"
        self._counts[name] = self._counts.get(name, 0) + amount
        self._span.set_attribute(name, self._counts[name])
        if tally is CounterName.ERRORS:
            self._fail(tally, code)
