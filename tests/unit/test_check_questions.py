"""Hand-written questions: reported faults, and records of the valid ones."""

import json
from pathlib import Path

import pytest
from training.check_questions import find_doubtful, main
from training.question_only import question_only_auc, unbalanced_openings
from training.questions import Question, parse_questions, read_stretches

from tests.support.questions import PASSAGES, write_stretches

GOOD = """# stretch 7
@1
+ Who signs off a long leave? | the head of department
- Who signs off a short leave? | scope
@2
+ How long does a badge last? | three days
- How long does a contractor's badge last? | entity
"""


def read_problems(tmp_path: Path, text: str) -> list[str]:
    return [
        problem.message
        for problem in parse_questions(text, read_stretches(write_stretches(tmp_path)))[1]
    ]


def test_check_questions_writes_records_with_digests(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text(GOOD)
    out = tmp_path / "out.jsonl"
    files = ["--stretches", str(write_stretches(tmp_path)), "--out", str(out)]
    assert main([*files, str(tmp_path / "good.txt")]) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["id"] for record in records] == [
        "near-7-1-1", "near-7-1-2", "near-7-2-1", "near-7-2-2",
    ]  # fmt: skip
    [answer] = records[2]["answers"]
    assert PASSAGES[1][answer["start"] :].startswith(answer["text"])
    assert "\n" in answer["text"]
    assert records[3]["kind"] == "entity"
    assert records[3]["answers"] == []
    assert "context" not in records[0]
    assert len(records[0]["sha256"]) == 64


@pytest.mark.parametrize(("line", "message"), [
    ("+ Who signs? | the rector", "the span is not in passage 1"),
    ("+ Who signs | the head", "must end with '?'"), ("- Who signs? | sibling", "unknown kind"),
    ("Who signs?", "not a question"), ("@9", "no passage 9"), ("# stretch 8", "no stretch 8"),
])  # fmt: skip
def test_parse_questions_names_the_problem(tmp_path: Path, line: str, message: str) -> None:
    [problem] = read_problems(tmp_path, f"# stretch 7\n@1\n{line}\n")
    assert message in problem


def test_find_doubtful_reports_repeats_and_dependent_questions_alone() -> None:
    texts = ("Who signs the form?", "Who signs the form?", "What does this section say?")
    found = list(find_doubtful(Question(7, 1, text, "scope") for text in texts))
    assert ["asked twice" in found[0], "alone" in found[1]] == [True, True]
    assert len(found) == 2
    pair = [Question(7, 1, "Who signs the form?", "answer", "the head", 3)]
    pair.append(Question(7, 1, "Who signs the form?".replace("form", "card"), "scope"))
    assert list(find_doubtful(pair)) == []


def test_question_only_auc_distinguishes_revealing_wording() -> None:
    plain = [
        Question(number // 4, 1, f"Who signs paper {number // 2}?", *kind)
        for number in range(200)
        for kind in [("answer", "x", 0) if number % 2 else ("scope", "", None)]
    ]
    telling = [
        Question(
            q.stretch, 1, q.text if q.answerable else f"{q.text[:-1]} exactly?", q.kind, "", q.start
        )
        for q in plain
    ]
    assert abs(question_only_auc(plain) - 0.5) < 0.1
    assert question_only_auc(telling) > 0.95


def test_unbalanced_openings_compares_shares() -> None:
    asked = [Question(1, 1, f"Who has {n}?", "answer", "x", 0) for n in range(10)]
    asked += [Question(1, 1, f"How many {n}?", "scope") for n in range(20)]
    assert unbalanced_openings(asked) == [("how many", 0, 10), ("who has", 10, 0)] or (
        unbalanced_openings(asked) == [("who has", 10, 0), ("how many", 0, 10)]
    )
