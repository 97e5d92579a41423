"""Evaluation: golden queries asked of a world, and the figures and curves that follow."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import asdict

from truespan import errors
from truespan.engine.evaluation import EvaluationProgress, EvaluationReport
from truespan.http import schemas
from truespan.http.operation import CallContext, Event, Events, Reply, Routes
from truespan.http.routes.questions import QUERY_ERRORS

GOLDEN = '- query: Who wound the great clock?\n  phrases: ["the keeper of the tower"]\n'

# Shared by threads: filled while modules are imported, then only read.
evaluation = Routes(
    "Evaluation", "Ask golden queries, and see how well a world answers.", errors.NotAllowed
)


@evaluation.post(
    "/v1/worlds/{world}/evaluate",
    errors=(*QUERY_ERRORS, errors.GoldenInvalid, errors.PositionNotFound, errors.DocumentNotFound),
    in_turns=True,
    events={"progress": EvaluationProgress, "finished": EvaluationReport},
    example={"golden": GOLDEN, "modes": ["vector", "hybrid"]},
)
def evaluate(
    context: CallContext, body: schemas.EvaluationRequest
) -> Reply[EvaluationReport] | Events:
    """Ask golden queries and judge what is found.

    Asks every query in each of the modes, or of two generations, and compares the outcomes. With
    `stream` it sends a `progress` event after each query, then `finished` with the whole report,
    or `problem`. Disconnecting ends it. The report contains no text of a document.
    """
    arguments = asdict(body)
    stream = arguments.pop("stream")
    # As bytes: a text would be taken for the path of a file.
    golden = arguments.pop("golden").encode()
    steps = context.world().evaluation.report_stream(golden, **arguments)
    # The arguments are refused with a status of their own, before the stream begins.
    first = next(steps)

    def sent_events() -> Iterator[Event]:
        yield Event("progress", first)
        for step in steps:
            is_report = isinstance(step, EvaluationReport)
            yield Event("finished" if is_report else "progress", step)

    return Events(sent_events(), streamed=stream)
