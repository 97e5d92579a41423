"""Metrics: sums of the values of results, with a limited set of labels."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import truespan
from tests.scenario.test_verify_and_repair import chunk_of, put_old_point_back
from tests.support.failures import raises_code
from tests.support.observers import watched
from tests.support.worlds import LibraryFixture, WordCounter, WordEmbedder
from truespan.engine.world import World
from truespan.errors import NotAllowed
from truespan.extensions.server.metrics import MetricsObserver
from truespan.types.scope import UNLIMITED, Authority, Verb
from truespan.types.telemetry import LABELS, CounterName, Request, Stage, known_code

TEXTS = {
    "a__txt": "The harbour light burned all night.",
    "b__txt": "The harbour wall was old and grey.",
    "c__txt": "The harbour boats came home late.",
}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(exposition: bytes) -> Samples:
    """Return every number of an exposition, by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
    }


def number(found: Samples, name: str, **labels: str) -> float:
    return found.get((f"truespan_{name}", frozenset(labels.items())), 0.0)


@pytest.fixture
def metrics() -> MetricsObserver:
    return MetricsObserver()


def harbour(folder: Path, metrics: MetricsObserver) -> tuple[LibraryFixture, World]:
    lib = watched(folder, metrics)
    return lib, lib.world(**TEXTS)


def test_metrics_are_the_sums_of_the_reports_of_bundles(tmp_path: Path, metrics: MetricsObserver):
    lib, world = harbour(tmp_path, metrics)
    put_old_point_back(lib, world, chunk_of(lib, 1), "harbour harbour of long ago")

    bundles = [
        world.retrieve("harbour", top_k=1),
        world.retrieve("harbour wall"),
        world.retrieve("quite unheard-of"),
    ]
    lib.library._repairs.close()

    found = samples(metrics.exposition())
    for tally, told in {
        "fetched": sum(one.metadata.funnel.fetched for one in bundles),
        "verified": sum(one.metadata.funnel.verified for one in bundles),
        "returned": sum(one.metadata.funnel.returned for one in bundles),
        "context_tokens": sum(one.total_tokens for one in bundles),
    }.items():
        assert number(found, f"{tally}_total", request="retrieve") == told > 0
    stale = [s.count for one in bundles for s in one.metadata.skipped if s.code == "stale_vector"]
    assert number(found, "skipped_total", request="retrieve", code="stale_vector") == sum(stale)
    assert sum(stale) > 0
    for status in {one.status for one in bundles}:
        expected = sum(one.status == status for one in bundles)
        assert number(found, "bundles_total", request="retrieve", status=status) == expected
    assert number(found, "request_seconds_count", request="retrieve") == 3
    # A search that meets a repair under way begins again, with the cached vector.
    assert 3 <= number(found, "stage_seconds_count", request="retrieve", stage="vector") <= 4
    assert number(found, "query_cache_total", request="retrieve", outcome="miss") == 3
    # A second search may find the old point too, before the first one's repair has removed it.
    assert 1 <= number(found, "repairs_total", request="repair", deed="deleted_point") <= sum(stale)


@pytest.mark.contract
def test_passages_cut_by_the_budget_are_counted(tmp_path: Path, metrics: MetricsObserver) -> None:
    lib = watched(tmp_path, metrics)
    world = lib.world(**{f"f{n}__txt": f"{n} " + "by " * 3000 for n in range(2)})
    bundle = world.retrieve("by", top_k=20, language=None)
    found = samples(metrics.exposition())
    told = {entry.code: entry.count for entry in bundle.metadata.skipped}
    assert told["over_budget"] > 0
    for code, count in told.items():
        assert number(found, "skipped_total", request="retrieve", code=code) == count


def test_cached_query_is_counted_as_cached(tmp_path: Path, metrics: MetricsObserver) -> None:
    _, world = harbour(tmp_path, metrics)
    for _ in range(3):
        world.search("harbour")
    found = samples(metrics.exposition())
    assert number(found, "query_cache_total", request="search", outcome="miss") == 1
    assert number(found, "query_cache_total", request="search", outcome="hit") == 2


