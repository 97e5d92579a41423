"""Spans recorded by OpenTelemetry's own SDK."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from tests.support.answer_worlds import Scripted, study
from tests.support.failures import raises_code
from tests.support.observers import watched
from truespan.engine.library import Library
from truespan.errors import ProviderUnavailable
from truespan.extensions.server.tracing import TracingObserver
from truespan.types.answer import Finished

TEXT = (
    "# One\n\nThe harbour light burned all night. The wall was old.\n\n# Two\n\nBoats came home.\n"
)
RETRIEVE_STAGES = [
    "admitted", "scoped", "vector", "hits", "verified", "enough", "visible", "ranked", "packed",
    "bundle",
]  # fmt: skip


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test")


def request_span(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name == f"truespan.{name}"]
    return found


def stages_below(spans: Sequence[ReadableSpan], above: ReadableSpan) -> list[str]:
    """Return the stages below a span in the order of their start."""
    below = [
        span
        for span in spans
        if span.parent is not None
        and above.context is not None
        and (span.parent.span_id, span.parent.trace_id)
        == (above.context.span_id, above.context.trace_id)
    ]
    ordered = sorted(below, key=lambda span: span.start_time or 0)
    return [span.name.removeprefix("truespan.stage.") for span in ordered]


@pytest.mark.contract
def test_each_stage_is_one_span_below_its_request(
    tmp_path: Path, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    world = watched(tmp_path, TracingObserver(tracer)).world(a__md=TEXT)
    exporter.clear()

    bundle = world.retrieve("harbour light")

    spans = exporter.get_finished_spans()
    whole = request_span(spans, "retrieve")
    assert whole.parent is None
    assert stages_below(spans, whole) == RETRIEVE_STAGES
    assert len(spans) == 1 + len(RETRIEVE_STAGES)
    assert dict(whole.attributes or {}) == {
        "truespan.query_cache.miss": 1,
        "truespan.fetched": bundle.metadata.funnel.fetched,
        "truespan.verified": bundle.metadata.funnel.verified,
        "truespan.returned": bundle.metadata.funnel.returned,
        "truespan.context_tokens": bundle.total_tokens,
        f"truespan.bundles.{bundle.status}": 1,
    }
    assert whole.status.status_code is StatusCode.UNSET


def test_request_is_a_child_of_the_callers_span(
    tmp_path: Path, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    world = watched(tmp_path, TracingObserver(tracer)).world(a__md=TEXT)
    exporter.clear()

    with tracer.start_as_current_span("of the caller") as around:
        world.search("harbour")

    whole = request_span(exporter.get_finished_spans(), "search")
    assert whole.parent is not None
    assert whole.parent.span_id == around.get_span_context().span_id


def test_ingestion_has_a_span_for_each_stage(
    tmp_path: Path, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    watched(tmp_path, TracingObserver(tracer)).world(a__md=TEXT)

    spans = exporter.get_finished_spans()
    whole = request_span(spans, "ingest")
    assert {"source", "blocks", "text", "sentences", "chunks", "vectors", "index"} <= set(
        stages_below(spans, whole)
    )
    assert (whole.attributes or {})["truespan.documents.embedded"] == 1


def test_answer_is_one_trace_across_threads(
    tmp_path: Path, exporter: InMemorySpanExporter, tracer: Tracer, caplog: pytest.LogCaptureFixture
) -> None:
    lib = study(tmp_path, primary=Scripted(["The ", "keeper ", "[1]."]))
    lib.scores(0.9)
    library = Library(replace(lib.library._components, observer=TracingObserver(tracer)))
    events = library.world("world").answer_stream("Who held the spare key to the hut?")

    # As a server does it: each step in a thread of a pool, under a separate context.
    with caplog.at_level(logging.DEBUG), ThreadPoolExecutor(2) as pool:
        while True:
            event = pool.submit(copy_context().run, next, events).result()
            if isinstance(event, Finished):
                break

    spans = exporter.get_finished_spans()
    whole = request_span(spans, "answer")
    assert {"model", "checked"} <= set(stages_below(spans, whole))
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert whole.status.status_code is StatusCode.UNSET
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_failure_is_recorded_by_its_code_alone(
    tmp_path: Path, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    lib = watched(tmp_path, TracingObserver(tracer))
    world = lib.world(a__md=TEXT)
    exporter.clear()
    told = []
    for failure in (ProviderUnavailable("harbour"), ZeroDivisionError("harbour")):
        lib.embedder.before = _raising(failure)
        with pytest.raises(type(failure)):
            world.search("harbour")
        told.append(request_span(exporter.get_finished_spans(), "search"))
        exporter.clear()
    with raises_code("blank_query"):
        world.search(" ")
    told.append(request_span(exporter.get_finished_spans(), "search"))

    assert [(span.attributes or {})["error.type"] for span in told] == [
        "provider_unavailable", "bugs", "blank_query",
    ]  # fmt: skip
    for span in told:
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description is None
        assert not span.events
        assert "harbour" not in span.to_json()


def _raising(error: Exception):
    def fail() -> None:
        raise error

    return fail


def test_failure_in_a_bundle_is_recorded_in_the_span(
    tmp_path: Path, exporter: InMemorySpanExporter, tracer: Tracer
) -> None:
    lib = watched(tmp_path, TracingObserver(tracer))
    world = lib.world(a__md=TEXT)
    lib.embedder.before = _raising(ProviderUnavailable("It does not answer."))

    world.retrieve("harbour")

    whole = request_span(exporter.get_finished_spans(), "retrieve")
    assert whole.status.status_code is StatusCode.ERROR
    assert (whole.attributes or {})["error.type"] == "provider_unavailable"


def test_without_an_sdk_nothing_is_recorded_or_changed(tmp_path: Path) -> None:
    plain = watched(tmp_path / "plain", TracingObserver()).world(a__md=TEXT)

    assert plain.search("harbour").passages
