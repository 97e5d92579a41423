"""How well each mode finds: on SciFact, and on questions about four books for owners and readers.

Modes are measured beside two usual ways to combine words and similarity: equal reciprocal ranks,
and half of each after scaling both to 0..1. A question about a book counts as answered by the first
passage that contains an answering sentence. Readers stand at 25, 50, 75 and 100 % of each book: a
question counts once its answer was read, and before that nothing of the answer may be returned.
Differences are tested in pairs. The libraries are kept in `bench/results`, so a second run embeds
nothing. Run it with `python -m bench.quality`; `--full` for all of SciFact. The tables are written
to `bench/results/quality.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import log2
from statistics import fmean

from msgspec.structs import replace

import truespan
from bench.free import end_index_process
from bench.material import shared_data
from bench.question_set import Book, Question, read_books
from bench.ranking import ndcg, recall
from bench.report import RESULTS, Figure, Options, Target, at_least, at_most, run, say, write
from bench.scifact import (
    FULL_MINUTES,
    QUICK_MINUTES,
    ingest,
    read_corpus,
    read_judgements,
    read_queries,
    write_files,
)
from truespan.engine.world import World
from truespan.extensions.quality.calibrate import largest_gain_test
from truespan.extensions.quality.evaluate import phrase_matcher
from truespan.types import request
from truespan.types.request import Mode, RankPart

CUT = 10
POOL = 100
"""So many of the best by words, and by similarity, are combined."""
MAX_TOKENS = 10**9
"""The token budget of readers: none that matters."""
RANK_OFFSET = 60
"""What reciprocal ranks are counted from, as usual."""
SHARES = (25, 50, 75, 100)
"""How much of each book the readers have read, in per cent."""
ALLOWED_LOSS = 0.005
"""How far the blend may stay behind the better of its parts on one collection."""
RANKS, HALF = "equal ranks", "half of each"
RIVALS = (Mode.VECTOR, Mode.KEYWORD, RANKS, HALF)
PARTS = {f"hybrid without {part}": frozenset({part}) for part in RankPart}
METHODS = (*RIVALS, *PARTS, Mode.HYBRID)
METRICS = ("nDCG@10", "MRR", "recall@10", "first right")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage, what it belongs to, and its two scores."""

    id: str
    document: str
    text: str
    similarity: float
    bm25: float


@dataclass(frozen=True, slots=True)
class Score:
    """How well one question was answered, in the order of `METRICS`."""

    ndcg: float
    reciprocal_rank: float
    recall: float
    first: float

    def figures(self) -> tuple[float, float, float, float]:
        """Return the figures in the order of `METRICS`."""
        return self.ndcg, self.reciprocal_rank, self.recall, self.first


Parts = frozenset[RankPart]
Ask = Callable[[str, Mode, Parts], list[Candidate]]
"""Searches for a query in a mode, without some parts of the ranking."""
Scores = dict[str, dict[str, Score]]
"""By method, then by question."""


def measure(options: Options) -> list[Figure]:
    """Return the blend beside its rivals; of the books alone where SciFact is absent."""
    found, shown = books_found(read_books())
    found |= scifact_found(options)
    write(RESULTS / "quality.md", markdown(found))
    say(markdown(found).splitlines())
    past = Figure("answers past a reader's position", len(shown), "", target=at_most(0))
    return [*figures(found), past]


# The books


def books_found(books: Sequence[Book]) -> tuple[dict[str, Scores], list[str]]:
    """Return the scores on every collection, and questions whose answer was shown too early."""
    folder = RESULTS / "quality"
    with truespan.open(folder / "library", create=True) as library:
        world = library.world("books", create=True)
        report = world.ingest([book.path for book in books])
        assert not report.failures, report.failures
        say(f"{len(books)} books, {world.status().chunks} chunks, {report.embedded} embedded now")
        found = owner_found(world, books)
        components = replace(world.access.components, max_tokens=MAX_TOKENS)
        generous = World(replace(world.access, components=components))
        with lifted_limits():
            by_readers, shown = readers_found(generous, books)
        end_index_process(library)
    return found | by_readers, shown