def test_errors_are_counted_by_code_and_bugs_separately(tmp_path: Path, metrics: MetricsObserver):
    lib, world = harbour(tmp_path, metrics)
    with raises_code("blank_query"):
        world.search(" ")
    lib.embedder.before = _slip
    with pytest.raises(ZeroDivisionError):
        world.search("harbour")
    found = samples(metrics.exposition())
    assert number(found, "errors_total", request="search", code="blank_query") == 1
    assert number(found, "bugs_total", request="search") == 1
    assert number(found, "request_seconds_count", request="search") == 2


def _slip() -> None:
    raise ZeroDivisionError("harbour")


def test_metric_labels_never_come_from_callers(tmp_path: Path, metrics: MetricsObserver) -> None:
    lib = watched(tmp_path, metrics)
    world = lib.world("canary-world", canary_file__txt="The canary sang of harbours.")
    reader = world.reader("canary-reader")
    reader.set_position("canary_file.txt", sentence=0)
    world.search("canary")
    world.retrieve("canary")
    reader.retrieve("canary")
    with metrics.request(Request.SEARCH) as course:
        course.count(CounterName.ERRORS, 1, "canary")

    exposition = metrics.exposition()

    assert b"canary" not in exposition
    known: dict[str, Callable[[str], bool]] = {
        "le": lambda _: True,
        "request": lambda value: value in set(Request),
        "stage": lambda value: value in set(Stage),
    }
    for name, labels in samples(exposition):
        for label, value in labels:
            tally = name.removeprefix("truespan_").removesuffix("_total").removesuffix("_created")
            ours = known.get(label) or (
                lambda value, t=tally: value == known_code(CounterName(t), value)
            )
            assert ours(value) or value == "other"
            assert label in known or LABELS[CounterName(tally)] == label


def test_metrics_stay_out_of_the_default_registry(tmp_path: Path, metrics: MetricsObserver) -> None:
    harbour(tmp_path, metrics)
    assert not [one for one in REGISTRY.collect() if one.name.startswith("truespan")]


def test_metrics_are_off_by_default_and_for_the_owner_only(tmp_path: Path) -> None:
    def opened(**more: Any) -> truespan.Library:
        return truespan.open(
            tmp_path / "library", create=True, embedder=WordEmbedder(), counter=WordCounter(),
            **more,
        )  # fmt: skip

    with opened() as library:
        library.create_world("one")
        assert library.server.metrics() == b""
    with opened(metrics=True) as library:
        library.world("one").search("harbour")
        found = samples(library.server.metrics())
        assert number(found, "request_seconds_count", request="search") == 1
    reading = Authority(worlds=UNLIMITED, verbs=frozenset({Verb.READ}), readers=UNLIMITED)
    with opened(metrics=True, authority=reading) as library, pytest.raises(NotAllowed):
        library.server.metrics()


def test_observer_of_the_caller_may_be_given_when_opening(tmp_path: Path) -> None:
    own = MetricsObserver()
    with truespan.open(
        tmp_path, create=True, embedder=WordEmbedder(), counter=WordCounter(), observer=own
    ) as library:
        library.create_world("one").search("harbour")
    assert number(samples(own.exposition()), "request_seconds_count", request="search") == 1


SERVER = """
import sys
from pathlib import Path
from truespan.settings import share_metrics, shared_metrics

share_metrics(Path(sys.argv[1]))
from truespan.extensions.server.metrics import MetricsObserver
from truespan.types.telemetry import CounterName, Request, Stage
from prometheus_client import Counter

Counter("another_counter", "A counter of the process").inc()
for _ in range(2):
    watch = MetricsObserver(shared_metrics())
    with watch.request(Request.SEARCH) as trace, trace.stage(Stage.HITS):
        trace.count(CounterName.SKIPPED, 3, "stale_vector")
sys.stdout.buffer.write(watch.exposition())
"""


def test_metrics_of_several_processes_are_summed(tmp_path: Path) -> None:
    told = b""
    for _ in range(3):
        ran = subprocess.run(
            [sys.executable, "-c", SERVER, str(tmp_path)], capture_output=True, check=True
        )
        told = ran.stdout

    found = samples(told)
    assert number(found, "skipped_total", request="search", code="stale_vector") == 18
    assert number(found, "request_seconds_count", request="search") == 6
    assert number(found, "stage_seconds_count", request="search", stage="hits") == 6
    assert b"another_counter" not in told
