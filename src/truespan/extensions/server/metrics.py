"""Metrics: durations of requests and stages, and all counters.

They are separate from other metrics of the process: in their own registry or, where several
processes serve one library, in the files of a shared folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from time import perf_counter
from typing import Any

from truespan.errors import InvalidConfiguration
from truespan.observer import failure_of
from truespan.types.telemetry import LABELS, SYSTEM, CounterName, Request, Stage, known_code

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.metrics_core import Metric
    from prometheus_client.multiprocess import MultiProcessCollector
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    raise InvalidConfiguration(
        "Collecting metrics needs a package that is missing.",
        advice="Install Truespan with the extra 'metrics'.",
    ) from None

REQUEST, STAGE = "request", "stage"
BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120,
)  # fmt: skip
"""Upper bounds in seconds: a search takes a few milliseconds, an answer much longer."""
MEANINGS = {
    CounterName.FETCHED: "Candidates from the index, as results count them",
    CounterName.VERIFIED: "Candidates whose text matched the embedded text",
    CounterName.RETURNED: "Passages returned",
    CounterName.SKIPPED: "Candidates left out, by reason",
    CounterName.CONTEXT_TOKENS: "Tokens of the passages in bundles",
    CounterName.BUNDLES: "Bundles, by status",
    CounterName.QUERY_CACHE: "Query vectors found in the cache or not",
    CounterName.RERANKS: "Calls of a reranker, by outcome",
    CounterName.ANSWERS: "Answers, by mode",
    CounterName.DOCUMENTS: "Ingested sources, by outcome",
    CounterName.CHUNKS: "Chunks created",
    CounterName.VECTORS: "Vectors of chunks, computed or reused",
    CounterName.REPAIRS: "Repairs, by action",
    CounterName.ERRORS: "Failed requests, by error code",
    CounterName.BUGS: "Requests that ended with an unexpected exception",
    CounterName.ABANDONED: "Requests whose client disconnected, and work that was stopped",
}


class MetricsObserver:
    """An observer with metrics for Prometheus. `shared` is the folder of all server processes."""

    def __init__(self, shared: str | None = None) -> None:
        self._shared = shared
        # prometheus_client has one set of files per process, so there is one set of instruments.
        self._instruments = _shared_instruments() if shared else _Instruments(CollectorRegistry())

    def request(self, name: Request, /) -> _TimedRequest:
        return _TimedRequest(self._instruments, name)

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus, summed over all processes."""
        if self._shared is None:
            return generate_latest(self._instruments.registry)
        registry = CollectorRegistry()
        registry.register(_OwnMetrics(MultiProcessCollector(None, path=self._shared)))
        return generate_latest(registry)


class _OwnMetrics(Collector):
    """A collector of our metrics in a folder that other code of the process may use as well."""

    def __init__(self, collector: Any) -> None:
        self._collector = collector

    def collect(self) -> Iterable[Metric]:
        prefix = f"{SYSTEM}_"
        return [metric for metric in self._collector.collect() if metric.name.startswith(prefix)]


# Shared by threads: a label set that two threads create at once is one object of
# prometheus_client, which locks.
class _Instruments:
    """Histograms and counters; the child for a set of labels is looked up once."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.registry: Any = registry
        timed = partial(Histogram, buckets=BUCKETS, registry=registry)
        self.requests = timed(f"{SYSTEM}_request_seconds", "Duration of requests", [REQUEST])
        self.stages = timed(
            f"{SYSTEM}_stage_seconds", "Duration of stages of requests", [REQUEST, STAGE]
        )
        self.counters: dict[CounterName, Counter] = {}
        for counter, meaning in MEANINGS.items():
            labels = [REQUEST, LABELS[counter]] if counter in LABELS else [REQUEST]
            name = f"{SYSTEM}_{counter}"
            self.counters[counter] = Counter(name, meaning, labels, registry=registry)
        self._known: dict[tuple[Any, ...], Any] = {}

    def child(self, metric: Any, *labels: str) -> Any:
        key = (metric, *labels)
        child = self._known.get(key)
        if child is None:
            child = self._known[key] = metric.labels(*labels)
        return child


# Shared by threads: a cache of one object; see `_Instruments`.
@cache
def _shared_instruments() -> _Instruments:
    return _Instruments(None)


class _TimedRequest:
    """A timer of a request that also counts its failure."""

    __slots__ = ("_instruments", "_name", "_start")

    def __init__(self, instruments: _Instruments, name: Request) -> None:
        self._instruments = instruments
        self._name = name
        self._start = 0.0

    def __enter__(self) -> _TimedRequest:
        self._start = perf_counter()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        seconds, instruments = perf_counter() - self._start, self._instruments
        if (failure := failure_of(error)) is not None:
            self.count(failure[0], 1, failure[1])
        instruments.child(instruments.requests, self._name).observe(seconds)

    def stage(self, name: Stage, /) -> _TimedStage:
        """Time a stage; its failure is counted for the request."""
        return _TimedStage(self._instruments.child(self._instruments.stages, self._name, name))

    def count(self, counter: CounterName, amount: int = 1, code: str = "", /) -> None:
        labels = [known_code(counter, code)] if counter in LABELS else []
        metric = self._instruments.counters[counter]
        self._instruments.child(metric, self._name, *labels).inc(amount)


class _TimedStage:
    """A timer of a stage. A class costs less than a generator, and there are many stages."""

    __slots__ = ("_histogram", "_start")

    def __init__(self, histogram: Any) -> None:
        self._histogram = histogram
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, *_error: object) -> None:
        self._histogram.observe(perf_counter() - self._start)
