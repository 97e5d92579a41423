"""Commands of the panel "Ask": search, retrieve, answers and conversations."""

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

from truespan.cli.app import say
from truespan.cli.commands import Argument, CommandGroup, Option
from truespan.cli.options import (
    BookName,
    Confirmed,
    ContextOnly,
    Json,
    Markdown,
    NoErase,
    Place,
    Query,
    QueryOptions,
    SignTo,
    Target,
    TopK,
    describe,
    require_one_format,
    write_receipt,
)
from truespan.cli.terminal import confirm, echo
from truespan.errors import InvalidArgument
from truespan.tables import member
from truespan.types.arguments import DEFAULT_TOP_K, QUERY_ARGUMENTS, READING_TOP_K, RETRIEVAL_TOP_K
from truespan.wire.serialize import exit_code_of, record_data, to_json

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation
    from truespan.engine.reader import Reader
    from truespan.engine.world import World
    from truespan.types.bundle import ContextBundle
    from truespan.types.request import FilterArguments

conversations_group = CommandGroup("conversations", help="Conversations and their turns.")

AsReader = Annotated[
    str | None, Option("--reader", "-r", help="Answer from what this reader has read.")
]
OfReader = Annotated[str | None, Option("--reader", "-r", help="Use conversations of this reader.")]
LATEST = "latest"
"""Names the conversation with the latest turn."""


def search(
    query: Query,
    target: Target,
    options: QueryOptions,
    top_k: TopK = DEFAULT_TOP_K,
    floor: Annotated[float | None, describe(QUERY_ARGUMENTS["floor"])] = None,
    full: Annotated[
        bool, Option(help="Print whole passages, not only the best sentence of each.")
    ] = False,
    context: ContextOnly = False,
    sign: SignTo = None,
    as_json: Json = False,
) -> None:
    """Find the passages closest to a query, each verified as it is read."""
    with target.open_world() as world:
        mode = options.mode or world.defaults.values.mode
        # A terminal shows the words that were searched for, corrected ones and compounds too. Only
        # similarity marks no words, and its best sentences would have to be embedded.
        marks_words = sys.stdout.isatty() and not (as_json or context) and mode != "vector"
        result = world.search(
            query,
            top_k=top_k,
            floor=floor,
            highlight=marks_words,
            **options.passages(),
            **options.filters(),
        )
        write_receipt(sign, world, result)
    if as_json:
        echo(to_json(result))
    elif context:
        echo(result.context)
    else:
        from truespan.cli.output.ask import print_search

        print_search(result, query, full=full)


def ask(
    words: Annotated[
        list[str],
        Argument(
            help="The question; files and folders before it are asked instead of a library.",
            metavar="[SOURCE]... QUESTION",
        ),
    ],
    target: Target,
    options: QueryOptions,
    reader: AsReader = None,
    book: BookName = None,
    stream: Annotated[
        bool | None, Option("--stream/--no-stream", help="Print the answer as it is generated.")
    ] = None,
    sign: SignTo = None,
    as_json: Json = False,
) -> None:
    """Answer a question from the documents, with citations and checked quotes.

    'truespan ask book.epub "Who is the murderer?"' asks a file or folder without a library of your
    own: it is read into one in your cache folder, once.
    """
    from truespan.cli.output.ask import print_answer
    from truespan.cli.sources import open_asked, split_question

    chosen = options.filters()
    _check_reader(reader, book, chosen)
    sources, question = split_question(words)
    with open_asked(target, sources, reader, hidden=as_json) as world:
        passages = options.passages()
        if sign is not None:
            # Before a model is asked.
            member("truespan.require_key", "proof")(world)
        if reader is None:
            events = world.answer_stream(question, **passages, **chosen)
        else:
            person = world.reader(reader)
            events = person.answer_stream(question, book, **passages)
        answer = print_answer(events, as_json=as_json, stream=stream)
        write_receipt(sign, world, answer)


