"""Commands of the panel "Read without spoilers": readers and their positions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from truespan.cli.app import say
from truespan.cli.commands import Argument, command_group
from truespan.cli.options import (
    Folder,
    Json,
    ReaderName,
    WorldName,
    describe,
    open_world,
    resolve_document,
)
from truespan.cli.terminal import echo, table
from truespan.types.arguments import POSITION_ARGUMENTS
from truespan.wire.serialize import to_json

if TYPE_CHECKING:
    from truespan.types.reading import ReadingPosition

reader_group = command_group("reader", "Readers and their positions.")


@reader_group.register("set")
def set_position(
    book: Annotated[str, Argument(help="The book: number, id or file name.")],
    reader: ReaderName,
    world: WorldName = None,
    library: Folder = None,
    sentence: Annotated[int | None, describe(POSITION_ARGUMENTS["sentence"])] = None,
    through_chapter: Annotated[str | None, describe(POSITION_ARGUMENTS["through_chapter"])] = None,
    passage: Annotated[str | None, describe(POSITION_ARGUMENTS["passage"])] = None,
    as_json: Json = False,
) -> None:
    """Record a reader's position in a book, and make that book the current one."""
    with open_world(library, world) as chosen:
        found, book = chosen.reader(reader), resolve_document(chosen, book)
        place = found.set_position(
            book, sentence=sentence, through_chapter=through_chapter, passage=passage
        )
    echo(to_json(place) if as_json else show_positions([place]))


@reader_group.register("list")
def list_readers(world: WorldName = None, library: Folder = None, as_json: Json = False) -> None:
    """List the readers of a world with their positions."""
    with open_world(library, world) as chosen:
        found = {name: chosen.reader(name).books() for name in chosen.readers()}
    if as_json:
        readers = [{"reader": name, "books": books} for name, books in found.items()]
        echo(to_json({"readers": readers}))
    else:
        say(show_readers(found))


@reader_group.register("show")
def show_reader(
    reader: ReaderName, world: WorldName = None, library: Folder = None, as_json: Json = False
) -> None:
    """Show the positions of a reader."""
    with open_world(library, world) as chosen:
        books = chosen.reader(reader).books()
    echo(to_json({"reader": reader, "books": books}) if as_json else show_positions(books))


def show_positions(positions: Sequence["ReadingPosition"]) -> str:
    """Show the positions of a reader: last sentence and chapter, nothing past them."""
    if not positions:
        return "No reading position is recorded, so nothing is readable."
    lines: list[str] = []
    for place in positions:
        mark = " (current)" if place.current else ""
        if place.sid < 0:
            lines.append(f"{place.title}{mark}: nothing read yet")
            continue
        chapter = f", {place.chapter}" if place.chapter else ""
        lines.append(f"{place.title}{mark}: read to sentence {place.sid}{chapter}")
        lines.append(f"  last read: {' '.join((place.last_sentence or '').split())}")
    return "\n".join(lines)


def show_readers(found: Mapping[str, Sequence["ReadingPosition"]]) -> str:
    """Show readers and their positions, one book on each line."""
    if not found:
        return "No readers yet. 'truespan reader set BOOK --reader NAME' records a position."
    rows: list[tuple[object, ...]] = [("reader", "book", "read to sentence", "chapter")]
    for name, positions in found.items():
        for place in positions:
            mark = " (current)" if place.current else ""
            sid = place.sid if place.sid >= 0 else "-"
            rows.append((name, f"{place.title}{mark}", sid, place.chapter or ""))
    return "\n".join(table(rows))
