"""How well `search` finds: nDCG@10 and recall@10 on SciFact, beside BM25 in the same run.

One document for each abstract, its title first; a document's rank is that of its best chunk.
Without `--full` the corpus is cut to 1,000 documents, the judged ones among them, which makes the
task easier: compare with BM25 on the same cut only. The library is kept in `bench/results`, so a
second run embeds nothing. Run it with `python -m bench.scifact`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import truespan
from bench.free import end_index_process
from bench.material import shared_data
from bench.ranking import Judgements, averages
from bench.report import RESULTS, Figure, Options, run, say
from truespan.engine.world import World

QUICK_DOCUMENTS = 1000
SLICE = 100
"""Documents ingested between two looks at the clock."""
QUICK_MINUTES, FULL_MINUTES = 6, 40
TOP_K = 100
CUT = 10

Corpus = dict[str, str]


def measure(options: Options) -> list[Figure]:
    """Return our figures beside BM25's, or none where the data is absent or time ran out."""
    data = shared_data("scifact")
    if data is None:
        say("skipped: there is no shared/data/scifact beside the project")
        return []
    judgements = read_judgements(data)
    corpus = read_corpus(data, None if options.full else judgements)
    queries = {id: text for id, text in read_queries(data).items() if id in judgements}
    name = "whole corpus" if options.full else f"cut to {QUICK_DOCUMENTS}"
    say(f"SciFact, {name}: {len(corpus)} documents, {len(queries)} queries")
    folder = RESULTS / ("scifact-full" if options.full else "scifact-quick")
    minutes = FULL_MINUTES if options.full else QUICK_MINUTES
    rankings = ours(folder, corpus, queries, minutes)
    if rankings is None:
        return []
    found = averages(rankings, judgements)
    peer = averages(bm25(corpus, queries), judgements)
    return [
        Figure(f"SciFact {what}, {name}", value, "", "BM25 (bm25s)", theirs, value / theirs)
        for what, value, theirs in zip(("nDCG@10", "recall@10"), found, peer, strict=True)
    ]


def ours(
    folder: Path, corpus: Corpus, queries: Mapping[str, str], minutes: float
) -> dict[str, list[str]] | None:
    """Return the documents that `search` finds for each query; None if ingest took too long."""
    files = write_files(folder / "files", corpus)
    with truespan.open(folder / "library", create=True) as library:
        names = [world.name for world in library.worlds()]
        world = library.world("scifact") if names else library.create_world("scifact")
        done = ingest(world, files, minutes)
        rankings = {id: ranking(world, text) for id, text in queries.items()} if done else None
        end_index_process(library)
    return rankings


def write_files(folder: Path, corpus: Corpus) -> list[str]:
    """Write each document to a file named by its id, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{id}.txt" for id in corpus]
    for path, text in zip(paths, corpus.values(), strict=True):
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    return [str(path) for path in paths]


def ingest(world: World, files: list[str], minutes: float) -> bool:
    """Ingest slice by slice; False when time ran out, and the next run goes on from there."""
    began = time.monotonic()
    chunks = embedded = 0
    for start in range(0, len(files), SLICE):
        if time.monotonic() - began > minutes * 60:
            say(f"stopped after {minutes} minutes at document {start}; the next run goes on")
            return False
        report = world.ingest(files[start : start + SLICE])
        assert not report.failures, report.failures
        chunks, embedded = chunks + report.chunks, embedded + report.embedded
        if report.embedded:
            seconds = time.monotonic() - began
            say(f"{start + SLICE} of {len(files)} documents, {embedded / seconds:.1f} chunks/s")
    say(f"{world.status().chunks} chunks, {embedded} of them embedded in this run")
    return True


def ranking(world: World, query: str) -> list[str]:
    """Return ids of documents, best chunk first."""
    found = world.search(query, top_k=TOP_K, floor=0.0, mode="vector")
    return list(dict.fromkeys(passage.source.removesuffix(".txt") for passage in found.passages))


def bm25(corpus: Corpus, queries: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what BM25 finds with its usual settings and English stop words."""
    peer: Any = import_module("bm25s")
    quiet = {"show_progress": False}
    retriever = peer.BM25()
    retriever.index(peer.tokenize(list(corpus.values()), stopwords="en", **quiet), **quiet)
    tokens = peer.tokenize(list(queries.values()), stopwords="en", **quiet)
    ids = list(corpus)
    found, _ = retriever.retrieve(tokens, k=CUT, **quiet)
    return {
        query: [ids[place] for place in places]
        for query, places in zip(queries, found, strict=True)
    }


def read_corpus(data: Path, keep: Mapping[str, Judgements] | None) -> Corpus:
    """Return title and text of each document; all, or the judged ones and the first others."""
    entries = read_lines(data / "corpus.jsonl")
    texts = {entry["_id"]: f"{entry['title']}\n\n{entry['text']}" for entry in entries}
    if keep is None:
        return texts
    judged = {document for relevant in keep.values() for document in relevant}
    others = [id for id in texts if id not in judged][: QUICK_DOCUMENTS - len(judged)]
    chosen = judged.union(others)
    return {id: text for id, text in texts.items() if id in chosen}


def read_queries(data: Path) -> dict[str, str]:
    """Return the text of each query."""
    return {entry["_id"]: entry["text"] for entry in read_lines(data / "queries.jsonl")}


def read_judgements(data: Path) -> dict[str, dict[str, int]]:
    """Return the relevant documents of each query."""
    found: dict[str, dict[str, int]] = {}
    for line in (data / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        found.setdefault(query, {})[document] = int(grade)
    return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    run("bench.scifact", __doc__, measure)
