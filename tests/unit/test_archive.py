"""Archives: hostile, damaged and oversized files."""

import io
import struct
import zipfile
import zlib

import pytest

from tests.support.docx_maker import packed
from tests.support.failures import raises_code
from truespan.errors import SourceRefused
from truespan.parsing import archive as limits
from truespan.parsing.archive import Archive

DIRECTORY = b"PK\x01\x02"


def opened(data: bytes) -> Archive:
    return Archive("a.zip", data)


def changed(data: bytes, mark: bytes, offset: int, form: str, value: int) -> bytes:
    """Return an archive with one changed number in the first header with this mark."""
    place = data.index(mark) + offset
    return data[:place] + struct.pack(form, value) + data[place + struct.calcsize(form) :]


# What is honest


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read_back_unchanged(method: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        made.writestr("folder/", b"")
        made.writestr("folder/ä.txt", b"text" * 1000)
        made.writestr("empty", b"")
    archive = opened(buffer.getvalue())
    assert archive.names == {"folder/ä.txt", "empty"}
    assert archive.read("folder/ä.txt") == b"text" * 1000
    assert archive.read("empty") == b""


def test_streamed_archive_can_be_read() -> None:
    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.got = b""

        def writable(self) -> bool:
            return True

        def write(self, piece) -> int:
            self.got += bytes(piece)
            return len(piece)

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a", b"one")
        made.writestr("b", b"two")

    assert opened(stream.got).read("b") == b"two"


def test_prefixed_and_nested_archives_are_read() -> None:
    assert opened(b"#!/bin/sh\n" + packed({"a": "one"})).read("a") == b"one"
    inner = packed({"x": "y"})
    archive = opened(packed({"inner.zip": inner}))
    assert archive.names == {"inner.zip"}
    assert archive.read("inner.zip") == inner


def test_members_are_found_by_name_in_any_case() -> None:
    archive = opened(packed({"a": "x"}))
    assert (archive.read("b"), "b" in archive.names, archive.find("b")) == (None, False, None)
    assert "a" in archive.names
    archive = opened(packed({"Word/A.xml": "x"}))
    assert (archive.find("word/a.XML"), "word/a.XML" in archive.names) == ("Word/A.xml", False)


# What is not


@pytest.mark.parametrize(
    "name", ["../x", "a/../x", "a/..", "/x", "C:/x", "c:x", "a\\x", "\\\\host\\x", "a\0.xml"]
)
def test_names_that_point_elsewhere_are_refused(name: str) -> None:
    fitting = "n" * len(name)
    data = packed({fitting: "x"}).replace(fitting.encode(), name.encode())
    with raises_code("source_unsafe"):
        opened(data)


@pytest.mark.parametrize("name", ["a..b", "..a", "a/b..", "...", "ab:c"])
def test_unusual_but_safe_names_are_accepted(name: str) -> None:
    assert opened(packed({name: "x"})).names == {name}


def test_equal_names_or_shared_bytes_of_members_are_unsafe() -> None:
    data = packed({"first": "x", "other": "y"}).replace(b"other", b"first")
    with raises_code("source_unsafe"):
        opened(data)
    data = packed({"a": "x" * 100, "b": "y" * 100})
    first = data.index(DIRECTORY) + 20
    longer = struct.unpack("<L", data[first : first + 4])[0] + 20
    with raises_code("source_unsafe"):
        opened(data[:first] + struct.pack("<L", longer) + data[first + 4 :])


def test_members_that_share_bytes_are_refused() -> None:
    data = packed({"a": "x" * 100, "b": "y" * 100})
    second = data.rindex(DIRECTORY)
    with pytest.raises(SourceRefused) as refused:
        opened(data[: second + 42] + bytes(4) + data[second + 46 :])
    assert refused.value.code == "source_unsafe"


def test_encrypted_or_unsupported_members_are_refused() -> None:
    with raises_code("source_encrypted"):
        opened(changed(packed({"a": "x"}), DIRECTORY, 8, "<H", 1))
    archive = opened(changed(packed({"a": "x"}), DIRECTORY, 10, "<H", 12))
    with raises_code("source_unsupported"):
        archive.read("a")


def test_too_many_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MEMBERS", 3)
    assert len(opened(packed({str(n): "" for n in range(3)})).names) == 3
    with raises_code("source_too_large"):
        opened(packed({str(n): "" for n in range(4)}))


def test_records_and_bombs_beyond_the_limits_are_refused() -> None:
    with raises_code("source_too_large"):
        opened(b"PK\x03\x04" + DIRECTORY * (20 * limits.MAX_MEMBERS + 1))
    archive = opened(packed({"bomb": bytes(limits.FREE_SIZE + 1)}))
    with raises_code("source_unsafe"):
        archive.read("bomb")
    assert opened(packed({"a": bytes(limits.FREE_SIZE)})).read("a") == bytes(limits.FREE_SIZE)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_member_with_a_false_size_stops_at_the_limit(
    method: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_MEMBER_SIZE", 1000)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        made.writestr("a", b"x" * 1001)
    archive = opened(changed(buffer.getvalue(), DIRECTORY, 24, "<L", 5))
    with raises_code("source_too_large"):
        archive.read("a")


def test_archive_refuses_declared_sizes_beyond_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MEMBER_SIZE", 1000)
    with raises_code("source_too_large"):
        opened(packed({"a": "x" * 1001}))
    monkeypatch.setattr(limits, "MAX_TOTAL_SIZE", 1000)
    with raises_code("source_too_large"):
        opened(packed({"a": "x" * 600, "b": "y" * 600}))


def test_archive_stops_hidden_sizes_at_the_total_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TOTAL_SIZE", 1000)
    data = packed({"a": "x" * 600, "b": "y" * 600})
    second = data.rindex(DIRECTORY)
    archive = opened(data[: second + 24] + struct.pack("<L", 9) + data[second + 28 :])
    # What is read again is not counted again.
    assert archive.read("a") == archive.read("a") == b"x" * 600
    with raises_code("source_too_large"):
        archive.read("b")


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [(16, "<L", 1), (24, "<L", 2), (24, "<L", 4)],
    ids=["checksum", "shorter", "longer"],
)
def test_archive_refuses_bytes_unlike_the_directory(offset: int, form: str, value: int) -> None:
    archive = opened(changed(packed({"a": "xyz"}), DIRECTORY, offset, form, value))
    with raises_code("source_broken"):
        archive.read("a")


def test_truncated_or_invalid_members_are_broken() -> None:
    data = packed({"a": "x" * 50})
    archive = opened(data.replace(_deflated(b"x" * 50), b"\xff" * len(_deflated(b"x" * 50))))
    with raises_code("source_broken"):
        archive.read("a")

    data = packed({"a": "x" * 50})
    size = len(_deflated(b"x" * 50)) - 2
    archive = opened(changed(data, DIRECTORY, 20, "<L", size))
    with raises_code("source_broken"):
        archive.read("a")

    with raises_code("source_broken"):
        opened(changed(packed({"a": "x"}), DIRECTORY, 20, "<L", 9))


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04", b"PK\x05\x06", b"PK\x05\x06" + bytes(17), b"not a zip at all"]
)
def test_archive_refuses_other_data_as_broken(data: bytes) -> None:
    with raises_code("source_broken"):
        opened(data)


@pytest.mark.parametrize(("found", "instead"), [(b"aaaa", b"bbbb"), (b"PK\x03\x04", b"PK\x03\x05")])
def test_header_that_contradicts_the_directory_is_broken(found: bytes, instead: bytes) -> None:
    data = packed({"aaaa": "x"})
    with raises_code("source_broken"):
        opened(data.replace(found, instead, 1))


def test_damaged_archives_are_read_or_refused() -> None:
    data = packed({"a": "one", "folder/b": "two" * 50})
    for place in range(len(data)):
        for broken in (data[:place], data[:place] + b"\xff" + data[place + 1 :], data[place:]):
            _read_all(broken)


def _read_all(data: bytes) -> None:
    try:
        archive = opened(data)
        for name in archive.names:
            archive.read(name)
    except SourceRefused:
        pass


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()
