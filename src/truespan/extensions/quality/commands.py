"""Commands about golden queries: evaluation and calibration."""

from typing import Annotated

from truespan.cli.commands import Argument, Option
from truespan.cli.options import Domain, GenerationNumber, Json, Place, Rerank
from truespan.cli.terminal import echo
from truespan.wire.serialize import EXIT_PARTIAL, EXIT_UNHEALTHY, to_json

GoldenFile = Annotated[str, Argument(help="A .yaml or .jsonl file.", metavar="GOLDEN")]


def evaluate(
    golden: GoldenFile,
    place: Place,
    generation: GenerationNumber = None,
    domain: Domain = None,
    against: Annotated[
        int | None, Option(help="Generation to compare with, as the old one.")
    ] = None,
    allowed_drop: Annotated[float, Option(help="Maximum drop of a mean below the old one.")] = 0.01,
    mode: Annotated[
        list[str] | None,
        Option(help="Search mode; default: the world's mode. Several modes are compared."),
    ] = None,
    reader: Annotated[
        str | None, Option("--reader", "-r", help="Ask as this reader of the current book.")
    ] = None,
    rerank: Rerank = None,
    without: Annotated[
        list[str] | None,
        Option(help="Leave out a part of the ranking: 'window', 'late' or 'feedback'."),
    ] = None,
    per_query: Annotated[bool, Option(help="Show every query.")] = False,
    as_json: Json = False,
) -> int:
    """Ask golden queries of a world and measure hit rate, MRR, recall and nDCG."""
    from truespan.extensions.quality.report import EvaluationReport
    from truespan.extensions.quality.tables import (
        comparison_table,
        evaluation_table,
        modes_table,
        summary_table,
    )

    with place.open(domain, generation) as chosen:
        *_, report = chosen.evaluation.report_stream(
            golden,
            modes=mode or (),
            against=against,
            allowed_drop=allowed_drop,
            rerank=rerank,
            reader=reader,
            without=without or (),
        )
    assert isinstance(report, EvaluationReport)
    found, verdict = report.evaluations[-1], report.verdict
    if as_json:
        echo(to_json(report))
    elif report.comparisons and verdict is None:
        compared = report.title, report.names, report.evaluations
        echo(modes_table(*compared, per_query=per_query).rstrip("\n"))
    else:
        echo((evaluation_table(found) if per_query else summary_table(found)).rstrip("\n"))
        for comparison in report.comparisons:
            echo("\n" + comparison_table(comparison, verdict).rstrip("\n"))
    if verdict is not None and not verdict.passed:
        return EXIT_UNHEALTHY
    return EXIT_PARTIAL if any(each.totals.failed for each in report.evaluations) else 0


def calibrate(
    golden: GoldenFile,
    place: Place,
    generation: GenerationNumber = None,
    keep: Annotated[bool, Option(help="Use the thresholds in this world.")] = False,
    as_json: Json = False,
) -> None:
    """Propose thresholds of a world's model, and minimum evidence, from golden queries."""
    from truespan.extensions.quality.tables import calibration_table

    with place.open() as chosen:
        report = chosen.evaluation.calibrate(golden, generation=generation, keep=keep)
    echo(to_json(report) if as_json else calibration_table(report).rstrip("\n"))
