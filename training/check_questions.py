"""Check files of hand-written questions, print what to mend, and write them as JSON lines.

python -m training.check_questions --stretches STRETCHES.jsonl [--out OUT.jsonl] FILE ...
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from training.question_only import question_only_auc, score_questions, unbalanced_openings
from training.questions import (
    Question,
    parse_questions,
    read_stretches,
    to_records,
)

MAX_AUC = 0.60
MIN_QUESTIONS_FOR_AUC = 200
MAX_SHARED_WORDS = 0.9
MAX_SPAN_WORDS = 30

_NOT_ALONE = re.compile(
    r"\b(this|the) (section|passage|document|text|paragraph|stretch|extract)\b"
    r"|\bmentioned\b|\baccording to the\b",
    re.IGNORECASE,
)


def find_doubtful(questions: Iterable[Question]) -> Iterator[str]:
    """Find repeated questions, long spans, and questions that need their passage."""
    seen: dict[tuple[int, str], Question] = {}
    words_of: dict[tuple[int, bool], list[tuple[set[tuple[str, str]], str]]] = defaultdict(list)
    for question in questions:
        where = f"stretch {question.stretch} @{question.passage}"
        key = question.stretch, question.text.lower()
        if key in seen:
            yield f"{where}: asked twice: {question.text}"
            continue
        seen[key] = question
        words = _word_pairs(question.text)
        for others, text in words_of[question.stretch, question.answerable]:
            if len(words & others) >= MAX_SHARED_WORDS * len(words | others):
                yield f"{where}: nearly the same: {question.text} / {text}"
        words_of[question.stretch, question.answerable].append((words, question.text))
        if _NOT_ALONE.search(question.text):
            yield f"{where}: cannot be understood alone: {question.text}"
        if len(question.span.split()) > MAX_SPAN_WORDS:
            yield f"{where}: a span of more than {MAX_SPAN_WORDS} words: {question.span[:60]}"


def _word_pairs(text: str) -> set[tuple[str, str]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(["", *words], [*words, ""], strict=True))


def report(questions: Sequence[Question]) -> bool:
    """Print the figures of a whole set; return whether the questions alone tell too much."""
    kinds = Counter(question.kind for question in questions)
    answerable = kinds["answer"]
    print(f"{len(questions)} questions, {answerable} answerable, {dict(kinds.most_common())}")
    missed = len(questions) - answerable
    if missed and kinds["entity"] < missed / 3:
        print(f"fewer than a third of the near misses are about an entity ({kinds['entity']})")
    for line in find_doubtful(questions):
        print(f"mend: {line}")
    for words, right, wrong in unbalanced_openings(questions)[:12]:
        print(f"balance: '{words}' opens {right} answerable questions and {wrong} near misses")
    if len({question.stretch for question in questions}) < 5:
        return False
    area = question_only_auc(questions)
    print(f"questions alone: AUC {area:.3f} (at most {MAX_AUC:.2f})")
    if area > MAX_AUC:
        _print_revealing(questions)
    return len(questions) >= MIN_QUESTIONS_FOR_AUC and area > MAX_AUC


def _print_revealing(questions: Sequence[Question]) -> None:
    """Print the questions whose wording alone tells their kind; they are the ones to exchange."""
    pairs = sorted(zip(score_questions(questions), questions, strict=True), key=lambda p: p[0])
    for name, chosen in (
        ("near misses", [q for _, q in pairs if not q.answerable][:8]),
        ("answerable questions", [q for _, q in reversed(pairs) if q.answerable][:8]),
    ):
        print(f"{name} that their wording gives away:")
        for question in chosen:
            print(f"    {question.stretch} @{question.passage} {question.text}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files; the exit code is 1 if a line has to be mended."""
    parser = argparse.ArgumentParser(prog="python -m training.check_questions", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--stretches", required=True, action="append", type=Path)
    parser.add_argument("--out", type=Path, help="write the questions here, as JSON lines")
    options = parser.parse_args(arguments)
    stretches = read_stretches(*options.stretches)
    questions: list[Question] = []
    wrong = 0
    for file in options.files:
        found, problems = parse_questions(file.read_text("utf-8"), stretches)
        questions += found
        wrong += len(problems)
        for problem in problems:
            print(f"{file}: {problem}")
    if not questions:
        print("no questions")
        return 1
    telling = report(questions)
    if options.out:
        with options.out.open("w", encoding="utf-8") as out:
            for record in to_records(_without_repeats(questions), stretches):
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
    return 1 if wrong or telling else 0


def _without_repeats(questions: Iterable[Question]) -> Iterator[Question]:
    seen = set()
    for question in questions:
        key = question.stretch, question.text.lower()
        if key not in seen:
            seen.add(key)
            yield question


if __name__ == "__main__":
    sys.exit(main())
