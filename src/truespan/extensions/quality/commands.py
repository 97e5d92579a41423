"""Commands of the panel "Quality": defaults, the usage log, golden queries and calibration."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from truespan.cli.commands import Argument, Option
from truespan.cli.options import (
    AudienceRequired,
    Domain,
    GenerationNumber,
    Json,
    NewAudience,
    Place,
    Rerank,
)
from truespan.cli.terminal import echo, table
from truespan.wire.serialize import EXIT_PARTIAL, EXIT_UNHEALTHY, record_data, to_json

if TYPE_CHECKING:
    from truespan.types.answer import UsageRecord
    from truespan.types.audience import Audience
    from truespan.types.request import Defaults

GoldenFile = Annotated[str, Argument(help="A .yaml or .jsonl file.", metavar="GOLDEN")]
DEFAULTS_IN_WORDS = {
    "recommended": "words and similarity, any language and version, and answers by the evidence "
    "of passages",
    "contract": "similarity alone, language 'en' and version '1.0' in 'retrieve', and the "
    "thresholds 0.25 and 0.55",
}


def defaults(
    place: Place,
    choice: Annotated[
        str | None,
        Argument(
            help="'recommended' or 'contract'; default: show the current ones.", metavar="DEFAULTS"
        ),
    ] = None,
    audience: NewAudience = None,
    audience_required: AudienceRequired = None,
    as_json: Json = False,
) -> None:
    """Show or choose the defaults of requests to a world, and of its new documents."""
    with place.open() as chosen:
        if (choice, audience, audience_required) != (None, None, None):
            chosen.set_defaults(choice, audience=audience, audience_required=audience_required)
        name, found, labels = chosen.name, chosen.defaults, chosen.default_audience
    result = {"world": name, "defaults": found, "audience": labels}
    echo(to_json(result) if as_json else show_defaults(name, found, labels))


def usage(
    place: Place,
    limit: Annotated[int, Option(help="Maximum number of records.")] = 50,
    as_json: Json = False,
) -> None:
    """List the latest answered requests with their decisions and times."""
    with place.open() as chosen:
        name, records = chosen.name, chosen.usage(limit=limit)
    data = [record_data(record) for record in records]
    echo(to_json({"world": name, "records": data}) if as_json else show_usage(records))


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
        compared = report.title, report.names, report.evaluations, report.comparisons
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
    """Propose thresholds of a world's model, and the weight of words, from golden queries."""
    from truespan.extensions.quality.tables import calibration_table

    with place.open() as chosen:
        report = chosen.evaluation.calibrate(golden, generation=generation, keep=keep)
    echo(to_json(report) if as_json else calibration_table(report).rstrip("\n"))


def show_defaults(name: str, defaults: "Defaults", audience: "Audience | None") -> str:
    """Return the defaults of a world and their meaning."""
    shown = f"{name}: {defaults}, that is {DEFAULTS_IN_WORDS[defaults]}."
    if audience is None:
        return f"{shown}\nNew documents must declare an audience."
    if audience == ("everyone",):
        return shown
    return f"{shown}\nNew documents are for {', '.join(audience) or 'the owner alone'}."


def show_usage(records: Sequence["UsageRecord"]) -> str:
    if not records:
        return "The usage log is empty."
    head = ("record", "when (UTC)", "mode", "reason", "best", "used", "ms", "models")
    rows: list[tuple[object, ...]] = [head]
    for record in records:
        explained = record.decision_explain
        try:
            best, counts = explained["max_similarity"], explained["counts"]
            decision = (
                record.mode.value,
                str(explained["reason"]),
                "-" if best is None else f"{best:.3f}",
                f"{counts['used']}/{counts['retrieved']}",
            )
        except (KeyError, TypeError, ValueError):
            decision = "-", "✗ damaged record", "-", "-"
        when = datetime.fromtimestamp(record.created_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        models = [name for name in (record.primary_model, record.fallback_model) if name]
        rows.append((record.id, when, *decision, record.milliseconds, ", ".join(models) or "-"))
    return "\n".join(table(rows))
