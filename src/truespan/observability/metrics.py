"""Metrics: how long requests and stages take, and everything that is counted.

They are kept apart from what the process counts otherwise: in a registry of their own, or, where
several processes serve one library, in files of a folder that these share.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from time import perf_counter
from types import TracebackType
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from truespan.observer import failure_of
from truespan.types.telemetry import LABELS, SYSTEM, CounterName, Request, Stage, known_code

REQUEST, STAGE = "request", "stage"
BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120,
)  # fmt: skip
"""Upper bounds in seconds: a search of a small world takes a few milliseconds, an answer longer."""
MEANINGS = {
    CounterName.FETCHED: "Candidates that the index gave, as results count them",
    CounterName.VERIFIED: "Candidates whose text was what had been embedded",
    CounterName.RETURNED: "Passages that were given out",
    CounterName.SKIPPED: "Candidates that were left out, by reason",
    CounterName.CONTEXT_TOKENS: "Tokens of the passages that bundles hold",
    CounterName.BUNDLES: "Bundles, by status",
    CounterName.QUERY_CACHE: "Vectors of queries that were at hand, or not",
    CounterName.ANSWERS: "Answers, by mode",
    CounterName.DOCUMENTS: "Sources of ingestion, by what became of them",
    CounterName.CHUNKS: "Chunks that were cut",
    CounterName.VECTORS: "Vectors of chunks, by whether they had to be made",
    CounterName.REPAIRS: "Repairs, by what was done",
    CounterName.ERRORS: "Requests that failed, by code",
    CounterName.BUGS: "Requests that an exception ended which nobody foresaw",
    CounterName.ABANDONED: "Requests whose listener went away, and work that was told to stop",
}


class MetricsWatch:
    """Counts and times for Prometheus. `shared` is the folder of all processes that serve."""

    def __init__(self, shared: str | None = None) -> None:
        self._shared = shared
        # Files are one set for each process, so there is one set of what writes to them as well.
        self._instruments = _shared_instruments() if shared else _Instruments(CollectorRegistry())

    def request(self, name: Request, /) -> _TimedRequest:
        """Begin to time a request."""
        return _TimedRequest(self._instruments, name)

    def exposition(self) -> bytes:
        """Return everything in the text format of Prometheus, that of all processes summed up."""
        if self._shared is None:
            return generate_latest(self._instruments.registry)
        registry = CollectorRegistry()
        registry.register(_Ours(MultiProcessCollector(None, path=self._shared)))
        return generate_latest(registry)


class _Ours(Collector):
    """What is ours in a folder that others of the same process may write to as well."""

    def __init__(self, everything: Any) -> None:
        self._everything = everything

    def collect(self) -> Iterable[Metric]:
        return [one for one in self._everything.collect() if one.name.startswith(f"{SYSTEM}_")]


class _Instruments:
    """Histograms and counters; those for one set of labels are looked up once."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.registry: Any = registry
        self._requests = Histogram(
            f"{SYSTEM}_request_seconds",
            "Time that requests took",
            [REQUEST],
            buckets=BUCKETS,
            registry=registry,
        )
        self._stages = Histogram(
            f"{SYSTEM}_stage_seconds",
            "Time that stages of requests took",
            [REQUEST, STAGE],
            buckets=BUCKETS,
            registry=registry,
        )
        self._counters = {
            tally: Counter(f"{SYSTEM}_{tally}", meaning, _labels(tally), registry=registry)
            for tally, meaning in MEANINGS.items()
        }
        self._known: dict[tuple[Any, ...], Any] = {}

    def time_request(self, request: Request, seconds: float) -> None:
        self._child(self._requests, request).observe(seconds)

    def time_stage(self, request: Request, stage: Stage, seconds: float) -> None:
        self._child(self._stages, request, stage).observe(seconds)

    def count(self, request: Request, tally: CounterName, amount: int, code: str) -> None:
        code = known_code(tally, code)
        labels = (request, code) if tally in LABELS else (request,)
        self._child(self._counters[tally], *labels).inc(amount)

    def _child(self, metric: Any, *labels: str) -> Any:
        key = (metric, *labels)
        child = self._known.get(key)
        if child is None:
            child = self._known[key] = metric.labels(*labels)
        return child


@cache
def _shared_instruments() -> _Instruments:
    return _Instruments(None)


def _labels(tally: CounterName) -> list[str]:
    return [REQUEST, LABELS[tally]] if tally in LABELS else [REQUEST]


class _TimedRequest:
    """One request, timed from when it is entered until it is left."""

    __slots__ = ("_began", "_instruments", "_name")

    def __init__(self, instruments: _Instruments, name: Request) -> None:
        self._instruments = instruments
        self._name = name
        self._began = 0.0

    def __enter__(self) -> _TimedRequest:
        self._began = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._instruments.time_request(self._name, perf_counter() - self._began)
        failure = failure_of(error)
        if failure is not None:
            tally, code = failure
            self.count(tally, 1, code)

    def stage(self, name: Stage, /) -> _TimedStage:
        """Begin to time a stage."""
        return _TimedStage(self._instruments, self._name, name)

    def count(self, tally: CounterName, amount: int = 1, code: str = "", /) -> None:
        """Add to a counter."""
        self._instruments.count(self._name, tally, amount, code)


class _TimedStage:
    """One stage, timed like a request. Why it failed is counted there."""

    __slots__ = ("_began", "_instruments", "_name", "_request")

    def __init__(self, instruments: _Instruments, request: Request, name: Stage) -> None:
        self._instruments = instruments
        self._request = request
        self._name = name
        self._began = 0.0

    def __enter__(self) -> _TimedStage:
        self._began = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._instruments.time_stage(self._request, self._name, perf_counter() - self._began)
