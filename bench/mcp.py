"""What the MCP door costs beyond the engine: a reader's `retrieve_context`, its query cached.

A call is timed from the request's first byte to the answer's last, over pipes, by a client that
does nothing else; the engine's share of that very call is noted by the server and taken off. The
peer is the SDK alone: a server whose one tool gives back an answer made beforehand, text and
structured content of the same bytes. The two take turns. Run it with `python -m bench.mcp`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import truespan
from bench.free import end_index_process
from bench.measure import percentile, wall_seconds
from bench.report import Figure, Options, at_most, run, say

SENTENCES = 300
TURNS, CALLS = 150, 3
STARTS = 7
QUERY = "What happened at the harbour?"
RATIO_TARGET = 1.3
READY_TARGET = 0.6

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Client:
    """Speaks to a server line by line, and looks at no more than it must."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self._requests, self._answers = process.stdin, process.stdout
        self.ask("initialize", HELLO)
        self._send({"method": "notifications/initialized"})

    def ask(self, method: str, params: dict[str, Any]) -> bytes:
        """Return the line that answers a request."""
        self._send({"id": 1, "method": method, "params": params})
        return self._answers.readline()

    def call(self, name: str) -> bytes:
        """Return the line that answers a call."""
        return self.ask("tools/call", {"name": name, "arguments": {"query": QUERY}})

    def _send(self, message: dict[str, Any]) -> None:
        self._requests.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._requests.flush()


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return the door's cost against the bare SDK's, and how soon a server is ready."""
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        prepare(folder)
        ready = percentile([start(folder) for _ in range(STARTS)], 0.5)
        whole, engine, bare = take_turns(folder)
        with truespan.open(folder / "library") as library:
            library.world("bench").reader("reader").retrieve(QUERY)
            end_index_process(library)
    beyond = [call - share for call, share in zip(whole, engine, strict=True)]
    say(f"{len(whole)} calls a side, milliseconds: p50 and p95")
    for side, taken in (("whole call", whole), ("beyond the engine", beyond), ("bare SDK", bare)):
        say(f"{side:17} {percentile(taken, 0.5):.2f} {percentile(taken, 0.95):.2f}")
    return figures(percentile(beyond, 0.5), percentile(bare, 0.5), ready)


def figures(beyond: float, bare: float, ready: float) -> list[Figure]:
    """Return the two figures that have targets."""
    return [
        Figure(
            "MCP call beyond the engine, p50",
            beyond,
            "ms",
            "bare SDK, same bytes",
            bare,
            beyond / bare,
            at_most(RATIO_TARGET),
        ),
        Figure("truespan mcp, until ready, p50", ready, "s", target=at_most(READY_TARGET)),
    ]


def prepare(folder: Path) -> None:
    """Make a book of more than twenty chunks, and a reader who has come to its end."""
    book = folder / "book.txt"
    book.write_text(" ".join(sentence(number) for number in range(SENTENCES)))
    with truespan.open(folder / "library", create=True) as library:
        world = library.create_world("bench", defaults="contract")
        world.ingest(str(book), kind="book")
        (document,) = world.documents.list()
        world.reader("reader").set_position("book.txt", sentence=document.sentences - 1)


def sentence(number: int) -> str:
    """Return a sentence short enough that twenty chunks of them fit the budget."""
    return f"Boat {number} left the harbour with {number % 7 + 2} crates of glass in the hold."


def command_of(folder: Path) -> list[str]:
    """Return the command line that serves the reader."""
    where = ["--library", str(folder / "library"), "--world", "bench", "--reader", "reader"]
    return ["mcp", *where]


def start(folder: Path) -> float:
    """Return the seconds until a server that a client starts has answered `initialize`."""
    began = time.perf_counter()
    with served("truespan", *command_of(folder)):
        return time.perf_counter() - began


@contextmanager
def served(module: str, *arguments: str) -> Iterator[Client]:
    """Give a client of a server that ends with it."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Client(process)
        process.communicate()


def take_turns(folder: Path) -> tuple[list[float], list[float], list[float]]:
    """Return the milliseconds of whole calls, of the engine's share, and of the bare SDK."""
    whole: list[float] = []
    bare: list[float] = []
    prepared, shares = folder / "answer.json", folder / "shares.json"
    with served("bench.mcp_timed", str(shares), *command_of(folder)) as server:
        answer = server.call("retrieve_context")
        prepared.write_text(json.dumps(json.loads(answer)["result"]))
        say(f"an answer has {len(answer) / 1024:.0f} KiB")
        with served("bench.mcp_echo", str(prepared)) as echo:
            assert abs(len(echo.call("echo")) - len(answer)) < 100
            for _ in range(TURNS):
                whole += timed(lambda: server.call("retrieve_context"))
                bare += timed(lambda: echo.call("echo"))
    # The first call had to load things.
    engine = [seconds * 1000 for seconds in json.loads(shares.read_text())[1:]]
    return whole, engine, bare


def timed(work: Callable[[], object]) -> list[float]:
    """Return the milliseconds of a few calls in a row."""
    return [wall_seconds(work) * 1000 for _ in range(CALLS)]


if __name__ == "__main__":
    run("bench.mcp", __doc__, measure)
