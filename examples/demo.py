"""The demo: ingest a mystery, ask three questions, damage the library and repair it.

Then query as a reader, ask about a selection, ingest papers with a manifest, ask for an answer,
build another generation, and query over HTTP.

The library stays in ./demo-library for use with the `truespan` command.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import apsw
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

import truespan
from truespan.cli.follow import progress_bar
from truespan.cli.output import (
    print_bundle,
    print_search,
    show_account,
    show_repairs,
    show_worlds,
)
from truespan.cli.output_reports import (
    show_dry_run,
    show_generations,
    show_ingest,
    show_promotion,
    show_reindex,
)
from truespan.library import Library
from truespan.types.bundle import Passage
from truespan.types.chunk import Point
from truespan.types.ids import hash_text
from truespan.world import World

BOOK = Path(__file__).with_name("the-glass-ferry.md")
PAPERS = Path(__file__).with_name("papers") / "library.jsonl"
LIBRARY = Path("demo-library")
SETTINGS = """# Each picture gets a marker in the text, a file, and a chunk that describes it.
docx_extract_images = true
docx_inline_figure_placeholders = true
docx_figure_chunks = true
# Personal data is counted and not replaced.
sanitize_enabled = "shadow"
"""
QUESTIONS = (
    "Which hook at the inn holds the spare key to the tide gauge hut?",
    "What kind of collar was the dead man wearing?",
    "What was found in the pocket of Roake's coat?",
)

console = Console(highlight=False)


def main() -> None:
    """Run the demo from start to end."""
    LIBRARY.mkdir(exist_ok=True)
    (LIBRARY / "truespan.toml").write_text(SETTINGS, encoding="utf-8")
    with truespan.open(LIBRARY, create=True) as library:
        world = ingest(library)
        passages = [ask(world, question) for question in QUESTIONS]
        stale, damaged = choose_two(passages)
        restore_old_point(library, world, stale)
        flip_byte(damaged)
        heading("Damage: an outdated point in the index, a flipped bit in the store")
        for question, broken in zip(QUESTIONS, passages, strict=True):
            if broken.chunk_id in (stale.chunk_id, damaged.chunk_id):
                ask(world, question)
        heading("truespan repair")
        console.print(show_worlds([(record, world.status()) for record in library.worlds()]))
        console.print(show_repairs({world.name: world.repair()}))
        heading("The same questions again: everything is verified")
        for question in QUESTIONS:
            ask(world, question, brief=True)
        check_with_doctor(library)
        query_as_reader(world)
        query_selection(world)
        ingest_papers(library)
        ask_for_answer(world)
        build_generation(world)
    query_over_http()
    console.print(
        f"\nThe library is in ./{LIBRARY}. Try:\n"
        f'  .venv/bin/truespan search "Who was on the jetty?" -L {LIBRARY} -w mysteries -k 3\n'
        f"  .venv/bin/truespan status -L {LIBRARY} -w mysteries\n"
        f"  .venv/bin/truespan serve -L {LIBRARY}   # then open http://127.0.0.1:8700/"
    )


def ingest(library: Library) -> World:
    """Ingest the novella into a world; a second run finds it unchanged."""
    heading("Ingesting The Glass Ferry, a mystery in nine chapters")
    world = library.world("mysteries", create=True)
    with progress_bar(hidden=False) as on_progress:
        report = world.ingest(str(BOOK), kind="book", on_progress=on_progress)
    console.print(show_ingest(report))
    return world


def ask(world: World, question: str, *, brief: bool = False) -> Passage:
    """Search, print the two best passages and return the best."""
    if not brief:
        heading(question)
    result = world.search(question, top_k=2, floor=0.3)
    if brief:
        best = result.results[0]
        console.print(f"✓ {best.score:.3f}  {best.chapter}: {question}")
    else:
        print_search(result)
    return result.results[0]


def choose_two(passages: list[Passage]) -> tuple[Passage, Passage]:
    """Return two different passages to damage."""
    first = passages[0]
    second = next(passage for passage in passages if passage.chunk_id != first.chunk_id)
    return first, second


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
                kind=passage.kind,
                chapter=passage.chapter,
                section=passage.section,
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


def check_with_doctor(library: Library) -> None:
    """Compare every chunk with its point; exit if something is wrong."""
    plan = library.doctor(["mysteries"])["mysteries"]
    console.print(
        f"doctor: {plan.checked_chunks} chunks and {plan.checked_points} points compared, "
        f"{'nothing to do' if plan.healthy else plan.counts()}"
    )
    if not plan.healthy:
        sys.exit(1)


def query_as_reader(world: World) -> None:
    """Ask the same question at three positions in the book, side by side."""
    heading("Who did it? The same question after chapters two, five and nine")
    reader = world.reader("ann")
    columns = []
    for through in ("2", "5", "9"):
        place = reader.set(BOOK.name, through_chapter=through)
        bundle = reader.retrieve("Who did it, and who confessed to the murder?", top_k=1)
        best = bundle.retrieved_chunks[0]
        columns.append(
            Panel(
                Text.assemble(
                    (f"read to sentence {place.sid}:\n", "dim"),
                    (f"{shorten(place.last_sentence or '', 90)}\n\n", "italic"),
                    (f"{best.chapter} ({best.relevance_score:.3f})\n", "bold"),
                    shorten(best.content, 330),
                ),
                title=shorten(place.chapter or "", 24),
                width=max(console.width // 3 - 1, 30),
            )
        )
    console.print(Columns(columns))


def query_selection(world: World) -> None:
    """Ask about a passage that the user selected."""
    selection = "a stiff white collar fresh from the iron"
    heading(f"About a selection: “{selection}”")
    bundle = world.retrieve("Why does the collar matter?", selected_text=selection, top_k=2)
    print_bundle(bundle)


def ingest_papers(library: Library) -> None:
    """Ingest the files of a manifest: a dry run, the run, then a question."""
    heading("A manifest of papers (Word, HTML): a dry run")
    papers = library.world("papers", create=True)
    console.print(show_dry_run(papers.plan_ingest(manifest=PAPERS)))
    heading("The run, and a question that a figure answers")
    console.print(show_ingest(papers.ingest(manifest=PAPERS)))
    print_bundle(papers.retrieve("How high did the water stand at the gauge?", top_k=2))


def ask_for_answer(world: World) -> None:
    """Ask for an answer; without a chat model it consists of the best passages."""
    heading("truespan ask, without a chat model: passages, quoted and cited")
    answer = world.answer(QUESTIONS[0])
    console.print("\n".join(answer.answer.splitlines()[:7]), "\n...", markup=False)
    console.print(show_account(answer), markup=False)


def build_generation(world: World) -> None:
    """Build a generation with another chunking, promote it, and roll back."""
    heading("A second generation: built, verified, promoted, rolled back")
    with progress_bar(hidden=False) as on_progress:
        built = world.generations.reindex(chunking="tokens", on_progress=on_progress)
    console.print(show_reindex(built), markup=False)
    console.print(show_promotion(world.generations.promote(built.generation)), markup=False)
    console.print(show_generations(world.generations.list()), markup=False, soft_wrap=True)
    console.print(show_promotion(world.generations.rollback()), markup=False)
    world.generations.remove(built.generation)


def query_over_http() -> None:
    """Serve the library, query it as a reader, in chat and in a missing world, and stop."""
    heading("truespan serve: the same over HTTP")
    command = [sys.executable, "-m", "truespan", "serve", "-L", str(LIBRARY), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().rpartition(" ")[2].strip() if server.stdout else ""
            for path, body in (
                ("v1/worlds/mysteries/readers/ann/retrieve", {"query": QUESTIONS[0], "top_k": 2}),
                ("chat", {"query": QUESTIONS[0], "world": "mysteries"}),
                ("v1/worlds/elsewhere/search", {"query": QUESTIONS[0]}),
            ):
                console.print(f"POST /{path}", markup=False)
                console.print(f"  {post(address + path, body)}", markup=False, soft_wrap=True)
        finally:
            server.terminate()


def post(address: str, body: dict[str, object]) -> str:
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
        return f"{problem.code} {error['code']}: {error['detail']} {error['advice']}"
    if mode is not None:
        return f"200, X-Answer-Mode: {mode}; {len(found['citations'])} citations"
    funnel = found["metadata"]["funnel"]
    return f"200 {found['status']}: {funnel['returned']} of {funnel['in_scope']} chunks read so far"


def shorten(text: str, length: int) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]} ..."


def heading(text: str) -> None:
    console.print()
    console.print(Rule(text, align="left"))


if __name__ == "__main__":
    main()
