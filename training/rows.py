"""Training rows: a question with a passage, and where the answer stands or that there is none.

Hand-written questions matter most. Made-up unanswerable ones are mined: passages that share the
words of a question and lack its answer, and questions in which a name, number or word is exchanged.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from training.bm25 import Bm25
from training.questions import Stretch, hash_text, read_lines, read_stretches

WRITTEN = "near"
"""Set of the hand-written questions."""
_ENCYCLOPEDIA = "squad1.1-part"
_WRITTEN_COPIES = 3
_TALE_COPIES = 2
_OTHER_PASSAGES = 2
_OTHER_SECTIONS = 2
_EXCHANGED_SHARE = 0.45
_GRAFTED_SHARE = 0.5
_MAX_ROWS = {"qamr": 12_000, "cuad": 6_000}
"""Sets with many questions of a few forms."""
_MAX_NEAR_MISSES = 1.3
"""Near misses of a form for each answerable question of that form."""
_MAX_WORD_SHARE = 0.05

_COMMON_WORDS = """
what which who whom whose when where why how did does do is are was were has have had the a an of in
on at to for from by with and or that this these those it its his her their there than many much
long often name type kind would could should can may into about after before during between first
last most
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_OTHER_CAPITALS = """
I The A It He She God Mr Mrs Miss January February March April May June July August September
October November December Monday Tuesday Wednesday Thursday Friday Saturday Sunday
"""
_NO_NAMES = frozenset(_OTHER_CAPITALS.split())
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*")
_NUMBER = re.compile(r"\b\d[\d,.]*\b")
_ASKED = re.compile(r"\b(?:what|which) ([a-z]{3,})\b", re.IGNORECASE)
_WORD = re.compile(r"\b[a-z]{4,}\b")


@dataclass(frozen=True, slots=True)
class Row:
    """A question with a passage; without a start, the passage does not answer it."""

    question: str
    passage: str
    origin: str
    """Set that the question, or the one it was made of, comes from."""
    start: int | None = None
    end: int | None = None
    stretch: int = 0
    """Stretch of a hand-written question."""

    @property
    def answer(self) -> str:
        return "" if self.start is None else self.passage[self.start : self.end]


def make_rows(data: Path, seed: int = 1) -> list[Row]:
    """Read the sets of a folder and mine unanswerable rows; the same seed gives the same rows."""
    generator = random.Random(seed)
    stretches = read_stretches(*sorted(data.glob("stretches*.jsonl*")))
    training = {key: value for key, value in stretches.items() if value.split == "train"}
    spans = [row for row in read_rows(data / "open.jsonl.xz") if not is_kept_apart(row)]
    spans = _limit(spans, generator)
    tales = list(read_tales(data))
    written = balance(list(read_written(data, training)), generator)
    told = spans + [row for row in tales if row.answer] * _TALE_COPIES
    passages = sorted({row.passage for row in told if row.answer})
    novels = [p for s in training.values() if s.kind == "novel" for p in s.passages]
    return [
        *told,
        *(row for row in tales if not row.answer),
        *written * _WRITTEN_COPIES,
        *other_passages(written, training),
        *near_passages(told, passages, generator),
        *exchange(told, generator),
        *graft(told, passages, novels, generator),
        *other_sections(tales),
    ]


def read_rows(path: Path) -> Iterator[Row]:
    """Read questions with their passage, and check that each answer stands where it is said to."""
    for record in read_lines(path):
        yield _to_row(record, record["context"])


def is_kept_apart(row: Row) -> bool:
    """Tell whether a row is about one of the paragraphs of an encyclopedia that judge spans."""
    return row.origin == _ENCYCLOPEDIA and int(hash_text(row.passage)[:4], 16) % 12 == 0


def _to_row(record: Mapping[str, Any], passage: str) -> Row:
    row = Row(record["question"], passage, record["set"], stretch=record.get("stretch", 0))
    if not record["answers"]:
        return row
    answer = record["answers"][0]
    start, end = answer["start"], answer["start"] + len(answer["text"])
    if passage[start:end] != answer["text"]:
        raise ValueError(f"{record['id']}: the answer is not at {start}: {answer['text']!r}")
    return replace(row, start=start, end=end)


def story_of(question_id: str) -> str:
    """Return the story of a question about a tale: its identifier without the number."""
    return re.sub(r"\d+$", "", question_id[2:])


def read_tales(data: Path, kept_apart: bool = False) -> Iterator[Row]:
    """Read questions about tales: those for training, or those of the stories kept apart."""
    apart = set(json.loads((data / "val-stories.json").read_text("utf-8")))
    for record in read_lines(data / "tales.jsonl.xz"):
        if (story_of(record["id"]) in apart) == kept_apart:
            yield replace(
                _to_row(record, record["context"]), origin=f"tales {story_of(record['id'])}"
            )


def read_written(data: Path, stretches: Mapping[int, Stretch]) -> Iterator[Row]:
    """Read hand-written questions about stretches; files name a passage, or its digest.

    Questions whose passage could not be rebuilt are left out.
    """
    passages = {hash_text(p): p for stretch in stretches.values() for p in stretch.passages}
    for path in sorted(data.glob("near*.jsonl*")):
        for record in read_lines(path):
            if record["stretch"] in stretches:
                passage = record.get("context") or passages.get(record["sha256"])
                if passage is not None:
                    yield _to_row(record, passage)


def _limit(rows: list[Row], generator: random.Random) -> list[Row]:
    generator.shuffle(rows)
    counts: Counter[str] = Counter()
    kept = []
    for row in rows:
        counts[row.origin] += 1
        if counts[row.origin] <= _MAX_ROWS.get(row.origin, len(rows)):
            kept.append(row)
    return kept


