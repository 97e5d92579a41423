"""Build the observers of a library from settings: traces, metrics, logs, and a custom one.

Each library is imported only if it is used: both take longer to import than a search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from truespan.observer import NULL_OBSERVER, Observer, combine_observers
from truespan.settings import shared_metrics
from truespan.settings.catalogue import Settings


@dataclass(frozen=True, slots=True)
class Observers:
    """All observers as one, and the function that returns the metrics."""

    observer: Observer
    metrics: Callable[[], bytes]


def observers_of(
    settings: Settings, own: Observer | None, *, metrics: bool | None, logs: bool
) -> Observers:
    """Return the observers of a library; `metrics` overrides the setting unless it is None."""
    observers: list[Observer] = [own or NULL_OBSERVER]
    exposition: Callable[[], bytes] = bytes
    if settings.tracing:
        from truespan.observability.tracing import TracingObserver

        observers.append(TracingObserver())
    if settings.metrics if metrics is None else metrics:
        from truespan.observability.metrics import MetricsObserver

        metrics_observer = MetricsObserver(shared_metrics())
        observers.append(metrics_observer)
        exposition = metrics_observer.exposition
    if logs:
        from truespan.observability.logs import LogObserver, write_logs

        write_logs(level=settings.log_level, as_json=settings.log_format == "json")
        observers.append(LogObserver())
    return Observers(combine_observers(*observers), exposition)
