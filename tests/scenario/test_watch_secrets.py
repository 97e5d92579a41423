"""No trace, metric or log line quotes a request, a text or an error."""

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.promises import proves
from tests.support.answer_worlds import ScoreEmbedder, Scripted, scored, study
from tests.support.worlds import other_profile
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import IndexUnavailable, ProviderRefused, ProviderUnavailable
from truespan.extensions.server.metrics import MetricsObserver
from truespan.extensions.server.tracing import TracingObserver
from truespan.observability.logs import LogObserver, write_logs
from truespan.observer import Observer, combine_observers

QUERY = "zqqueryx who held the key to the hut"
TEXT = scored(0.9, "The zqtextx keeper held it.")
KEY = "sk-zqkeyx"
SELECTION = "zqselectx lies in the hut"
CANARIES = ("zqqueryx", "zqtextx", "zqkeyx", "zqselectx", "zqworldx", "zqreaderx", "zqreplyx")


@dataclass
class Sinks:
    """All observers of the engine, at their most detailed."""

    exporter: InMemorySpanExporter
    metrics: MetricsObserver
    lines: list[io.StringIO]
    observer: Observer

    def everything(self) -> str:
        """Return all recorded output as one text."""
        spans = [span.to_json() for span in self.exporter.get_finished_spans()]
        written = [stream.getvalue() for stream in self.lines]
        return "\n".join([*spans, self.metrics.exposition().decode(), *written])


@pytest.fixture(params=[True, False], ids=["json", "text"])
def sinks(request: pytest.FixtureRequest) -> Iterator[Sinks]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    metrics, stream = MetricsObserver(), io.StringIO()
    ours = logging.getLogger("truespan")
    before, level = list(logging.getLogger().handlers), ours.level
    write_logs(level="debug", as_json=request.param, stream=stream)
    observer = combine_observers(
        TracingObserver(provider.get_tracer("test")), metrics, LogObserver()
    )
    yield Sinks(exporter, metrics, [stream], observer)
    logging.getLogger().handlers[:] = before
    ours.setLevel(level)


FAILURES: list[Exception | None] = [
    None,
    ProviderUnavailable(f"{KEY} {QUERY}"),
    ProviderRefused(f"{KEY} {QUERY}"),
    IndexUnavailable(f"{QUERY}"),
    RuntimeError(f"{KEY} {QUERY} {TEXT}"),
    KeyError(f"{KEY} {QUERY} {TEXT}"),
]


def ask_everything(world: World) -> None:
    """Make every kind of request that a caller can make; each may fail."""
    reader = world.reader("zqreaderx")
    for request in _requests(world):
        with suppress(Exception):
            request()
    with suppress(Exception):
        reader.set_position("a.txt", sentence=0)
    for ask in (reader.retrieve, reader.answer):
        with suppress(Exception):
            ask(QUERY)


def _requests(world: World) -> list[Callable[[], object]]:
    return [
        lambda: world.search(QUERY),
        lambda: world.search(QUERY, mode="hybrid"),
        lambda: world.search(QUERY * 400),
        lambda: world.retrieve(QUERY, selected_text=SELECTION, near_misses=True),
        lambda: world.why_not("zqtextx", QUERY),
        lambda: world.answer(QUERY),
        lambda: list(world.answer_stream(QUERY)),
        lambda: world.repair(),
        lambda: world.generations.reindex(),
    ]


@proves("errors.no-secrets")
@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
def test_spans_metrics_and_logs_quote_no_text_or_error(
    tmp_path: Path, sinks: Sinks, failure: Exception | None
) -> None:
    embedder = ScoreEmbedder(profile=other_profile(dimensions=4))
    reply: list[str | Exception] = ["zqreplyx [1]."]
    lib = study(
        tmp_path, embedder=embedder, primary=Scripted([*reply, failure] if failure else reply)
    )
    library = Library(replace(lib.library._components, observer=sinks.observer))
    world = library.create_world("zqworldx")
    path = lib.lib.write("a.txt", TEXT)
    world.ingest(path)
    if failure is not None:
        # A longer text is to be embedded while that fails.
        embedder.before = _raising(failure)
        lib.lib.write("a.txt", TEXT + "And the zqtextx hut was locked.\n")
        with suppress(type(failure)):
            world.ingest(path)
    ask_everything(world)
    library.close()

    told = sinks.everything()

    assert told.count("truespan.ingest") >= 1
    assert "request_f" in told
    assert not [canary for canary in CANARIES if canary in told]


def _raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail
