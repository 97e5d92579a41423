"""How fast `window` chunking is, against LangChain's recursive splitter on the same text.

Timed is the computation of spans of canonical text whose sentences and token map are given; the
peer has neither. Spans also have their reach and keep the model's input limit. The time of sentence
splitting and of copying each chunk's text is printed too. Run it with `python -m bench.chunking`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.free import FreeCounter
from bench.material import books
from bench.measure import medians
from bench.report import Figure, Options, Target, run, say
from truespan.ingest.canonical import assemble
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.parsing import load
from truespan.text.sentences import split_sentences
from truespan.types.profile import WINDOW
from truespan.types.text import CanonicalText, Sentence, Span, TokenMap

ROUNDS = 9
INPUT_LIMIT = 510

Prepared = tuple[CanonicalText, list[Sentence], TokenMap]


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return our speed against the peer's, with offsets and without."""
    texts, what = books()
    counter = FreeCounter()
    prepared = [prepare(text, counter) for text in texts]
    plain = [canonical.text for canonical, _, _ in prepared]
    with_offsets, without = splitter(add_start_index=True), splitter(add_start_index=False)
    seconds = medians(
        {
            "ours": lambda: [spans_of(*text) for text in prepared],
            "texts": lambda: [chunk_texts(*text) for text in prepared],
            "sentences": lambda: [split_sentences(canonical) for canonical, _, _ in prepared],
            "with offsets": lambda: with_offsets.create_documents(plain),
            "without": lambda: [without.split_text(text) for text in plain],
        },
        ROUNDS,
    )
    size = sum(len(text.encode()) for text in plain) / 1e6
    speed = {name: size / taken for name, taken in seconds.items()}
    chunks = sum(len(chunk_texts(*text)) for text in prepared)
    whole = size / (seconds["texts"] + seconds["sentences"])
    say(f"{what}, {size:.1f} MB, {chunks} chunks, CPU time, median of {ROUNDS}")
    say(f"spans {speed['ours']:.0f} MB/s; with the text of each {speed['texts']:.0f} MB/s;")
    say(f"with that and sentence splitting {whole:.0f} MB/s")
    return [
        figure("spans", "with start index", speed["ours"], speed["with offsets"], None),
        figure("spans", "without offsets", speed["ours"], speed["without"], None),
    ]


def prepare(text: str, counter: FreeCounter) -> Prepared:
    """Return what is there before the clock starts."""
    canonical = assemble(load("book.txt", text.encode()).blocks)
    return canonical, split_sentences(canonical), counter.measure(canonical.text)


def spans_of(canonical: CanonicalText, sentences: list[Sentence], tokens: TokenMap) -> list[Span]:
    """Return the spans of a text: what the figure is about."""
    return chunk_spans(MeasuredText(canonical, sentences, tokens), WINDOW, INPUT_LIMIT)


def chunk_texts(
    canonical: CanonicalText, sentences: list[Sentence], tokens: TokenMap
) -> list[tuple[int, str]]:
    """Return where each chunk starts and a copy of its text, as the peer does."""
    text = canonical.text
    spans = spans_of(canonical, sentences, tokens)
    return [(span.start, text[span.start : span.end]) for span in spans]


def splitter(*, add_start_index: bool) -> Any:
    """Return the peer's splitter; it is installed only where measurements are made."""
    peer = import_module("langchain_text_splitters")
    return peer.RecursiveCharacterTextSplitter(
        chunk_size=WINDOW.size, chunk_overlap=WINDOW.overlap, add_start_index=add_start_index
    )


def figure(what: str, peer: str, ours: float, theirs: float, target: Target | None) -> Figure:
    """Return one comparison of speeds."""
    return Figure(
        f"window chunking, {what}",
        ours,
        "MB/s",
        f"LangChain recursive, {peer}",
        theirs,
        ours / theirs,
        target,
    )


if __name__ == "__main__":
    run("bench.chunking", __doc__, measure)
