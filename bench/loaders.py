"""How fast our loaders are and what they keep, against the libraries that people use for it.

Every side gets the same bytes of a document whose words are known. Timed is the CPU time from the
bytes to text in memory, in this process; what ours returns has blocks, places and figures as well.
Peers that give several kinds of text are asked for the plainest. Words are compared by count: lost,
said twice, or said although an editor had struck them out. Run it with `python -m bench.loaders`.

To add a format: a function that makes a `Sample`, listed in `SAMPLES`, its peers in `PEERS`, its
media type in `TYPES`. A peer that cannot read a sample is named and left out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tests.support.word_diff import compare, words_of

from bench.documents import (
    Sample,
    csv,
    epub,
    html,
    json,
    mail,
    notebook,
    odt,
    pdf,
    plain_docx,
    pptx,
    rich_docx,
    rtf,
    workbook,
)
from bench.measure import cpu_seconds, medians
from bench.report import Figure, Options, at_least, at_most, run, say
from truespan.parsing import load

ROUNDS = 7
SLOW = 2.0
"""Seconds: who takes longer is asked once."""
OFFICE = "application/vnd.openxmlformats-officedocument"
OPEN = "application/vnd.oasis.opendocument"
TYPES = {
    "docx": f"{OFFICE}.wordprocessingml.document",
    "epub": "application/epub+zip",
    "html": "text/html",
    "pdf": "application/pdf",
    "xlsx": f"{OFFICE}.spreadsheetml.sheet",
    "ods": f"{OPEN}.spreadsheet",
    "pptx": f"{OFFICE}.presentationml.presentation",
    "odp": f"{OPEN}.presentation",
    "odt": f"{OPEN}.text",
    "rtf": "application/rtf",
    "eml": "message/rfc822",
    "ipynb": "application/x-ipynb+json",
    "csv": "text/csv",
    "json": "application/json",
}
LINKED = re.compile(r"\]\([^()]*\)|\[\[?\^?[0-9]+\]?\]")
"""Where links lead and the marks of notes in Markdown: they touch words, which are not lost."""

Reader = Callable[[Sample], str]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a document's words."""

    lost: int
    doubled: int
    struck: int

    @property
    def wrong(self) -> int:
        """Return all of them."""
        return self.lost + self.doubled + self.struck

    def __str__(self) -> str:
        return f"{self.lost} lost, {self.doubled} twice, {self.struck} struck out and still there"


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return, for each document, our time against each peer's, and the words of all."""
    figures: list[Figure] = []
    for make in SAMPLES:
        figures += compared(make())
    return figures


def compared(sample: Sample) -> list[Figure]:
    """Return the figures of one document."""
    sides = {"ours": ours, **PEERS[ending(sample)]}
    kept: dict[str, Kept] = {}
    seconds: dict[str, float] = {}
    for name, read in [*sides.items()]:
        try:
            seconds[name], kept[name] = first_reading(sample, read)
        except Exception as error:
            if name == "ours":
                raise
            say(f"{name} cannot read {sample.name}: {type(error).__name__}")
            del sides[name]
    quick = {name: work(sides[name], sample) for name in sides if seconds[name] < SLOW}
    seconds |= medians(quick, ROUNDS)
    size = len(sample.data) / 1e6
    say(f"{sample.label}: {len(sample.words):,} words, {size:.1f} MB, median of {ROUNDS}")
    say(f"  {name}: {seconds[name] * 1000:.0f} ms; {found}" for name, found in kept.items())
    peers = [name for name in sides if name != "ours"]
    if not peers:
        return [Figure(f"{sample.label}, CPU", seconds["ours"] * 1000, "ms")]
    fastest = min(peers, key=seconds.__getitem__)
    times = [timed(sample, name, seconds, judged=name == fastest) for name in peers]
    return [*times, worded(sample, fastest, kept)]


def first_reading(sample: Sample, read: Reader) -> tuple[float, Kept]:
    """Return the CPU time of a first reading, and what it kept."""
    texts: list[str] = []
    seconds = cpu_seconds(lambda: texts.append(read(sample)))
    return seconds, kept_of(sample, texts[0])


