"""What ingesting again costs: nothing changed, and one sentence changed.

Nothing changed: 200 documents of about 12 chunks, 200 of about 110 and 2,000 of about 12, against
reading and hashing the same files. One sentence of a book changed: how many chunks are embedded,
against those that may be. Run it with `python -m bench.reingest`.
"""

from __future__ import annotations

from contextlib import closing
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.free import FreeCounter, FreeEmbedder, free_library
from bench.material import Prose
from bench.measure import medians, wall_seconds
from bench.report import Figure, Options, at_most, run, say
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation, make_draft
from truespan.parsing.sandbox.client import ChildParser
from truespan.types.document import Draft
from truespan.types.source import DocumentKind, DocumentOptions, Source

SIZES = ((200, 15), (200, 150), (2000, 15))
"""Numbers of documents, and of paragraphs in each of them."""
ROUNDS = 9
TARGET = 2.0
CHAPTERS, CHAPTER_PARAGRAPHS = 12, 20
CHANGED_CHAPTER, CHANGED_PARAGRAPH = 5, 8
ALLOWED = {
    "window": "chunks until the boundaries meet",
    "sentences": "chunks to the end of the chapter",
}


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return the cost of no change and of one change."""
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        with free_library(folder / "library", FreeEmbedder(60_000)) as library:
            return [
                *(unchanged(library, folder, *size) for size in SIZES),
                *edited(library.create_world("edited"), folder),
            ]


def unchanged(library: Library, folder: Path, documents: int, paragraphs: int) -> Figure:
    """Ingest the same files again and again."""
    name = f"{documents}-{paragraphs}"
    world, files = library.create_world(name), folder / name
    Prose(seed=11).write_files(files, documents, paragraphs)
    first = world.ingest(str(files))
    sides = {"ours": lambda: again(world, files, documents), "hashing": lambda: hash_files(files)}
    seconds = medians(sides, ROUNDS)
    wall = medians(sides, ROUNDS, wall_seconds)
    say(f"{documents} documents, {first.chunks} chunks, CPU time, median of {ROUNDS}; wall time")
    say(f"{wall['ours'] * 1000:.1f} ms against {wall['hashing'] * 1000:.1f} ms")
    ours, theirs = seconds["ours"] * 1000, seconds["hashing"] * 1000
    size = sum(path.stat().st_size for path in files.iterdir()) / documents / 1000
    return Figure(
        f"re-ingest, nothing changed, {documents} files of {size:.0f} KB",
        ours,
        "ms",
        "reading and hashing the files",
        theirs,
        ours / theirs,
        at_most(TARGET),
    )


def again(world: World, files: Path, documents: int) -> None:
    """Ingest files that are stored already, and check that nothing was done."""
    report = world.ingest(str(files))
    assert (report.unchanged, report.embedded) == (documents, 0)


def hash_files(folder: Path) -> list[str]:
    """Read and hash every file."""
    return [sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())]


def edited(world: World, folder: Path) -> list[Figure]:
    """Change one sentence in the middle of a book, under each strategy."""
    chapters = [Prose(seed=20 + number).text(CHAPTER_PARAGRAPHS) for number in range(CHAPTERS)]
    figures: list[Figure] = []
    for chunking, divided in (("window", False), ("sentences", False), ("sentences", True)):
        path = folder / f"{chunking}-{divided}.md"
        path.write_text(book(chapters))
        world.ingest(str(path), kind="book", chunking=chunking)
        before = drafted(path, chunking)
        path.write_text(book(changed(chapters, divided=divided)))
        embedded = world.ingest(str(path), kind="book", chunking=chunking).embedded
        touched = after_the_edit(before, drafted(path, chunking), chunking)
        change = "made two" if divided else "longer"
        name = f"embedded, a sentence {change}, {chunking}"
        ratio, peer = embedded / touched, ALLOWED[chunking]
        figures.append(Figure(name, embedded, "chunks", peer, touched, ratio, at_most(1.0)))
    return figures


def drafted(path: Path, chunking: str) -> Draft:
    """Return the chunks of a book without storing them."""
    declared = DocumentOptions(kind=DocumentKind.BOOK, chunking=chunking)
    source = Source(str(path), path.name, path.stem, size=0, declared=declared)
    limit = FreeEmbedder.profile.input_limit
    with closing(ChildParser()) as parser:
        return make_draft(
            source,
            parser.parse(path.name, path.read_bytes()),
            preparation=Preparation(),
            source_hash="",
            recipe="",
            parser=parser,
            counter=FreeCounter(),
            input_limit=limit,
        )


def after_the_edit(before: Draft, after: Draft, chunking: str) -> int:
    """Return how many chunks may be embedded.

    With `window` it is those until the boundaries meet again, so those with a text that was not
    there before; with `sentences` those to the end of the chapter.
    """
    known = {chunk.text_hash for chunk in before.chunks}
    fresh = [chunk for chunk in after.chunks if chunk.text_hash not in known]
    if chunking == "window":
        return len(fresh)
    first = fresh[0]
    return sum(
        chunk.chapter == first.chapter and chunk.index >= first.index for chunk in after.chunks
    )


def book(chapters: list[str]) -> str:
    """Return Markdown with a heading for each chapter."""
    return "\n\n".join(
        f"# Chapter {number}\n\n{text}" for number, text in enumerate(chapters, start=1)
    )


def changed(chapters: list[str], *, divided: bool) -> list[str]:
    """Return the chapters with one sentence made longer, or made two."""
    paragraphs = chapters[CHANGED_CHAPTER].split("\n\n")
    words = paragraphs[CHANGED_PARAGRAPH].split(" ")
    words[3] = f"{words[3]}. Indeed" if divided else f"{words[3]} indeed"
    paragraphs[CHANGED_PARAGRAPH] = " ".join(words)
    edited = [*chapters]
    edited[CHANGED_CHAPTER] = "\n\n".join(paragraphs)
    return edited


if __name__ == "__main__":
    run("bench.reingest", __doc__, measure)
