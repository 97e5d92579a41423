"""Pools of questions that judge the network, each with the passages that are read for it.

The passages of a question are those of its own document, ranked by words and, if the engine is
installed, by its embedding as well; the first six are read. A pool has word pieces beside its
texts, so that it can be measured without a tokenizer.
"""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from training.bm25 import Bm25
from training.packing import encode
from training.questions import (
    Question,
    Stretch,
    find_span,
    hash_text,
    read_lines,
    read_stretches,
)
from training.rows import Row, is_kept_apart, other_sections, read_rows, read_tales

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from truespan.providers.local import LocalEmbedder

POOLS_FILE = "pools.json.xz"
MAX_READ = 6
_FUSION = 60
_MAX_PARAGRAPH_QUESTIONS = 1_000


@dataclass
class Passage:
    """A passage, its word pieces, and where each of them stands."""

    text: str
    pieces: list[int]
    offsets: list[tuple[int, int]]


@dataclass
class PoolQuestion:
    """A question and the passages read for it, best first; without answers, a near miss."""

    text: str
    pieces: list[int]
    answers: list[str]
    kind: str
    group: str
    """Stretch or story; figures vary by group."""
    read: list[int]
    similarities: list[float]


@dataclass
class Pool:
    """Questions of one sort, and all passages that are read for them."""

    name: str
    passages: list[Passage]
    questions: list[PoolQuestion]


def save_pools(pools: Sequence[Pool], path: Path) -> None:
    content = json.dumps([asdict(pool) for pool in pools], ensure_ascii=False)
    path.write_bytes(lzma.compress(content.encode(), preset=6))


def load_pools(path: Path) -> list[Pool]:
    return [
        Pool(
            pool["name"],
            [Passage(**passage) for passage in pool["passages"]],
            [PoolQuestion(**question) for question in pool["questions"]],
        )
        for pool in json.loads(lzma.decompress(path.read_bytes()))
    ]


def make_pools(data: Path, tokenizer: Tokenizer, embed: bool = True) -> list[Pool]:
    """Make every pool that the folder has questions for."""
    stretches = read_stretches(*sorted(data.glob("stretches*.jsonl*")))
    pools = []
    for split in ("judging", "calibration"):
        for path in sorted(data.glob(f"{split}*.jsonl*")):
            questions = read_questions(path, stretches)
            for kind in ("documents", "novels"):
                chosen = [
                    question
                    for question in questions
                    if (stretches[question.stretch].kind == "novel") == (kind == "novels")
                ]
                if chosen:
                    pools += document_pools(f"{split} {kind}", chosen, stretches, tokenizer, embed)
    pools.append(story_pool(data, tokenizer))
    pools.append(paragraph_pool(data, tokenizer))
    return pools


def read_questions(path: Path, stretches: Mapping[int, Stretch]) -> list[Question]:
    """Read hand-written questions from records that name their passage by its digest."""
    found = []
    for record in read_lines(path):
        passages = stretches[record["stretch"]].passages
        number = [hash_text(passage) for passage in passages].index(record["sha256"])
        question = Question(record["stretch"], number + 1, record["question"], record["kind"])
        if record["answers"]:
            span = record["answers"][0]["text"]
            place = find_span(passages[number], span)
            if place is None:
                raise ValueError(f"{record['id']}: the passage lacks {span!r}")
            question = replace(question, span=span, start=place[0])
        found.append(question)
    return found


