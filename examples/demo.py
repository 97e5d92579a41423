"""The demo: ingest a mystery, ask three questions, then break things and see them caught.

Then read along as a reader, ask about a selection, take in papers that a manifest names, ask for an
answer, build another generation, and ask over HTTP.

It leaves a library in ./demo-library that can be used further with the `truespan` command.
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
from truespan.cli.generations import show_generations, show_promotion, show_reindex
from truespan.cli.output import print_bundle, print_search, show_repairs, show_worlds
from truespan.cli.output_answer import show_account
from truespan.cli.output_ingest import show_dry_run, show_ingest
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.types.bundle import Passage
from truespan.types.chunk import Point
from truespan.types.ids import hash_text

BOOK = Path(__file__).with_name("the-glass-ferry.md")
PAPERS = Path(__file__).with_name("papers") / "library.jsonl"
LIBRARY = Path("demo-library")
SETTINGS = """# Pictures leave a marker in the text, a file, and a chunk that describes them.
docx_extract_images = true
docx_inline_figure_placeholders = true
docx_figure_chunks = true
# Personal data are counted, and stay.
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
        stale, damaged = distinct(passages)
        put_old_point_back(library, world, stale)
        flip_a_byte(damaged)
        heading("Now an old point is put back, and a byte of stored text flipped")
        for question, broken in zip(QUESTIONS, passages, strict=True):
            if broken.chunk_id in (stale.chunk_id, damaged.chunk_id):
                ask(world, question)
        heading("truespan repair")
        console.print(show_worlds([(record, world.status()) for record in library.worlds()]))
        console.print(show_repairs({world.name: world.repair()}))
        heading("And once more: everything is back, verified")
        for question in QUESTIONS:
            ask(world, question, quietly=True)
        verdict(library)
        read_along(world)
        explain_selection(world)
        take_in_papers(library)
        answer(world)
        build_another(world)
    ask_over_http()
    console.print(
        f"\nThe library stays in ./{LIBRARY}. Go on with, for instance:\n"
        f'  .venv/bin/truespan search "Who was on the jetty?" -L {LIBRARY} -w mysteries -k 3\n'
        f"  .venv/bin/truespan status -L {LIBRARY} -w mysteries\n"
        f"  .venv/bin/truespan serve -L {LIBRARY}   # then open http://127.0.0.1:8700/"
    )


def ingest(library: Library) -> World:
    """Carry the novella into a world; the second time there is nothing to do."""
    heading("Ingesting The Glass Ferry, a mystery in nine chapters")
    world = library.world("mysteries", create=True)
    with progress_bar(hidden=False) as on_progress:
        report = world.ingest(str(BOOK), kind="book", on_progress=on_progress)
    console.print(show_ingest(report))
    return world


def ask(world: World, question: str, *, quietly: bool = False) -> Passage:
    """Ask one question and show the two best passages; return the best."""
    if not quietly:
        heading(question)
    result = world.search(question, top_k=2, floor=0.3)
    if quietly:
        best = result.results[0]
        console.print(f"✓ {best.score:.3f}  {best.chapter}: {question}")
    else:
        print_search(result)
    return result.results[0]


def distinct(passages: list[Passage]) -> tuple[Passage, Passage]:
    """Return two different passages to damage."""
    first = passages[0]
    second = next(passage for passage in passages if passage.chunk_id != first.chunk_id)
    return first, second


