"""Watching the engine at work: requests, the stages they go through, and what is counted.

A watch hears names and numbers. It is never given a text, a name or an id, and nothing that the
engine returns depends on it: one that fails is as good as one that is not there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from truespan.errors import Interrupted, TruespanError
from truespan.model.names import Request, Stage, Tally


class Course(Protocol):
    """One request on its way. Used by the threads of this request alone, one at a time."""

    def stage(self, name: Stage, /) -> AbstractContextManager[object]:
        """Return what a stage is done within. One that has to be done again comes again."""
        ...

    def count(self, tally: Tally, amount: int = 1, code: str = "", /) -> None:
        """Add to a tally of this request; `code` says which of its kinds, where it has kinds."""
        ...


class Watch(Protocol):
    """Whoever wants to know what the engine does. Used by many threads at once."""

    def request(self, name: Request, /) -> AbstractContextManager[Course]:
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

    def count(self, _tally: Tally, _amount: int = 1, _code: str = "", /) -> None:
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


UNWATCHED = Unwatched()


def failure_of(error: BaseException | None) -> tuple[Tally, str] | None:
    """Return what a request that ended so counts as; None if it ended well.

    Of an exception of our own that is its code, of any other only that it was there.
    """
    if error is None:
        return None
    if isinstance(error, GeneratorExit | Interrupted):
        return Tally.ABANDONED, ""
    if isinstance(error, TruespanError):
        return Tally.ERRORS, error.code
    if isinstance(error, Exception):
        return Tally.BUGS, ""
    return Tally.ERRORS, "interrupted"
