"""Commands of the panel "Read without spoilers": readers and their positions."""

from typing import Annotated

from typer import Argument, Option

import truespan.cli.app as cli
from truespan.cli.advice import say
from truespan.cli.terminal import echo
from truespan.wire.serialize import to_json

reader_app = cli.command_group("reader", "Readers and how far they have come.")

ReaderName = Annotated[str, Option("--reader", "-r", help="Name of the reader.")]


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
    from truespan.cli.output.read import show_positions

    with cli.open_world(library, world) as chosen:
        found, book = chosen.reader(reader), cli.refer_to_document(chosen, book)
        place = found.set_position(
            book, sentence=sentence, through_chapter=through_chapter, passage=passage
        )
    echo(to_json(place) if as_json else show_positions([place]))


@reader_app.command("list")
def list_readers(
    world: cli.WorldName = None, library: cli.Folder = None, as_json: cli.Json = False
) -> None:
    """List the readers of a world with their positions."""
    from truespan.cli.output.read import show_readers

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
    from truespan.cli.output.read import show_positions

    with cli.open_world(library, world) as chosen:
        books = chosen.reader(reader).books()
    echo(to_json({"reader": reader, "books": books}) if as_json else show_positions(books))
