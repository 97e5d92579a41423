"""Watches that are made of others: several as one, and one that only hears of stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Protocol

from truespan.errors import Interrupted, TruespanError
from truespan.types.telemetry import CounterName, Request, Stage


class RequestTrace(Protocol):
    """One request on its way. Used by the threads of this request alone, one at a time."""

    def stage(self, name: Stage, /) -> AbstractContextManager[object]:
        """Return what a stage is done within. One that has to be done again comes again."""
        ...

    def count(self, tally: CounterName, amount: int = 1, code: str = "", /) -> None:
        """Add to a tally of this request; `code` says which of its kinds, where it has kinds."""
        ...


class Observer(Protocol):
    """Whoever wants to know what the engine does. Used by many threads at once."""

    def request(self, name: Request, /) -> AbstractContextManager[RequestTrace]:
        """Return what a whole request is done within.

        It is left with the exception that ended the request, if one did; see `failure_of`. It may
        be entered and left by different threads, since an answer that is given piece by piece is.
        """
        ...


class Unwatched:
    """The watch that nobody keeps: one object is watch, request and stage, and does nothing."""

    __slots__ = ()

    def request(self, _name: Request, /) -> Unwatched:
        return self

    def stage(self, _name: Stage, /) -> Unwatched:
        return self

    def count(self, _tally: CounterName, _amount: int = 1, _code: str = "", /) -> None:
        return

    def __enter__(self) -> Unwatched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return


NULL_OBSERVER = Unwatched()


def failure_of(error: BaseException | None) -> tuple[CounterName, str] | None:
    """Return what a request that ended so counts as; None if it ended well.

    Of an exception of our own that is its code, of any other only that it was there.
    """
    if error is None:
        return None
    if isinstance(error, GeneratorExit | Interrupted):
        return CounterName.ABANDONED, ""
    if isinstance(error, TruespanError):
        return CounterName.ERRORS, error.code
    if isinstance(error, Exception):
        return CounterName.BUGS, ""
    return CounterName.ERRORS, "interrupted"


def joined(*watches: Observer) -> Observer:
    """Return one watch that tells all of these; none of them can disturb a request.

    What a watch raises is dropped here: a request must come out the same, watched or not.
    """
    kept = [watch for watch in watches if not isinstance(watch, Unwatched)]
    return Joined(kept) if kept else NULL_OBSERVER


class Joined:
    """Several watches as one."""

    __slots__ = ("_watches",)

    def __init__(self, watches: Sequence[Observer]) -> None:
        self._watches = watches

    def request(self, name: Request, /) -> _Together:
        """Begin a request with every watch."""
        return _Together([one.request for one in self._watches], name)


class _Together:
    """Contexts that are entered and left together; also the course that requests of them make."""

    __slots__ = ("_courses", "_entered", "_makers", "_name")

    def __init__(
        self, makers: Sequence[Callable[[Any], AbstractContextManager[Any]]], name: Request | Stage
    ) -> None:
        self._makers = makers
        self._name = name
        self._entered: list[AbstractContextManager[Any]] = []
        self._courses: list[RequestTrace] = []

    def __enter__(self) -> _Together:
        for make in self._makers:
            with suppress(Exception):
                context = make(self._name)
                self._courses.append(context.__enter__())
                self._entered.append(context)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for context in reversed(self._entered):
            with suppress(Exception):
                context.__exit__(kind, error, trace)

    def stage(self, name: Stage, /) -> _Together:
        return _Together([one.stage for one in self._courses], name)

    def count(self, tally: CounterName, amount: int = 1, code: str = "", /) -> None:
        for course in self._courses:
            with suppress(Exception):
                course.count(tally, amount, code)


class StageListener:
    """Tells somebody the stages of a request as they begin, each of them once.

    How often a stage is done again depends on work that the caller may not know of, such as a
    document that is just being replaced; so whoever waits for an answer hears of the first time
    only.
    """

    __slots__ = ("_on_stage",)

    def __init__(self, on_stage: Callable[[Stage], None]) -> None:
        self._on_stage = on_stage

    def request(self, _name: Request, /) -> _Heard:
        """Begin a request whose stages are told."""
        return _Heard(self._on_stage)


class _Heard(Unwatched):
    """One request of a listener, and each of its stages."""

    __slots__ = ("_known", "_on_stage")

    def __init__(self, on_stage: Callable[[Stage], None]) -> None:
        self._on_stage = on_stage
        self._known: set[Stage] = set()

    def stage(self, name: Stage, /) -> Unwatched:
        """Tell of a stage; it is begun as soon as it is asked for."""
        if name not in self._known:
            self._known.add(name)
            self._on_stage(name)
        return NULL_OBSERVER
