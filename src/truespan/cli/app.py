"""The basic commands. Each opens the library, calls the same method there and prints the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truespan.errors import InvalidSettings, WorldExists
from truespan.serialize import chunk_data, to_json

if TYPE_CHECKING:
    from truespan.library import Library
    from truespan.types.request import FilterArguments
    from truespan.world import World

app = typer.Typer(
    name="truespan",
    help="Turn a library of documents into context that can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LibraryPath = Annotated[
    Path | None,
    typer.Option("--library", "-L", help="Folder of the library (or TRUESPAN_LIBRARY)."),
]
WorldName = Annotated[
    str, typer.Option("--world", "-w", envvar="TRUESPAN_WORLD", help="Name or id of the world.")
]
AnyWorld = Annotated[
    str | None, typer.Option("--world", "-w", help="Name or id of the world; default: all.")
]
MaybeWorld = Annotated[
    str | None,
    typer.Option(
        "--world", "-w", envvar="TRUESPAN_WORLD", help="Name or id of the world; not with a domain."
    ),
]
Domain = Annotated[
    str | None, typer.Option("--domain", "-d", help="Use this domain; it selects the world.")
]
Fused = Annotated[
    bool, typer.Option("--fused", help="Rank by the words of the query too (fused search).")
]
Chapter = Annotated[str | None, typer.Option("--chapter", help="Only this chapter.")]
Section = Annotated[str | None, typer.Option("--section", help="Only this section.")]
Documents = Annotated[
    list[str] | None,
    typer.Option("--document", help="Only this document; repeatable."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Only documents with this tag; repeat for all of several."),
]
Here = Annotated[
    bool, typer.Option("--here", help="Run in this process even if there are workers.")
]
NoFollow = Annotated[bool, typer.Option("--no-follow", help="Exit once the job is queued.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from truespan import __version__

        echo(__version__)
        raise typer.Exit


@app.command()
def init(
    library: LibraryPath = None,
    world: Annotated[
        str | None, typer.Option("--world", "-w", help="Create this world too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a library, and a world in it. What exists already is left unchanged."""
    with open_at(library, create=True) as opened:
        if world is not None:
            _make_world(opened, world)
        result = {
            "library": str(folder_of(library).absolute()),
            "worlds": [entry.name for entry in opened.worlds()],
        }
    if as_json:
        echo(to_json(result))
        return
    worlds = ", ".join(result["worlds"]) or "none yet; add one with --world NAME"
    echo(f"Library: {result['library']}\nWorlds: {worlds}")


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to search for.")],
    world: MaybeWorld = None,
    library: LibraryPath = None,
    domain: Domain = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Maximum number of results.")] = 10,
    floor: Annotated[float, typer.Option(help="Minimum similarity, 0.0 to 1.0.")] = 0.15,
    fused: Fused = False,
    context: Annotated[
        bool, typer.Option("--context", help="Print only the context for a model.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the passages closest to a query, each verified as it is read."""
    require_target(world, domain)
    with open_at(library) as opened:
        chosen = named_world(opened, world, domain)
        result = chosen.search(query, top_k=top_k, floor=floor, fused=fused)
    if as_json:
        echo(to_json(result))
    elif context:
        echo(result.context)
    else:
        from truespan.cli.output import print_search

        print_search(result)


@app.command()
def show(
    reference: Annotated[str, typer.Argument(help="A document (number, id, file name) or chunk.")],
    world: WorldName,
    library: LibraryPath = None,
    text: Annotated[bool, typer.Option("--text", help="Print the document's text.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a document or a chunk as the store holds it."""
    from truespan.cli.output import show_chunk, show_document

    with open_at(library) as opened:
        chosen = opened.world(world)
        if _is_chunk(reference):
            record = chosen.documents.chunk(reference)
            echo(to_json(chunk_data(record)) if as_json else show_chunk(record))
            return
        document = chosen.documents.get(reference)
        if text:
            whole = chosen.documents.text(reference)
            echo(to_json({"document": document, "text": whole}) if as_json else whole)
            return
        outline, metadata = (
            chosen.documents.outline(reference),
            chosen.documents.metadata(reference),
        )
        audit = chosen.documents.audit(reference)
    result = {"document": document, "outline": outline, "metadata": metadata, "audit": audit}
    echo(to_json(result) if as_json else show_document(document, outline, metadata, audit))


@app.command()
def status(world: AnyWorld = None, library: LibraryPath = None, as_json: AsJson = False) -> None:
    """Show the worlds of a library, or the documents of one world, with counts."""
    from truespan.cli.output import show_world, show_worlds

    with open_at(library) as opened:
        if world is not None:
            chosen = opened.world(world)
            numbers, documents = chosen.status(), chosen.documents.list()
            result: Any = {"world": chosen.name, "status": numbers, "documents": documents}
            echo(to_json(result) if as_json else show_world(chosen.name, numbers, documents))
            return
        listed = [(entry, opened.world(entry.id).status()) for entry in opened.worlds()]
    result = {
        "worlds": [
            {"world": entry.name, "id": entry.id, "status": numbers} for entry, numbers in listed
        ]
    }
    echo(to_json(result) if as_json else show_worlds(listed))


def echo(text: str) -> None:
    """Print to standard output."""
    typer.echo(text)


def folder_of(library: Path | None) -> Path:
    from truespan.settings import default_library

    return library or default_library()


def open_at(library: Path | None, *, create: bool = False) -> Library:
    """Open the library that is named, or the default one."""
    import truespan

    return truespan.open(folder_of(library), create=create)


def named_world(opened: Library, world: str | None, domain: str | None = None) -> World:
    """Return the world that a command means: by its name, or by a domain's key."""
    if domain is not None:
        return opened.domain(domain, world=world)
    require_target(world, domain)
    return opened.world(world or "")


def filters_from(
    chapter: str | None,
    section: str | None,
    language: str | None,
    version: str | None,
    documents: list[str] | None,
    tags: list[str] | None,
) -> FilterArguments:
    """Return the filters that options give, as the library takes them; 'any' restricts nothing."""
    return {
        "chapter_filter": chapter,
        "section_filter": section,
        "language_constraint": None if language == "any" else language,
        "version_constraint": None if version == "any" else version,
        "documents": documents or None,
        "tags": tags or (),
    }


def require_target(world: str | None, domain: str | None = None) -> None:
    """Refuse a command that names neither a world nor a domain, before anything is opened."""
    if world is None and domain is None:
        raise InvalidSettings("No world was named.", advice="Add --world NAME.")


def _make_world(library: Library, name: str) -> None:
    try:
        library.create_world(name)
    except WorldExists:
        # A set-up script may run twice.
        return


def chosen_worlds(library: Library, world: str | None) -> list[World]:
    """Return the world that is named, or all."""
    if world is not None:
        return [library.world(world)]
    return [library.world(entry.id) for entry in library.worlds()]


def _is_chunk(reference: str) -> bool:
    from uuid import UUID

    try:
        return str(UUID(reference)) == reference.lower()
    except ValueError:
        return False


@app.command()
def mcp(
    world: WorldName,
    library: LibraryPath = None,
    reader: Annotated[
        str | None, typer.Option("--reader", "-r", help="Serve this reader, up to the position.")
    ] = None,
    owner: Annotated[
        bool, typer.Option("--owner", help="Serve the owner, who sees whole documents.")
    ] = False,
) -> int:
    """Serve a model over standard input and output (Model Context Protocol)."""
    # A server that sees whole documents must be asked for explicitly.
    if owner == (reader is not None):
        raise InvalidSettings(
            "Choose who the server is for: a reader, or the owner, who sees whole documents.",
            advice="Add either '--reader NAME' or '--owner'.",
        )
    from truespan.mcp.stdio import serve_owner, serve_reader

    if reader is None:
        return serve_owner(folder_of(library), world)
    return serve_reader(folder_of(library), world, reader)
