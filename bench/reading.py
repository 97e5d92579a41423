"""What retrieval for a reader and the assembly of a bundle cost beyond embedding and the engine.

A book of about 3,000 chunks, top 20, the query's vector cached and the tail kept. What is left is
reading the position, verification, scoring, ranking and packing. The engine's own time is that of
the same request to the index process alone. The same request is measured with words as well. Run it
with `python -m bench.reading`.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from bench.free import FreeEmbedder, free_library
from bench.measure import percentile
from bench.report import Figure, Options, at_most, run, say
from truespan.engine.library import Library
from truespan.retrieval.pack import BundleAttempt, Packer, assemble
from truespan.retrieval.stages import rank_visible, reveal, verify
from truespan.types.request import Mode
from truespan.types.scope import Scope
from truespan.types.vectors import Vector

SENTENCES = 18_000
ROUNDS = 300
TOP_K = 20
BEYOND_TARGET_MS = 1.5
ASSEMBLY_TARGET_MS = 0.3
FUSED_TARGET = 2.0
WORDS = ("lamp", "harbour", "key", "boat", "clock", "garden", "letter", "night", "stone", "river")


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return what a reader's request costs beyond the engine, and what a bundle costs."""
    embedder = FreeEmbedder(4 * SENTENCES // 6, queries=2)
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book.txt"
        book.write_text(story(), encoding="utf-8")
        with free_library(Path(folder) / "library", embedder) as library:
            return measured(library, book, embedder)


def story() -> str:
    """Return a book of short sentences in paragraphs."""
    rng = random.Random(7)
    sentences = [f"The {' '.join(rng.choices(WORDS, k=12))} {n}." for n in range(SENTENCES)]
    return "\n\n".join(" ".join(sentences[at : at + 6]) for at in range(0, SENTENCES, 6))


def measured(library: Library, book: Path, embedder: FreeEmbedder) -> list[Figure]:
    """Ask as a reader in the middle of the book."""
    world = library.create_world("world", defaults="contract")
    world.ingest(book, kind="book")
    document = world.documents.list()[0]
    middle = document.sentences // 2
    reader = world.reader("reader")
    reader.set_position(book.name, sentence=middle)
    before = len(embedder.texts)
    query = "what lay by the lamp"
    first = reader.retrieve(query, top_k=TOP_K, mode="vector")
    tail = len(embedder.texts) - before
    whole = p50(lambda: reader.retrieve(query, top_k=TOP_K, mode="vector"))
    again = len(embedder.texts) - before - tail
    scope = world.access.scope()
    if scope is None or not first.retrieved_chunks:
        raise SystemExit("the measured request found nothing")
    read = scope.for_reader(document.number, document.active or 1, middle)
    vector = embedder.embed_query(query)
    index = library._components.index
    engine = p50(lambda: index.search(read, vector, limit=TOP_K + 8, floor=None))
    say(f"{document.chunks} chunks, read to the middle; p50 of {ROUNDS}")
    say(f"whole {whole:.2f} ms, index request {engine:.2f} ms")
    say(f"embedded for the tail at first: {tail}, for {ROUNDS} more requests: {again}")
    by_words = p50(lambda: reader.retrieve(query, top_k=TOP_K, mode="hybrid"))
    say(f"with words {by_words:.2f} ms")
    beyond, bundle = whole - engine, assembly(library, read, vector)
    return [
        Figure("reading, all but the engine, p50", beyond, "ms", target=at_most(BEYOND_TARGET_MS)),
        Figure(
            *("reading with words, p50", by_words, "ms", "by similarity", whole),
            ratio=by_words / whole,
            target=at_most(FUSED_TARGET),
        ),
        Figure("bundle of 20 chunks, p50", bundle, "ms", target=at_most(ASSEMBLY_TARGET_MS)),
    ]


def assembly(library: Library, scope: Scope, vector: Vector) -> float:
    """Return what ranking, packing and assembling twenty visible chunks take."""
    record = library.world("world").access.record()
    hits = library._components.index.search(scope, vector, limit=TOP_K, floor=None)
    records = library._components.store.chunks.read(scope, [hit.chunk_id for hit in hits])
    verified = verify(hits, records).verified
    visible = [part for one in verified for part in reveal(one, scope)]

    def once() -> None:
        packed = Packer(k=TOP_K, budget=4000).pack(rank_visible(visible))
        attempt = BundleAttempt(
            record,
            Mode.VECTOR,
            None,
            query_type="standard",
            top_k=TOP_K,
            floor=None,
            budget=4000,
        )
        attempt.scope, attempt.packed = scope, packed
        assemble(attempt, seconds=0.0)

    return p50(once)


def p50(call: Callable[[], object]) -> float:
    """Return the median time of a call in milliseconds."""
    call()
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return percentile(times, 0.5) * 1000


if __name__ == "__main__":
    run("bench.reading", __doc__, measure)
