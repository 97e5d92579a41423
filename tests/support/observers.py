"""Libraries with observers that record events or fail on purpose."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.observer import Observer
from truespan.types.telemetry import CounterName, Request, Stage


@dataclass
class Heard:
    name: Request
    stages: list[Stage] = field(default_factory=list)
    counts: dict[tuple[CounterName, str], int] = field(default_factory=dict)
    error: BaseException | None = None

    @contextmanager
    def stage(self, name: Stage, /) -> Iterator[None]:
        self.stages.append(name)
        yield

    def count(self, tally: CounterName, amount: int = 1, code: str = "", /) -> None:
        self.counts[tally, code] = self.counts.get((tally, code), 0) + amount


@dataclass
class Recorder:
    """An observer that records everything."""

    requests: list[Heard] = field(default_factory=list)

    @contextmanager
    def request(self, name: Request, /) -> Iterator[Heard]:
        heard = Heard(name)
        self.requests.append(heard)
        try:
            yield heard
        except BaseException as error:
            heard.error = error
            raise

    def last(self, name: Request) -> Heard:
        return [heard for heard in self.requests if heard.name is name][-1]


class Broken:
    """An observer of which one part always fails; the parts before it work."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.failed = 0

    def _fail(self, part: str) -> None:
        if part == self.part:
            self.failed += 1
            raise RuntimeError("a watch that fails")

    def request(self, _name: Request, /) -> "Broken":
        self._fail("request")
        return self

    def stage(self, _name: Stage, /) -> "Broken":
        self._fail("stage")
        return self

    def count(self, _tally: CounterName, _amount: int = 1, _code: str = "", /) -> None:
        self._fail("count")

    def __enter__(self) -> "Broken":
        self._fail("enter")
        return self

    def __exit__(self, *_: object) -> None:
        self._fail("exit")


def watched(folder: Path, observer: Observer, **parts: Any) -> LibraryFixture:
    """Make a library with observers, with its index in memory."""
    lib = make_library(folder, **parts)
    lib.library = Library(replace(lib.library._components, observer=observer))
    return lib
