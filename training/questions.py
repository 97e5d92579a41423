"""Stretches of documents, and the questions that people wrote about their passages.

A writer's file has a line `# stretch ID`, then for each passage a line `@N` followed by questions:
`+ question? | span` for one that the passage answers, `- question? | kind` for a near miss.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

KINDS = ("attribute", "entity", "time", "name", "premise", "scope", "relation", "yesno")
ANSWER = "answer"

_STRETCH = re.compile(r"#\s*(?:stretch\s+)?(\d+)\b")
_PASSAGE = re.compile(r"@(\d+)\s*$")
_QUESTION = re.compile(r"([+-])\s*(.*?)\s*\|\s*(.*?)\s*$")


@dataclass(frozen=True)
class Stretch:
    """Passages of a document that follow each other."""

    id: int
    split: str
    source: str
    path: str
    licence: str
    kind: str
    passages: tuple[str, ...]

    @property
    def document(self) -> tuple[str, str]:
        return self.source, self.path


@dataclass(frozen=True)
class Question:
    """A question about a passage; `start` is None if the passage does not answer it."""

    stretch: int
    passage: int
    text: str
    kind: str
    span: str = ""
    start: int | None = None

    @property
    def answerable(self) -> bool:
        return self.start is not None


@dataclass(frozen=True)
class Problem:
    """A line of a writer's file that has to be mended."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file of JSON lines, compressed with xz or not."""
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def read_stretches(*paths: Path) -> dict[int, Stretch]:
    """Read stretches by their number; those without a split are for training."""
    found = {}
    for record in (record for path in paths for record in read_lines(path)):
        found[record["id"]] = Stretch(
            id=record["id"],
            split=record.get("split", "train"),
            source=record["source"],
            path=record["path"],
            licence=record["licence"],
            kind=record["kind"],
            passages=tuple(record["passages"]),
        )
    return found


def hash_text(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def find_span(passage: str, span: str) -> tuple[int, str] | None:
    """Find a span in a passage; any white space of the passage counts as a space."""
    pattern = r"\s+".join(re.escape(word) for word in span.split())
    match = re.search(rf"(?<!\w){pattern}(?!\w)", passage) or re.search(pattern, passage)
    return (match.start(), match.group()) if pattern and match else None


def parse_questions(
    text: str, stretches: Mapping[int, Stretch]
) -> tuple[list[Question], list[Problem]]:
    """Read a writer's file; lines with a problem give no question."""
    questions: list[Question] = []
    problems: list[Problem] = []
    stretch: Stretch | None = None
    number = 0
    for line_number, line in enumerate(map(str.strip, text.splitlines()), 1):
        try:
            if not line:
                continue
            if found := _STRETCH.match(line):
                stretch, number = stretches.get(int(found[1])), 0
                if stretch is None:
                    raise ValueError(f"there is no stretch {found[1]}")
            elif found := _PASSAGE.match(line):
                number = int(found[1])
                if stretch is None or not 1 <= number <= len(stretch.passages):
                    raise ValueError(f"the stretch has no passage {number}")
            elif found := _QUESTION.match(line):
                if stretch is None or not number:
                    raise ValueError("a question stands before its stretch or passage")
                questions.append(_read_question(found, stretch, number))
            else:
                raise ValueError(f"not a question, passage or stretch: {line[:60]!r}")
        except ValueError as error:
            problems.append(Problem(line_number, str(error)))
    return questions, problems


def _read_question(found: re.Match[str], stretch: Stretch, number: int) -> Question:
    sign, text, rest = found.groups()
    if not text.endswith("?") or "|" in rest:
        raise ValueError(f"a question must end with '?' and hold no '|': {text[:60]!r}")
    if sign == "-":
        if rest not in KINDS:
            raise ValueError(f"unknown kind of near miss {rest!r}; use one of {', '.join(KINDS)}")
        return Question(stretch.id, number, text, rest)
    place = find_span(stretch.passages[number - 1], rest)
    if place is None:
        raise ValueError(f"the span is not in passage {number} of {stretch.id}: {rest[:60]!r}")
    return Question(stretch.id, number, text, ANSWER, place[1], place[0])


def to_records(
    questions: Iterable[Question], stretches: Mapping[int, Stretch], name: str = "near"
) -> Iterator[dict[str, Any]]:
    """Return questions as records without their passage, which its digest names."""
    counts: dict[tuple[int, int], int] = {}
    for question in questions:
        stretch = stretches[question.stretch]
        place = question.stretch, question.passage
        counts[place] = counts.get(place, 0) + 1
        yield {
            "set": name,
            "id": f"{name}-{question.stretch}-{question.passage}-{counts[place]}",
            "question": question.text,
            "answers": (
                [{"text": question.span, "start": question.start}] if question.answerable else []
            ),
            "kind": question.kind,
            "stretch": question.stretch,
            "source": stretch.source,
            "path": stretch.path,
            "licence": stretch.licence,
            "sha256": hash_text(stretch.passages[question.passage - 1]),
        }
