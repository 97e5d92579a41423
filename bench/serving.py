"""What the HTTP door costs: CPU beyond the engine's, many connections, an ingest meanwhile, start.

A retrieval of 20 chunks whose query is cached is asked of a server, and of the library itself in a
process of its own, which waits for each call as the server does; the difference in CPU time is the
door's, thread crossing and encoding included. The peer is uvicorn alone with an application that
sends the same bytes. They take turns in short blocks, of which the quietest quarter counts: what
neighbours on the machine push out of the caches is nobody's cost. Load comes from one process, with
one server process and with two. Run it with `python -m bench.serving`.
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import truespan
from bench.free import end_index_process
from bench.material import Prose
from bench.measure import apart, cpu_of, percentile
from bench.report import Figure, Options, at_least, at_most, run, say

SENTENCES = 900
BLOCKS, CALLS = 100, 10
QUIET = 0.25
"""Which share of the blocks counts as quiet."""
STARTS = 7
CONNECTIONS, LOAD_SECONDS = 32, 10
INGEST_PARAGRAPHS = 150
BEYOND_TARGET = 0.4
RATE_TARGET, P99_TARGET = 600.0, 100.0
BUSY_TARGET = 300.0
START_TARGET = 2.0
PAGE_TARGET = 150.0
ASKED = {
    "query": "What happened at the harbour?",
    "top_k": 20,
    "language": None,
    "version": None,
}
BODY = json.dumps(ASKED).encode()
HEADERS = {"content-type": "application/json"}
PATH = "/v1/worlds/bench/retrieve"


@dataclass(slots=True)
class Client:
    """One connection that is kept."""

    port: int
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, path: str = PATH) -> bytes:
        """Return the body that answers; anything but success ends the measurement."""
        self.connection.request("POST", path, BODY, HEADERS)
        reply = self.connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise SystemExit(f"status {reply.status} instead of 200")
        return body


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return what has targets."""
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        prepare(folder)
        started = percentile([start(folder) for _ in range(STARTS)], 0.5)
        beyond, bare = take_turns(folder)
        with served(folder) as (_, port):
            errors, rate, p99 = loaded(port)
        with served(folder, "--workers=2") as (_, port):
            errors_of_two, rate_of_two, p99_of_two = loaded(port)
        with served(folder) as (_, port):
            busy = while_ingesting(folder, port)
        with truespan.open(folder / "library") as library:
            library.world("bench").retrieve(**ASKED)
            end_index_process(library)
    many = f"{CONNECTIONS} connections"
    say(f"{many}, two processes: {rate_of_two:.0f} requests a second, p99 {p99_of_two:.0f} ms")
    return [
        Figure(
            "retrieval over HTTP, CPU beyond the library, 20 chunks",
            beyond,
            "ms",
            "uvicorn alone, same bytes",
            bare,
            target=at_most(BEYOND_TARGET),
        ),
        Figure(f"{many}, errors", errors + errors_of_two, "", target=at_most(0)),
        Figure(
            f"{many}, requests a second",
            rate,
            "1/s",
            "two processes",
            rate_of_two,
            target=at_least(RATE_TARGET),
        ),
        Figure(f"{many}, p99", p99, "ms", target=at_most(P99_TARGET)),
        Figure("p99 while an ingest runs", busy, "ms", target=at_most(BUSY_TARGET)),
        Figure("truespan serve, until it listens, p50", started, "s", target=at_most(START_TARGET)),
        Figure("files of the page", page_kilobytes(), "KB", target=at_most(PAGE_TARGET)),
    ]


def prepare(folder: Path) -> None:
    """Make a world whose chunks are small enough that twenty of them fit the budget."""
    text = folder / "harbour.txt"
    text.write_text(" ".join(sentence(number) for number in range(SENTENCES)))
    with truespan.open(folder / "library", create=True) as library:
        library.create_world("bench", defaults="contract").ingest(str(text), kind="book")


def sentence(number: int) -> str:
    """Return a distinct sentence."""
    return f"Boat {number} left the harbour with {number % 7 + 2} crates of glass in the hold."


