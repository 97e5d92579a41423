"""Which questions are answered: those that a book can answer, and those that it cannot.

Every question about a book is asked of its own book, and of each other one, which does not hold the
answer. Without a chat model an answer consists of passages, so the decision alone is measured:
under the thresholds of the contract, and as a recommended world decides. The library of
`bench.quality` is used. Run it with `python -m bench.answers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import truespan
from bench.free import end_index_process
from bench.question_set import Book, read_books
from bench.report import RESULTS, Figure, Options, run, say
from truespan.engine.world import World
from truespan.types.decision import AnswerMode
from truespan.types.request import Defaults


def measure(options: Options) -> list[Figure]:
    """Return the shares of good questions refused and of absent ones answered, in per cent."""
    del options
    books = read_books()
    with truespan.open(RESULTS / "quality" / "library", create=True) as library:
        world = library.world("books", create=True)
        world.ingest([book.path for book in books])
        figures: list[Figure] = []
        for defaults in (Defaults.CONTRACT, Defaults.RECOMMENDED):
            world.set_defaults(defaults)
            figures += figures_of(world, books, defaults.value)
        end_index_process(library)
    return figures


def figures_of(world: World, books: list[Book], name: str) -> list[Figure]:
    """Return the two shares under one kind of defaults."""
    pairs = list(product(books, books))
    good = [answers(world, own, other) for own, other in pairs if own is other]
    absent = [answers(world, own, other) for own, other in pairs if own is not other]
    refused, answered = 100 - share(good), share(absent)
    say(f"{name}: {refused:.1f} % of good questions refused, {answered:.1f} % of absent answered")
    return [
        Figure(f"{name}: good questions refused", refused, "%"),
        Figure(f"{name}: absent questions answered", answered, "%"),
    ]


def answers(world: World, own: Book, other: Book) -> list[bool]:
    """Return, for each question about a book, whether it is answered from another."""
    return [
        world.answer(question.golden.query, documents=[other.path.name]).mode
        is not AnswerMode.FALLBACK
        for question in own.questions
    ]


def share(found: Iterable[list[bool]]) -> float:
    """Return how many of all questions were answered, in per cent."""
    listed = [entry for part in found for entry in part]
    return 100 * sum(listed) / max(len(listed), 1)


if __name__ == "__main__":
    run("bench.answers", __doc__, measure)
