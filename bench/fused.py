"""Fused search on SciFact: its weight chosen on one half of the claims, judged on the other.

Claims with an odd number choose the weight, those with an even one are held out. Beside the blend
stand its two parts alone, similarity and BM25 over the same stemmed terms, and the two fused by
reciprocal ranks with equal weights; differences are tested in pairs. The library is the one of
`bench.scifact`. Run it with `python -m bench.fused`; `--full` for the whole corpus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import chain
from statistics import fmean, median

from msgspec.structs import replace

import truespan
from bench.free import end_index_process
from bench.material import shared_data
from bench.ranking import Judgements, ndcg, recall
from bench.report import RESULTS, Figure, Options, Target, run, say
from bench.scifact import (
    FULL_MINUTES,
    QUICK_MINUTES,
    ingest,
    read_corpus,
    read_judgements,
    read_queries,
    write_files,
)
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.extensions.quality.calibrate import largest_gain_test
from truespan.types.bundle import Passage
from truespan.types.request import FUSED_WEIGHT

WEIGHTS = tuple(step / 20 for step in range(2, 19))
TOP_K = 100
RANK_OFFSET = 60
"""What reciprocal ranks are counted from, as usual."""

Rankings = dict[str, list[str]]
Ask = Callable[[str], list[Passage]]


def measure(options: Options) -> list[Figure]:
    """Return the blend beside its parts, and what it costs; none where the data is absent."""
    data = shared_data("scifact")
    if data is None:
        say("skipped: there is no shared/data/scifact beside the project")
        return []
    judgements = read_judgements(data)
    corpus = read_corpus(data, None if options.full else judgements)
    queries = {id: text for id, text in read_queries(data).items() if id in judgements}
    folder = RESULTS / ("scifact-full" if options.full else "scifact-quick")
    minutes = FULL_MINUTES if options.full else QUICK_MINUTES
    files = write_files(folder / "files", corpus)
    with truespan.open(folder / "library", create=True) as library:
        world = library.world("scifact", create=True)
        figures = (
            [*cost(library, world, queries), *quality(library, world, queries, judgements)]
            if ingest(world, files, minutes)
            else []
        )
        end_index_process(library)
    return figures


def quality(
    library: Library,
    world: World,
    queries: Mapping[str, str],
    judgements: Mapping[str, Judgements],
) -> list[Figure]:
    """Return the blend on the held-out half, beside what it must not fall below."""
    chosen = {id: text for id, text in queries.items() if int(id) % 2}
    held_out = {id: text for id, text in queries.items() if int(id) % 2 == 0}
    choose(library, world, chosen, judgements)
    words, close = weighted(library, world, 1.0), similar(world)
    rivals = {
        "similarity alone": rankings(close, held_out),
        "BM25, stemmed": rankings(words, held_out),
        "equal reciprocal ranks": rankings(
            lambda text: by_ranks(close(text), words(text)), held_out
        ),
    }
    ours = rankings(weighted(library, world, FUSED_WEIGHT), held_out)
    return [
        compared(f"SciFact {name}, held-out half, fused", scored, ours, rival, peer, judgements)
        for name, scored in (("nDCG@10", ndcg), ("recall@10", recall))
        for peer, rival in rivals.items()
    ]


def choose(
    library: Library,
    world: World,
    queries: Mapping[str, str],
    judgements: Mapping[str, Judgements],
) -> None:
    """Say how well every weight does on the half that may choose, and which is best."""
    means = {
        weight: fmean(
            ndcg(ranking, judgements[id])
            for id, ranking in rankings(weighted(library, world, weight), queries).items()
        )
        for weight in WEIGHTS
    }
    say("nDCG@10 on the choosing half, by weight of the words:")
    say("  ".join(f"{weight:g}: {mean:.4f}" for weight, mean in means.items()))
    best = max(means, key=lambda weight: means[weight])
    say(f"best {best:g}; the code has {FUSED_WEIGHT:g} at {means.get(FUSED_WEIGHT, 0):.4f}")


def compared(
    name: str,
    scored: Callable[[list[str], Judgements], float],
    ours: Rankings,
    theirs: Rankings,
    peer: str,
    judgements: Mapping[str, Judgements],
) -> Figure:
    """Return two means over the same claims, and say how likely their difference is chance."""
    pairs = [(scored(ours[id], judgements[id]), scored(theirs[id], judgements[id])) for id in ours]
    mine, other = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
    differences = [one - two for one, two in pairs]
    # In both directions: the paired two-sided randomisation test.
    chance = largest_gain_test([differences, [-one for one in differences]], seed=1)
    say(f"{name} {mine:.4f}, {peer} {other:.4f}: p = {chance:.3f} over {len(pairs)} claims")
    return Figure(name, mine, "", peer, other, mine / other, Target(1.0, at_least=True))


def cost(library: Library, world: World, queries: Mapping[str, str]) -> list[Figure]:
    """Return the time of a query with and without words, of counting them, and their room."""
    texts = list(queries.values())[:100]
    for text in texts:
        world.search(text, floor=0.0, mode="vector")
    before = forget_words(library)
    began = time.perf_counter()
    world.search(texts[0], floor=0.0, mode="hybrid")
    counting = time.perf_counter() - began
    grown = used_bytes(library) - before
    dense = median(timed(world, text, mode="vector") for text in texts)
    fused = median(timed(world, text, mode="hybrid") for text in texts)
    return [
        Figure(
            "fused query, vector cached", fused * 1e3, "ms", "dense", dense * 1e3, fused / dense
        ),
        Figure("first counting of words", counting, "s"),
        Figure("store growth by words", grown / 1e6, "MB", "before", before / 1e6, grown / before),
    ]


def timed(world: World, text: str, *, mode: str) -> float:
    """Return the seconds that one search takes."""
    began = time.perf_counter()
    world.search(text, floor=0.0, mode=mode)
    return time.perf_counter() - began


def forget_words(library: Library) -> int:
    """Remove all counted words, so that they are counted anew; return what the store takes then."""
    with library._components.store._db.write_every_world() as session:  # type: ignore[attr-defined]
        session.execute("DELETE FROM words")
        session.execute("DELETE FROM word_counts")
        session.execute("UPDATE worlds SET changes = changes + 1")
    return used_bytes(library)


def used_bytes(library: Library) -> int:
    """Return the size of the store without its free pages."""
    query = library._components.store._db.shared.value  # type: ignore[attr-defined]
    pages, free, size = (
        query(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def similar(world: World) -> Ask:
    """Return what ranks by similarity alone."""
    return lambda text: list(world.search(text, top_k=TOP_K, floor=0.0, mode="vector").passages)


def weighted(library: Library, world: World, weight: float) -> Ask:
    """Return what ranks by a blend in which words have this weight; 1 is BM25 alone."""
    components = replace(library._components, fused_weight=weight)
    aimed = World(replace(world.access, components=components))

    def ask(text: str) -> list[Passage]:
        found = aimed.search(text, top_k=TOP_K, floor=0.0, mode="hybrid").passages
        return [one for one in found if weight < 1 or (one.fused and one.fused.bm25 > 0)]

    return ask


def by_ranks(*lists: list[Passage]) -> list[Passage]:
    """Return passages by the sum of their reciprocal ranks, all lists counting the same."""
    sums: dict[str, float] = {}
    for passages in lists:
        for place, passage in enumerate(passages, 1):
            sums[passage.chunk_id] = sums.get(passage.chunk_id, 0.0) + 1 / (RANK_OFFSET + place)
    known = {passage.chunk_id: passage for passage in chain.from_iterable(lists)}
    return sorted(known.values(), key=lambda one: (-sums[one.chunk_id], one.document, one.index))


def rankings(ask: Ask, queries: Mapping[str, str]) -> Rankings:
    """Return ids of documents for each query, best chunk first."""
    return {
        id: list(dict.fromkeys(one.source.removesuffix(".txt") for one in ask(text)))
        for id, text in queries.items()
    }


if __name__ == "__main__":
    run("bench.fused", __doc__, measure)
