"""Commands for context in budget and for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
from truespan.serialize import exit_code_of_bundle, to_json

if TYPE_CHECKING:
    from truespan.types.bundle import ContextBundle

reader_app = typer.Typer(help="Readers and how far they have come.", no_args_is_help=True)
read_app = typer.Typer(help="Ask a book as a reader of it.", no_args_is_help=True)
app.add_typer(reader_app, name="reader")
app.add_typer(read_app, name="read")

ReaderName = Annotated[str, typer.Option("--reader", "-r", help="Name of the reader.")]


@app.command()
def retrieve(
    query: Annotated[str | None, typer.Argument(help="What to search for.")] = None,
    world: MaybeWorld = None,
    library: LibraryPath = None,
    domain: Domain = None,
    selected: Annotated[
        str | None, typer.Option("--selected", help="A selected text: it ranks, or scopes a query.")
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Most chunks, 1 to 20.")] = 5,
    chapter: Chapter = None,
    section: Section = None,
    language: Annotated[str, typer.Option(help="Only this language; 'any' for all.")] = "en",
    version: Annotated[str, typer.Option(help="Only this version label; 'any' for all.")] = "1.0",
    documents: Documents = None,
    tags: Tags = None,
    near_misses: Annotated[
        bool, typer.Option("--near-misses", help="Show what lay just below the floor.")
    ] = False,
    fused: Fused = False,
    context: Annotated[
        bool, typer.Option("--context", help="Print only the context for a model.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Assemble context for a query or a selection within the token budget."""
    require_target(world, domain)
    with open_at(library) as opened:
        bundle = named_world(opened, world, domain).retrieve(
            query,
            selected_text=selected,
            top_k=top_k,
            near_misses=near_misses,
            fused=fused,
            **filters_from(chapter, section, language, version, documents, tags),
        )
    _show(bundle, context=context, as_json=as_json)
    return exit_code_of_bundle(bundle)


@reader_app.command("set")
def set_position(
    book: Annotated[str, typer.Argument(help="The book: number, id or file name.")],
    reader: ReaderName,
    world: WorldName,
    library: LibraryPath = None,
    sentence: Annotated[
        int | None, typer.Option(help="Number of the last sentence read; -1 for nothing.")
    ] = None,
    through_chapter: Annotated[
        str | None, typer.Option(help="Name or number of the last chapter read to its end.")
    ] = None,
    passage: Annotated[
        str | None, typer.Option(help="Words just read, as they stand in the book.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record how far a reader has come in a book, and make it the current one."""
    from truespan.cli.output import show_whereabouts

    with open_at(library) as opened:
        found = (
            opened.world(world)
            .reader(reader)
            .set(book, sid=sentence, through_chapter=through_chapter, passage=passage)
        )
    echo(to_json(found) if as_json else show_whereabouts([found]))


@reader_app.command("show")
def show_positions(
    reader: ReaderName, world: WorldName, library: LibraryPath = None, as_json: AsJson = False
) -> None:
    """Show how far a reader has come in each book."""
    from truespan.cli.output import show_whereabouts

    with open_at(library) as opened:
        found = opened.world(world).reader(reader).books()
    echo(to_json({"reader": reader, "books": found}) if as_json else show_whereabouts(found))


@read_app.command()
def ask(
    query: Annotated[str, typer.Argument(help="What to ask the book.")],
    reader: ReaderName,
    world: WorldName,
    library: LibraryPath = None,
    book: Annotated[str | None, typer.Option(help="The book; the current one if left out.")] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Most chunks, 1 to 20.")] = 20,
    context: Annotated[
        bool, typer.Option("--context", help="Print only the context for a model.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Find what a book says up to where the reader is, and nothing past it."""
    with open_at(library) as opened:
        bundle = opened.world(world).reader(reader).retrieve(query, book=book, top_k=top_k)
    _show(bundle, context=context, as_json=as_json)
    return exit_code_of_bundle(bundle)


def _show(bundle: ContextBundle, *, context: bool, as_json: bool) -> None:
    if as_json:
        echo(to_json(bundle))
    elif context:
        echo(bundle.context)
    else:
        from truespan.cli.output import print_bundle

        print_bundle(bundle)
