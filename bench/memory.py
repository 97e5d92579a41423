"""How much memory the ingest of a large folder takes: 128 MB of it, or 1 GB with `--full`.

The folder holds text, Markdown, HTML, DOCX and EPUB. The ingest runs in a separate process, with
an embedder and a counter that cost nothing and keep nothing. Reported are the most memory that the
ingesting process ever held, and the most that any one process held in which documents are parsed;
the index process is left out. Run it with `python -m bench.memory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.documents import book_of, docx_of, page_of
from bench.material import Prose
from bench.measure import apart
from bench.report import Figure, Options, at_most, run, say

MEGABYTES, FULL_MEGABYTES = 128, 1024
TARGET = 500
SENTENCES = 5000
PARAGRAPHS = 2000
"""Of one document: about a megabyte of text."""
ENDINGS = ("txt", "txt", "html", "txt", "md", "txt", "docx", "txt", "epub", "txt")


def measure(options: Options) -> list[Figure]:
    """Return the peaks of both kinds of processes; the target is on the two together."""
    megabytes = FULL_MEGABYTES if options.full else MEGABYTES
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        files = fill(folder / "files", megabytes)
        peak = apart("bench.memory_ingest", str(folder / "files"), str(folder / "library"))
    say(f"{files} files, {megabytes} MB, {peak['chunks']} chunks in {peak['seconds']:.0f} s;")
    say(f"{peak['failed']} failed; {peak['start']:.0f} MB before the first document")
    what = f"memory, {megabytes} MB folder"
    return [
        Figure(f"{what}, ingest process", peak["ingest"], "MB"),
        Figure(f"{what}, largest loader", peak["loader"], "MB"),
        Figure(
            f"{what}, together",
            peak["ingest"] + peak["loaders"],
            "MB",
            target=at_most(TARGET),
        ),
    ]


def fill(folder: Path, megabytes: int) -> int:
    """Fill a new folder with documents of this size in all; return how many."""
    folder.mkdir()
    size = number = 0
    for number, (ending, content) in enumerate(documents(), 1):
        (folder / f"{number:05}.{ending}").write_bytes(content)
        size += len(content)
        if size >= megabytes << 20:
            break
    return number


def documents() -> Iterator[tuple[str, bytes]]:
    """Give documents without end, each of an ending and of paragraphs that no other one has."""
    prose, chance = Prose(seed=11), Random(12)
    sentences = [prose.sentence() for _ in range(SENTENCES)]
    while True:
        for ending in ENDINGS:
            paragraphs = [" ".join(chance.choices(sentences, k=6)) for _ in range(PARAGRAPHS)]
            yield ending, written(ending, paragraphs)


def written(ending: str, paragraphs: list[str]) -> bytes:
    """Return paragraphs as a document of this ending."""
    match ending:
        case "docx":
            return docx_of(paragraphs)
        case "epub":
            return book_of(paragraphs, 100)
        case "html":
            return page_of(paragraphs).encode()
    return "\n\n".join(paragraphs).encode()


if __name__ == "__main__":
    run("bench.memory", __doc__, measure)
