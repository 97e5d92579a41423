"""Rebuilding the passages of hand-written questions from documents."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from training.passages import cut_document, cut_table, find_passages, main, select_files
from training.questions import hash_text, read_stretches

MARKDOWN = """---
title: Leave
---
## Days off

Every [employee](staff.md) has **ten** days.
Ask *early*. A manager signs.

| Role | Days |
| --- | --- |
| cook | 12 |
"""


@pytest.mark.parametrize(("name", "form", "text", "passage"), [
    (
        "leave.md", "handbook", MARKDOWN,
        "Days off\n\nEvery employee has ten days.\nAsk early. A manager signs.",
    ),
    ("leave.md", "handbook", MARKDOWN, "A manager signs.\n\nRole | Days\ncook | 12"),
    (
        "radio.rst",
        "manual",
        "Radio\n=====\n\n.. note::\n\n   Press :ref:`reset <reset>` twice.\n",
        "Radio\n\n   Press reset twice.",
    ),
    (
        "one.xhtml", "novel", "<body><h2>I</h2><p>He\u2060—<i>left</i>. She stayed.</p></body>",
        "I\n\nHe—left.",
    ),
    (
        "act.xhtml",
        "play",
        "<body><tr><td>Ann</td><td>Hush!"
        ' <i epub:type="z3998:stage-direction">Sits.</i></td></tr>'
        "<tr><td>Ben</td><td>Why?</td></tr></body>",
        "Ann: Hush! (Sits.)\nBen: Why?",
    ),
    ("book.txt", "novel", "A _long_\r\nline.\r\n\r\nThe end.", "A long line.\n\nThe end."),
    (
        "form.json",
        "form",
        '{"data": {"fullName": {"first": "Ann"}, "pets": [{"isDog": true}, {"isDog": false}]}}',
        "data, full name, first: Ann\ndata, pets 1, is dog: yes\ndata, pets 2, is dog: no",
    ),
    ("plan.md", "manual", "::: info\nTake one [@doi:1].\n:::\nGo.", "Take one.\nGo."),
    ("log.txt", "chat log", "[1] <a> hi\n=== c joined\n[2] <b> yo\n", "[1] <a> hi\n[2] <b> yo"),
])  # fmt: skip
def test_find_passages_finds_the_text_of_a_digest(name: str, form: str, text: str, passage: str):
    digest = hash_text(passage)
    assert find_passages(cut_document(name, text, form), {digest}) == {digest: passage}


def test_cut_document_keeps_indents_and_rules_of_tables_as_space():
    text = "1. One\n\n    a. Two\n\n| Role | Days |\n| --- | --- |\n| cook | 12 |\n"
    passage = "1. One\n\n    a. Two\n\nRole | Days\n\ncook | 12"
    digest = hash_text(passage)
    pieces = cut_document("terms.md", text, "terms", spaced=True)
    assert find_passages(pieces, {digest}) == {digest: passage}


TABLE = "name,note,price\nant,a  b,1\nbee,,2\ncat,c,3\ndog,d,4\nelk,e,5\n"


@pytest.mark.parametrize(("table", "passage"), [
    (
        {"columns": [2, 0], "start": 1, "step": 2, "header": False},
        "price: 2 | name: bee\nprice: 4 | name: dog",
    ),
    (
        {"columns": [0, 1, 2], "start": 0, "step": 1, "header": True},
        "name | note | price\nant | a b | 1\nbee |  | 2",
    ),
    (
        {"columns": [0, 2], "start": 0, "step": 3, "header": True},
        "name | price\ndog | 4",
    ),
])  # fmt: skip
def test_cut_table_shows_the_columns_and_rows_of_a_stretch(table: dict[str, Any], passage: str):
    header, rows = cut_table(TABLE, table)
    digest = hash_text(passage)
    assert find_passages(rows, {digest}, header) == {digest: passage}


def test_select_files_reads_the_path_of_a_stretch() -> None:
    names = ["terms/index.md", "refund.md", "content/dal.md", "content/lox.md", "terms-old.md"]
    assert select_files("terms; refund", names) == ["terms/index.md", "refund.md"]
    assert select_files("content (d to k)", names) == ["content/dal.md", "content/lox.md"]
    assert select_files("content/lox.md", names) == ["content/lox.md"]


def test_main_rebuilds_found_passages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout = tmp_path / "checkouts" / "owner" / "name"
    checkout.mkdir(parents=True)
    (checkout / "leave.md").write_text(MARKDOWN, "utf-8")
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Add a document"]):
        subprocess.run([*git, *command], check=True)
    record = {
        "id": 1, "source": "owner/name", "commit": "HEAD", "licence": "MIT", "path": "leave.md",
        "kind": "document", "form": "handbook",
        "sha256": [hash_text("A manager signs."), hash_text("Nobody signs.")],
    }  # fmt: skip
    stretches, out = tmp_path / "stretches.jsonl", tmp_path / "out.jsonl"
    stretches.write_text(json.dumps(record) + "\n", "utf-8")
    folder = str(tmp_path / "checkouts")
    main(["--stretches", str(stretches), "--checkouts", folder, "--out", str(out)])
    assert read_stretches(out)[1].passages == ("A manager signs.",)
    assert "1 of 2 not found" in capsys.readouterr().out