def document_pools(
    name: str,
    questions: Sequence[Question],
    stretches: Mapping[int, Stretch],
    tokenizer: Tokenizer,
    embed: bool,
) -> list[Pool]:
    """Return two pools: each question with its own document, and with the next document."""
    documents: dict[tuple[str, str], list[str]] = defaultdict(list)
    for question in questions:
        stretch = stretches[question.stretch]
        if stretch.document not in documents:
            documents[stretch.document] = [
                passage
                for other in stretches.values()
                if other.document == stretch.document
                for passage in other.passages
            ]
    passages = [passage for found in documents.values() for passage in found]
    order = list(documents)
    rankings = {document: Ranking(documents[document], embed) for document in order}
    first_of = dict(
        zip(order, np.cumsum([0, *map(len, documents.values())]).tolist(), strict=False)
    )
    own = Pool(name, _encode_passages(passages, tokenizer), [])
    other = Pool(f"{name}, other topics", own.passages, [])
    texts = encode(tokenizer, [question.text for question in questions])
    for question, encoding in zip(questions, texts, strict=True):
        document = stretches[question.stretch].document
        for pool, chosen in ((own, document), (other, order[order.index(document) - 1])):
            ranked = rankings[chosen].best(question.text, MAX_READ)
            pool.questions.append(
                PoolQuestion(
                    text=question.text,
                    pieces=encoding.ids,
                    answers=[question.span] if question.answerable and pool is own else [],
                    kind=question.kind,
                    group=str(question.stretch),
                    read=[first_of[chosen] + number for number, _ in ranked],
                    similarities=[round(similarity, 4) for _, similarity in ranked],
                )
            )
    return [own, other] if len(order) > 1 else [own]


class Ranking:
    """Passages of a document, ranked by words and by embedding; their ranks are fused."""

    def __init__(self, passages: Sequence[str], embed: bool) -> None:
        self._words = Bm25(passages)
        self._vectors = None
        if embed:
            self._vectors = _numbers(_embedder().embed_documents(list(passages)))

    def best(self, question: str, count: int) -> list[tuple[int, float]]:
        """Return the best passages with their similarity; it is 0 without an embedding."""
        scores = [self._words.scores(question)]
        similarities = np.zeros(len(scores[0]), np.float32)
        if self._vectors is not None:
            similarities = self._vectors @ _embed_question(question)
            scores.append(similarities)
        ranks = [np.argsort(np.argsort(-found, kind="stable")) for found in scores]
        fused = np.sum([1 / (_FUSION + 1 + rank) for rank in ranks], axis=0)
        chosen = np.argsort(-fused, kind="stable")[:count]
        return [(int(number), float(similarities[number])) for number in chosen]


@cache
def _embedder() -> LocalEmbedder:
    """Return the embedder that the engine brings."""
    from truespan.providers.local import LocalEmbedder, LocalModel

    return LocalEmbedder(LocalModel())


@cache
def _embed_question(question: str) -> NDArray[np.float32]:
    return _numbers([_embedder().embed_query(question)])[0]


def _numbers(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    return np.array([np.frombuffer(vector, np.float32) for vector in vectors])


def story_pool(data: Path, tokenizer: Tokenizer) -> Pool:
    """Return questions about stories kept apart: with their section, and with another one."""
    rows = list(read_tales(data, kept_apart=True))
    absent = [row for row in rows if not row.answer] or other_sections(rows)
    return _pair_pool("stories", [row for row in rows if row.answer] + absent, tokenizer)


def paragraph_pool(data: Path, tokenizer: Tokenizer) -> Pool:
    """Return questions about paragraphs of an encyclopedia that training does not see."""
    rows = [row for row in read_rows(data / "open.jsonl.xz") if is_kept_apart(row)]
    return _pair_pool("encyclopedia", rows[:_MAX_PARAGRAPH_QUESTIONS], tokenizer)


def _pair_pool(name: str, rows: Sequence[Row], tokenizer: Tokenizer) -> Pool:
    """Return a pool in which each question is read with one passage."""
    passages = list(dict.fromkeys(row.passage for row in rows))
    places = {passage: number for number, passage in enumerate(passages)}
    texts = encode(tokenizer, [row.question for row in rows])
    questions = [
        PoolQuestion(
            text=row.question,
            pieces=encoding.ids,
            answers=[row.answer] if row.answer else [],
            kind="answer" if row.answer else "absent",
            group=row.origin if name == "stories" else str(places[row.passage]),
            read=[places[row.passage]],
            similarities=[0.0],
        )
        for row, encoding in zip(rows, texts, strict=True)
    ]
    return Pool(name, _encode_passages(passages, tokenizer), questions)


def _encode_passages(passages: Iterable[str], tokenizer: Tokenizer) -> list[Passage]:
    texts = list(passages)
    return [
        Passage(text, encoding.ids, encoding.offsets)
        for text, encoding in zip(texts, encode(tokenizer, texts), strict=True)
    ]
