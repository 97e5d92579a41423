"""Commands for answers and their decisions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truespan.cli.app import (
    AsJson,
    Chapter,
    Documents,
    Domain,
    Fused,
    LibraryPath,
    MaybeWorld,
    Section,
    Tags,
    WorldName,
    app,
    echo,
    filters_from,
    named_world,
    open_at,
    require_target,
)
from truespan.errors import InvalidSettings, TruespanError
from truespan.serialize import EXIT_UNHEALTHY, problem, to_json

if TYPE_CHECKING:
    from truespan.answers.decide import Replay
    from truespan.types.answer import Answer, AnswerEvent

_LARGEST_RECORD = 16 << 20


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What to ask.")],
    world: MaybeWorld = None,
    library: LibraryPath = None,
    domain: Domain = None,
    reader: Annotated[
        str | None, typer.Option("--reader", "-r", help="Answer from what this reader has read.")
    ] = None,
    book: Annotated[
        str | None, typer.Option(help="The reader's book; default: the current one.")
    ] = None,
    documents: Documents = None,
    tags: Tags = None,
    chapter: Chapter = None,
    section: Section = None,
    language: Annotated[str | None, typer.Option(help="Only this language.")] = None,
    version: Annotated[str | None, typer.Option(help="Only this version label.")] = None,
    fused: Fused = False,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Print the answer as it is generated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from the documents, with citations and checked quotes."""
    filters = filters_from(chapter, section, language, version, documents, tags)
    require_target(world, domain)
    with open_at(library) as opened:
        chosen = named_world(opened, world, domain)
        if reader is None:
            if book is not None:
                raise InvalidSettings("--book needs a reader.", advice="Add '--reader NAME'.")
            events = chosen.answer_stream(question, fused=fused, **filters)
        else:
            if fused or any(filters.values()):
                raise InvalidSettings("Filters and --fused cannot be combined with --reader.")
            events = chosen.reader(reader).answer_stream(question, book)
        _show(events, as_json=as_json, stream=stream)


@app.command()
def usage(
    world: WorldName,
    library: LibraryPath = None,
    limit: Annotated[int, typer.Option(help="Maximum number of records.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the latest answered requests with their decisions and times."""
    from truespan.cli.output_answer import show_usage

    with open_at(library) as opened:
        chosen = opened.world(world)
        name, records = chosen.name, chosen.usage(limit=limit)
    echo(to_json({"world": name, "records": records}) if as_json else show_usage(records))


@app.command()
def explain(
    record: Annotated[str | None, typer.Argument(help="Id of a record of the usage log.")] = None,
    world: MaybeWorld = None,
    library: LibraryPath = None,
    file: Annotated[
        str | None, typer.Option(help="Read the record from this JSON file; '-' is standard input.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Replay a recorded decision, without a model, and explain it."""
    from truespan.cli.output_answer import show_explanation

    if (record is None) == (file is None):
        raise InvalidSettings("Pass either the id of a record or '--file'.")
    if file is not None:
        found = _from_file(file)
    else:
        with open_at(library) as opened:
            found = named_world(opened, world).explain(record or "")
    if as_json:
        same = {"decision_explain": found.decision.explained(), "same_as_recorded": found.same}
        echo(to_json({"record": found.record} | same))
    else:
        echo(show_explanation(found))
    return EXIT_UNHEALTHY if found.same is False else 0


def _show(events: Iterator[AnswerEvent], *, as_json: bool, stream: bool | None) -> None:
    """Print an answer: as JSON, as events one a line, or for a person as it comes."""
    from truespan.cli.output_answer import printable, show_account
    from truespan.types.answer import Finished, Piece

    answer: Answer | None = None
    for event in events:
        if as_json and stream:
            echo(_line(event))
        elif isinstance(event, Piece) and not as_json and stream is not False:
            typer.echo(printable(event.text), nl=False)
            sys.stdout.flush()
        if isinstance(event, Finished):
            answer = event.answer
    if answer is None or (as_json and stream):
        return
    if as_json:
        echo(to_json(answer))
        return
    echo(printable(answer.answer) if stream is False else "")
    echo(printable(show_account(answer)))


def error_line(error: TruespanError) -> str:
    """Return an error as the last of the events that are printed one a line."""
    return _named("error", problem(error))


def _line(event: AnswerEvent) -> str:
    import msgspec

    return _named(type(event).__name__.lower(), msgspec.to_builtins(event))


def _named(event: str, fields: dict[str, Any]) -> str:
    import msgspec

    return msgspec.json.encode({"event": event} | fields).decode()


def _from_file(name: str) -> Replay:
    from truespan.answers.decide import replay_json

    try:
        text = sys.stdin.read(_LARGEST_RECORD) if name == "-" else _read(Path(name))
        plain = json.loads(text)
    except (OSError, UnicodeDecodeError):
        raise InvalidSettings("The file of the record cannot be read.") from None
    except (ValueError, RecursionError):
        raise InvalidSettings("The record is not JSON.") from None
    return replay_json(_record_in(plain))


def _record_in(plain: Any) -> Any:
    """Return the record itself from what 'truespan explain --json' prints."""
    wrapped = isinstance(plain, dict) and isinstance(plain.get("record"), dict)
    return plain["record"] if wrapped else plain


def _read(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_LARGEST_RECORD)