def owner_found(world: World, books: Sequence[Book]) -> dict[str, Scores]:
    """Return the scores of a caller who searches all books at once."""
    ask = ask_owner(world)
    found = {f"{book.name}, owner": score_questions(ask, book.questions) for book in books}
    return {"books, owner": joined(found.values()), **found}


def readers_found(world: World, books: Sequence[Book]) -> tuple[dict[str, Scores], list[str]]:
    """Return the scores of readers at several positions, and answers that were not read."""
    found: dict[str, Scores] = {}
    shown: list[str] = []
    for share in SHARES:
        reader, parts, unread = world.reader(f"at {share}"), [], 0
        for book in books:
            last = round(book.sentences * share / 100) - 1
            reader.set_position(book.path.name, sentence=last)
            ask = ask_reader(world, f"at {share}", book)
            read = [one for one in book.questions if min(one.answers) <= last]
            ahead = [one for one in book.questions if min(one.answers) > last]
            parts.append(score_questions(ask, read))
            shown += [f"{one.golden.id} at {share} %" for one in ahead if is_shown(ask, one)]
            unread += len(ahead)
        found[f"books, reader at {share} %"] = joined(parts)
        say(f"reader at {share} %: {unread} questions are about what was not read")
    found["books, readers"] = averaged(list(found.values()))
    if shown:
        say(f"SHOWN TOO EARLY: {', '.join(shown)}")
    return found, shown


@contextmanager
def lifted_limits() -> Iterator[None]:
    """Let readers get as many passages as the rivals need; no order depends on these limits."""
    before = request.MAX_TOP_K
    request.MAX_TOP_K = 2 * POOL
    try:
        yield
    finally:
        request.MAX_TOP_K = before


def without(world: World, parts: Parts) -> World:
    """Return a world whose ranking lacks parts."""
    components = replace(world.access.components, without=parts)
    return World(replace(world.access, components=components))


def ask_owner(world: World) -> Ask:
    """Return what searches the whole world."""

    def ask(query: str, mode: Mode, parts: Parts) -> list[Candidate]:
        found = without(world, parts).search(query, top_k=2 * POOL, floor=0.0, mode=mode)
        return [
            Candidate(
                one.chunk_id,
                one.source.removesuffix(".txt"),
                one.text,
                one.score,
                one.fused.bm25 if one.fused else 0.0,
            )
            for one in found.passages
            if one.fused is None or one.fused.blend is not None
        ]

    return ask


def ask_reader(world: World, name: str, book: Book) -> Ask:
    """Return what searches the read part of a book."""

    def ask(query: str, mode: Mode, parts: Parts) -> list[Candidate]:
        reader = without(world, parts).reader(name)
        bundle = reader.retrieve(
            query, book=book.path.name, top_k=2 * POOL, mode=mode, max_tokens=MAX_TOKENS
        )
        assert bundle.error is None, bundle.error
        return [
            Candidate(
                chunk.chunk_id,
                book.name,
                chunk.content,
                chunk.relevance_score,
                note.fused.bm25 if note.fused else 0.0,
            )
            for chunk, note in zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True)
        ]

    return ask


def score_questions(ask: Ask, questions: Sequence[Question]) -> Scores:
    """Return the scores of questions about a book, by every method."""
    scores: Scores = {method: {} for method in METHODS}
    for question in questions:
        answers = phrase_matcher(question.golden.phrases)
        for method, ranking in rankings(ask, question.golden.query).items():
            right = (place for place, one in enumerate(ranking[:CUT], 1) if answers(one.text))
            scores[method][question.golden.id] = score_of(next(right, None))
    return scores


def score_of(rank: int | None) -> Score:
    """Return the score of a question whose first right passage has this rank."""
    if rank is None:
        return Score(0.0, 0.0, 0.0, 0.0)
    return Score(1 / log2(1 + rank), 1 / rank, 1.0, float(rank == 1))


