"""Commands of the panel "Ask": search, retrieve, answers and conversations."""

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import truespan.cli.app as cli
from truespan.cli.advice import say
from truespan.cli.options import TopK, with_shared_options
from truespan.cli.terminal import confirm, echo
from truespan.errors import InvalidArgument
from truespan.wire.serialize import exit_code_of_bundle, record_data, to_json

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation
    from truespan.engine.reader import Reader
    from truespan.engine.world import World
    from truespan.types.bundle import ContextBundle
    from truespan.types.request import FilterArguments, PassageArguments

conversations_app = cli.command_group("conversations", "Conversations and their turns.")

OfReader = Annotated[str | None, Option("--reader", "-r", help="Those of this reader.")]
ConversationId = Annotated[str, Argument(help="Id of the conversation, or 'latest'.", metavar="ID")]
LATEST = "latest"
"""Names the conversation with the latest turn."""


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
        from truespan.cli.output.ask import print_search

        print_search(result)


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
    from truespan.cli.output.ask import print_answer

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


@with_shared_options
def chat(
    world: cli.WorldName = None,
    library: cli.Folder = None,
    domain: cli.Domain = None,
    generation: cli.GenerationNumber = None,
    reader: Annotated[
        str | None, Option("--reader", "-r", help="Answer from what this reader has read.")
    ] = None,
    book: Annotated[str | None, Option(help="The reader's book; default: the current one.")] = None,
    conversation: Annotated[
        str | None,
        Option(
            "--conversation", "-c", help="Continue the conversation with this id, or the 'latest'."
        ),
    ] = None,
    *,
    filters: "FilterArguments",
    mode: cli.SearchMode = None,
    rerank: cli.Rerank = None,
    passages: "PassageArguments",
    as_json: cli.Json = False,
) -> int:
    """Ask questions that may follow up on earlier ones; piped input is one question a line."""
    from truespan.cli.chat_session import ChatSession

    if book is not None and reader is None:
        raise InvalidArgument("--book needs a reader.", advice="Add '--reader NAME'.")
    if reader is not None and any(filters.values()):
        raise InvalidArgument("Filters cannot be combined with --reader.")
    with cli.open_at(library) as opened:
        chosen = cli.named_world(opened, world, domain, generation)
        options: dict[str, Any] = {"mode": mode, "rerank": rerank, **passages}
        if opened.chat_model is None and not as_json:
            # Without a model the answer is what was found: for people the best sentences.
            options.setdefault("granularity", "sentence")
        if reader is None:
            owner, begin = chosen, chosen.conversation
            continues = "truespan chat --conversation"
            options |= filters
        else:
            owner = person = chosen.reader(reader)
            begin = partial(person.conversation, book=book)
            continues = f"truespan chat --reader {shlex.quote(reader)} --conversation"
        if conversation is not None:
            conversation = _resolve(owner, conversation)
        session = ChatSession(begin, conversation, options, advice=continues, as_json=as_json)
        return session.run()


@conversations_app.command("list")
def list_conversations(
    world: cli.WorldName = None,
    library: cli.Folder = None,
    reader: OfReader = None,
    book: Annotated[str | None, Option(help="Only those about this book of the reader.")] = None,
    limit: Annotated[
        int, Option(help="Maximum number of conversations.", parser=cli.whole_number)
    ] = 50,
    as_json: cli.Json = False,
) -> None:
    """List the conversations of a world or a reader, the latest first."""
    from truespan.cli.output.conversations import show_conversations

    with cli.open_world(library, world) as chosen:
        if reader is not None:
            found = chosen.reader(reader).conversations(book=book, limit=limit)
        elif book is not None:
            raise InvalidArgument("--book needs a reader.", advice="Add '--reader NAME'.")
        else:
            found = chosen.conversations(limit=limit)
    if as_json:
        echo(to_json({"conversations": [record_data(info) for info in found]}))
    else:
        say(show_conversations(found, reader))


