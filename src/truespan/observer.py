"""Observers of the engine: requests, stages and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from msgspec import Struct

from truespan.errors import Interrupted, TruespanError, resource_error
from truespan.types.telemetry import CounterName, Request, Stage


class RequestTrace(Protocol):
    """One running request, used only by its threads.

    Stages may overlap in several threads; one thread at a time adds to a counter.
    """

    def stage(self, name: Stage, /) -> AbstractContextManager[object]:
        """Return the context in which a stage runs. A repeated stage is reported again."""
        ...

    def count(self, counter: CounterName, amount: int = 1, code: str = "", /) -> None:
        """Add to a counter of this request; `code` is the kind, for counters with kinds."""
        ...


class Observer(Protocol):
    """Receiver of the engine's events. Many threads use it at once."""

    def request(self, name: Request, /) -> AbstractContextManager[RequestTrace]:
        """Return the context in which a whole request runs.

        The context exits with the exception that ended the request, if there was one; see
        `failure_of`. Different threads may enter and exit it, because answers are streamed.
        """
        ...


# Shared by threads: a context without state.
NO_STAGE = nullcontext()
"""Context of a stage that nothing observes."""


class NullObserver:
    """An observer that ignores everything; the same object is observer and request."""

    __slots__ = ()

    def request(self, _name: Request, /) -> AbstractContextManager[NullObserver]:
        return nullcontext(self)

    def stage(self, _name: Stage, /) -> AbstractContextManager[object]:
        return NO_STAGE

    def count(self, _counter: CounterName, _amount: int = 1, _code: str = "", /) -> None:
        return


NULL_OBSERVER = NullObserver()


def failure_of(error: BaseException | None) -> tuple[CounterName, str] | None:
    """Return the counter and code for a request that ended with `error`; None if it succeeded.

    Only errors of Truespan have a code; for other exceptions only their occurrence is reported.
    """
    if error is None:
        return None
    if isinstance(error, GeneratorExit | Interrupted):
        return CounterName.ABANDONED, ""
    if isinstance(error, TruespanError):
        return CounterName.ERRORS, error.code
    if isinstance(error, Exception):
        known = resource_error(error)
        return (CounterName.BUGS, "") if known is None else (CounterName.ERRORS, known.code)
    return CounterName.ERRORS, "interrupted"


def combine_observers(*observers: Observer) -> Observer:
    """Return one observer that forwards all events to several others.

    Exceptions of an observer are dropped: a request must have the same result, observed or not.
    """
    active = [observer for observer in observers if not isinstance(observer, NullObserver)]
    return _CombinedObserver(active) if active else NULL_OBSERVER


class _CombinedObserver(Struct, frozen=True):
    observers: Sequence[Observer]

    def request(self, name: Request, /) -> _CombinedTrace:
        return _CombinedTrace([observer.request for observer in self.observers], name)


class _CombinedTrace:
    """A request or stage of several observers: enters and exits all their contexts."""

    __slots__ = ("_entered", "_makers", "_name", "_traces")

    def __init__(
        self, makers: Sequence[Callable[[Any], AbstractContextManager[Any]]], name: Request | Stage
    ) -> None:
        self._makers = makers
        self._name = name
        self._entered: list[AbstractContextManager[Any]] = []
        self._traces: list[RequestTrace] = []

    def __enter__(self) -> _CombinedTrace:
        # `suppress` would take longer than most observers.
        for make in self._makers:
            try:
                context = make(self._name)
                if context is not NO_STAGE:
                    self._traces.append(context.__enter__())
                    self._entered.append(context)
            except Exception:  # noqa: S112
                continue
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        for context in reversed(self._entered):
            try:
                context.__exit__(kind, error, trace)
            except Exception:  # noqa: S112
                continue

    def stage(self, name: Stage, /) -> _CombinedTrace:
        return _CombinedTrace([trace.stage for trace in self._traces], name)

    def count(self, counter: CounterName, amount: int = 1, code: str = "", /) -> None:
        for trace in self._traces:
            try:
                trace.count(counter, amount, code)
            except Exception:  # noqa: S112
                continue


class StageListener:
    """An observer that calls a function when a stage of a request starts, once for each stage.

    Repetitions depend on work that the caller may not know about, such as the replacement of a
    document, so only the first start of a stage is reported.
    """

    __slots__ = ("_on_stage",)

    def __init__(self, on_stage: Callable[[Stage], None]) -> None:
        self._on_stage = on_stage

    def request(self, _name: Request, /) -> AbstractContextManager[_ReportedRequest]:
        return nullcontext(_ReportedRequest(self._on_stage))


class _ReportedRequest(NullObserver):
    __slots__ = ("_known", "_on_stage")

    def __init__(self, on_stage: Callable[[Stage], None]) -> None:
        self._on_stage = on_stage
        self._known: set[Stage] = set()

    def stage(self, name: Stage, /) -> AbstractContextManager[object]:
        if name not in self._known:
            self._known.add(name)
            self._on_stage(name)
        return NO_STAGE
