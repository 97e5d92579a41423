"""The server itself: whether it runs and is ready, its numbers, and what can be asked of it."""

from __future__ import annotations

from truespan import __version__
from truespan.errors import IndexUnavailable, NotAllowed, StoreBusy, StoreDamaged
from truespan.http import schemas as shapes
from truespan.http.call import Call, CallContext, Reply


def _health(_: CallContext) -> Reply:
    return Reply(shapes.Health(status="alive", version=__version__))


def _ready(asked: CallContext) -> Reply:
    asked.library.ready()
    return Reply(shapes.Health(status="ready", version=__version__))


def _metrics(asked: CallContext) -> Reply:
    return Reply(asked.library.metrics(), media_type=METRICS)


METRICS = "text/plain; version=0.0.4; charset=utf-8"

CALLS = (
    Call(
        "GET",
        "/health",
        "health",
        "Whether the server runs",
        _health,
        shapes.Health,
        open=True,
        light=True,
        description="Answers as long as the server runs; nothing of the library is touched.",
    ),
    Call(
        "GET",
        "/ready",
        "ready",
        "Whether store and index answer",
        _ready,
        shapes.Health,
        errors=(IndexUnavailable, StoreBusy, StoreDamaged),
        open=True,
        description="Answers once store and index have answered; a load balancer may send "
        "requests then.",
    ),
    Call(
        "GET",
        "/metrics",
        "metrics",
        "Numbers for Prometheus",
        _metrics,
        bytes,
        errors=(NotAllowed,),
        media_type=METRICS,
        description="Gives what was counted since the server began, in the text format of "
        "Prometheus. It is for the owner.",
    ),
)
