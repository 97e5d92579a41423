"""Commands about a world: the defaults of its requests, and its usage log."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from truespan.cli.commands import Argument, Option
from truespan.cli.options import AudienceRequired, Json, NewAudience, Place
from truespan.cli.terminal import echo, table
from truespan.wire.serialize import record_data, to_json

if TYPE_CHECKING:
    from truespan.types.answer import UsageRecord
    from truespan.types.audience import Audience
    from truespan.types.request import Defaults

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
