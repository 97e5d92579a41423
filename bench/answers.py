"""Shares of questions that are answered: those that a library can answer, and those that it cannot.

Every question about a book is asked of its own book, and of each other one, which does not hold the
answer. With SciFact, its claims are asked of its abstracts and of the books, and the questions
about books of the abstracts. No chat model takes part: the decision is measured, under the
thresholds of the contract and as a recommended world decides, and what is quoted as the answer: how
often the first quote or any has a sentence that answers, and how much there is to read. Without
`--full`, SciFact is cut to 1,000 abstracts. Run it with `python -m bench.answers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import truespan
from bench.free import end_index_process
from bench.material import shared_data
from bench.question_set import Book, read_books
from bench.report import RESULTS, Figure, Options, run, say
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
from truespan.extensions.quality.golden import GoldenQuery, normalize_text
from truespan.types.decision import AnswerMode
from truespan.types.request import Defaults, Granularity

FOLDER = RESULTS / "answers"


def measure(options: Options) -> list[Figure]:
    """Return the shares of good questions refused and of absent ones answered, in per cent."""
    books, figures = read_books(), list[Figure]()
    asked = [question.golden.query for book in books for question in book.questions]
    with truespan.open(FOLDER / "library", create=True) as library:
        novels = library.world("books", create=True)
        novels.ingest([book.path for book in books])
        claims, abstracts = open_scifact(library, full=options.full)
        for defaults in (Defaults.CONTRACT, Defaults.RECOMMENDED):
            novels.set_defaults(defaults)
            figures += ask_books(novels, books, defaults)
            if abstracts is not None:
                abstracts.set_defaults(defaults)
                refused = 100 - share(answered(abstracts, claims))
                figures += [
                    report(defaults, "SciFact: good claims refused", refused),
                    report(
                        defaults,
                        "SciFact: questions about books answered",
                        share(answered(abstracts, asked)),
                    ),
                    report(defaults, "books: claims answered", share(answered(novels, claims))),
                ]
        for granularity in Granularity:
            figures += quote_books(novels, books, granularity)
        end_index_process(library)
    return figures


def open_scifact(library: Library, *, full: bool) -> tuple[list[str], World | None]:
    """Return the judged claims and the world of the abstracts; None where the data is absent."""
    data = shared_data("scifact")
    if data is None:
        say("without SciFact: there is no shared/data/scifact beside the project")
        return [], None
    judgements = read_judgements(data)
    corpus = read_corpus(data, None if full else judgements)
    world = library.world("scifact-full" if full else "scifact", create=True)
    files = write_files(FOLDER / "files", corpus)
    if not ingest(world, files, FULL_MINUTES if full else QUICK_MINUTES):
        return [], None
    return [text for id, text in read_queries(data).items() if id in judgements], world


def ask_books(world: World, books: list[Book], defaults: Defaults) -> list[Figure]:
    """Return the shares of the questions about books, asked of one book each."""
    good, absent = list[bool](), list[bool]()
    for own, other in product(books, books):
        found = answered(world, [question.golden.query for question in own.questions], other)
        (good if own is other else absent).extend(found)
    return [
        report(defaults, "books: good questions refused", 100 - share(good)),
        report(defaults, "books: questions about another book answered", share(absent)),
    ]


def quote_books(world: World, books: list[Book], granularity: Granularity) -> list[Figure]:
    """Return how often quotes answer the questions about books, and how long the quotes are."""
    first, anywhere, quotes, characters = list[bool](), list[bool](), 0, 0
    for book in books:
        for question in book.questions:
            answer = world.answer(
                question.golden.query, documents=[book.path.name], granularity=granularity
            )
            if answer.mode is AnswerMode.FALLBACK:
                continue
            texts = [quote.text for quote in answer.quotes]
            found = [has_phrase(text, question.golden) for text in texts]
            first.append(found[0])
            anywhere.append(any(found))
            quotes, characters = quotes + len(texts), characters + sum(map(len, texts))
    name = f"quotes, {granularity.value}"
    return [
        report(Defaults.RECOMMENDED, f"{name}: the first answers", share(first)),
        report(Defaults.RECOMMENDED, f"{name}: one of them answers", share(anywhere)),
        count(f"{name}: number", quotes / len(first)),
        count(f"{name}: characters", characters / len(first)),
    ]


def has_phrase(text: str, golden: GoldenQuery) -> bool:
    """Return whether a text has a phrase of a sentence that answers."""
    normalized = normalize_text(text)
    return any(normalize_text(phrase) in normalized for phrase in golden.phrases)


def answered(world: World, questions: Iterable[str], book: Book | None = None) -> Iterator[bool]:
    """Yield whether each question is answered, from one book or from the whole world."""
    documents = None if book is None else [book.path.name]
    for question in questions:
        yield world.answer(question, documents=documents).mode is not AnswerMode.FALLBACK


def report(defaults: Defaults, name: str, value: float) -> Figure:
    say(f"{defaults.value}: {name}: {value:.1f} %")
    return Figure(f"{defaults.value}: {name}", value, "%")


def count(name: str, value: float) -> Figure:
    say(f"{name}: {value:.1f}")
    return Figure(name, value, "")


def share(found: Iterable[bool]) -> float:
    """Return how many questions were answered, in per cent."""
    listed = list(found)
    return 100 * sum(listed) / max(len(listed), 1)


if __name__ == "__main__":
    run("bench.answers", __doc__, measure)
