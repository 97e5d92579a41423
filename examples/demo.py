"""The demo: six short parts about one mystery, and a last question with two answers.

The library stays in examples/demo-library for use with the `truespan` command. It is no folder of
the current one, where commands look for the only library.
"""

from __future__ import annotations

print("Truespan demo: about 20 seconds, on this machine only. Loading ...", flush=True)

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import apsw
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import truespan
from truespan.cli.follow import progress_bar
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.types.answer import AnswerMode
from truespan.types.bundle import Passage
from truespan.types.chunk import Point
from truespan.types.ids import hash_text

BOOK = Path(__file__).with_name("the-glass-ferry.md")
PAPERS = Path(__file__).with_name("papers") / "library.jsonl"
LIBRARY = Path("examples/demo-library")
SETTINGS = """# Each picture gets a marker in the text, a file, and a chunk that describes it.
docx_extract_images = true
docx_inline_figure_placeholders = true
docx_figure_chunks = true
"""
QUESTIONS = (
    "Which hook at the inn holds the spare key to the tide gauge hut?",
    "What did the stern of the ferry say?",
)
REASONS = {
    "stale_vector": "its vector belongs to other text (stale_vector)",
    "damaged_text": "its text does not match its hash (damaged_text)",
}
LAST_QUESTION = "Who killed him and gave him a dry collar?"

console = Console(highlight=False)
say = console.print


def main() -> None:
    """Run the demo from start to end."""
    LIBRARY.mkdir(parents=True, exist_ok=True)
    (LIBRARY / "truespan.toml").write_text(SETTINGS, encoding="utf-8")
    with truespan.open(LIBRARY, create=True) as library:
        world = ingest(library)
        passages = search(world)
        damage_and_repair(library, world, passages)
        query_selection(world)
        ingest_papers(library)
    query_over_http()
    with truespan.open(LIBRARY) as library:
        query_as_reader(library.world("mysteries"))
    say(
        f"\nThe library is in {LIBRARY}. Try it yourself:\n"
        f'  .venv/bin/truespan ask "Who has a key?" -L {LIBRARY} -w mysteries\n'
        f"  .venv/bin/truespan serve -L {LIBRARY}"
    )


def ingest(library: Library) -> World:
    """Ingest the novella into a world; a second run finds it unchanged."""
    heading("1. Ingest a mystery")
    say("The Glass Ferry has nine chapters. A local model embeds it; no key, no network.")
    world = library.world("mysteries", create=True)
    with progress_bar(hidden=False) as on_progress:
        report = world.ingest(str(BOOK), kind="book", on_progress=on_progress)
    known = "unchanged since the last run" if report.unchanged else "ingested"
    say(f"{world.status().chunks} chunks {known}.")
    return world


def search(world: World) -> list[Passage]:
    """Ask two questions and return the best passage for each."""
    heading("2. Search: every passage comes with a receipt")
    return [ask(world, question) for question in QUESTIONS]


def ask(world: World, question: str) -> Passage:
    """Search, print the best passage and what was skipped, and return the passage."""
    result = world.search(question, top_k=1, floor=0.3)
    best = result.passages[0]
    say(f"[bold]{question}[/bold]")
    show_text(best.text)
    place = f"{best.chapter}, sentences {best.first_sid}-{best.last_sid}"
    say(f"  ✓ verified {best.receipt.text_hash[:12]}  {place}", style="green")
    for skipped in result.skipped:
        say(f"  ! {skipped.count} left out: {REASONS[skipped.code]}", style="yellow")
    return best


def damage_and_repair(library: Library, world: World, passages: list[Passage]) -> None:
    """Damage index and store, ask again, and repair; exit if something is still wrong."""
    heading("3. Damage the index and the store, and ask again")
    outdated, flipped = passages
    restore_old_point(library, world, outdated)
    flip_byte(flipped)
    say("The index now holds a vector of older text; the store has one flipped bit.")
    for question in QUESTIONS:
        ask(world, question)
    world.repair()
    plan = library.doctor([world.name])[world.name]
    state = "nothing to do" if plan.healthy else str(plan.counts())
    say("\nRepair both, as 'truespan repair' does, and compare them:")
    say(f"  {plan.checked_chunks} chunks and {plan.checked_points} points compared, {state}.")
    if not plan.healthy:
        sys.exit(1)


def restore_old_point(library: Library, world: World, passage: Passage) -> None:
    """Damage the index as a lost deletion would: a point of older text under a current id."""
    parts = library._components
    older = f"{passage.text} So it said in an earlier draft."
    parts.index.upsert(
        world.access.scope(),  # type: ignore[arg-type]
        [
            Point(
                chunk_id=passage.chunk_id,
                vector=parts.embedder.embed_documents([older])[0],
                text_hash=hash_text(older),
                document=passage.document,
                pos_start=passage.first_sid,
                pos_end=passage.last_sid,
                pos_reach=passage.last_sid,
                kind=passage.chunk_type,
                chapters=(passage.chapter,),
                sections=(passage.section,),
            )
        ],
    )