def timed(sample: Sample, peer: str, seconds: dict[str, float], *, judged: bool) -> Figure:
    """Return our time beside a peer's; only the fastest of them sets a mark.

    None is set for PDF: only our loader puts a page into reading order.
    """
    ratio = seconds[peer] / seconds["ours"]
    target = at_least(1.0) if judged and ending(sample) != "pdf" else None
    mine, theirs = seconds["ours"] * 1000, seconds[peer] * 1000
    return Figure(f"{sample.label}, CPU", mine, "ms", peer, theirs, ratio, target)


def worded(sample: Sample, peer: str, kept: dict[str, Kept]) -> Figure:
    """Return how many words we have wrong, and how many the fastest peer; the notes have all."""
    mine, theirs = kept["ours"].wrong, kept[peer].wrong
    return Figure(f"{sample.label}, wrong", mine, "words", peer, theirs, target=at_most(0))


def kept_of(sample: Sample, text: str) -> Kept:
    """Return what became of the words of a document."""
    found = compare(sample.words, words_of(LINKED.sub(" ", text)), ordered=False)
    struck = sum(1 for word in found.added if word in sample.gone)
    return Kept(len(found.lost), len(found.doubled), struck)


def work(read: Reader, sample: Sample) -> Callable[[], object]:
    """Return what is timed."""
    return lambda: read(sample)


def ending(sample: Sample) -> str:
    """Return which format a document has."""
    return sample.name.rpartition(".")[2]


def ours(sample: Sample) -> str:
    """Return what our loader makes of a document."""
    return "\n\n".join(block.text for block in load(sample.name, sample.data).blocks)


def by_mammoth(sample: Sample) -> str:
    """Return mammoth's raw text."""
    return peer("mammoth").extract_raw_text(io.BytesIO(sample.data)).value


def by_docx2txt(sample: Sample) -> str:
    """Return docx2txt's text."""
    return peer("docx2txt").process(io.BytesIO(sample.data))


def by_markitdown(sample: Sample) -> str:
    """Return markitdown's Markdown; it has nothing plainer."""
    converter = peer("markitdown").MarkItDown()
    stream = io.BytesIO(sample.data)
    return converter.convert_stream(stream, file_extension=f".{ending(sample)}").text_content


def by_kreuzberg(sample: Sample) -> str:
    """Return kreuzberg's content, worked out anew each time."""
    library = peer("kreuzberg")
    config = library.ExtractionConfig(use_cache=False, output_format="plain")
    return library.extract_bytes_sync(sample.data, TYPES[ending(sample)], config).content


def by_striprtf(sample: Sample) -> str:
    """Return striprtf's text."""
    return peer("striprtf.striprtf").rtf_to_text(sample.data.decode("latin-1"))


def by_pdfium(sample: Sample) -> str:
    """Return what pdfium says of each page, in the order of the file."""
    document = peer("pypdfium2").PdfDocument(sample.data)
    try:
        return "\n".join(page_text(page) for page in document)
    finally:
        document.close()


def page_text(page: Any) -> str:
    """Return the text of one page of a PDF."""
    textpage = page.get_textpage()
    try:
        return textpage.get_text_range()
    finally:
        textpage.close()
        page.close()


def peer(name: str) -> Any:
    """Return a peer's module; it is installed only where measurements are made."""
    return import_module(name)


PEERS: dict[str, dict[str, Reader]] = {
    "docx": {
        "mammoth": by_mammoth,
        "docx2txt": by_docx2txt,
        "markitdown": by_markitdown,
        "kreuzberg": by_kreuzberg,
    },
    "epub": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "html": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "pdf": {"pypdfium2 raw": by_pdfium, "kreuzberg": by_kreuzberg},
    "xlsx": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "ods": {"kreuzberg": by_kreuzberg},
    "pptx": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "odp": {"kreuzberg": by_kreuzberg},
    "odt": {"kreuzberg": by_kreuzberg},
    "rtf": {"striprtf": by_striprtf, "kreuzberg": by_kreuzberg},
    "eml": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "ipynb": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    "csv": {"markitdown": by_markitdown, "kreuzberg": by_kreuzberg},
    # markitdown returns JSON as it is.
    "json": {"kreuzberg": by_kreuzberg},
}

SAMPLES: tuple[Callable[[], Sample], ...] = (
    plain_docx,
    rich_docx,
    odt,
    rtf,
    pptx,
    epub,
    html,
    pdf,
    workbook,
    csv,
    json,
    mail,
    notebook,
)

if __name__ == "__main__":
    run("bench.loaders", __doc__, measure)
