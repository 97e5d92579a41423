"""Commands that search, retrieve and answer, and those of readers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import truespan.cli.app as cli
from truespan.cli.advice import say
from truespan.cli.options import TopK, with_shared_options
from truespan.cli.terminal import echo
from truespan.core.strict_json import JsonError, parse_json
from truespan.errors import InvalidArgument, resource_error
from truespan.wire.serialize import EXIT_UNHEALTHY, exit_code_of_bundle, record_data, to_json

if TYPE_CHECKING:
    from truespan.answers.decide import Replay
    from truespan.types.bundle import ContextBundle
    from truespan.types.request import FilterArguments, PassageArguments

reader_app = cli.command_group("reader", "Readers and how far they have come.")
read_app = cli.command_group("read", "Ask a book as a reader of it.")

ReaderName = Annotated[str, Option("--reader", "-r", help="Name of the reader.")]
_MAX_RECORD_SIZE = 16 << 20


@with_shared_options
def search(
    query: Annotated[str, Argument(help="What to search for.")],
    world: cli.WorldName = None,
    library: cli.Folder = None,
    domain: cli.Domain = None,
    generation: cli.GenerationNumber = None,
    top_k: TopK = 10,
    floor: Annotated[
        float, Option(help="Minimum similarity, 0.0 to 1.0.", parser=cli.decimal_number)
    ] = 0.15,
    *,
    filters: "FilterArguments",
    mode: cli.SearchMode = None,
    rerank: cli.Rerank = None,
    passages: "PassageArguments",
    context: cli.ContextOnly = False,
    as_json: cli.Json = False,
) -> None:
    """Find the passages closest to a query, each verified as it is read."""
    with cli.open_world(library, world, domain, generation) as chosen:
        result = chosen.search(
            query, top_k=top_k, floor=floor, mode=mode, rerank=rerank, **passages, **filters
        )
    if as_json:
        echo(to_json(result))
    elif context:
        echo(result.context)
    else:
        from truespan.cli.output.results import print_search

        print_search(result)


@with_shared_options
def retrieve(
    query: Annotated[str | None, Argument(help="What to search for.")] = None,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    domain: cli.Domain = None,
    generation: cli.GenerationNumber = None,
    selected: Annotated[
        str | None, Option(help="A selected text: it ranks, or scopes a query.")
    ] = None,
    top_k: TopK = 5,
    *,
    filters: "FilterArguments",
    near_misses: Annotated[
        bool, Option("--near-misses", help="Show what lay just below the floor.")
    ] = False,
    mode: cli.SearchMode = None,
    rerank: cli.Rerank = None,
    passages: "PassageArguments",
    context: cli.ContextOnly = False,
    as_json: cli.Json = False,
) -> int:
    """Assemble context for a query or a selection within the token budget."""
    with cli.open_world(library, world, domain, generation) as chosen:
        bundle = chosen.retrieve(
            query,
            selected_text=selected,
            top_k=top_k,
            near_misses=near_misses,
            mode=mode,
            rerank=rerank,
            **passages,
            **filters,
        )
    return _print_bundle(bundle, context=context, as_json=as_json)


@with_shared_options
def ask(
    question: Annotated[str, Argument(help="What to ask.")],
    world: cli.WorldName = None,
    library: cli.Folder = None,
    domain: cli.Domain = None,
    generation: cli.GenerationNumber = None,
    reader: Annotated[
        str | None, Option("--reader", "-r", help="Answer from what this reader has read.")
    ] = None,
    book: Annotated[str | None, Option(help="The reader's book; default: the current one.")] = None,
    *,
    filters: "FilterArguments",
    mode: cli.SearchMode = None,
    rerank: cli.Rerank = None,
    passages: "PassageArguments",
    stream: Annotated[
        bool | None, Option("--stream/--no-stream", help="Print the answer as it is generated.")
    ] = None,
    as_json: cli.Json = False,
) -> None:
    """Answer a question from the documents, with citations and checked quotes."""
    from truespan.cli.output.results import print_answer

    with cli.open_at(library) as opened:
        chosen = cli.named_world(opened, world, domain, generation)
        if opened.chat_model is None and not as_json:
            # Without a model the answer is what was found: for people the best sentences.
            passages.setdefault("granularity", "sentence")
        if reader is None:
            if book is not None:
                raise InvalidArgument("--book needs a reader.", advice="Add '--reader NAME'.")
            events = chosen.answer_stream(question, mode=mode, rerank=rerank, **passages, **filters)
        else:
            if any(filters.values()):
                raise InvalidArgument("Filters cannot be combined with --reader.")
            events = chosen.reader(reader).answer_stream(
                question, book, mode=mode, rerank=rerank, **passages
            )
        print_answer(events, as_json=as_json, stream=stream)


def usage(
    world: cli.WorldName = None,
    library: cli.Folder = None,
    limit: Annotated[int, Option(help="Maximum number of records.", parser=cli.whole_number)] = 50,
    as_json: cli.Json = False,
) -> None:
    """List the latest answered requests with their decisions and times."""
    from truespan.cli.output.results import show_usage

    with cli.open_world(library, world) as chosen:
        name, records = chosen.name, chosen.usage(limit=limit)
    data = [record_data(record) for record in records]
    echo(to_json({"world": name, "records": data}) if as_json else show_usage(records))


def explain(
    record: Annotated[str | None, Argument(help="Id of a record of the usage log.")] = None,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    file: Annotated[
        str | None, Option(help="Read the record from this JSON file; '-' is standard input.")
    ] = None,
    as_json: cli.Json = False,
) -> int:
    """Replay a recorded decision, without a model, and explain it."""
    from truespan.cli.output.results import show_explanation

    if (record is None) == (file is None):
        raise InvalidArgument(
            "Pass either the id of a record or '--file'.",
            advice="'truespan usage' lists the records.",
        )
    if file is not None:
        replay = _replay_file(file)
    else:
        with cli.open_world(library, world) as chosen:
            replay = chosen.explain(record or "")
    if as_json:
        same = {"decision_explain": replay.decision.to_json(), "same_as_recorded": replay.same}
        kept = None if replay.record is None else record_data(replay.record)
        echo(to_json({"record": kept} | same))
    else:
        echo(show_explanation(replay))
    return EXIT_UNHEALTHY if replay.same is False else 0


def _replay_file(name: str) -> "Replay":
    from truespan.answers.decide import replay_json

    try:
        if name == "-":
            text = sys.stdin.read(_MAX_RECORD_SIZE)
        else:
            with Path(name).open(encoding="utf-8") as file:
                text = file.read(_MAX_RECORD_SIZE)
        record = parse_json(text)
    except (OSError, UnicodeDecodeError) as error:
        refusal = InvalidArgument(f"The file {name} of the record cannot be read.")
        raise resource_error(error) or refusal from None
    except JsonError as error:
        raise InvalidArgument(f"The record cannot be used: {error}.") from None
    if isinstance(record, dict) and isinstance(record.get("record"), dict):
        # The output of 'truespan explain --json' contains the record.
        record = record["record"]
    return replay_json(record)


@reader_app.command("set")
def set_position(
    book: Annotated[str, Argument(help="The book: number, id or file name.")],
    reader: ReaderName,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    sentence: Annotated[
        int | None,
        Option(help="Number of the last sentence read; -1 for nothing.", parser=cli.whole_number),
    ] = None,
    through_chapter: Annotated[
        str | None, Option(help="Name or number of the last chapter read to its end.")
    ] = None,
    passage: Annotated[
        str | None, Option(help="Words just read, as they stand in the book.")
    ] = None,
    as_json: cli.Json = False,
) -> None:
    """Record how far a reader has come in a book, and make it the current one."""
    from truespan.cli.output.results import show_positions

    with cli.open_world(library, world) as chosen:
        found, book = chosen.reader(reader), cli.refer_to_document(chosen, book)
        place = found.set(book, sid=sentence, through_chapter=through_chapter, passage=passage)
    echo(to_json(place) if as_json else show_positions([place]))


@reader_app.command("list")
def list_readers(
    world: cli.WorldName = None, library: cli.Folder = None, as_json: cli.Json = False
) -> None:
    """List the readers of a world with their positions."""
    from truespan.cli.output.results import show_readers

    with cli.open_world(library, world) as chosen:
        found = {name: chosen.reader(name).books() for name in chosen.readers()}
    if as_json:
        readers = [{"reader": name, "books": books} for name, books in found.items()]
        echo(to_json({"readers": readers}))
    else:
        say(show_readers(found))


@reader_app.command("show")
def show_reader(
    reader: ReaderName,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    as_json: cli.Json = False,
) -> None:
    """Show how far a reader has come in each book."""
    from truespan.cli.output.results import show_positions

    with cli.open_world(library, world) as chosen:
        books = chosen.reader(reader).books()
    echo(to_json({"reader": reader, "books": books}) if as_json else show_positions(books))


@read_app.command("ask")
@with_shared_options
def ask_book(
    query: Annotated[str, Argument(help="What to ask the book.")],
    reader: ReaderName,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    book: Annotated[str | None, Option(help="The book; the current one if left out.")] = None,
    top_k: TopK = 20,
    mode: cli.SearchMode = None,
    rerank: cli.Rerank = None,
    *,
    passages: "PassageArguments",
    context: cli.ContextOnly = False,
    as_json: cli.Json = False,
) -> int:
    """Find what a book says up to where the reader is, and nothing past it."""
    with cli.open_world(library, world) as chosen:
        found = chosen.reader(reader)
        bundle = found.retrieve(query, book=book, top_k=top_k, mode=mode, rerank=rerank, **passages)
    return _print_bundle(bundle, context=context, as_json=as_json)


def _print_bundle(bundle: "ContextBundle", *, context: bool, as_json: bool) -> int:
    """Print a bundle and return the exit code."""
    if as_json:
        echo(to_json(bundle))
    elif context:
        echo(bundle.context)
    else:
        from truespan.cli.output.results import print_bundle

        print_bundle(bundle)
    return exit_code_of_bundle(bundle)
