"""Files with several documents: list, refusals and bytes of members."""

import io
import struct
import zipfile
from collections.abc import Mapping

import pytest

from tests.support.failures import raises_code
from tests.support.formats import format_name
from truespan.parsing import load, members
from truespan.parsing.members import list_members, read_members
from truespan.types.source import DocumentOptions

ANY = DocumentOptions()


def zip_of(files: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_archive_members_are_listed_or_counted() -> None:
    data = zip_of(
        {
            "a.md": "# A", "deep/folder/b.txt": "B", "deep\\c.txt": "C", "./d.txt": "D",
            "cafe\u0301.txt": "E", "empty/": "", "photo.jpg": "\xff",
            "inner.zip": zip_of({"a.md": "nested"}), ".hidden.md": "", "deep/.git/x.md": "",
            "__MACOSX/deep/._b.txt": "",
        }
    )  # fmt: skip
    found = list_members("x.zip", data, ANY)

    assert [member.name for member in found.members] == [
        "a.md", "deep/folder/b.txt", "deep/c.txt", "d.txt", "caf\u00e9.txt",
    ]  # fmt: skip
    assert [member.size for member in found.members] == [3, 1, 1, 1, 1]
    assert not any(member.data or member.refusal for member in found.members)
    assert found.unsupported == 2


def test_unusable_members_are_refused_by_name_others_are_read() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (
            "../good.md", "../up.md", "/etc/root.md", "C:/drive.md", "a//b.md", "bell\a.md",
        ):  # fmt: skip
            archive.writestr(name, "x")
        archive.writestr("twice.md", "first")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("twice.md", "second")
        archive.writestr("bomb.md", bytes(60 << 20))
        archive.writestr("good.md", "good")
        archive.writestr("other.md", "packed otherwise", zipfile.ZIP_BZIP2)
    found = read_members("x.zip", buffer.getvalue(), ANY, "good.md (unsafe path)").members

    refused = {member.name: member.refusal.code for member in found if member.refusal}
    assert refused == {
        "good.md (unsafe path)": "source_unsafe", "up.md (unsafe path)": "source_unsafe",
        "etc/root.md (unsafe path)": "source_unsafe", "C:/drive.md (unsafe path)": "source_unsafe",
        "a/b.md (unsafe path)": "source_unsafe", "bell?.md (unsafe path)": "source_unsafe",
        "twice.md (2)": "source_unsafe", "bomb.md": "source_unsafe",
        "other.md": "source_unsupported",
    }  # fmt: skip
    assert {member.name: member.data for member in found if not member.refusal} == {
        "twice.md": b"second",
        "good.md": b"good",
    }


def test_encrypted_member_is_refused_alone() -> None:
    data = bytearray(zip_of({"open.md": "open", "secret.md": "secret"}))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.rindex(mark)
        data[at + flags] |= 1
    found = list_members("x.zip", bytes(data), ANY).members
    assert [(m.name, m.refusal.code if m.refusal else None) for m in found] == [
        ("open.md", None),
        ("secret.md", "source_encrypted"),
    ]


def test_members_are_read_in_pieces_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "PIECE", 10)
    data = zip_of({f"{number}.txt": "x" * 4 for number in range(5)} | {"big.txt": "y" * 50})

    def piece(first: str) -> list[str]:
        return [member.name for member in read_members("x.zip", data, ANY, first).members]

    assert piece("0.txt") == ["0.txt", "1.txt"]
    assert piece("4.txt") == ["4.txt"]
    assert piece("big.txt") == ["big.txt"]
    assert piece("gone.txt") == []


def test_ambiguous_archives_are_refused() -> None:
    good = zip_of({"a.md": "a", "b.md": "b"})
    shared = bytearray(good)
    # Both entries of the directory point to the first file.
    second = shared.rindex(b"PK\x01\x02")
    struct.pack_into("<I", shared, second + 42, 0)
    for data, error in (
        (good[:-30], "source_broken"), (b"PK\x03\x04 no archive", "source_broken"),
        (b"text", "source_broken"), (bytes(shared), "source_unsafe"),
        (zip_of({f"{number}.md": "" for number in range(10_001)}), "source_too_large"),
    ):  # fmt: skip
        with raises_code(error):
            list_members("x.zip", data, ANY)
        with raises_code(error):
            load("x.zip", data)
    for files in ({}, {"photo.jpg": b"\xff"}):
        assert list_members("x.zip", zip_of(files), ANY).members == ()
        with raises_code("source_empty"):
            load("x.zip", zip_of(files))


def test_archive_is_a_document_only_by_its_top_level_parts() -> None:
    word = {"[Content_Types].xml": "<Types/>", "word/document.xml": "<document/>"}
    book = {"META-INF/container.xml": "<container/>"}
    below = {f"backup/{name}": text for name, text in (word | book).items()}
    rows = [
        (word, "docx"), (book, "epub"), (below, "zip"),
        ({"my word/document.txt": "x", "old.docx": zip_of(word)}, "zip"),
    ]  # fmt: skip
    for files, expected in rows:
        assert format_name("x.zip", zip_of(files)) == expected, files
    assert format_name("x.zip", b"junk" + zip_of(below)) == "zip"