@contextmanager
def process(module: str, *arguments: str) -> Iterator[tuple[int, int]]:
    """Give the number and the port of a server that prints its address as JSON."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        told = ""
        while not told.rstrip().endswith("}"):
            line = running.stdout.readline()
            if not line:
                raise SystemExit(f"{module} did not start")
            told += line
        try:
            yield running.pid, int(json.loads(told)["address"].rpartition(":")[2].rstrip("/"))
        finally:
            running.send_signal(signal.SIGTERM)
            running.communicate()


def served(folder: Path, *options: str) -> Any:
    """Give our own server."""
    library = str(folder / "library")
    return process("truespan", "serve", "--library", library, "--port=0", "--json", *options)


def start(folder: Path) -> float:
    """Return the seconds until a server listens."""
    began = time.perf_counter()
    with served(folder):
        return time.perf_counter() - began


def take_turns(folder: Path) -> tuple[float, float]:
    """Return the CPU milliseconds of a call beyond the library, and those of uvicorn alone."""
    answer = folder / "answer.json"
    with (
        served(folder) as (server, port),
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bench.serving_twin",
                str(folder / "library"),
                json.dumps(ASKED),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as twin,
    ):
        client = Client(port)
        answer.write_bytes(client.ask())
        say(f"an answer has {answer.stat().st_size / 1024:.0f} KiB")
        with process("bench.serving_echo", str(answer)) as (echo, echo_port):
            bare = Client(echo_port)
            sides = {
                "server": (server, lambda: _each(client.ask)),
                "library": (twin.pid, lambda: _each(lambda: _told(twin, 1))),
                "library in a loop": (twin.pid, lambda: _told(twin, CALLS)),
                "uvicorn": (echo, lambda: _each(bare.ask)),
            }
            taken = _rounds(sides)
        twin.communicate("")
    say(", ".join(f"{name} {spent:.2f} ms CPU" for name, spent in taken.items()))
    return taken["server"] - taken["library"], taken["uvicorn"]


def _rounds(sides: dict[str, tuple[int, Callable[[], object]]]) -> dict[str, float]:
    """Return the CPU milliseconds of a call on each side, in blocks that take turns."""
    spent: dict[str, list[float]] = {name: [] for name in sides}
    # The first tenth only warms up.
    for block in range(-BLOCKS // 10, BLOCKS):
        for name, (pid, work) in sides.items():
            before = cpu_of(pid)
            work()
            if block >= 0:
                spent[name].append(cpu_of(pid) - before)
    return {name: percentile(taken, QUIET) * 1000 / CALLS for name, taken in spent.items()}


def _each(call: Callable[[], object]) -> None:
    for _ in range(CALLS):
        call()


def _told(twin: subprocess.Popen[str], calls: int) -> None:
    """Ask the library itself `calls` times, and wait for the answers."""
    assert twin.stdin
    assert twin.stdout
    twin.stdin.write(f"{calls}\n")
    twin.stdin.flush()
    twin.stdout.readline()


def loaded(port: int) -> tuple[float, float, float]:
    """Return errors, requests a second and p99 in milliseconds under many connections."""
    Client(port).ask()
    return tuple(
        apart(
            "bench.serving_load",
            *(str(port), str(CONNECTIONS), str(LOAD_SECONDS)),
            *(PATH, BODY.decode()),
        )
    )


def while_ingesting(folder: Path, port: int) -> float:
    """Return the p99 in milliseconds of calls that are made while documents are taken in."""
    text = folder / "more.txt"
    text.write_text(Prose(seed=3).text(paragraphs=INGEST_PARAGRAPHS))
    client = Client(port)
    client.ask()
    job = upload(port, text)
    taken: list[float] = []
    while state(port, job) in ("queued", "running"):
        for _ in range(20):
            began = time.perf_counter()
            client.ask()
            taken.append((time.perf_counter() - began) * 1000)
    if (ended := state(port, job)) != "done":
        raise SystemExit(f"the ingest is {ended}")
    say(f"{len(taken)} calls during an ingest: p50 {percentile(taken, 0.5):.1f} ms")
    return percentile(taken, 0.99)


def upload(port: int, text: Path) -> str:
    """Upload a file and return the job that takes it in."""
    edge = "truespan-bench-boundary"
    head = (
        f'--{edge}\r\ncontent-disposition: form-data; name="file"; filename="{text.name}"\r\n\r\n'
    )
    body = head.encode() + text.read_bytes() + f"\r\n--{edge}--\r\n".encode()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    kind = {"content-type": f"multipart/form-data; boundary={edge}"}
    connection.request("POST", "/v1/worlds/bench/documents", body, kind)
    return json.loads(connection.getresponse().read())["job"]["id"]


def state(port: int, job: str) -> str:
    """Return how a job stands."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"/v1/worlds/bench/jobs/{job}")
    return json.loads(connection.getresponse().read())["job"]["state"]


def page_kilobytes() -> float:
    """Return the size of all files of the page."""
    folder = Path(truespan.__file__).parent / "web"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1000


if __name__ == "__main__":
    run("bench.serving", __doc__, measure)