@conversations_app.command("show")
def show_conversation(
    conversation: ConversationId,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    reader: OfReader = None,
    as_json: cli.Json = False,
) -> None:
    """Show the questions and answers of a conversation."""
    from truespan.cli.output.conversations import show_with_turns

    with cli.open_world(library, world) as chosen:
        found = _open(chosen, reader, conversation)
        shown = found.export() if as_json else (found.info(), found.turns())
    if isinstance(shown, dict):
        echo(to_json(shown))
    else:
        echo(show_with_turns(*shown))


@conversations_app.command("export")
def export_conversation(
    conversation: ConversationId,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    reader: OfReader = None,
    format: Annotated[str, Option("--format", "-f", help="json or markdown.")] = "json",
) -> None:
    """Print a conversation as JSON or Markdown."""
    if format not in ("json", "markdown"):
        raise InvalidArgument(f"There is no format {format!r}.", advice="Use json or markdown.")
    with cli.open_world(library, world) as chosen:
        found = _open(chosen, reader, conversation)
        text = found.to_markdown() if format == "markdown" else to_json(found.export()) + "\n"
    echo(text, nl=False)


@conversations_app.command("delete")
def delete_conversation(
    conversation: Annotated[
        str | None, Argument(help="Id of the conversation, or 'latest'.", metavar="[ID]")
    ] = None,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    reader: OfReader = None,
    every: Annotated[
        bool,
        Option(
            "--all", help="Delete all conversations of the world, or with --reader of that one."
        ),
    ] = False,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Do not ask; needed with --all without a terminal.")
    ] = False,
    no_erase: Annotated[
        bool, Option("--no-erase", help="Leave erasing from files to 'truespan repair'.")
    ] = False,
    as_json: cli.Json = False,
) -> None:
    """Delete a conversation permanently, or all of a world or a reader."""
    from truespan.cli.output.conversations import show_deleted

    if every == (conversation is not None):
        raise InvalidArgument("Name a conversation, or pass --all.")
    asks = not (yes or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
    with cli.open_world(library, world) as chosen:
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
    """Return a stored conversation of a world or of a reader."""
    owner = world if reader is None else world.reader(reader)
    return owner.conversation(_resolve(owner, conversation))


def _resolve(owner: "World | Reader", conversation: str) -> str:
    """Return the id of the latest conversation if that is meant."""
    found = owner.conversations(limit=1) if conversation == LATEST else []
    return found[0].id if found else conversation


@with_shared_options
def retrieve(
    query: Annotated[str | None, Argument(help="What to search for.")] = None,
    world: cli.WorldName = None,
    library: cli.Folder = None,
    domain: cli.Domain = None,
    generation: cli.GenerationNumber = None,
    reader: Annotated[
        str | None, Option("--reader", "-r", help="Only from what this reader has read.")
    ] = None,
    book: Annotated[str | None, Option(help="The reader's book; default: the current one.")] = None,
    selected: Annotated[
        str | None, Option(help="A selected text: it ranks, or scopes a query.")
    ] = None,
    top_k: Annotated[
        int | None,
        Option(
            "--top-k",
            "-k",
            help="Maximum number of passages; default: 5, or 20 for a reader.",
            parser=cli.whole_number,
        ),
    ] = None,
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
    from truespan.types.request import READING_TOP_K, RETRIEVAL_TOP_K

    if reader is None and book is not None:
        raise InvalidArgument("--book needs a reader.", advice="Add '--reader NAME'.")
    if reader is not None and (any(filters.values()) or selected or near_misses):
        raise InvalidArgument("Filters, --selected and --near-misses exclude --reader.")
    with cli.open_world(library, world, domain, generation) as chosen:
        if reader is not None:
            if query is None:
                raise InvalidArgument("A reader's request needs a query.")
            bundle = chosen.reader(reader).retrieve(
                query,
                book=book,
                top_k=READING_TOP_K if top_k is None else top_k,
                mode=mode,
                rerank=rerank,
                **passages,
            )
        else:
            bundle = chosen.retrieve(
                query,
                selected_text=selected,
                near_misses=near_misses,
                top_k=RETRIEVAL_TOP_K if top_k is None else top_k,
                mode=mode,
                rerank=rerank,
                **passages,
                **filters,
            )
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
    return exit_code_of_bundle(bundle)
