"""Commands of the panel "Read without spoilers": readers and their positions, and their notes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from truespan.cli.app import say
from truespan.cli.commands import Argument, CommandGroup, Option
from truespan.cli.options import (
    BookName,
    Json,
    Markdown,
    Place,
    ReaderName,
    describe,
    require_one_format,
    resolve_document,
)
from truespan.cli.terminal import SET_POSITION, echo, table
from truespan.errors import InvalidArgument
from truespan.types.arguments import POSITION_ARGUMENTS
from truespan.wire.serialize import to_json

if TYPE_CHECKING:
    from truespan.types.note import Note
    from truespan.types.reading import ReadingPosition

reader_group = CommandGroup("reader", help="Readers and their positions.")
notes_group = CommandGroup("notes", help="Notes of a reader, seen up to the reader's position.")


@reader_group.register("set")
def set_position(
    book: Annotated[str, Argument(help="The book: number, id or file name.")],
    reader: ReaderName,
    place: Place,
    sentence: Annotated[int | None, describe(POSITION_ARGUMENTS["sentence"])] = None,
    through_chapter: Annotated[str | None, describe(POSITION_ARGUMENTS["through_chapter"])] = None,
    passage: Annotated[str | None, describe(POSITION_ARGUMENTS["passage"])] = None,
    as_json: Json = False,
) -> None:
    """Record a reader's position in a book, and make that book the current one."""
    with place.open() as chosen:
        found, book = chosen.reader(reader), resolve_document(chosen, book)
        position = found.set_position(
            book, sentence=sentence, through_chapter=through_chapter, passage=passage
        )
    echo(to_json(position) if as_json else show_positions([position]))


@reader_group.register("show")
def show_readers(
    place: Place,
    reader: Annotated[str | None, Option("--reader", "-r", help="Only this reader.")] = None,
    as_json: Json = False,
) -> None:
    """Show the readers of a world, or one of them, with their positions."""
    with place.open() as chosen:
        names = chosen.readers() if reader is None else [reader]
        found = {name: chosen.reader(name).books() for name in names}
    if as_json:
        readers = [{"reader": name, "books": books} for name, books in found.items()]
        echo(to_json({"readers": readers} if reader is None else readers[0]))
    else:
        say(list_readers(found) if reader is None else show_positions(found[reader]))


@notes_group.register("show")
def show_notes(
    reader: ReaderName,
    place: Place,
    book: BookName = None,
    search: Annotated[str | None, Option(help="Words that must all occur in a note.")] = None,
    markdown: Markdown = False,
    as_json: Json = False,
) -> None:
    """Show the notes that a reader wrote up to the present position."""
    from truespan.types.note import MAX_NOTE_LIMIT

    require_one_format(markdown=markdown, as_json=as_json)
    if markdown and search is not None:
        raise InvalidArgument("--markdown cannot be combined with --search.")
    with place.open() as chosen:
        found = chosen.reader(reader)
        if markdown:
            echo(found.notes.to_markdown(book=book).rstrip("\n"))
            return
        notes = found.notes.list(book=book, search=search, limit=MAX_NOTE_LIMIT)
    say(to_json({"notes": notes}) if as_json else list_notes(notes))


@notes_group.register("add")
def add_note(
    text: Annotated[str, Argument(help="The note.")],
    reader: ReaderName,
    place: Place,
    book: BookName = None,
    first: Annotated[int | None, Option(help="First sentence that the note marks.")] = None,
    last: Annotated[int | None, Option(help="Last sentence that the note marks.")] = None,
    as_json: Json = False,
) -> None:
    """Write a note at a reader's position; it is visible from there on."""
    with place.open() as chosen:
        note = chosen.reader(reader).notes.add(text, book=book, first=first, last=last)
    if as_json:
        echo(to_json(note))
    else:
        say(f"Wrote note {note.id}, which is seen from sentence {note.sid} of {note.title} on.")


@notes_group.register("remove")
def remove_note(
    id: Annotated[str, Argument(help="Id of the note.")], reader: ReaderName, place: Place
) -> None:
    """Delete a note of a reader."""
    with place.open() as chosen:
        chosen.reader(reader).notes.delete(id)
    say(f"Deleted note {id}.")


def list_notes(notes: Sequence["Note"]) -> str:
    """Show notes with their ids and places."""
    if not notes:
        return "No notes up to the position. 'truespan notes add TEXT --reader NAME' writes one."
    lines: list[str] = []
    for note in notes:
        marked = "" if note.last is None else f", marks sentences {note.first} to {note.last}"
        lines.append(f"{note.id}  {note.title}, written at sentence {note.sid}{marked}")
        if note.quote:
            lines.append(f"  > {' '.join(note.quote.split())}")
        lines.append(f"  {'(damaged)' if note.damaged else note.text}")
    return "\n".join(lines)


def show_positions(positions: Sequence["ReadingPosition"]) -> str:
    """Show the positions of a reader: last sentence and chapter, nothing past them."""
    if not positions:
        return f"No reading position is recorded, so nothing is readable. {SET_POSITION}"
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


def list_readers(found: Mapping[str, Sequence["ReadingPosition"]]) -> str:
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