def is_shown(ask: Ask, question: Question) -> bool:
    """Say whether any mode returns anything of an answer that was not read."""
    answers = phrase_matcher(question.golden.phrases)
    found = (ask(question.golden.query, mode, frozenset()) for mode in Mode)
    return any(answers(one.text) for candidates in found for one in candidates)


# SciFact


def scifact_found(options: Options) -> dict[str, Scores]:
    """Return the scores on SciFact; nothing where the data is absent or time ran out."""
    data = shared_data("scifact")
    if data is None:
        say("SciFact skipped: there is no shared/data/scifact beside the project")
        return {}
    judgements = read_judgements(data)
    corpus = read_corpus(data, None if options.full else judgements)
    queries = {id: text for id, text in read_queries(data).items() if id in judgements}
    folder = RESULTS / ("scifact-full" if options.full else "scifact-quick")
    minutes = FULL_MINUTES if options.full else QUICK_MINUTES
    files = write_files(folder / "files", corpus)
    scores: Scores = {method: {} for method in METHODS}
    with truespan.open(folder / "library", create=True) as library:
        world = library.world("scifact", create=True)
        done = ingest(world, files, minutes)
        ask = ask_owner(world)
        for id, text in queries.items() if done else ():
            judged = judgements[id]
            for method, found in rankings(ask, text).items():
                ranking = list(dict.fromkeys(one.document for one in found))[:CUT]
                right = (place for place, one in enumerate(ranking, 1) if judged.get(one))
                first = score_of(next(right, None))
                scores[method][id] = Score(
                    ndcg(ranking, judged),
                    first.reciprocal_rank,
                    recall(ranking, judged),
                    first.first,
                )
        end_index_process(library)
    name = "SciFact" if options.full else f"SciFact cut to {len(corpus)}"
    return {name: scores} if done else {}


# Methods and their figures


def rankings(ask: Ask, query: str) -> dict[str, list[Candidate]]:
    """Return what each method finds, best first."""
    whole = frozenset[RankPart]()
    close = ask(query, Mode.VECTOR, whole)[:POOL]
    words = [one for one in ask(query, Mode.KEYWORD, whole) if one.bm25 > 0][:POOL]
    hybrid = ask(query, Mode.HYBRID, whole)
    return {
        **{name: ask(query, Mode.HYBRID, parts) for name, parts in PARTS.items()},
        Mode.VECTOR: close,
        Mode.KEYWORD: words,
        RANKS: by_ranks(close, words),
        HALF: by_halves(hybrid),
        Mode.HYBRID: hybrid,
    }


def by_ranks(*lists: list[Candidate]) -> list[Candidate]:
    """Return candidates by the sum of their reciprocal ranks, all lists counting the same."""
    sums: dict[str, float] = {}
    for found in lists:
        for place, one in enumerate(found, 1):
            sums[one.id] = sums.get(one.id, 0.0) + 1 / (RANK_OFFSET + place)
    known = {one.id: one for one in chain.from_iterable(lists)}
    return sorted(known.values(), key=lambda one: (-sums[one.id], one.id))


def by_halves(found: list[Candidate]) -> list[Candidate]:
    """Return candidates by the mean of both scores, each scaled to 0..1 over the candidates."""
    similarities = scaled([one.similarity for one in found])
    words = scaled([one.bm25 for one in found])
    sums = {one.id: a + b for one, a, b in zip(found, similarities, words, strict=True)}
    return sorted(found, key=lambda one: (-sums[one.id], one.id))


def scaled(values: Sequence[float]) -> list[float]:
    """Return values between 0 for the least and 1 for the most; all 0 where none differs."""
    least, most = min(values, default=0.0), max(values, default=0.0)
    return [(value - least) / (most - least) if most > least else 0.0 for value in values]


def joined(parts: Iterable[Scores]) -> Scores:
    """Return the scores of several sets of questions as one."""
    every = list(parts)
    return {
        method: {id: score for part in every for id, score in part[method].items()}
        for method in METHODS
    }


