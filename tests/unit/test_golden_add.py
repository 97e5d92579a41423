"""Keeping a good answer as a golden query: the file, and what the file is held to."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from truespan.errors import GoldenInvalid, InvalidArgument, SourceMissing, SourceUnreadable
from truespan.evaluation.golden import (
    Expected,
    GoldenQuery,
    append_golden,
    check_golden,
    parse_golden,
)
from truespan.files.golden import GoldenFolder

KEY = GoldenQuery("key", "Where is the key?", (Expected("keys.md"),))
LAMP = GoldenQuery("lamp", "When did the lamp go out?", (), ("a quarter past one",))


@pytest.mark.parametrize("name", ["golden.yaml", "golden.yml", "golden.jsonl", "GOLDEN.NDJSON"])
def test_added_query_reads_back_after_the_others(name: str) -> None:
    content = append_golden(name, append_golden(name, b"", KEY), LAMP)

    assert parse_golden(name, content) == (KEY, LAMP)


def test_comments_and_layout_are_kept() -> None:
    written = b"# mine\n- query:   Where is the key?\n  expected: [keys.md] # yes"

    content = append_golden("g.yaml", written, LAMP)

    assert content.startswith(written + b"\n- id: ")


@pytest.mark.parametrize(
    "again",
    [
        KEY,
        GoldenQuery("other", "  where is THE key? ", (Expected("x"),)),
        GoldenQuery("key", "Another question?", (Expected("x"),)),
    ],
)
def test_repeated_question_or_id_is_refused(again: GoldenQuery) -> None:
    content = append_golden("g.jsonl", b"", KEY)

    with pytest.raises(InvalidArgument, match="as key") as refused:
        append_golden("g.jsonl", content, again)
    assert "Where" not in str(refused.value)


def test_same_words_with_other_top_k_are_another_query() -> None:
    content = append_golden("g.jsonl", b"", KEY)
    deeper = GoldenQuery("deeper", KEY.query, KEY.expected, top_k=50)

    assert len(parse_golden("g.jsonl", append_golden("g.jsonl", content, deeper))) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [("g.jsonl", b"{nonsense\n"), ("g.yaml", b"  - query: indented\n    expected: [b]\n")],
)
def test_nothing_is_added_to_an_invalid_file(name: str, content: bytes) -> None:
    with pytest.raises(GoldenInvalid):
        append_golden(name, content, KEY)


def test_derived_id_depends_on_the_question() -> None:
    first = check_golden("g.yaml", GoldenQuery("", "One?", (Expected("a"),)))
    again = check_golden("g.jsonl", GoldenQuery("", "One?", (Expected("b"),)))

    assert first.id == again.id
    assert first.id.startswith("q-")
    assert first.id != check_golden("g.yaml", GoldenQuery("", "Two?", (Expected("a"),))).id


@pytest.mark.parametrize(
    "wrong",
    [
        GoldenQuery("", " ", (Expected("a"),)),
        GoldenQuery("not an id", "One?", (Expected("a"),)),
        GoldenQuery("", "One?", (Expected("a"),), top_k=0),
        GoldenQuery("", "x" * 10_001, (Expected("a"),)),
        GoldenQuery("", "One?", (), (" ",)),
    ],
)
def test_query_that_cannot_be_written_is_refused(wrong: GoldenQuery) -> None:
    with pytest.raises(GoldenInvalid):
        check_golden("g.yaml", wrong)


def test_file_with_another_ending_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"\.yaml"):
        check_golden("golden.txt", KEY)


def test_file_is_created_changed_and_keeps_permissions(tmp_path: Path) -> None:
    files, path = GoldenFolder(), tmp_path / "g.jsonl"

    files.change(str(path), lambda content: content + b"one\n")
    path.chmod(0o640)
    files.change(str(path), lambda content: content + b"two\n")

    assert files.read(str(path)) == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["g.jsonl"]


def test_failed_change_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    path.write_bytes(b"one\n")

    def refuse(content: bytes) -> bytes:
        raise InvalidArgument("no")

    with pytest.raises(InvalidArgument):
        GoldenFolder().change(str(path), refuse)

    assert path.read_bytes() == b"one\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["g.jsonl"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_bytes(b"one\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")

    GoldenFolder().change(str(tmp_path / "link.jsonl"), lambda content: content + b"two\n")

    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").read_bytes() == b"one\ntwo\n"


def test_concurrent_changes_are_all_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "g.jsonl")

    def add(number: int) -> None:
        GoldenFolder().change(path, lambda content: content + f"{number}\n".encode())

    threads = [threading.Thread(target=add, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(Path(path).read_text().split()) == [str(number) for number in range(8)]


def test_leftover_of_a_crash_is_reported_and_kept(tmp_path: Path) -> None:
    (tmp_path / ".g.jsonl.new").write_bytes(b"half")

    with pytest.raises(SourceUnreadable, match=r"\.g\.jsonl\.new"):
        GoldenFolder(attempts=1).change(str(tmp_path / "g.jsonl"), lambda content: b"x")

    assert (tmp_path / ".g.jsonl.new").read_bytes() == b"half"


def test_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="folder"):
        GoldenFolder().change(str(tmp_path / "no" / "g.jsonl"), lambda content: b"x")
    with pytest.raises(SourceMissing):
        GoldenFolder().read(str(tmp_path / "g.jsonl"))