def put_old_point_back(library: Library, world: World, passage: Passage) -> None:
    """Do to the index what a lost deletion does: a point of older text under a current id."""
    parts = library._parts
    older = f"{passage.text} So it said in an earlier draft."
    parts.index.upsert(
        world._scope(),  # type: ignore[arg-type]
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


def flip_a_byte(passage: Passage) -> None:
    """Do to the store what a failing disk does."""
    connection = apsw.Connection(str(LIBRARY / "store.db"))
    damaged = bytearray(passage.text.encode())
    damaged[len(damaged) // 2] ^= 1
    connection.execute(
        "UPDATE chunks SET text = CAST(? AS TEXT) WHERE text_hash = ?",
        (bytes(damaged), passage.receipt.text_hash),
    )
    connection.close()


def verdict(library: Library) -> None:
    """Let the doctor compare every chunk with its point."""
    plan = library.doctor(["mysteries"])["mysteries"]
    console.print(
        f"doctor: {plan.checked_chunks} chunks and {plan.checked_points} points compared, "
        f"{'nothing to do' if plan.healthy else plan.counts()}"
    )
    if not plan.healthy:
        sys.exit(1)


def read_along(world: World) -> None:
    """Ask the same question at three places of the book, side by side."""
    heading("Who did it? Asked after chapter two, in the middle, and at the end")
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
                    (f"{short(place.last_sentence or '', 90)}\n\n", "italic"),
                    (f"{best.chapter} ({best.relevance_score:.3f})\n", "bold"),
                    short(best.content, 330),
                ),
                title=short(place.chapter or "", 24),
                width=max(console.width // 3 - 1, 30),
            )
        )
    console.print(Columns(columns))


def explain_selection(world: World) -> None:
    """Ask about a passage that somebody marked."""
    selection = "a stiff white collar fresh from the iron"
    heading(f"About a selection: “{selection}”")
    bundle = world.retrieve("Why does the collar matter?", selected_text=selection, top_k=2)
    print_bundle(bundle)


def take_in_papers(library: Library) -> None:
    """Take in what a manifest names: first what it would cost, then the run, then a question."""
    heading("A manifest of papers (Word, HTML): first what it would do")
    papers = library.world("papers", create=True)
    console.print(show_dry_run(papers.plan_ingest(manifest=PAPERS)))
    heading("Then the run, and a question that a figure answers")
    console.print(show_ingest(papers.ingest(manifest=PAPERS)))
    print_bundle(papers.retrieve("How high did the water stand at the gauge?", top_k=2))


def answer(world: World) -> None:
    """Ask for an answer. No chat model is configured, so it is the best passages themselves."""
    heading("truespan ask, without a chat model: passages, quoted and cited")
    given = world.answer(QUESTIONS[0])
    console.print("\n".join(given.answer.splitlines()[:7]), "\n...", markup=False)
    console.print(show_account(given), markup=False)


def build_another(world: World) -> None:
    """Cut the book otherwise, in a generation of its own, and send readers there and back."""
    heading("Another generation beside the first: built, verified, promoted, taken back")
    with progress_bar(hidden=False) as on_progress:
        built = world.generations.reindex(chunking="tokens", on_progress=on_progress)
    console.print(show_reindex(built), markup=False)
    console.print(show_promotion(world.generations.promote(built.generation)), markup=False)
    console.print(show_generations(world.generations.list()), markup=False, soft_wrap=True)
    console.print(show_promotion(world.generations.rollback()), markup=False)
    world.generations.remove(built.generation)


def ask_over_http() -> None:
    """Serve the library, ask as the reader did and as nobody may, and end the server."""
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
                console.print(f"  {posted(address + path, body)}", markup=False, soft_wrap=True)
        finally:
            server.terminate()


def posted(address: str, body: dict[str, object]) -> str:
    """Return what a server answered, in a line."""
    request = urllib.request.Request(  # noqa: S310 -- our own server, started above.
        address, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as reply:  # noqa: S310
            found = json.load(reply)
            mode = reply.headers.get("X-Answer-Mode")
    except urllib.error.HTTPError as problem:
        told = json.load(problem)
        return f"{problem.code} {told['code']}: {told['detail']} {told['advice']}"
    if mode is not None:
        return f"200, X-Answer-Mode: {mode}; {len(found['citations'])} citations"
    funnel = found["metadata"]["funnel"]
    return f"200 {found['status']}: {funnel['returned']} of {funnel['in_scope']} chunks read so far"


def short(text: str, length: int) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]} ..."


def heading(text: str) -> None:
    console.print()
    console.print(Rule(text, align="left"))


if __name__ == "__main__":
    main()
