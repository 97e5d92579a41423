"""How much faster three workers ingest than one, where the provider is what everybody waits for.

The provider is a process of its own on the loopback that takes a quarter of a second for every
request. The store is a PostgreSQL server, the index lies in the library's folder, and workers are
started as anybody starts them: `truespan worker`. Once every document is a job of its own, once all
of a folder are one job. Run it with `python -m bench.workers`.
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import truespan
from bench.free import end_index_process
from bench.measure import cpu_of
from bench.postgres import named, started
from bench.report import Figure, Options, at_least, run, say
from bench.serving import process
from bench.slow_provider import MODEL
from bench.synthetic import Corpus
from truespan.engine.library import Library
from truespan.types.job import IngestJob, JobState

LATENCY = 0.25
DOCUMENTS, FOLDER, CHUNKS_EACH = 24, 240, 10
MANY = 3
TARGET = 1.7
PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    """What some workers did in how long."""

    documents: int
    seconds: float
    cpu: float
    asked: int

    @property
    def speed(self) -> float:
        """Return the documents a second."""
        return self.documents / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.documents} documents in {self.seconds:.1f} s, {self.asked} requests, "
            f"{self.cpu / self.documents * 1e3:.0f} ms CPU of the workers for each"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where it all happens."""

    library: Library
    folder: Path
    port: int

    def asked(self) -> int:
        """Return how many requests the provider has had."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/asked")
        return json.loads(connection.getresponse().read())["asked"]


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return how fast one and three are, both ways."""
    with TemporaryDirectory(prefix="truespan-bench-") as name, started() as server, named(server):
        folder = Path(name)
        corpus = Corpus(CHUNKS_EACH)
        for part, count in (("alone", DOCUMENTS), ("folder", FOLDER), ("first", 2 * MANY)):
            corpus.write(folder / part, count)
        with (
            process("bench.slow_provider", str(LATENCY)) as (_, port),
            made(folder / "library", port) as library,
        ):
            place = Place(library, folder, port)
            few, many = both(place, 1), both(place, MANY)
    names = (f"{DOCUMENTS} documents, a job each", f"{FOLDER} documents, a folder as one job")
    for label, one, three in zip(names, few, many, strict=True):
        say(f"{label}; one worker: {one}")
        say(f"{label}; {MANY} workers: {three}")
    return [compared(*sides) for sides in zip(names, few, many, strict=True)]


def compared(label: str, one: Run, three: Run) -> Figure:
    """Return three workers beside one."""
    ratio, target = three.speed / one.speed, at_least(TARGET)
    what = f"{MANY} workers, {label}"
    return Figure(what, three.speed, "documents/s", "1 worker", one.speed, ratio, target)


def both(place: Place, workers: int) -> tuple[Run, Run]:
    """Have workers do the documents one by one, and then a folder."""
    files = sorted((place.folder / "alone").iterdir())
    with working(place, workers) as pids:
        first = sorted((place.folder / "first").iterdir())
        done(place, f"first {workers}", first, pids)
        alone = done(place, f"alone {workers}", files, pids)
        return alone, done(place, f"folder {workers}", [place.folder / "folder"], pids)


def done(place: Place, name: str, paths: Sequence[Path], pids: Sequence[int]) -> Run:
    """Submit a job for each path, and wait until all that they order is done."""
    world = place.library.create_world(name)
    asked, cpu, began = place.asked(), sum(map(cpu_of, pids)), time.perf_counter()
    for path in paths:
        world.jobs.submit(IngestJob(path))
    while not all(job.state.is_over for job in world.jobs.list()):
        time.sleep(PAUSE)
    seconds = time.perf_counter() - began
    states = {job.state for job in world.jobs.list()}
    status = world.status()
    if states != {JobState.DONE} or status.pending:
        raise SystemExit(f"jobs are {', '.join(states)}, {status.pending} chunks wait")
    spent = sum(map(cpu_of, pids)) - cpu
    return Run(status.documents, seconds, spent, place.asked() - asked)


@contextmanager
def made(folder: Path, port: int) -> Iterator[Library]:
    """Give a library that embeds by the slow provider."""
    folder.mkdir()
    (folder / "truespan.toml").write_text(
        f'embedding_provider = "openai"\nopenai_base_url = "http://127.0.0.1:{port}/v1"\n'
        f'openai_model = "{MODEL}"\nopenai_keyless = true\n'
    )
    with truespan.open(folder, create=True) as library:
        try:
            yield library
        finally:
            end_index_process(library)


@contextmanager
def working(place: Place, count: int) -> Iterator[list[int]]:
    """Give the numbers of workers that have said that they are ready."""
    command = [sys.executable, "-m", "truespan", "worker", "--library"]
    running = [
        subprocess.Popen(
            [*command, str(place.folder / "library")], stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    try:
        for one in running:
            assert one.stdout
            if not one.stdout.readline():
                raise SystemExit("a worker did not start")
        yield [one.pid for one in running]
    finally:
        for one in running:
            one.send_signal(signal.SIGTERM)
        for one in running:
            one.communicate()


if __name__ == "__main__":
    run("bench.workers", __doc__, measure)