def chat(
    target: Target,
    options: QueryOptions,
    sources: Annotated[
        list[str] | None,
        Argument(help="Files and folders to ask instead of a library.", metavar="[SOURCE]..."),
    ] = None,
    reader: AsReader = None,
    book: BookName = None,
    conversation: Annotated[
        str | None,
        Option(
            "--conversation", "-c", help="Continue the conversation with this id, or the 'latest'."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Ask questions that may follow up on earlier ones; piped input is one question a line."""
    from truespan.cli.chat_session import ChatSession
    from truespan.cli.sources import open_asked, require_sources

    chosen = options.filters()
    _check_reader(reader, book, chosen)
    require_sources(sources or ())
    with open_asked(target, sources or (), reader, hidden=as_json) as world:
        arguments = options.passages()
        if reader is None:
            owner, begin = world, world.conversation
            command = None if sources else "truespan chat --conversation"
            arguments |= chosen
        else:
            owner = person = world.reader(reader)
            begin = partial(person.conversation, book=book)
            command = f"truespan chat --reader {shlex.quote(reader)} --conversation"
        if conversation is not None:
            conversation = _resolve(owner, conversation)
        session = ChatSession(begin, conversation, arguments, advice=command, as_json=as_json)
        return session.run()


def _check_reader(reader: str | None, book: str | None, filters: "FilterArguments") -> None:
    if reader is None and book is not None:
        raise InvalidArgument("--book needs a reader.", advice="Add '--reader NAME'.")
    if reader is not None and any(filters.values()):
        raise InvalidArgument("Filters cannot be combined with --reader.")


@conversations_group.register("show")
def show_conversations(
    place: Place,
    conversation: Annotated[
        str | None, Argument(help="Show the turns of this one; or 'latest'.", metavar="[ID]")
    ] = None,
    reader: OfReader = None,
    book: Annotated[str | None, Option(help="Only those about this book of the reader.")] = None,
    limit: Annotated[int, Option(help="Maximum number of conversations.")] = 50,
    markdown: Markdown = False,
    as_json: Json = False,
) -> None:
    """List the conversations of a world or a reader, the latest first, or show one with its turns.

    With --json, one is exported whole.
    """
    from truespan.cli.output import ask as output

    require_one_format(markdown=markdown, as_json=as_json)
    if markdown and conversation is None:
        raise InvalidArgument("--markdown needs the id of a conversation.")
    if book is not None and (reader is None or conversation is not None):
        raise InvalidArgument("--book lists conversations of a reader.")
    with place.open() as chosen:
        if conversation is None:
            if reader is None:
                infos = chosen.conversations(limit=limit)
            else:
                infos = chosen.reader(reader).conversations(book=book, limit=limit)
            data = {"conversations": [record_data(info) for info in infos]}
            say(to_json(data) if as_json else output.show_conversations(infos, reader))
            return
        one = _open(chosen, reader, conversation)
        if markdown:
            echo(one.to_markdown(), nl=False)
        elif as_json:
            echo(to_json(one.export()))
        else:
            echo(output.show_with_turns(one.info(), one.turns()))


@conversations_group.register("delete")
def delete_conversation(
    place: Place,
    conversation: Annotated[
        str | None, Argument(help="Id of the conversation, or 'latest'.", metavar="[ID]")
    ] = None,
    reader: OfReader = None,
    every: Annotated[
        bool,
        Option(
            "--all", help="Delete all conversations of the world, or with --reader of that one."
        ),
    ] = False,
    yes: Confirmed = False,
    no_erase: NoErase = False,
    as_json: Json = False,
) -> None:
    """Delete a conversation permanently, or all of a world or a reader."""
    from truespan.cli.output.ask import show_deleted

    if every == (conversation is not None):
        raise InvalidArgument("Name a conversation, or pass --all.")
    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    with place.open() as chosen:
        owner = chosen if reader is None else chosen.reader(reader)
        of = f"world {chosen.name!r}" if reader is None else f"reader {reader!r}"
        found = None if conversation is None else _open(chosen, reader, conversation)
        if asks:
            what = f"all conversations of {of}"
            if found is not None:
                what = f"the conversation {found.info().title!r}"
            if not confirm(f"Delete {what}?"):
                echo("Nothing was deleted.")
                return
        elif every and not yes:
            raise InvalidArgument(
                f"This deletes all conversations of {of}.", advice="Add --yes to do it."
            )
        if found is not None:
            receipt = found.delete(erase=not no_erase)
        else:
            receipt = owner.delete_conversations(erase=not no_erase)
    say(to_json({"receipt": receipt.to_json()}) if as_json else show_deleted(receipt))


def _open(world: "World", reader: str | None, conversation: str) -> "Conversation":
    owner = world if reader is None else world.reader(reader)
    return owner.conversation(_resolve(owner, conversation))


def _resolve(owner: "World | Reader", conversation: str) -> str:
    """Return the id of the latest conversation if that is meant."""
    found = owner.conversations(limit=1) if conversation == LATEST else []
    return found[0].id if found else conversation


def retrieve(
    target: Target,
    options: QueryOptions,
    query: Annotated[str | None, Argument(help=QUERY_ARGUMENTS["query"].description)] = None,
    reader: Annotated[
        str | None, Option("--reader", "-r", help="Only from what this reader has read.")
    ] = None,
    book: BookName = None,
    selected: Annotated[str | None, describe(QUERY_ARGUMENTS["selected_text"])] = None,
    top_k: Annotated[
        int | None,
        describe(
            QUERY_ARGUMENTS["top_k"],
            *("--top-k", "-k"),
            note=f"Default: {RETRIEVAL_TOP_K}, or {READING_TOP_K} for a reader.",
        ),
    ] = None,
    near_misses: Annotated[bool, describe(QUERY_ARGUMENTS["near_misses"], "--near-misses")] = False,
    notes: Annotated[bool, describe(QUERY_ARGUMENTS["notes"], "--notes")] = False,
    context: ContextOnly = False,
    sign: SignTo = None,
    as_json: Json = False,
) -> int:
    """Assemble context for a query or a selection within the token budget."""
    chosen = options.filters()
    _check_reader(reader, book, chosen)
    if reader is None and notes:
        raise InvalidArgument("--notes needs a reader.", advice="Add '--reader NAME'.")
    if reader is not None and (selected or near_misses):
        raise InvalidArgument("--selected and --near-misses cannot be combined with --reader.")
    if reader is not None and query is None:
        raise InvalidArgument("A reader's request needs a query.")
    with target.open_world() as world:
        if reader is not None and query is not None:
            bundle = world.reader(reader).retrieve(
                query,
                book=book,
                top_k=READING_TOP_K if top_k is None else top_k,
                notes=notes,
                **options.passages(),
            )
        else:
            bundle = world.retrieve(
                query,
                selected_text=selected,
                top_k=RETRIEVAL_TOP_K if top_k is None else top_k,
                near_misses=near_misses,
                **options.passages(),
                **chosen,
            )
        write_receipt(sign, world, bundle)
    return report_bundle(bundle, context=context, as_json=as_json)


def report_bundle(bundle: "ContextBundle", *, context: bool, as_json: bool) -> int:
    """Print a bundle and return the exit code."""
    if as_json:
        echo(to_json(bundle))
    elif context:
        echo(bundle.context)
    else:
        from truespan.cli.output.ask import print_bundle

        print_bundle(bundle)
    return 0 if bundle.error is None else exit_code_of(bundle.error.code)