def balance(rows: Sequence[Row], generator: random.Random) -> list[Row]:
    """Leave out near misses of the forms that near misses have more often than other questions.

    Otherwise the network learns to refuse by the wording of a question.
    """
    told = Counter(_form(row.question) for row in rows if row.answer)
    missed = Counter(_form(row.question) for row in rows if not row.answer)

    def share(form: str) -> float:
        return _MAX_NEAR_MISSES * (told[form] + 2) / missed[form]

    return [row for row in rows if row.answer or generator.random() < share(_form(row.question))]


def _form(question: str) -> str:
    words = question.lower().split()
    return " ".join(words[: 3 if words[:2] == ["what", "is"] else 2])


@cache
def _rare_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{3,}", text.lower())) - _COMMON


def _shown(answer: str, passage: str) -> bool:
    """Tell whether a passage contains an answer, whatever its case, punctuation and articles."""
    return normalise(answer) in normalise(passage)


@cache
def normalise(text: str) -> str:
    plain = re.sub(r"[^\w\s]", "", text.lower())
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


def _sharing_words(row: Row, passages: Iterable[str], count: int) -> list[Row]:
    """Return the question with passages that share most of its words and lack its answer."""
    asked = _rare_words(row.question)
    lacking = [
        passage
        for passage in passages
        if passage != row.passage and not (row.answer and _shown(row.answer, passage))
    ]
    lacking.sort(key=lambda passage: (-len(asked & _rare_words(passage)), passage))
    return [replace(row, passage=p, start=None, end=None) for p in lacking[:count]]


def other_passages(rows: Iterable[Row], stretches: Mapping[int, Stretch]) -> list[Row]:
    """Return each hand-written question with other passages of its stretch."""
    return [
        made
        for row in rows
        for made in _sharing_words(row, stretches[row.stretch].passages, _OTHER_PASSAGES)
    ]


def other_sections(rows: Sequence[Row]) -> list[Row]:
    """Return each question about a tale with other sections of its story."""
    sections: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        sections[row.origin].add(row.passage)
    return [
        made
        for row in rows
        if row.answer
        for made in _sharing_words(row, sections[row.origin], _OTHER_SECTIONS)
    ]


def near_passages(
    rows: Iterable[Row], passages: Sequence[str], generator: random.Random
) -> Iterator[Row]:
    """Return each answered question with a passage that shares its words and lacks the answer."""
    index = Bm25(passages, max_share=_MAX_WORD_SHARE)
    lower = [passage.lower() for passage in passages]
    for row in rows:
        if not row.answer:
            continue
        answer = row.answer.lower()
        lacking = [
            number
            for number in index.best(row.question, 24)
            if passages[number] != row.passage and answer not in lower[number]
        ]
        if lacking:
            passage = passages[generator.choice(lacking[:8])]
            yield replace(row, passage=passage, start=None, end=None)


def exchange(rows: Sequence[Row], generator: random.Random) -> Iterator[Row]:
    """Return questions in which a name, number or word is one that their passage lacks."""
    asked = [row for row in rows if row.answer]
    stock: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in asked:
        for kind, found in _exchangeable(row.question):
            if kind != "number":
                stock[row.origin, kind].append(found.group(found.lastindex or 0))
    for row in asked:
        places = _exchangeable(row.question)
        if not places or generator.random() > _EXCHANGED_SHARE:
            continue
        kind = generator.choice(sorted({kind for kind, _ in places}))
        _, found = generator.choice([place for place in places if place[0] == kind])
        start, end = found.span(found.lastindex or 0)
        for _ in range(6):
            new = _another(row.question[start:end], stock[row.origin, kind], generator)
            if new.lower() not in row.passage.lower():
                question = row.question[:start] + new + row.question[end:]
                yield replace(row, question=question, start=None, end=None)
                break


def _exchangeable(question: str) -> list[tuple[str, re.Match[str]]]:
    patterns = {"name": _NAME, "number": _NUMBER, "asked": _ASKED, "word": _WORD}
    return [
        (kind, found)
        for kind, pattern in patterns.items()
        for found in pattern.finditer(question)
        if found.group(found.lastindex or 0).lower() not in _COMMON
    ]


def _another(old: str, stock: Sequence[str], generator: random.Random) -> str:
    """Return another number, or a word of the stock that does not begin as the old one does."""
    if not stock:
        digits, short = re.sub(r"\D", "", old), len(old) < 3
        return str(
            generator.randint(2, 40) if short else int(digits or 7) + generator.randint(1, 60)
        )
    new = generator.choice(stock)
    return new if new[:5].lower() != old[:5].lower() else ""


def graft(
    rows: Sequence[Row], passages: Sequence[str], novels: Sequence[str], generator: random.Random
) -> Iterator[Row]:
    """Return questions about somebody, asked about somebody else of another passage.

    The name is there and the fact is not. Three in ten passages are from novels.
    """
    asked = [(row, names) for row in rows if row.answer and (names := _names(row.question))]
    wanted = int(_GRAFTED_SHARE * len(asked))
    while wanted:
        row, names = generator.choice(asked)
        passage = generator.choice(novels if novels and generator.random() < 0.3 else passages)
        found = sorted(
            {name for match in _names(passage) if (name := match.group()) not in _NO_NAMES}
        )
        wanted -= 1
        if not found or passage == row.passage or row.answer.lower() in passage.lower():
            continue
        old = generator.choice(names)
        question = row.question[: old.start()] + generator.choice(found) + row.question[old.end() :]
        yield replace(row, question=question, passage=passage, start=None, end=None)


def _names(text: str) -> list[re.Match[str]]:
    return list(_NAME.finditer(text))