def averaged(parts: Sequence[Scores]) -> Scores:
    """Return each question once, with its means over those parts that have it."""
    found: Scores = {}
    for method in METHODS:
        by_question: dict[str, list[Score]] = {}
        for part in parts:
            for id, score in part[method].items():
                by_question.setdefault(id, []).append(score)
        found[method] = {id: mean_of(scores) for id, scores in by_question.items()}
    return found


def mean_of(scores: Sequence[Score]) -> Score:
    """Return the mean of every figure."""
    return Score(*map(fmean, zip(*(score.figures() for score in scores), strict=True)))


def held_out(scores: Scores) -> Scores:
    """Return the questions with even numbers, which chose nothing."""
    return {
        method: {id: score for id, score in by_question.items() if is_even(id)}
        for method, by_question in scores.items()
    }


def is_even(id: str) -> bool:
    """Say whether the number of a question or claim is even."""
    return int(id if id.isdigit() else id.split("-")[1]) % 2 == 0


def chance(ours: Mapping[str, Score], theirs: Mapping[str, Score], place: int = 0) -> float:
    """Return how likely so large a difference of a metric is if both were as good."""
    differences = [ours[id].figures()[place] - theirs[id].figures()[place] for id in ours]
    # In both directions: the paired two-sided randomisation test.
    return largest_gain_test([differences, [-one for one in differences]], seed=1)


def figures(found: Mapping[str, Scores]) -> list[Figure]:
    """Return hybrid against each rival on the large collections, and its worst loss on each."""
    made = []
    for name, scores in found.items():
        means = {method: mean_of(list(by.values())) for method, by in scores.items()}
        ours = means[Mode.HYBRID].ndcg
        if "SciFact" in name or name in ("books, owner", "books, readers"):
            made += [
                Figure(
                    f"nDCG@10, {name}, hybrid",
                    ours,
                    "",
                    rival,
                    means[rival].ndcg,
                    ours / means[rival].ndcg,
                    at_least(1.0),
                )
                for rival in RIVALS
            ]
        better = max(means[Mode.VECTOR].ndcg, means[Mode.KEYWORD].ndcg)
        made.append(
            Figure(
                f"nDCG@10, {name}, hybrid less the better part",
                ours - better,
                "",
                target=Target(-ALLOWED_LOSS, at_least=True),
            )
        )
    return made


def markdown(found: Mapping[str, Scores]) -> str:
    """Return two tables for the documentation: nDCG with tests, then the other metrics."""
    tested = [f"p {rival}" for rival in RIVALS]
    lines = [
        f"| nDCG@10 | questions | {' | '.join((*METHODS, *tested))} |",
        "|" + "---|" * (2 + len(METHODS) + len(RIVALS)),
    ]
    for name, scores in rows_of(found):
        hybrid = scores[Mode.HYBRID]
        means = [f"{mean_of(list(scores[method].values())).ndcg:.3f}" for method in METHODS]
        chances = [chance(hybrid, scores[rival]) for rival in RIVALS]
        tests = ["< 0.001" if one < 0.001 else f"{one:.3f}" for one in chances]
        lines.append(f"| {name} | {len(hybrid)} | {' | '.join(means)} | {' | '.join(tests)} |")
    lines += [
        "",
        f"| {', '.join(METRICS[1:])} | {' | '.join(METHODS)} |",
        f"|---|{'---|' * len(METHODS)}",
    ]
    for name, scores in rows_of(found):
        cells = [
            " / ".join(
                f"{figure:.3f}" for figure in mean_of(list(scores[method].values())).figures()[1:]
            )
            for method in METHODS
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rows_of(found: Mapping[str, Scores]) -> Iterator[tuple[str, Scores]]:
    """Yield the rows of a table: every collection, the large ones also by their held-out half."""
    for name, scores in found.items():
        yield name, scores
        if "SciFact" in name or name in ("books, owner", "books, readers"):
            yield f"{name}, held-out half", held_out(scores)


if __name__ == "__main__":
    run("bench.quality", __doc__, measure)
