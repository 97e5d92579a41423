"""Evaluation: golden queries asked of a world, and the figures and curves that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import asdict, replace

from truespan import errors
from truespan.engine.evaluation import EvaluationProgress, EvaluationReport
from truespan.evaluation.report import Report, name_generation, report_sections
from truespan.http import requests
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
    context: CallContext, body: requests.EvaluationRequest
) -> Reply[EvaluationReport] | Events:
    """Ask golden queries and judge what is found.

    Asks every query in each of the modes, or of two generations, and compares the outcomes. With
    `stream` it sends a `progress` event after each query, then `finished` with the whole report,
    or `problem`. Disconnecting ends it. The report contains no text of a document.
    """
    arguments = asdict(body)
    stream, html = arguments.pop("stream"), arguments.pop("html")
    # As bytes: a text would be taken for the path of a file.
    golden = arguments.pop("golden").encode()
    steps = context.world().evaluation.report_stream(golden, **arguments)
    # The arguments are refused with a status of their own, before the stream begins.
    first = next(steps)

    def sent_events() -> Iterator[Event]:
        yield Event("progress", first)
        for step in steps:
            if isinstance(step, EvaluationReport):
                drawn = replace(step, html=draw_report(step, body.modes)) if html else step
                yield Event("finished", drawn)
            else:
                yield Event("progress", step)

    return Events(sent_events(), streamed=stream)


def draw_report(report: EvaluationReport, modes: Sequence[str]) -> str:
    """Return the figures and plots of a report as HTML."""
    names, title = modes, report.evaluations[-1].name
    if report.verdict is not None:
        names = [name_generation(found) for found in report.evaluations]
    elif len(modes) > 1:
        title = title.replace(f", {modes[-1]}", "")
    return report_sections(
        Report(
            title=title,
            evaluations=report.evaluations,
            names=names if len(report.evaluations) > 1 else ("mean",),
            comparisons=report.comparisons,
            verdict=report.verdict,
            curve=report.curve,
        )
    )
