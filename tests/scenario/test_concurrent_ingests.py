"""Runs that ingest the same documents at the same time."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.promises import proves
from tests.support.worlds import LibraryFixture, ManualClock, make_library
from truespan.errors import Cancelled
from truespan.ingest.report import SECONDS_BETWEEN_RECORDS, IngestReport

WAIT = 60.0
TEXTS = {f"{number}.txt": f"The harbour of town {number} was quiet." for number in range(3)}


@dataclass
class PausingClock(ManualClock):
    """Signals a pause, which lasts until `resumed` is set."""

    paused: Event = field(default_factory=Event)
    resumed: Event = field(default_factory=Event)
    on_pause: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.time += SECONDS_BETWEEN_RECORDS
        self.on_pause()
        self.paused.set()
        assert self.resumed.wait(WAIT)


@dataclass
class TwoRuns:
    """Two open handles of one library; the second ingests while the first embeds its texts."""

    first: LibraryFixture
    second: LibraryFixture
    clock: PausingClock
    outcome: list[IngestReport | BaseException] = field(default_factory=list)

    def run(self, folder: Path, copies: str | None = None) -> IngestReport:
        """Return the report of the first run; that of the second one is in `outcome`."""
        other = Thread(target=self._ingest_second, args=[folder, copies])

        def start_second() -> None:
            self.first.embedder.before = None
            other.start()
            assert self.clock.paused.wait(WAIT)

        self.first.embedder.before = start_second
        try:
            return self.first.library.world("world").ingest(folder, copies=copies)
        finally:
            self.clock.resumed.set()
            other.join(WAIT)

    def _ingest_second(self, folder: Path, copies: str | None) -> None:
        try:
            self.outcome.append(self.second.library.world("world").ingest(folder, copies=copies))
        except Exception as error:
            self.outcome.append(error)
        finally:
            self.clock.paused.set()


@pytest.fixture
def runs(tmp_path: Path) -> TwoRuns:
    first, clock = make_library(tmp_path), PausingClock()
    first.library.create_world("world")
    for name, text in TEXTS.items():
        first.write(f"d/{name}", text)
    return TwoRuns(first, make_library(tmp_path, index=first.index, clock=clock), clock)


@proves("ingest.copies", "store.second-process")
@pytest.mark.parametrize("copies", ["keep", "refuse", "link"])
def test_documents_of_a_concurrent_run_are_not_copies(runs: TwoRuns, copies: str) -> None:
    report = runs.run(runs.first.folder / "files" / "d", copies)

    [other] = runs.outcome
    assert isinstance(other, IngestReport), other
    assert sorted(report.ingested) == sorted(TEXTS)
    assert (other.unchanged, other.ingested) == (len(TEXTS), [])
    assert [report.warnings, report.failures, other.warnings, other.failures] == [[]] * 4
    assert sorted(runs.first.embedder.documents) == sorted(TEXTS.values())
    assert runs.second.embedder.documents == []


@proves("store.second-process")
def test_waiting_run_can_be_cancelled(runs: TwoRuns) -> None:
    def cancel() -> None:
        jobs = runs.second.library.world("world").jobs
        jobs.cancel(jobs.list()[0].id)
        runs.clock.resumed.set()

    runs.clock.on_pause = cancel

    report = runs.run(runs.first.folder / "files" / "d")

    assert isinstance(runs.outcome[0], Cancelled)
    assert sorted(report.ingested) == sorted(TEXTS)


@proves("store.second-process")
def test_killed_run_blocks_no_other(lib: LibraryFixture) -> None:
    world = lib.world(base__txt="The base document.")
    path, killed = lib.write("a.txt", "The lamp went out."), f"{socket.gethostname()}/999999999:1"
    scope = lib.scope(world)
    job = lib.store.jobs.add(scope, "ingest", "{}", killed)
    assert lib.store.jobs.claim_documents(scope, job.id, killed, ["a.txt"])

    assert world.ingest(path).ingested == ["a.txt"]
    assert lib.clock.slept == []
