"""Where the time of a search, a reader's request and an ingest goes, as flame graphs.

py-spy looks at a process that repeats the work, 250 times a second; threads that wait do not count,
and neither do the processes of the index and the parsers. Each box is a function, as wide as its
share of the samples, below the function that called it. Run it with `python -m bench.flame`, or
with the names of some; the pictures are written into bench/results.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.free import FreeEmbedder, free_library
from bench.material import Prose
from bench.reading import story
from bench.report import RESULTS, write
from truespan.engine.library import Library

SECONDS = 12.0
RATE = 250
QUERIES = 40
WIDTH, ROW, MARGIN, HEAD = 1200, 17, 8, 30
MIN_SHARE = 0.004
"""The share of all samples below which a function is not drawn."""
CHARACTER = 6.2
COLOURS = {
    "retrieval": "#e8a87c",
    "store": "#85b8d6",
    "ingest": "#c9a0dc",
    "index": "#a3cf9a",
    "types": "#f2d388",
    "truespan": "#e5c4b3",
    "other": "#d4d4d4",
}
_FRAME = re.compile(r"^(?P<function>.+) \((?P<file>[^()]*?)(?::\d+)?\)$")


@dataclass(slots=True)
class Node:
    """A function in one place of the call tree."""

    name: str
    samples: int = 0
    below: dict[str, Node] = field(default_factory=dict)


def work(name: str) -> None:
    """Prepare a library, then repeat what is looked at for some seconds."""
    embedder = FreeEmbedder(60_000, QUERIES)
    with TemporaryDirectory(prefix="truespan-bench-") as folder:
        base = Path(folder)
        with free_library(base / "library", embedder) as library:
            if name == "ingest":
                repeat_ingest(library, prepare_files(base))
            elif name == "search":
                prepare_search(library, prepare_files(base, 20))
                repeat_searches(library)
            else:
                prepare_reader(library, base)
                repeat_reading(library)


def prepare_files(base: Path, files: int = 100) -> Path:
    Prose(seed=6).write_files(base / "files", files, 240)
    return base / "files"


def prepare_search(library: Library, files: Path) -> None:
    library.create_world("bench").ingest(str(files), jobs=1)


def prepare_reader(library: Library, base: Path) -> None:
    book = base / "book.txt"
    book.write_text(story(), encoding="utf-8")
    world = library.create_world("bench")
    world.ingest(book, kind="book")
    world.reader("reader").set_position(
        book.name, sentence=world.documents.list()[0].sentences // 2
    )


def repeat_ingest(library: Library, files: Path) -> None:
    library.create_world("bench").ingest(str(files), jobs=1)


def repeat_searches(library: Library) -> None:
    world, ends = library.world("bench"), time.monotonic() + SECONDS
    while time.monotonic() < ends:
        for number in range(QUERIES):
            world.search(f"What happened to number {number}?", top_k=20)


def repeat_reading(library: Library) -> None:
    reader, ends = library.world("bench").reader("reader"), time.monotonic() + SECONDS
    while time.monotonic() < ends:
        reader.retrieve("what lay by the lamp", top_k=20)


def sampled(name: str) -> list[tuple[list[str], int]]:
    """Return the stacks of the process that does the work, and how often each was seen."""
    with TemporaryDirectory(prefix="truespan-bench-") as folder:
        found = Path(folder) / "stacks.txt"
        subprocess.run(
            [
                *("py-spy", "record", "--format", "raw", "--rate", str(RATE), "--nonblocking"),
                *(
                    "--output",
                    str(found),
                    "--",
                    sys.executable,
                    "-m",
                    "bench.flame",
                    "--work",
                    name,
                ),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        lines = found.read_text(encoding="utf-8").splitlines()
    return list(stacks(lines))


def stacks(lines: Iterable[str]) -> Iterator[tuple[list[str], int]]:
    """Return the stacks of what is repeated, without what prepares it."""
    for line in lines:
        path, _, count = line.rpartition(" ")
        frames = [frame_name(frame) for frame in path.split(";")]
        begins = [at for at, frame in enumerate(frames) if frame.startswith("flame.repeat")]
        if begins:
            yield frames[begins[-1] + 1 :], int(count)


def frame_name(frame: str) -> str:
    """Return a function with its module, without the line: `store.chunks.read_chunks`."""
    known = _FRAME.match(frame)
    if known is None:
        return frame
    module = known["file"].removesuffix(".py").removesuffix("/__init__")
    module = module.rpartition("truespan/")[2] if "truespan/" in module else Path(module).name
    return f"{module.replace('/', '.')}.{known['function']}"


def tree_of(found: Iterable[tuple[list[str], int]]) -> Node:
    """Return the call tree of all stacks."""
    root = Node("all")
    for frames, count in found:
        root.samples += count
        node = root
        for frame in frames:
            node = node.below.setdefault(frame, Node(frame))
            node.samples += count
    return root


def picture(root: Node, title: str) -> str:
    """Return the tree as an SVG picture that needs no script."""
    boxes = list(placed(root, 0.0, 0, root.samples * MIN_SHARE))
    height = HEAD + MARGIN + ROW * (1 + max((row for _, _, row in boxes), default=0))
    scale = (WIDTH - 2 * MARGIN) / max(root.samples, 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="monospace" font-size="10.5">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="19" font-size="13">{escape(title)}</text>',
    ]
    for node, left, row in boxes:
        x, y, width = MARGIN + left * scale, HEAD + row * ROW, node.samples * scale
        label = node.name.rpartition(".")[2] if width < len(node.name) * CHARACTER else node.name
        shown = label[: max(int((width - 4) / CHARACTER), 0)]
        share = f"{node.name}: {node.samples / root.samples:.1%}"
        parts.append(
            f'<g><title>{escape(share)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{ROW - 1}" fill="{colour(node.name)}"/>'
            + (f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else "")
            + "</g>"
        )
    return "\n".join([*parts, "</svg>\n"])


def placed(node: Node, left: float, row: int, least: float) -> Iterator[tuple[Node, float, int]]:
    """Return each function that is drawn, with where it begins and in which row."""
    for child in sorted(node.below.values(), key=lambda one: one.name):
        if child.samples >= least:
            yield child, left, row
            yield from placed(child, left, row + 1, least)
        left += child.samples


def colour(name: str) -> str:
    """Return the colour of the package that a function belongs to."""
    package = name.partition(".")[0]
    if package in COLOURS:
        return COLOURS[package]
    return COLOURS["truespan" if package in PACKAGES else "other"]


PACKAGES = {path.stem for path in (Path(__file__).parents[1] / "src/truespan").iterdir()}
TITLES = {
    "search": "A search, this process without the index",
    "reading": "A reader's request, this process without the index",
    "ingest": "An ingest, this process without parsers and index",
}


def main() -> None:
    """Draw the pictures that the command line names, or all."""
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2])
        return
    for name in sys.argv[1:] or TITLES:
        root = tree_of(sampled(name))
        write(
            RESULTS / f"flame-{name}.svg", picture(root, f"{TITLES[name]}: {root.samples} samples")
        )
        print(f"{RESULTS / f'flame-{name}.svg'}: {root.samples} samples")


if __name__ == "__main__":
    main()