def flip_byte(passage: Passage) -> None:
    """Damage the store as a failing disk would."""
    connection = apsw.Connection(str(LIBRARY / "store.db"))
    damaged = bytearray(passage.text.encode())
    damaged[len(damaged) // 2] ^= 1
    connection.execute(
        "UPDATE chunks SET text = CAST(? AS TEXT) WHERE text_hash = ?",
        (bytes(damaged), passage.receipt.text_hash),
    )
    connection.close()


def query_selection(world: World) -> None:
    """Ask about a passage that the user selected."""
    selection = "a stiff white collar fresh from the iron"
    heading(f"4. Ask about a selection: “{selection}”")
    question = "Why does the collar matter?"
    bundle = world.retrieve(question, selected_text=selection, top_k=1)
    [place] = bundle.metadata.located
    say(f"[bold]{question}[/bold]")
    say(f"  The selection is in {place.chapter}, sentence {place.first_sid}.", style="dim")
    show_text(bundle.passages[0].text, lines=4)


def ingest_papers(library: Library) -> None:
    """Ingest the files of a manifest and ask a question that a figure answers."""
    heading("5. Ingest papers from a manifest (Word, HTML)")
    papers = library.world("papers", create=True)
    report = papers.ingest(manifest=PAPERS)
    say(f"{len(report.ingested)} ingested, {report.unchanged} unchanged.")
    question = "How high did the water stand at the gauge?"
    bundle = papers.retrieve(question, top_k=2)
    say(f"[bold]{question}[/bold]")
    for found in bundle.passages:
        say(f"  ✓ {found.score:.3f}  {found.title} ({found.source})", style="green")
    for figure in bundle.metadata.figures:
        say(f"  {figure.relevance_score:.3f}  the figure {figure.image_ref}")


def query_over_http() -> None:
    """Serve the library, query it, in chat and in a missing world, and stop."""
    heading("6. Ask the same over HTTP: truespan serve")
    command = [sys.executable, "-m", "truespan", "serve", "-L", str(LIBRARY), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().rpartition(" ")[2].strip() if server.stdout else ""
            for path, body in (
                ("v1/worlds/mysteries/retrieve", {"query": QUESTIONS[0], "top_k": 2}),
                ("chat", {"query": QUESTIONS[0], "world": "mysteries"}),
                ("v1/worlds/elsewhere/search", {"query": QUESTIONS[0]}),
            ):
                say(f"POST /{path}\n  {post(address + path, body)}", markup=False)
        finally:
            server.terminate()


def post(address: str, body: Mapping[str, object]) -> str:
    """Post a request and return the reply as one line."""
    request = urllib.request.Request(  # noqa: S310 -- our own server, started above.
        address, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as reply:  # noqa: S310
            found = json.load(reply)
            mode = reply.headers.get("X-Answer-Mode")
    except urllib.error.HTTPError as problem:
        error = json.load(problem)
        return f"{problem.code} {error['code']}: {error['detail']}"
    if mode is not None:
        return f"200, X-Answer-Mode: {mode}; {len(found['citations'])} citations"
    return f"200 {found['status']}: {found['total_tokens']} tokens of verified context"


def query_as_reader(world: World) -> None:
    """Ask who did it after two chapters and at the end of the book."""
    heading("7. Read without spoilers: the same question at two positions")
    say(f"[bold]{LAST_QUESTION}[/bold]")
    reader = world.reader("ann")
    for when, chapter in (("After chapter two", "Chapter Two"), ("At the end", "Chapter Nine")):
        place = reader.set_position(BOOK.name, through_chapter=chapter)
        say(f"\n{when}, at sentence {place.sid}:")
        answer = reader.answer(LAST_QUESTION)
        if answer.mode is AnswerMode.FALLBACK:
            show_text(answer.answer, lines=8, style="yellow")
            continue
        found = reader.retrieve(LAST_QUESTION, top_k=1, granularity="sentence")
        [best] = found.retrieved_chunks
        show_text(best.content, lines=8)
        say(f"  ✓ {best.relevance_score:.3f}  {best.chapter}", style="green")


def show_text(text: str, lines: int = 3, style: str = "") -> None:
    """Print the beginning of a text, indented."""
    wrapped = Text(" ".join(text.split())).wrap(console, min(console.width, 96) - 4)
    for line in wrapped[:lines]:
        say(f"  {line.plain.rstrip()}", markup=False, soft_wrap=True, style=style)
    if len(wrapped) > lines:
        say("  ...", markup=False)


def heading(text: str) -> None:
    say()
    say(Rule(text, align="left"))


if __name__ == "__main__":
    main()
