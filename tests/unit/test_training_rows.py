"""Training rows and their word pieces: answers have their spans, and mined rows have none."""

import json
import lzma
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from training.packing import MAX_TOKENS, Packed, choose_window, pack
from training.questions import hash_text, read_stretches
from training.rows import Row, balance, graft, make_rows, read_written

from tests.support.questions import PASSAGES, write_stretches

SENTENCES = (
    "In the year 1203 the monk Aldous built the mill of Brook with 12 stones.",
    "The miller of Marsh, Tom Reed, paid 30 coins for the wheel in 1340.",
    "Old Anna Reed kept 7 geese at the pond of Marsh until the frost.",
)


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    with lzma.open(path, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(record) + "\n" for record in records)


def asked(name: str, number: str, question: str, passage: str, answer: str) -> dict[str, Any]:
    answers = [{"text": answer, "start": passage.index(answer)}] if answer else []
    return {"set": name, "id": number, "question": question, "context": passage, "answers": answers}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_stretches(tmp_path)
    told = [
        asked("qamr", "1", "Who built the mill of Brook?", SENTENCES[0], "the monk Aldous"),
        asked("qamr", "2", "What did the miller Tom Reed pay?", SENTENCES[1], "30 coins"),
        asked("qamr", "3", "How many geese had old Anna Reed?", SENTENCES[2], "7"),
    ]
    write_lines(tmp_path / "open.jsonl.xz", told)
    tales = [
        asked("fairytale", f"ft{story}{n}", "Who paid for the wheel?", SENTENCES[n], answer)
        for story in ("mill", "apart")
        for n, answer in ((1, "Tom Reed"), (2, ""))
    ]
    write_lines(tmp_path / "tales.jsonl.xz", tales)
    (tmp_path / "val-stories.json").write_text('["apart"]')
    written = [
        asked("near", "a", "Who signs off a long leave?", PASSAGES[0], "the head of department"),
        asked("near", "b", "Who signs off a short leave?", PASSAGES[0], ""),
        asked("near", "c", "How long does a badge last?", PASSAGES[1], "three\ndays"),
    ]
    write_lines(tmp_path / "near.jsonl.xz", [{**record, "stretch": 7} for record in written])
    return tmp_path


def test_make_rows_marks_answers_and_mines_passages_without_them(data: Path) -> None:
    rows = make_rows(data)
    assert {"the monk Aldous", "Tom Reed", "three\ndays"} <= {row.answer for row in rows}
    answers = {row.question: row.answer for row in rows if row.answer}
    mined = [row for row in rows if not row.answer and row.question in answers]
    assert {row.origin for row in mined} == {"qamr", "tales mill", "near"}
    assert [row for row in mined if answers[row.question].lower() in row.passage.lower()] == []
    assert "tales apart" not in {row.origin for row in rows}


def test_make_rows_repeats_for_the_same_seed(data: Path) -> None:
    assert make_rows(data, seed=3) == make_rows(data, seed=3)


def test_read_written_leaves_out_other_splits(data: Path) -> None:
    assert len(list(read_written(data, read_stretches(data / "stretches.jsonl")))) == 3
    assert list(read_written(data, {})) == []


def test_read_written_leaves_out_passages_that_are_not_there(data: Path) -> None:
    named = {"set": "near", "id": "a", "question": "Who signs?", "answers": [], "stretch": 7}
    digests = hash_text(PASSAGES[0]), hash_text("a passage that could not be rebuilt")
    write_lines(data / "near.jsonl.xz", [{**named, "sha256": digest} for digest in digests])
    found = read_written(data, read_stretches(data / "stretches.jsonl"))
    assert [row.passage for row in found] == [PASSAGES[0]]


def test_read_written_refuses_an_answer_elsewhere(data: Path) -> None:
    wrong = asked("near", "a", "Who signs?", PASSAGES[0], "the head")
    wrong["answers"][0]["start"] += 1
    write_lines(data / "near.jsonl.xz", [{**wrong, "stretch": 7}])
    with pytest.raises(ValueError, match="a: the answer is not at"):
        list(read_written(data, read_stretches(data / "stretches.jsonl")))


def test_balance_leaves_out_near_misses_of_rare_forms() -> None:
    rows = [Row(f"Who has {n}?", "text", "near", 0, 4) for n in range(100)]
    rows += [Row(f"How many have {n}?", "text", "near") for n in range(100)]
    kept = balance(rows, random.Random(1))
    assert sum(bool(row.answer) for row in kept) == 100
    assert len(kept) < 115


def test_graft_asks_about_another_person_of_the_passage() -> None:
    row = Row("What did the miller Tom Reed pay?", SENTENCES[1], "qamr", 37, 45)
    made = list(graft([row] * 20, [SENTENCES[2]], [], random.Random(1)))
    assert {m.question for m in made} <= {
        "What did the miller Anna Reed pay?",
        "What did the miller Marsh pay?",
    }
    assert made
    assert not any(m.answer for m in made)


def word_tokenizer(texts: list[str]) -> Tokenizer:
    words = {w for text in texts for w, _ in Whitespace().pre_tokenize_str(text)}
    numbered = {word: number for number, word in enumerate(["?", *sorted(words - {"?"})])}
    tokenizer = Tokenizer(WordLevel(numbered, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer


def test_pack_keeps_the_answer_of_a_long_passage(tmp_path: Path) -> None:
    passage = "word " * 900 + "the answer stands here " + "word " * 300
    start = passage.index("stands")
    rows = [
        Row("where does it stand ?", passage, "near", start, start + len("stands here"), 7),
        Row("where does it stand ?", passage, "near", stretch=7),
    ]
    tokenizer = word_tokenizer([row.question + row.passage for row in rows])
    pack(rows, tokenizer).save(tmp_path / "rows.npz.xz")
    packed = Packed.load(tmp_path / "rows.npz.xz")
    assert packed.lengths().tolist() == [MAX_TOKENS, MAX_TOKENS]
    first = packed.window[0] + packed.start[0]
    pieces = packed.passage_pieces[first : packed.window[0] + packed.end[0] + 1]
    assert tokenizer.decode(pieces.tolist()) == "stands here"
    assert packed.start[1] == -1
    assert len(packed.keep(np.array([False, True])).question) == 1


@pytest.mark.parametrize(
    ("answer", "window"),
    [(None, (0, 100)), ((20, 30), (0, 100)), ((240, 250), (190, 100)), ((398, 399), (300, 100))],
)
def test_choose_window_shows_the_answer(answer: tuple[int, int] | None, window: tuple[int, int]):
    assert choose_window(400, 100, answer) == window
