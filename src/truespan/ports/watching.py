"""Watches that are made of others: several as one, and one that only hears of stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any

from truespan.model.names import Request, Stage, Tally
from truespan.ports.watch import UNWATCHED, Course, Unwatched, Watch


def joined(*watches: Watch) -> Watch:
    """Return one watch that tells all of these; none of them can disturb a request.

    What a watch raises is dropped here: a request must come out the same, watched or not.
    """
    kept = [watch for watch in watches if not isinstance(watch, Unwatched)]
    return Joined(kept) if kept else UNWATCHED


class Joined:
    """Several watches as one."""

    __slots__ = ("_watches",)

    def __init__(self, watches: Sequence[Watch]) -> None:
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
        self._courses: list[Course] = []

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

    def count(self, tally: Tally, amount: int = 1, code: str = "", /) -> None:
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
        return UNWATCHED
