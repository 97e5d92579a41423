"""Questions about the example novella and three novels, with their answers by sentence.

The questions are golden files in `bench/questions`, written by hand. The novels are not part of the
project: they lie in `shared/data/books` beside it, and answers are located in them by short quotes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.material import shared_data
from truespan.extensions.quality.golden import GoldenQuery, normalize_text, parse_golden
from truespan.ingest.canonical import assemble
from truespan.parsing import load
from truespan.text.sentences import split_sentences

QUESTIONS = Path(__file__).parent / "questions"
NOVELLA = Path(__file__).parents[1] / "examples" / "the-glass-ferry.md"
NOVELS = {
    "scarlet": "a-study-in-scarlet.txt",
    "pan": "peter-pan.txt",
    "sawyer": "tom-sawyer.txt",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the numbers of the sentences that answer it."""

    golden: GoldenQuery
    answers: tuple[int, ...]

    @property
    def number(self) -> int:
        """Return its number in the file; odd ones may choose settings, even ones are held out."""
        return int(self.golden.id.split("-")[1])


@dataclass(frozen=True, slots=True)
class Book:
    """A book with its questions, and how many sentences it has."""

    name: str
    path: Path
    sentences: int
    questions: tuple[Question, ...]


def read_books() -> list[Book]:
    """Return every book that is at hand."""
    folder = shared_data("books")
    paths = {"ferry": NOVELLA}
    if folder is not None:
        paths |= {name: folder / file for name, file in NOVELS.items()}
    return [read_book(name, path) for name, path in paths.items() if path.is_file()]


def read_book(name: str, path: Path) -> Book:
    """Return a book with its questions; raises ValueError if a quote is not in one sentence."""
    canonical = assemble(load(path.name, path.read_bytes()).blocks)
    sentences = [
        normalize_text(canonical.text[sentence.start : sentence.end])
        for sentence in split_sentences(canonical)
    ]
    questions = tuple(
        Question(golden, tuple(locate(sentences, phrase, golden.id) for phrase in golden.phrases))
        for golden in read_questions(name)
    )
    return Book(name, path, len(sentences), questions)


def read_questions(name: str) -> tuple[GoldenQuery, ...]:
    """Return the questions about a book."""
    path = QUESTIONS / f"{name}.yaml"
    return parse_golden(path.name, path.read_bytes())


def locate(sentences: list[str], phrase: str, question: str) -> int:
    """Return the number of the only sentence that contains a quote."""
    quote = normalize_text(phrase)
    found = [number for number, sentence in enumerate(sentences) if quote in sentence]
    if len(found) != 1 or sentences[found[0]].count(quote) != 1:
        raise ValueError(f"{question}: {phrase!r} is in {len(found)} sentences, not in one")
    return found[0]
