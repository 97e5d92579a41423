"""Worlds for answers: passages with chosen similarities, and models with a script."""

import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.support.worlds import LibraryFixture, WordEmbedder, make_library, other_profile
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.protocols import ChatModels
from truespan.types.answer import (
    Answer,
    AnswerEvent,
    AnswerRules,
    Finished,
    Message,
    Piece,
    Started,
)
from truespan.types.vectors import Vector

QUESTION = "Who held the spare key to the hut?"
"""Eight words, so that it is no short query."""
LONG = " The rest of this passage says nothing of importance, but it says it in well over a hundred"
LONG += " characters, so that the gate of characters holds for one passage alone."


def scored(score: float, words: str = "A passage.", *, long: bool = True) -> str:
    return f"{words} (score {score:.6f}){LONG if long else ''}\n"


@dataclass
class ScoreEmbedder(WordEmbedder):
    """A provider under which each text states its own similarity to every query."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if self.before:
            self.before()
        self.documents.extend(texts)
        return [_at(_score_of(text), self.profile.dimensions) for text in texts]

    def embed_query(self, text: str) -> Vector:
        if self.before:
            self.before()
        self.queries.append(text)
        return _at(1.0, self.profile.dimensions)


def _score_of(text: str) -> float:
    found = [float(score) for score in re.findall(r"score (-?\d\.\d+)", text)]
    return max(found, default=0.0)


def _at(score: float, dimensions: int) -> Vector:
    numbers = [score, math.sqrt(max(1 - score * score, 0.0)), *([0.0] * (dimensions - 2))]
    return Vector(array("f", numbers).tobytes())


class Scripted:
    """A chat model that replies with fixed pieces, and remembers its messages.

    A piece that is an exception is raised in its place.
    """

    def __init__(self, *replies: str | Sequence[str | Exception], name: str = "test/model") -> None:
        self.name = name
        self.replies = [[one] if isinstance(one, str) else list(one) for one in replies]
        self.asked: list[tuple[Message, ...]] = []
        self.given = 0
        """Pieces that were fetched of the last reply."""
        self.closed = 0

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        self.asked.append(tuple(messages))
        script = self.replies[min(len(self.asked), len(self.replies)) - 1]
        self.given = 0
        try:
            for piece in script:
                if isinstance(piece, Exception):
                    raise piece
                self.given += 1
                yield piece
        finally:
            self.closed += 1

    @property
    def prompt(self) -> str:
        """Return the latest prompt of the model."""
        return "\n".join(message.text for message in self.asked[-1])


class Echo:
    """A chat model whose reply is a function of its whole prompt, so that leaks show."""

    name = "test/echo"

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        for message in messages:
            yield message.text


@dataclass
class Study:
    """A library with chat models, with access to its parts."""

    lib: LibraryFixture
    library: Library
    world: World
    primary: Any
    fallback: Any
    names: list[str] = field(default_factory=list)

    def add(self, **files: str) -> World:
        """Ingest files, each as a document."""
        paths = [
            self.lib.write(f"world/{name.replace('__', '.')}", text) for name, text in files.items()
        ]
        if paths:
            self.world.ingest(paths)
        return self.world

    def scores(self, *scores: float) -> World:
        """Ingest one passage for each similarity."""
        return self.add(
            **{f"p{n}__txt": scored(one, f"Passage {n}.") for n, one in enumerate(scores)}
        )

    def with_rules(self, **changes: Any) -> World:
        return self.library_with(**changes).world("world")

    def library_with(self, **changes: Any) -> Library:
        parts = self.library._components
        decision = {name: changes.pop(name) for name in list(changes) if name not in _RULES}
        rules = replace(
            parts.answers, decision=replace(parts.answers.decision, **decision), **changes
        )
        return Library(replace(parts, answers=rules))

    @property
    def log(self) -> list[tuple[Any, ...]]:
        """Return the rows of the usage log as stored."""
        return self.lib.sql("SELECT * FROM usage ORDER BY key")


_RULES = {
    "distance", "calibrated", "min_evidence", "support_floor", "log_queries", "usage_days",
    "usage_records", "decision",
}  # fmt: skip


def study(
    folder: Path,
    *,
    primary: Any = None,
    fallback: Any = None,
    embedder: WordEmbedder | None = None,
    rules: AnswerRules | None = None,
    **parts: Any,
) -> Study:
    chosen = embedder or ScoreEmbedder(profile=other_profile(dimensions=4))
    lib = make_library(folder, embedder=chosen, **parts)
    models = ChatModels(primary, fallback)
    library = Library(
        replace(
            lib.library._components,
            chat=models,
            answers=rules or AnswerRules(),
            mark_query=lambda world, query: f"marked:{len(world)}:{len(query)}",
        )
    )
    return Study(lib, library, library.create_world("world"), primary, fallback)


def told(events: Iterator[AnswerEvent]) -> tuple[Started, list[str], Answer]:
    """Return the events of an answer by kind, after checking their order."""
    started, *pieces, finished = list(events)
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    assert all(isinstance(piece, Piece) for piece in pieces)
    return started, [piece.text for piece in pieces if isinstance(piece, Piece)], finished.answer
